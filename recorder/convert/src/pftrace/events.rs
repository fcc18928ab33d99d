//! Spans, instants, counters and flows as track events.

use fxt_reader::record::{Event, EventKind, Log, Value};
use fxt_reader::{Nanos, Thread};
use fxtrec_units::protobuf::Message;
use rustc_hash::{FxHashMap, FxHasher};

use super::{Names, OF_EVENTS, Packets, number, packet};
use crate::ConvertError;

/// The effect of an event on its track.
const BEGIN: u64 = 1;
const END: u64 = 2;
const INSTANT: u64 = 3;
const COUNTER: u64 = 4;

/// The track for events; its fields distinguish it from others.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Track {
    Process(u64),
    Thread(u64, u64),
    Operation { process: u64, id: u64 },
    Counter { process: u64, name: String, id: u64 },
}

/// An event to which flows may still be added: the thread, and the packet without the event's own field.
#[derive(Debug)]
struct Pending {
    thread: Thread,
    time: Nanos,
    event: Message,
}

#[derive(Debug, Default)]
pub(super) struct Events {
    tracks: FxHashMap<Track, u64>,
    pending: Option<Pending>,
}

impl Events {
    pub(super) fn event(
        &mut self,
        event: &Event<'_>,
        names: &Names,
        packets: &mut Packets<'_>,
    ) -> Result<(), ConvertError> {
        let (process, thread) = (event.thread.process.0, event.thread.thread.0);
        let own = Track::Thread(process, thread);
        match event.kind {
            EventKind::DurationBegin => self.put(event, BEGIN, (own, event.name), names, packets),
            EventKind::DurationEnd => self.put(event, END, (own, ""), names, packets),
            EventKind::Instant => self.put(event, INSTANT, (own, event.name), names, packets),
            EventKind::DurationComplete { end } => {
                self.put(event, BEGIN, (own.clone(), event.name), names, packets)?;
                self.flush(packets)?;
                let track = self.track(own, "", names, packets)?;
                Self::write(end, &on(track, END), packets)
            }
            EventKind::AsyncBegin { id } => {
                let track = Track::Operation { process, id };
                self.put(event, BEGIN, (track, event.name), names, packets)
            }
            EventKind::AsyncInstant { id } => {
                let track = Track::Operation { process, id };
                self.put(event, INSTANT, (track, event.name), names, packets)
            }
            EventKind::AsyncEnd { id } => {
                let track = Track::Operation { process, id };
                self.put(event, END, (track, event.name), names, packets)
            }
            EventKind::Counter { id } => self.counters(event, id, names, packets),
            EventKind::FlowBegin { id } | EventKind::FlowStep { id } => {
                self.flow(event, (47, id), names, packets)
            }
            EventKind::FlowEnd { id } => self.flow(event, (48, id), names, packets),
        }
    }

    pub(super) fn log(
        &mut self,
        log: &Log<'_>,
        names: &Names,
        packets: &mut Packets<'_>,
    ) -> Result<(), ConvertError> {
        self.flush(packets)?;
        let thread = Track::Thread(log.thread.process.0, log.thread.thread.0);
        let track = self.track(thread, "", names, packets)?;
        let mut event = on(track, INSTANT);
        event.bytes(22, b"log");
        event.bytes(23, log.message.as_bytes());
        Self::write(log.time, &event, packets)
    }

    /// A flow belongs to an event that its thread began or recorded at the same time; otherwise it becomes an instant.
    fn flow(
        &mut self,
        event: &Event<'_>,
        (field, id): (u64, u64),
        names: &Names,
        packets: &mut Packets<'_>,
    ) -> Result<(), ConvertError> {
        let same = |pending: &Pending| pending.thread == event.thread && pending.time == event.time;
        if !self.pending.as_ref().is_some_and(same) {
            let thread = Track::Thread(event.thread.process.0, event.thread.thread.0);
            self.put(event, INSTANT, (thread, event.name), names, packets)?;
        }
        if let Some(pending) = &mut self.pending {
            fixed(&mut pending.event, field, id);
        }
        Ok(())
    }

    fn counters(
        &mut self,
        event: &Event<'_>,
        id: u64,
        names: &Names,
        packets: &mut Packets<'_>,
    ) -> Result<(), ConvertError> {
        self.flush(packets)?;
        let process = event.thread.process.0;
        for arg in event.args.iter() {
            let (field, bits) = match arg.value {
                Value::Int32(value) => (30, i64::from(value).cast_unsigned()),
                Value::UInt32(value) => (30, value.into()),
                Value::Int64(value) => (30, value.cast_unsigned()),
                Value::UInt64(value) => (30, value),
                Value::Double(value) => (44, value.to_bits()),
                _ => continue,
            };
            let mut name = match (event.args.iter().count(), arg.name) {
                (1, _) => event.name.to_owned(),
                (_, of) => format!("{}:{of}", event.name),
            };
            if id != 0 {
                name = format!("{name} {id}");
            }
            let track = Track::Counter { process, name: name.clone(), id };
            let track = self.track(track, &name, names, packets)?;
            let mut message = on(track, COUNTER);
            match field {
                30 => message.explicit_number(30, bits),
                _ => fixed(&mut message, field, bits),
            }
            Self::write(event.time, &message, packets)?;
        }
        Ok(())
    }

