//! Writes a trace as Perfetto packets, for any version of Perfetto's tools.
//!
//! ```text
//!   switches, wakeups --> events of ftrace, in a bundle for each CPU
//!   names              --> process trees; tracks of threads and processes
//!   spans, counters    --> track events
//!   stacks             --> samples, at the end
//!   blobs for Perfetto --> unchanged, since they are packets already; without those of fxtrec, whose stacks are written here
//! ```
//!
//! Scheduling becomes ftrace events, from which Perfetto shows wakers and states. Its own importer of FXT does not show all of them.

mod events;
mod stacks;
mod switches;

use std::io::Write;

use fxt_reader::record::BlobType;
use fxt_reader::record::{Event, EventKind, KernelObject, Value};
use fxt_reader::{Error, Koid, Nanos, ObjectType, Reader, Record};
use fxtrec_units::protobuf::Message;
use rustc_hash::FxHashMap;

use crate::ConvertError;
use crate::report::Report;
use events::Events;
use fxtrec_capture::stacks::perfetto::BLOB;
use stacks::Stacks;
use switches::Switches;

/// The ids of packet sequences, which blobs do not use.
const ABOUT_THREADS: u64 = 0x7fff_0001;
const OF_EVENTS: u64 = 0x7fff_0002;

/// Bytes of packets to collect before they are written.
const PENDING_BYTES: usize = 256 << 10;

/// Fields of a packet.
mod packet {
    pub(super) const BUNDLE: u64 = 1;
    pub(super) const PROCESS_TREE: u64 = 2;
    pub(super) const SNAPSHOT: u64 = 6;
    pub(super) const TIME: u64 = 8;
    pub(super) const SEQUENCE: u64 = 10;
    pub(super) const EVENT: u64 = 11;
    pub(super) const SYSTEM: u64 = 45;
    pub(super) const TRACK: u64 = 60;
}

/// The packets that are being written.
struct Packets<'o> {
    pending: Message,
    out: &'o mut dyn Write,
}

