//! A profile for `pprof`: the message `Profile` of its `profile.proto`, compressed with gzip.
//!
//! The few necessary fields are written by hand; field numbers and types are those of
//! <https://github.com/google/pprof/blob/main/proto/profile.proto>.

use std::io::{self, Write};

use flate2::Compression;
use flate2::write::GzEncoder;
use fxtrec_sched::backtrace::Kind;
use fxtrec_units::protobuf::Message;
use rustc_hash::FxHashMap;

use super::profile::{Profile, label};

/// Items that are written once and referred to by number, in order of appearance.
#[derive(Debug)]
struct Table<K> {
    known: FxHashMap<K, u64>,
    /// The number of the first item.
    base: u64,
}

impl<K: std::hash::Hash + Eq> Table<K> {
    fn new(base: u64) -> Table<K> {
        Table { known: FxHashMap::default(), base }
    }

    /// The number of an item, and whether it is new.
    fn number(&mut self, key: K) -> (u64, bool) {
        let next = self.known.len() as u64 + self.base;
        let number = *self.known.entry(key).or_insert(next);
        (number, number == next)
    }
}

/// The string table; its first string is empty.
#[derive(Debug)]
struct Texts {
    table: Table<String>,
    all: Vec<String>,
}

impl Texts {
    fn number(&mut self, text: &str) -> u64 {
        let (number, is_new) = self.table.number(text.to_owned());
        if is_new {
            self.all.push(text.to_owned());
        }
        number
    }
}

fn encode(profile: &Profile<'_>) -> Vec<u8> {
    let mut texts = Texts { table: Table::new(0), all: Vec::new() };
    texts.number("");
    let (mut functions, mut mappings) = (Table::new(1), Table::new(1));
    let mut locations = Table::new(1);
    let mut out = Message::default();
    let what = match profile.kind {
        Kind::Cpu => "cpu",
        Kind::OffCpu => "blocked",
        Kind::Wake => "woken",
    };
    for (kind, unit) in [("samples", "count"), (what, "nanoseconds")] {
        let mut value = Message::default();
        value.number(1, texts.number(kind));
        value.number(2, texts.number(unit));
        out.bytes(1, &value.0);
    }
    let [thread_key, comm_key] = ["tid", "thread"].map(|key| texts.number(key));
    for sample in &profile.samples {
        let mut stack = Vec::new();
        for frame in &sample.frames {
            let path = frame.module.map_or("", |(path, _)| path);
            let (mapping, is_new) = mappings.number(path);
            if is_new {
                let mut message = Message::default();
                message.number(1, mapping);
                message.number(5, texts.number(path));
                // Sets `has_functions`.
                message.number(7, 1);
                out.bytes(3, &message.0);
            }
            let name = label(frame);
            let (function, is_new) = functions.number(name.clone());
            if is_new {
                let mut message = Message::default();
                message.number(1, function);
                message.number(2, texts.number(&name));
                message.number(3, texts.number(&name));
                out.bytes(5, &message.0);
            }
            let address = frame.module.map_or(frame.address, |(_, within)| within);
            let (location, is_new) = locations.number((mapping, address, function));
            if is_new {
                let mut line = Message::default();
                line.number(1, function);
                let mut message = Message::default();
                message.number(1, location);
                message.number(2, mapping);
                message.number(3, address);
                message.bytes(4, &line.0);
                out.bytes(4, &message.0);
            }
            stack.push(location);
        }
        let mut message = Message::default();
        message.numbers(1, stack);
        message.numbers(2, [1, sample.weight]);
        let mut comm = Message::default();
        comm.number(1, comm_key);
        comm.number(2, texts.number(&sample.thread.comm));
        let mut tid = Message::default();
        tid.number(1, thread_key);
        tid.number(3, sample.thread.tid);
        message.bytes(3, &comm.0);
        message.bytes(3, &tid.0);
        out.bytes(2, &message.0);
    }
    // Makes the weight, not the number of samples, the default.
    out.number(14, texts.number(what));
    for text in &texts.all {
        out.bytes(6, text.as_bytes());
    }
    out.0
}

/// Writes a profile for `go tool pprof` and compatible tools.
///
/// # Errors
/// The errors of `out`.
pub fn write_pprof(profile: &Profile<'_>, out: &mut dyn Write) -> io::Result<()> {
    let mut gzip = GzEncoder::new(out, Compression::default());
    gzip.write_all(&encode(profile))?;
    gzip.finish().map(drop)
}