    fn put(
        &mut self,
        event: &Event<'_>,
        kind: u64,
        (track, name): (Track, &str),
        names: &Names,
        packets: &mut Packets<'_>,
    ) -> Result<(), ConvertError> {
        self.flush(packets)?;
        let track = self.track(track, event.name, names, packets)?;
        let mut message = on(track, kind);
        if kind != END {
            message.bytes(22, event.category.as_bytes());
            message.bytes(23, name.as_bytes());
        }
        for arg in event.args.iter() {
            let mut annotation = Message::default();
            annotation.bytes(10, arg.name.as_bytes());
            match arg.value {
                Value::Null => {}
                Value::Int32(value) => {
                    annotation.explicit_number(4, i64::from(value).cast_unsigned());
                }
                Value::Int64(value) => annotation.explicit_number(4, value.cast_unsigned()),
                Value::UInt32(value) => annotation.explicit_number(3, value.into()),
                Value::UInt64(value) => annotation.explicit_number(3, value),
                Value::Double(value) => annotation.double(5, value),
                Value::Str(text) => annotation.bytes(6, text.as_bytes()),
                Value::Pointer(value) => annotation.explicit_number(7, value),
                Value::Koid(koid) => annotation.explicit_number(3, koid.0),
                Value::Bool(value) => annotation.explicit_number(2, value.into()),
                _ => continue,
            }
            message.bytes(4, &annotation.0);
        }
        self.pending = Some(Pending { thread: event.thread, time: event.time, event: message });
        Ok(())
    }

    fn flush(&mut self, packets: &mut Packets<'_>) -> Result<(), ConvertError> {
        let Some(Pending { time, event, .. }) = self.pending.take() else { return Ok(()) };
        Self::write(time, &event, packets)
    }

    fn write(
        Nanos(time): Nanos,
        event: &Message,
        packets: &mut Packets<'_>,
    ) -> Result<(), ConvertError> {
        let mut packet = Message::default();
        packet.explicit_number(packet::TIME, time);
        packet.number(packet::SEQUENCE, OF_EVENTS);
        packet.bytes(packet::EVENT, &event.0);
        packets.put(&packet)
    }

    /// The number of a track, which is described at its first use.
    fn track(
        &mut self,
        track: Track,
        name: &str,
        names: &Names,
        packets: &mut Packets<'_>,
    ) -> Result<u64, ConvertError> {
        if let Some(known) = self.tracks.get(&track) {
            return Ok(*known);
        }
        let uuid = uuid(&track);
        let mut descriptor = Message::default();
        descriptor.number(1, uuid);
        match &track {
            Track::Process(process) => {
                let name = names.processes.get(process).map_or("", |name| name);
                match number(*process).filter(|pid| *pid != 0) {
                    Some(pid) => {
                        let mut of_process = Message::default();
                        of_process.number(1, pid);
                        of_process.bytes(6, name.as_bytes());
                        descriptor.bytes(3, &of_process.0);
                    }
                    None => descriptor.bytes(2, name.as_bytes()),
                }
            }
            Track::Thread(process, thread) => {
                let name = names.thread(*thread);
                match (number(*process), number(*thread).filter(|tid| *tid != 0)) {
                    (Some(pid), Some(tid)) => {
                        let mut of_thread = Message::default();
                        of_thread.number(1, pid);
                        of_thread.number(2, tid);
                        of_thread.bytes(5, name.as_bytes());
                        descriptor.bytes(4, &of_thread.0);
                    }
                    // A pseudo-thread becomes a track below that of its pseudo-process.
                    _ => {
                        let parent = self.track(Track::Process(*process), "", names, packets)?;
                        descriptor.number(5, parent);
                        descriptor.bytes(2, name.as_bytes());
                    }
                }
            }
            Track::Operation { process, .. } | Track::Counter { process, .. } => {
                let parent = self.track(Track::Process(*process), "", names, packets)?;
                descriptor.number(5, parent);
                descriptor.bytes(2, name.as_bytes());
                if matches!(track, Track::Counter { .. }) {
                    descriptor.bytes(8, &[]);
                }
            }
        }
        let mut packet = Message::default();
        packet.number(packet::SEQUENCE, OF_EVENTS);
        packet.bytes(packet::TRACK, &descriptor.0);
        packets.put(&packet)?;
        self.tracks.insert(track, uuid);
        Ok(uuid)
    }

    pub(super) fn finish(mut self, packets: &mut Packets<'_>) -> Result<(), ConvertError> {
        self.flush(packets)
    }
}

/// An event of this kind on a track.
fn on(track: u64, kind: u64) -> Message {
    let mut event = Message::default();
    event.number(9, kind);
    event.number(11, track);
    event
}

/// A 64-bit number, as used for flows and doubles.
fn fixed(message: &mut Message, field: u64, bits: u64) {
    message.double(field, f64::from_bits(bits));
}

fn uuid(track: &Track) -> u64 {
    use std::hash::{Hash, Hasher};
    let mut hasher = FxHasher::default();
    track.hash(&mut hasher);
    hasher.finish().max(1)
}
