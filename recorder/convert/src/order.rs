//! Sorts records by time, whatever their order in the file.
//!
//! This is an external [`sort`](super::sort) in bounded memory. Each record is stored together with the strings and the thread that it
//! refers to. Pieces of 12 MiB are sorted, written to a temporary file, and merged:
//!
//! ```text
//!   trace --> records, each alone --> | piece, sorted | piece, sorted | ... --> merge --> trace with one table of strings
//!             key: time, rank
//! ```
//!
//! Records without a time keep their position: the name of a process or thread precedes its first use, any other record precedes the record
//! that followed it.
//!
//! Records with equal times keep their order in the file. If a thread's durations go back in time, that order has no meaning; then, at
//! equal times, ends precede begins, unless the end would close something else:
//!
//! ```text
//!   file    begin b 20   end a 20   begin a 10         in order    begin a 10   end a 20   begin b 20
//! ```

use std::collections::{BTreeMap, VecDeque};
use std::fs::File;
use std::hash::{Hash, Hasher};
use std::io::{self, BufReader, Read, Seek, Write};

use fxt_reader::record::EventKind;
use fxt_reader::{Error, ProviderId, Reader, Record};
use fxt_writer::record::{Initialization, Magic, ProviderEvent, ProviderInfo, ProviderSection};
use fxt_writer::{WriteError, Writer};
use fxtrec_kernel::progress::Progress;
use rustc_hash::{FxHashMap, FxHashSet, FxHasher};

use super::copy::{AsItIs, copy};
use super::error::ConvertError;
use super::shared::Shared;
use super::sort::{Key, Sorted, Sorter};

/// Bytes of records that are sorted in memory.
const PIECE_BYTES: usize = 12 << 20;

/// Bytes to collect before they are written.
const PENDING_BYTES: usize = 64 << 10;

const TICKS_PER_SECOND: u64 = 1_000_000_000;

/// One of the traces to combine.
#[derive(Debug)]
pub(super) struct Part<'a> {
    pub(super) file: &'a File,
    /// Whether names precede everything else, or keep their position.
    pub(super) names_first: bool,
    /// Objects that another part has named: whether it is a thread, and its koid.
    pub(super) named: Option<&'a FxHashSet<(bool, u64)>>,
}

/// The order of a trace, as found in a pass over it.
#[derive(Debug, Default)]
pub(super) struct Order {
    pub(super) in_order: bool,
    /// Threads whose durations go back in time, with their processes.
    backward: FxHashSet<(u64, u64)>,
}

impl Order {
    /// Reads the trace once.
    pub(super) fn of(file: &File) -> Result<Order, ConvertError> {
        let mut order = Order { in_order: true, ..Order::default() };
        let mut last = 0;
        let mut ends: FxHashMap<(u64, u64), u64> = FxHashMap::default();
        each_record(file, |record, _| {
            let Some(time) = record.time() else { return Ok(()) };
            order.in_order &= time.0 >= last;
            last = last.max(time.0);
            if let Record::Event(event) = record
                && matches!(event.kind, EventKind::DurationBegin | EventKind::DurationEnd)
            {
                let thread = (event.thread.process.0, event.thread.thread.0);
                let before = ends.entry(thread).or_default();
                if time.0 < *before {
                    order.backward.insert(thread);
                }
                *before = time.0.max(*before);
            }
            Ok(())
        })?;
        Ok(order)
    }
}

/// A reader from the beginning of the file.
fn rewound(mut file: &File) -> Result<Reader<'_>, ConvertError> {
    file.rewind().map_err(ConvertError::Read)?;
    Ok(Reader::new(BufReader::with_capacity(PENDING_BYTES, file)))
}

