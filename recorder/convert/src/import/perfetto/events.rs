//! Events from programs: tracks, and the events on them.

use super::item::{In, Item, Out};
use super::sequence::{Sequence, kind};
use super::wire::{Fields, Value};
use super::{Decoder, Failed};

/// The maximum number of tracks, and the maximum length of a track's name, in bytes.
const MOST_TRACKS: usize = 1 << 18;
const MOST_NAME: usize = 1024;

/// The maximum number of arguments in a record, and the length to which their strings are cut, in bytes.
const MOST_ARGS: u8 = 14;
const MOST_TEXT: usize = 1024;

/// The maximum depth of nested dictionaries.
const MOST_DEPTH: u32 = 8;

/// The maximum number of flows of an event.
const MOST_FLOWS: u16 = 64;

/// The effect of an event on its track.
pub(super) mod act {
    pub(crate) const BEGIN: u8 = 1;
    pub(crate) const END: u8 = 2;
    pub(crate) const INSTANT: u8 = 3;
    pub(crate) const COUNTER: u8 = 4;
    /// Begins, and ends after its duration.
    pub(crate) const COMPLETE: u8 = 5;
    // Legacy events of Chrome, which have an id instead of a track.
    pub(crate) const ASYNC_BEGIN: u8 = 6;
    pub(crate) const ASYNC_END: u8 = 7;
    pub(crate) const ASYNC_INSTANT: u8 = 8;
}

/// A track.
#[derive(Clone, Debug, Default)]
pub(super) struct Track {
    pub(super) parent: u64,
    pub(super) name: Box<str>,
    /// The process and the thread, or only the process.
    pub(super) thread: Option<(u32, u32)>,
    pub(super) process: Option<u32>,
    pub(super) is_counter: bool,
    /// The factor for its values, and whether each value is a difference to the previous one.
    pub(super) factor: i64,
    pub(super) incremental: bool,
}

/// The value of a counter event.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Count {
    None,
    Int(i64),
    Double(f64),
}

/// The contents of an event.
#[derive(Clone, Copy, Debug)]
pub(super) struct Content<'a> {
    pub(super) category: &'a [u8],
    pub(super) name: &'a [u8],
    pub(super) count: Count,
    /// Nine bytes for each flow: its id, and whether it ends.
    pub(super) flows: &'a [u8],
    pub(super) args: In<'a>,
}

impl<'a> Content<'a> {
    pub(super) fn take(bytes: &'a [u8]) -> Option<Content<'a>> {
        let mut bytes = In(bytes);
        let (category, name) = (bytes.text()?, bytes.text()?);
        let (which, bits) = (bytes.u8()?, bytes.u64()?);
        let count = match which {
            1 => Count::Int(bits.cast_signed()),
            2 => Count::Double(f64::from_bits(bits)),
            _ => Count::None,
        };
        let flows = bytes.text()?;
        Some(Content { category, name, count, flows, args: bytes })
    }
}

/// The value of an argument.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Argument<'a> {
    Bool(bool),
    Uint(u64),
    Int(i64),
    Double(f64),
    Pointer(u64),
    Text(&'a [u8]),
}

impl<'a> Argument<'a> {
    /// The next argument and its name.
    pub(super) fn take(bytes: &mut In<'a>) -> Option<(&'a [u8], Argument<'a>)> {
        let name = bytes.text()?;
        let value = match bytes.u8()? {
            0 => Argument::Bool(bytes.u64()? != 0),
            1 => Argument::Uint(bytes.u64()?),
            2 => Argument::Int(bytes.u64()?.cast_signed()),
            3 => Argument::Double(f64::from_bits(bytes.u64()?)),
            4 => Argument::Pointer(bytes.u64()?),
            _ => Argument::Text(bytes.text()?),
        };
        Some((name, value))
    }