impl Packets<'_> {
    fn put(&mut self, packet: &Message) -> Result<(), ConvertError> {
        self.pending.bytes(1, &packet.0);
        if self.pending.0.len() >= PENDING_BYTES { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> Result<(), ConvertError> {
        self.out.write_all(&self.pending.0).map_err(ConvertError::Write)?;
        self.pending.0.clear();
        Ok(())
    }
}

/// The names of threads and processes.
#[derive(Debug, Default)]
struct Names {
    threads: FxHashMap<u64, (Box<str>, Option<u64>)>,
    processes: FxHashMap<u64, Box<str>>,
}

impl Names {
    fn thread(&self, koid: u64) -> &str {
        self.threads.get(&koid).map_or("", |(name, _)| name)
    }
}

/// The number of a thread or process in Perfetto, which is a signed 32-bit integer. The kernel's ids fit; koids of pseudo-threads have no
/// number.
fn number(koid: u64) -> Option<u64> {
    i32::try_from(koid).is_ok().then_some(koid)
}

/// Writes the whole trace to `out`.
///
/// # Errors
///
/// Returns an error if it cannot be read, or the output cannot be written.
pub(super) fn write(reader: &mut Reader<'_>, out: &mut dyn Write) -> Result<Report, ConvertError> {
    let mut packets = Packets { pending: Message::default(), out };
    let (mut report, mut names) = (Report::default(), Names::default());
    let (mut switches, mut events) = (Switches::default(), Events::default());
    let mut stacks = Stacks::default();
    loop {
        let item = match reader.next() {
            Ok(Some(item)) => item,
            Ok(None) => break,
            Err(Error::Damaged(_)) => {
                report.count("damaged records, skipped");
                continue;
            }
            Err(error) => return Err(error.into()),
        };
        report.read += 1;
        stacks.take(item.provider, &item.record)?;
        match &item.record {
            Record::KernelObject(object) => name(object, &mut names, &mut packets)?,
            Record::ContextSwitch(switch) => {
                switches.switch(switch, &names, &mut packets, &mut report)?;
            }
            Record::Wakeup(wakeup) => switches.wakeup(wakeup, &names, &mut packets)?,
            Record::Event(event) if event.category == "fxtrec" => {
                own_event(event, &mut switches, &mut packets, &mut report)?;
            }
            Record::Event(event) if is_move(event) => {
                switches.moved(event, &names, &mut packets)?;
            }
            Record::Event(event) => events.event(event, &names, &mut packets)?,
            Record::Log(log) => events.log(log, &names, &mut packets)?,
            Record::Blob(blob) if blob.name == BLOB => {}
            Record::Blob(blob) if blob.blob_type == BlobType::Perfetto => {
                packets.pending.0.extend_from_slice(blob.payload);
                packets.flush()?;
            }
            Record::Blob(_) | Record::LargeBlob(_) => report.count("blobs, left out"),
            Record::LegacyContextSwitch(_) => {
                report.count("context switches of the old form, left out");
            }
            _ => {}
        }
    }
    events.finish(&mut packets)?;
    switches.finish(&mut packets)?;
    stacks.finish(&mut packets, &mut report)?;
    packets.flush()?;
    Ok(report)
}

fn is_move(event: &Event<'_>) -> bool {
    (event.category, event.name) == ("sched", "migrate") && event.kind == EventKind::Instant
}

/// fxtrec's records about a recording: clocks and the machine at its beginning, and gaps.
fn own_event(
    event: &Event<'_>,
    switches: &mut Switches,
    packets: &mut Packets<'_>,
    report: &mut Report,
) -> Result<(), ConvertError> {
    match event.name {
        "trace_info" => about(event, packets),
        "lost" => switches.lost(event, packets),
        _ => {
            report.count("events about the recording itself, left out");
            Ok(())
        }
    }
}

fn about(event: &Event<'_>, packets: &mut Packets<'_>) -> Result<(), ConvertError> {
    /// Clock ids: a trace has one clock, which Perfetto takes for the boot-time clock by default.
    const BOOT_TIME: u64 = 6;
    const REAL_TIME: u64 = 1;
    let Nanos(time) = event.time;
    let clock = |id, time| {
        let mut clock = Message::default();
        clock.number(1, id);
        clock.explicit_number(2, time);
        clock
    };
    let mut snapshot = Message::default();
    snapshot.bytes(1, &clock(BOOT_TIME, time).0);
    if let Some(offset) = event.args.get("wall_clock_offset_ns").and_then(fxtrec_sched::signed) {
        snapshot.bytes(1, &clock(REAL_TIME, time.wrapping_add_signed(offset)).0);
    }
    let mut packet = Message::default();
    packet.number(packet::TIME, time);
    packet.bytes(packet::SNAPSHOT, &snapshot.0);
    packet.number(packet::SEQUENCE, ABOUT_THREADS);
    packets.put(&packet)?;
    let mut names = Message::default();
    names.bytes(1, b"Linux");
    for (field, name) in [(3, "release"), (4, "machine")] {
        if let Some(value) = event.args.str(name) {
            names.bytes(field, value.as_bytes());
        }
    }
    let mut system = Message::default();
    system.bytes(1, &names.0);
    let mut packet = Message::default();
    packet.bytes(packet::SYSTEM, &system.0);
    packet.number(packet::SEQUENCE, ABOUT_THREADS);
    packets.put(&packet)
}

fn name(
    object: &KernelObject<'_>,
    names: &mut Names,
    packets: &mut Packets<'_>,
) -> Result<(), ConvertError> {
    let Koid(koid) = object.koid;
    let mut tree = Message::default();
    match object.object_type {
        ObjectType::Process => {
            names.processes.insert(koid, object.name.into());
            let Some(pid) = number(koid) else { return Ok(()) };
            let mut process = Message::default();
            process.number(1, pid);
            process.bytes(3, object.name.as_bytes());
            tree.bytes(1, &process.0);
        }
        ObjectType::Thread => {
            let process = match object.args.get("process") {
                Some(Value::Koid(Koid(process))) => Some(process),
                _ => None,
            };
            names.threads.insert(koid, (object.name.into(), process));
            let Some(tid) = number(koid).filter(|tid| *tid != 0) else { return Ok(()) };
            let mut thread = Message::default();
            thread.number(1, tid);
            thread.bytes(2, object.name.as_bytes());
            thread.number(3, process.and_then(number).unwrap_or(tid));
            tree.bytes(2, &thread.0);
        }
        _ => return Ok(()),
    }
    let mut packet = Message::default();
    packet.bytes(packet::PROCESS_TREE, &tree.0);
    packet.number(packet::SEQUENCE, ABOUT_THREADS);
    packets.put(&packet)
}