fn each_record(
    file: &File,
    mut take: impl FnMut(&Record<'_>, Option<ProviderId>) -> Result<(), ConvertError>,
) -> Result<(), ConvertError> {
    let mut reader = rewound(file)?;
    loop {
        match reader.next() {
            Ok(Some(item)) => take(&item.record, item.provider)?,
            Ok(None) => return Ok(()),
            // This program has just written the file.
            Err(Error::Damaged(_)) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// The effect of a duration on its thread's stack, if that can determine the order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Step {
    /// 0 for records other than begins and ends, and for threads that do not go backward.
    kind: u8,
    thread: u64,
    /// A hash of its name; 0 for an end without one.
    name: u64,
}

const BEGIN: u8 = 1;
const END: u8 = 2;

fn hash(what: impl Hash) -> u64 {
    let mut hasher = FxHasher::default();
    what.hash(&mut hasher);
    hasher.finish() | 1
}

/// Bytes of a step before its record.
const STEP_BYTES: usize = 1 + 8 + 8;

/// A record with its key.
#[derive(Clone, Debug)]
struct Whole {
    time: u64,
    step: Step,
    bytes: Vec<u8>,
}

/// The next record in order.
fn next_of(sorted: &mut Sorted) -> io::Result<Option<Whole>> {
    let Some((key, bytes)) = sorted.next()? else { return Ok(None) };
    let (step, bytes) =
        bytes.split_first_chunk::<STEP_BYTES>().ok_or(io::ErrorKind::UnexpectedEof)?;
    let [kind, numbers @ ..] = step;
    let [thread, name] = [0, 8]
        .map(|at| numbers[at..].first_chunk().map_or(0, |number| u64::from_ne_bytes(*number)));
    let step = Step { kind: *kind, thread, name };
    Ok(Some(Whole { time: key.time, step, bytes: bytes.to_vec() }))
}

fn add(sorter: &mut Sorter, time: u64, step: Step, record: &[u8]) -> io::Result<()> {
    let mut bytes = Vec::with_capacity(STEP_BYTES + record.len());
    bytes.push(step.kind);
    bytes.extend_from_slice(&step.thread.to_ne_bytes());
    bytes.extend_from_slice(&step.name.to_ne_bytes());
    bytes.extend_from_slice(record);
    sorter.add(Key { time, rank: u8::from(step.kind != END) }, &bytes)
}

/// The open durations of threads that go backward, to match ends with their begins.
struct Paired {
    sorted: Sorted,
    open: FxHashMap<u64, Vec<u64>>,
    /// Ends that wait until something begins at the same time.
    waiting: VecDeque<Whole>,
    ahead: Option<Whole>,
}

impl Paired {
    fn next(&mut self) -> io::Result<Option<Whole>> {
        loop {
            let next = match self.ahead.take() {
                Some(next) => Some(next),
                None => next_of(&mut self.sorted)?,
            };
            let over = |wait: &Whole| next.as_ref().is_none_or(|next| next.time != wait.time);
            if self.waiting.front().is_some_and(over) {
                self.ahead = next;
                let waited = self.waiting.pop_front();
                if let Some(Whole { step, .. }) = &waited {
                    self.open.get_mut(&step.thread).and_then(Vec::pop);
                }
                return Ok(waited);
            }
            let Some(next) = next else { return Ok(None) };
            let Step { kind, thread, name } = next.step;
            match kind {
                BEGIN => self.open.entry(thread).or_default().push(name),
                END => {
                    let open = self.open.entry(thread).or_default();
                    let closes = open.last().is_some_and(|last| name == 0 || *last == name);
                    if !closes {
                        self.waiting.push_back(next);
                        continue;
                    }
                    open.pop();
                }
                _ => {}
            }
            return Ok(Some(next));
        }
    }
}

/// The sorted records as one trace.
struct Stream {
    paired: Paired,
    bytes: Vec<u8>,
    at: usize,
}

impl Read for Stream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.at == self.bytes.len() {
            let Some(whole) = self.paired.next()? else { return Ok(0) };
            (self.bytes, self.at) = (whole.bytes, 0);
        }
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        let count = rest.len().min(buffer.len());
        buffer[..count].copy_from_slice(&rest[..count]);
        self.at += count;
        Ok(count)
    }
}

/// Writes the records of all parts to `out`, in order of time.
pub(super) fn write(parts: &[Part<'_>], out: &mut dyn Write) -> Result<(), ConvertError> {
    write_in_pieces(parts, out, PIECE_BYTES)
}

fn write_in_pieces(
    parts: &[Part<'_>],
    out: &mut dyn Write,
    piece_bytes: usize,
) -> Result<(), ConvertError> {
    let mut sorter = Sorter::new(piece_bytes);
    let mut providers = Providers::default();
    for part in parts {
        let order = Order::of(part.file)?;
        gather(part, &order, &mut providers, &mut sorter)?;
    }
    let paired = Paired {
        sorted: sorter.sorted(Progress::hidden()).map_err(ConvertError::Read)?,
        open: FxHashMap::default(),
        waiting: VecDeque::new(),
        ahead: None,
    };
    let bytes = providers.head()?;
    let mut reader = Reader::new(Stream { paired, bytes, at: 0 });
    let mut target = Target::new(&providers);
    loop {
        match reader.next() {
            Ok(Some(item)) => target.take(&item.record, item.provider, out)?,
            Ok(None) => break,
            Err(Error::Damaged(_)) => {}
            Err(error) => return Err(error.into()),
        }
    }
    target.flush(out)
}

/// The providers of all parts, by number.
#[derive(Debug, Default)]
struct Providers {
    names: BTreeMap<u32, String>,
}

impl Providers {
    /// The number of a provider: its own, unless it is already in use.
    fn add(&mut self, ProviderId(id): ProviderId, name: &str) -> u32 {
        let last = self.names.keys().last().copied().unwrap_or_default();
        let id = if self.names.contains_key(&id) { last.saturating_add(1) } else { id };
        self.names.insert(id, name.to_owned());
        id
    }

    /// The records before the first one.
    fn head(&self) -> Result<Vec<u8>, ConvertError> {
        let shared = Shared::default();
        put(&Magic, &shared)?;
        for (id, name) in &self.names {
            introduce(*id, name, &shared)?;
        }
        Ok(shared.take())
    }
}

fn introduce(id: u32, name: &str, shared: &Shared) -> Result<(), ConvertError> {
    let id = fxt_writer::ProviderId(id);
    put(&ProviderInfo { id, name }, shared)?;
    put(&ProviderSection { id }, shared)?;
    put(&Initialization { ticks_per_second: TICKS_PER_SECOND }, shared)
}

/// Writes a record to memory, which always has space.
fn put(record: &impl fxt_writer::record::Record, shared: &Shared) -> Result<(), ConvertError> {
    checked(record.write(&mut shared.clone())).map(drop)
}

/// The result of writing a record. None of these records becomes too large when it contains its own strings.
fn checked<T>(written: Result<T, WriteError<std::convert::Infallible>>) -> Result<T, ConvertError> {
    match written {
        Ok(done) => Ok(done),
        Err(WriteError::Encode(error)) => Err(error.into()),
        Err(WriteError::Full(never)) => match never {},
    }
}

/// Gives all records of a part to the sorter.
fn gather(
    part: &Part<'_>,
    order: &Order,
    providers: &mut Providers,
    sorter: &mut Sorter,
) -> Result<(), ConvertError> {
    let mut numbers: FxHashMap<ProviderId, u32> = FxHashMap::default();
    let mut last = 0;
    // Records without a time, which stay with the next record that has a time.
    let mut waiting: Vec<Vec<u8>> = Vec::new();
    each_record(part.file, |record, provider| {
        match record {
            Record::ProviderInfo(info) => {
                numbers.entry(info.id).or_insert_with(|| providers.add(info.id, info.name));
            }
            Record::KernelObject(object) => {
                let key = (object.object_type == fxt_reader::ObjectType::Thread, object.koid.0);
                if part.named.is_some_and(|named| named.contains(&key)) {
                    return Ok(());
                }
            }
            _ => {}
        }
        let id = provider.and_then(|id| numbers.get(&id)).copied();
        let Some(id) = id else { return Ok(()) };
        let Some(bytes) = alone(record, id)? else { return Ok(()) };
        let added = match record.time() {
            Some(time) => {
                last = time.0;
                let step = step(record, id, order);
                let before = waiting.drain(..);
                let added = before.map(|bytes| add(sorter, time.0, Step::default(), &bytes));
                added.collect::<io::Result<()>>().and_then(|()| add(sorter, time.0, step, &bytes))
            }
            None if matches!(record, Record::KernelObject(_)) => {
                let time = if part.names_first { 0 } else { last };
                add(sorter, time, Step::default(), &bytes)
            }
            None if waiting.len() < MOST_WAITING => {
                waiting.push(bytes);
                Ok(())
            }
            None => add(sorter, last, Step::default(), &bytes),
        };
        added.map_err(ConvertError::Write)
    })?;
    let rest = waiting.into_iter().map(|bytes| add(sorter, u64::MAX, Step::default(), &bytes));
    rest.collect::<io::Result<()>>().map_err(ConvertError::Write)
}

/// The maximum number of records without a time that wait for one with a time. The pieces of a large event are fewer than this.
const MOST_WAITING: usize = 8192;

/// The effect of the record on its thread's stack, if that thread goes backward.
fn step(record: &Record<'_>, provider: u32, order: &Order) -> Step {
    let Record::Event(event) = record else { return Step::default() };
    let kind = match event.kind {
        EventKind::DurationBegin => BEGIN,
        EventKind::DurationEnd => END,
        _ => return Step::default(),
    };
    let thread = (event.thread.process.0, event.thread.thread.0);
    if !order.backward.contains(&thread) {
        return Step::default();
    }
    let name = if kind == END && event.name.is_empty() { 0 } else { hash(event.name) };
    Step { kind, thread: hash((provider, thread)), name }
}

/// The record with everything that it refers to, in the section of its provider.
fn alone(record: &Record<'_>, provider: u32) -> Result<Option<Vec<u8>>, ConvertError> {
    const STRINGS: u16 = 64;
    const THREADS: u8 = 4;
    let shared = Shared::default();
    put(&ProviderSection { id: fxt_writer::ProviderId(provider) }, &shared)?;
    let full = fxt_writer::writer::TablesFull::Replace;
    let mut writer = Writer::with_table_sizes(shared.clone(), full, STRINGS, THREADS);
    let copied = put_copy(record, provider, &mut writer)?;
    Ok(copied.then(|| shared.take()))
}

/// Copies the record; false for records of tables.
fn put_copy(
    record: &Record<'_>,
    provider: u32,
    writer: &mut Writer<Shared>,
) -> Result<bool, ConvertError> {
    if let Record::ProviderEvent(event) = record {
        let id = fxt_writer::ProviderId(provider);
        return checked(writer.write(&ProviderEvent { id, event: event.event })).map(|()| true);
    }
    checked(copy(record, writer, &AsItIs))
}

/// The trace that is being written.
struct Target<'p> {
    providers: &'p Providers,
    shared: Shared,
    writers: FxHashMap<u32, Writer<Shared>>,
    current: Option<u32>,
    pending: usize,
    begun: bool,
}

impl<'p> Target<'p> {
    fn new(providers: &'p Providers) -> Target<'p> {
        let (shared, writers) = (Shared::default(), FxHashMap::default());
        Target { providers, shared, writers, current: None, pending: 0, begun: false }
    }

    fn take(
        &mut self,
        record: &Record<'_>,
        provider: Option<ProviderId>,
        out: &mut dyn Write,
    ) -> Result<(), ConvertError> {
        let is_table = matches!(
            record,
            Record::MagicNumber
                | Record::ProviderInfo(_)
                | Record::ProviderSection(_)
                | Record::Initialization(_)
                | Record::String(_)
                | Record::Thread(_)
        );
        let Some(id) = provider.filter(|_| !is_table).map(|id| id.0) else { return Ok(()) };
        if !std::mem::replace(&mut self.begun, true) {
            put(&Magic, &self.shared)?;
        }
        if !self.writers.contains_key(&id) {
            let name = self.providers.names.get(&id).map_or("unnamed", String::as_str);
            introduce(id, name, &self.shared)?;
            self.writers.insert(id, Writer::new(self.shared.clone()).with_long_strings());
        } else if self.current != Some(id) {
            put(&ProviderSection { id: fxt_writer::ProviderId(id) }, &self.shared)?;
        }
        self.current = Some(id);
        if let Some(writer) = self.writers.get_mut(&id) {
            put_copy(record, id, writer)?;
        }
        self.pending += 1;
        // A record has a few tens of bytes, and at most 32 KiB.
        if self.pending * 64 >= PENDING_BYTES { self.flush(out) } else { Ok(()) }
    }

    fn flush(&mut self, out: &mut dyn Write) -> Result<(), ConvertError> {
        self.pending = 0;
        out.write_all(&self.shared.take()).map_err(ConvertError::Write)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fxt_writer::{Koid, Ticks};

    /// A trace of instants with these times; their names are consecutive numbers.
    fn instants(times: &[u64]) -> File {
        let mut writer = Writer::new(Vec::<u8>::new());
        writer.start("test", TICKS_PER_SECOND).expect("memory");
        for (at, time) in times.iter().enumerate() {
            let name = format!("event {at}");
            writer.instant(Ticks(*time), (Koid(1), Koid(2)), "test", &name, &[]).expect("memory");
        }
        let mut file = tempfile::tempfile().expect("a file");
        file.write_all(&writer.into_inner()).expect("room");
        file
    }

    #[test]
    fn many_small_pieces_are_merged_and_equal_times_keep_their_order() {
        let times: Vec<u64> = (0..3000u64).map(|at| at * 7919 % 500).collect();
        let file = instants(&times);
        let mut expected: Vec<(u64, usize)> = times.iter().copied().zip(0..).collect();
        expected.sort();
        for piece_bytes in [1, 4000, PIECE_BYTES] {
            let mut out = Vec::new();
            let part = Part { file: &file, names_first: true, named: None };
            write_in_pieces(&[part], &mut out, piece_bytes).expect("sorted");
            let mut reader = Reader::from_slice(&out);
            let mut found = Vec::new();
            while let Some(item) = reader.next().expect("sound") {
                if let Record::Event(event) = item.record {
                    let number = event.name.strip_prefix("event ").expect("its name");
                    found.push((event.time.0, number.parse().expect("a number")));
                }
            }
            assert!(found == expected, "pieces of {piece_bytes} bytes");
        }
    }

    #[test]
    fn parts_keep_their_providers_apart() {
        let (one, two) = (instants(&[1, 5]), instants(&[3, 4]));
        let parts = [&one, &two].map(|file| Part { file, names_first: true, named: None });
        let mut out = Vec::new();
        write(&parts, &mut out).expect("sorted");
        let mut reader = Reader::from_slice(&out);
        let mut found = Vec::new();
        while let Some(item) = reader.next().expect("sound") {
            if let Some(time) = item.record.time() {
                found.push((time.0, item.provider.map(|id| id.0)));
            }
        }
        assert_eq!(found, [(1, Some(1)), (3, Some(2)), (4, Some(2)), (5, Some(1))]);
    }
}