    fn put(self, name: &[u8], out: &mut Out) {
        out.text(short(name));
        let (tag, bits) = match self {
            Argument::Bool(value) => (0, u64::from(value)),
            Argument::Uint(value) => (1, value),
            Argument::Int(value) => (2, value.cast_unsigned()),
            Argument::Double(value) => (3, value.to_bits()),
            Argument::Pointer(value) => (4, value),
            Argument::Text(text) => {
                out.u8(5);
                return out.text(short(text));
            }
        };
        out.u8(tag);
        out.u64(bits);
    }
}

fn short(text: &[u8]) -> &[u8] {
    &text[..text.len().min(MOST_TEXT)]
}

/// The arguments of an event, during encoding.
struct Arguments<'s> {
    sequence: &'s Sequence,
    out: Out,
    count: u8,
    left_out: u64,
}

impl Arguments<'_> {
    fn annotation(&mut self, message: &[u8], before: &str, depth: u32) -> Result<(), Failed> {
        let (mut name, mut value) = (Vec::new(), None);
        // Nested arguments may precede their name.
        let mut fields = Fields(message);
        let mut holds = false;
        while let Some((field, it)) = fields.next()? {
            let interned = |kind| self.sequence.text(kind, it.number()).unwrap_or_default();
            match (field, it) {
                (1, _) => name = interned(kind::ARGUMENTS).to_vec(),
                (10, Value::Bytes(text)) => name = text.to_vec(),
                (2, _) => value = Some(Argument::Bool(it.number() != 0)),
                (3, _) => value = Some(Argument::Uint(it.number())),
                (4, _) => value = Some(Argument::Int(it.number().cast_signed())),
                (5, _) => value = Some(Argument::Double(it.double())),
                (7, _) => value = Some(Argument::Pointer(it.number())),
                (6 | 9, Value::Bytes(text)) => value = Some(Argument::Text(text)),
                (17, _) => value = Some(Argument::Text(interned(kind::VALUES))),
                (11 | 12, _) => holds = true,
                _ => {}
            }
        }
        let name = String::from_utf8_lossy(short(&name));
        let name = match before {
            "" => name.into_owned(),
            before if name.is_empty() => before.to_owned(),
            before => format!("{before}.{name}"),
        };
        if let Some(value) = value {
            if self.count == MOST_ARGS {
                self.left_out += 1;
            } else {
                self.count += 1;
                value.put(name.as_bytes(), &mut self.out);
            }
        }
        if !holds {
            return Ok(());
        }
        if depth == MOST_DEPTH || name.len() > MOST_TEXT {
            self.left_out += 1;
            return Ok(());
        }
        let (mut fields, mut index) = (Fields(message), 0);
        while let Some((field, it)) = fields.next()? {
            match field {
                _ if self.count == MOST_ARGS => {
                    self.left_out += u64::from(matches!(field, 11 | 12));
                }
                11 => self.annotation(it.bytes(), &name, depth + 1)?,
                12 => {
                    self.annotation(it.bytes(), &format!("{name}[{index}]"), depth + 1)?;
                    index += 1;
                }
                _ => {}
            }
        }
        Ok(())
    }
}

impl Decoder {
    pub(super) fn track_descriptor(&mut self, message: &[u8]) -> Result<(), Failed> {
        let (mut uuid, mut track) = (0, Track { factor: 1, ..Track::default() });
        let mut fields = Fields(message);
        while let Some((field, value)) = fields.next()? {
            match (field, value) {
                (1, value) => uuid = value.number(),
                (5, value) => track.parent = value.number(),
                (2 | 10 | 13, Value::Bytes(name)) => track.name = text(name),
                (3, Value::Bytes(process)) => track.process = Some(self.process(process)?),
                (4, Value::Bytes(thread)) => track.thread = Some(self.thread(thread)?),
                (8, Value::Bytes(counter)) => {
                    track.is_counter = true;
                    let mut fields = Fields(counter);
                    while let Some((field, value)) = fields.next()? {
                        match field {
                            4 => track.factor = value.number().cast_signed(),
                            5 => track.incremental = value.number() != 0,
                            _ => {}
                        }
                    }
                }
                _ => {}
            }
        }
        let name = track.name.len();
        let room = self.tracks.len() < MOST_TRACKS && self.track_bytes + name <= 16 << 20;
        if room || self.tracks.contains_key(&uuid) {
            self.track_bytes += name;
            self.tracks.insert(uuid, track);
        } else {
            self.report.count("tracks beyond 262144, or whose names are too long, left out");
        }
        Ok(())
    }

    /// Reads the description of a process: keeps its name, and returns its number.
    pub(super) fn process(&mut self, message: &[u8]) -> Result<u32, Failed> {
        let (mut pid, mut name, mut fields) = (0, None, Fields(message));
        while let Some((field, value)) = fields.next()? {
            match (field, value) {
                (1, value) => pid = value.u32(),
                (2, Value::Bytes(word)) => name = name.or(Some(word)),
                (6, Value::Bytes(whole)) => name = Some(whole),
                _ => {}
            }
        }
        if let Some(name) = name {
            self.process_called(pid, name);
        }
        Ok(pid)
    }

    /// Reads the description of a thread: keeps its name, and returns its number.
    pub(super) fn thread(&mut self, message: &[u8]) -> Result<(u32, u32), Failed> {
        let (mut pid, mut tid, mut name, mut fields) = (0, 0, None, Fields(message));
        while let Some((field, value)) = fields.next()? {
            match (field, value) {
                (1, value) => pid = value.u32(),
                (2, value) => tid = value.u32(),
                (5, Value::Bytes(whole)) => name = Some(whole),
                _ => {}
            }
        }
        self.belongs(pid, tid);
        if let Some(name) = name {
            self.thread_called(tid, name);
        }
        Ok((pid, tid))
    }

    pub(super) fn track_event(
        &mut self,
        time: Option<u64>,
        message: &[u8],
        sequence: &Sequence,
    ) -> Result<(), Failed> {
        let Some(mut time) = time else {
            self.report.count("events without a time, left out");
            return Ok(());
        };
        let mut track = None;
        let (mut act, mut count) = (0, Count::None);
        let mut args = Arguments { sequence, out: Out::default(), count: 0, left_out: 0 };
        let (mut category, mut name): (&[u8], &[u8]) = (&[], &[]);
        let (mut flows, mut flow_count) = (Out::default(), 0);
        let mut more: [Vec<u64>; 4] = Default::default();
        let mut legacy: Option<&[u8]> = None;
        let mut fields = Fields(message);
        while let Some((field, value)) = fields.next()? {
            let mut flow = |number: u64, ends: bool| {
                if flow_count < MOST_FLOWS {
                    flow_count += 1;
                    flows.u64(number);
                    flows.u8(ends.into());
                }
            };
            match (field, value) {
                (3, value) if category.is_empty() => {
                    let mut first = None;
                    value.each(|number| first = first.or(Some(number)))?;
                    let first = first.and_then(|number| sequence.text(kind::CATEGORIES, number));
                    category = first.unwrap_or_default();
                }
                (22, Value::Bytes(text)) if category.is_empty() => category = text,
                (10, value) => name = sequence.text(kind::NAMES, value.number()).unwrap_or(name),
                (23, Value::Bytes(text)) => name = text,
                (9, value) => act = value.number() as u8,
                (11, value) => track = Some(value.number()),
                (30, value) => count = Count::Int(value.number().cast_signed()),
                (44, value) => count = Count::Double(value.double()),
                (36, value) => value.each(|number| flow(number, false))?,
                (47, value) => value.each_fixed(|number| flow(number, false)),
                (42, value) => value.each(|number| flow(number, true))?,
                (48, value) => value.each_fixed(|number| flow(number, true)),
                (31, value) => value.each(|number| more[0].push(number))?,
                (12, value) => value.each(|number| more[1].push(number))?,
                (45, value) => value.each(|number| more[2].push(number))?,
                (46, value) => value.each_fixed(|number| more[3].push(number)),
                (4, Value::Bytes(annotation)) => args.annotation(annotation, "", 0)?,
                (6, Value::Bytes(it)) => legacy = Some(it),
                (16, value) => time = value.number().saturating_mul(1000),
                // The stack of a track event belongs neither to a wait nor to a CPU sample.
                (55 | 56, _) => self.report.count("stacks of track events, left out"),
                _ => {}
            }
        }
        let mut track_id = track.unwrap_or(sequence.default_track);
        let mut thread = sequence.thread.unwrap_or((0, 0));
        if let Some(legacy) = legacy {
            let old = old(legacy, sequence)?;
            if act == 0 {
                act = old.act;
                if act >= act::ASYNC_BEGIN {
                    track_id = old.id;
                } else if track.is_none() && sequence.thread.is_some() {
                    track_id = 0;
                }
            }
            thread = (old.pid.unwrap_or(thread.0), old.tid.unwrap_or(thread.1));
            if old.tid.is_some() && thread.0 != 0 {
                self.belongs(thread.0, thread.1);
            }
            if name.is_empty() {
                name = old.name;
            }
            if let Some(length) = old.length {
                count = Count::Int(length);
            }
        }
        if !(act::BEGIN..=act::ASYNC_INSTANT).contains(&act) {
            self.report.count("events of unknown kinds, left out");
            return Ok(());
        }
        self.report.add("arguments of an event beyond the 14th, left out", args.left_out);
        let mut content = Out::default();
        content.text(short(category));
        content.text(short(name));
        put_count(count, &mut content);
        content.text(&flows.0);
        content.0.extend(args.out.0);
        let content = &content.0;
        self.events += 1;
        self.add(time, Item::Track { kind: act, track: track_id, thread, content })?;
        let whole = more[0]
            .iter()
            .zip(&more[1])
            .map(|(track, value)| (track, Count::Int(value.cast_signed())));
        let parts = more[2]
            .iter()
            .zip(&more[3])
            .map(|(track, bits)| (track, Count::Double(f64::from_bits(*bits))));
        for (track, count) in whole.chain(parts) {
            let mut content = Out::default();
            content.text(short(category));
            content.text(b"");
            put_count(count, &mut content);
            content.text(b"");
            let (kind, content) = (act::COUNTER, &content.0);
            self.add(time, Item::Track { kind, track: *track, thread, content })?;
        }
        Ok(())
    }
}

fn put_count(count: Count, out: &mut Out) {
    let (which, bits) = match count {
        Count::None => (0, 0),
        Count::Int(value) => (1, value.cast_unsigned()),
        Count::Double(value) => (2, value.to_bits()),
    };
    out.u8(which);
    out.u64(bits);
}

fn text(bytes: &[u8]) -> Box<str> {
    String::from_utf8_lossy(&bytes[..bytes.len().min(MOST_NAME)]).into()
}

/// The contents of a legacy event of Chrome.
struct Old<'a> {
    act: u8,
    id: u64,
    name: &'a [u8],
    /// The duration in nanoseconds.
    length: Option<i64>,
    pid: Option<u32>,
    tid: Option<u32>,
}

fn old<'a>(message: &[u8], sequence: &'a Sequence) -> Result<Old<'a>, Failed> {
    let mut old = Old { act: 0, id: 0, name: &[], length: None, pid: None, tid: None };
    let mut fields = Fields(message);
    while let Some((field, value)) = fields.next()? {
        match field {
            1 => old.name = sequence.text(kind::NAMES, value.number()).unwrap_or_default(),
            2 => {
                old.act = match u8::try_from(value.number()).unwrap_or(0) {
                    b'B' => act::BEGIN,
                    b'E' => act::END,
                    b'I' | b'i' => act::INSTANT,
                    b'X' => act::COMPLETE,
                    b'b' | b'S' => act::ASYNC_BEGIN,
                    b'e' | b'F' => act::ASYNC_END,
                    b'n' | b'T' | b'p' => act::ASYNC_INSTANT,
                    _ => 0,
                };
            }
            3 => old.length = Some(value.number().cast_signed().saturating_mul(1000)),
            6 | 10 | 11 => old.id = value.number(),
            18 => old.pid = Some(value.u32()),
            19 => old.tid = Some(value.u32()),
            _ => {}
        }
    }
    Ok(old)
}
