//! Spans from instrumented code. A span belongs to the thread that ran it; an asynchronous one, to the thread that ended it.

use fxt_reader::record::{Event, EventKind};
use fxt_reader::{Error, Item, ProviderId, Reader, Record, Visitor};
use rustc_hash::FxHashMap;

use crate::pass::{Interval, Lasting};
use crate::track::{FXTREC, SCHED};

/// The maximum number of spans that are kept, and of spans that are open at once.
const MOST: usize = 2_000_000;

/// The maximum number of distinct names.
const MOST_NAMES: usize = 1 << 16;

/// How many threads without open spans keep their slot, since most will have spans again.
const MOST_VACANT: usize = 4096;

/// The size of a span in bytes, including the memory for finding medians.
const SPAN_BYTES: usize = size_of::<Span>() + size_of::<u64>();

/// The overhead of a thread or an operation with open spans, in bytes: slots in a half-full map, and a vector.
const TRACK_BYTES: usize = 2 * size_of::<((u64, u64), Vec<Span>)>() + size_of::<Span>() + 32;

/// The overhead of a name, whose text is stored twice, in bytes.
const NAME_BYTES: usize = 2 * (size_of::<Name>() + size_of::<(Box<str>, Vec<u32>)>()) + 64;

/// A span that has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    pub koid: u64,
    pub from: u64,
    pub to: u64,
    pub name: u32,
    /// The thread on which an asynchronous span began; `koid` is then the one on which it ended.
    pub begun_on: Option<u64>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Name {
    pub category: Box<str>,
    pub name: Box<str>,
    /// Whether a program reported these spans, and not the kernel.
    pub is_provider: bool,
}

/// Whether `text` refers to spans of this category and name: it is the name, or `category:name`.
pub fn is_called((category, name): (&str, &str), text: &str) -> bool {
    let rest = text.strip_prefix(category).and_then(|rest| rest.strip_prefix(':'));
    name == text || rest == Some(name)
}

/// The text by which [`is_called`] identifies a span: `category:name`, or the name alone if there is no category.
pub fn full_name(category: &str, name: &str) -> String {
    match category {
        "" => name.to_owned(),
        category => format!("{category}:{name}"),
    }
}

impl Lasting for Span {
    fn interval(&self) -> Interval {
        Interval { koid: self.koid, from: self.from, to: self.to }
    }
}

impl Span {
    pub fn length(&self) -> u64 {
        self.to - self.from
    }
}

/// All spans of a trace, up to the limits.
#[derive(Debug, Default)]
pub struct Spans {
    pub list: Vec<Span>,
    /// By thread, the spans that have not ended.
    open: FxHashMap<u64, Vec<Span>>,
    /// Asynchronous spans that have not ended, by process and id.
    open_async: FxHashMap<(u64, u64), Vec<Span>>,
    opened: usize,
    /// The memory in use, in bytes, and its limit, if there is one.
    bytes: usize,
    most_bytes: Option<usize>,
    names: Vec<Name>,
    /// By name, the numbers of the names of all categories.
    by_name: FxHashMap<Box<str>, Vec<u32>>,
    /// Whether there were more spans than the maximum.
    pub too_many: bool,
}

impl Spans {
    pub fn event(&mut self, event: &Event<'_>, is_provider: bool) {
        let koid = event.thread.thread.0;
        let from = event.time.0;
        match event.kind {
            EventKind::DurationBegin => {
                let Some(name) = self.name(event, is_provider) else { return };
                let is_new = !self.open.contains_key(&koid);
                if !self.opens(is_new) {
                    return;
                }
                let span = Span { koid, from, to: from, name, begun_on: None };
                put(self.open.entry(koid).or_default(), span);
            }
            EventKind::DurationEnd => {
                let Some(open) = self.open.get_mut(&koid) else { return };
                if let Some(span) = open.pop() {
                    if open.is_empty() && self.open.len() > MOST_VACANT {
                        self.open.remove(&koid);
                        self.bytes -= TRACK_BYTES;
                    }
                    self.closes();
                    self.push(Span { to: from.max(span.from), ..span });
                }
            }
            EventKind::DurationComplete { end } => {
                if let Some(name) = self.name(event, is_provider) {
                    self.push(Span { koid, from, to: end.0.max(from), name, begun_on: None });
                }
            }
            EventKind::AsyncBegin { id } => {
                let Some(name) = self.name(event, is_provider) else { return };
                let key = (event.thread.process.0, id);
                let is_new = !self.open_async.contains_key(&key);
                if !self.opens(is_new) {
                    return;
                }
                let span = Span { koid, from, to: from, name, begun_on: Some(koid) };
                put(self.open_async.entry(key).or_default(), span);
            }
            EventKind::AsyncEnd { id } => {
                let key = (event.thread.process.0, id);
                let Some(open) = self.open_async.get_mut(&key) else { return };
                // Operations of different names may have the same id.
                let name = if event.name.is_empty() { event.category } else { event.name };
                let names = &self.names;
                let is_it = |span: &Span| {
                    let known = &names[span.name as usize];
                    (&*known.category, &*known.name) == (event.category, name)
                };
                let Some(at) = open.iter().rposition(is_it) else { return };
                let span = open.remove(at);
                if open.is_empty() {
                    self.open_async.remove(&key);
                    self.bytes -= TRACK_BYTES;
                }
                self.closes();
                self.push(Span { koid, to: from.max(span.from), ..span });
            }
            _ => {}
        }
    }

    /// Reserves memory for a span that begins, on a track that may be new; false if the limit is reached.
    fn opens(&mut self, is_new: bool) -> bool {
        let has_room = self.opened < MOST
            && self.take_bytes(SPAN_BYTES + if is_new { TRACK_BYTES } else { 0 });
        self.opened += usize::from(has_room);
        self.too_many |= !has_room;
        has_room
    }

    fn closes(&mut self) {
        self.opened -= 1;
        self.bytes -= SPAN_BYTES;
    }

    /// Reserves `bytes`, unless that exceeds the limit.
    fn take_bytes(&mut self, bytes: usize) -> bool {
        let has_room = self.most_bytes.is_none_or(|most| self.bytes + bytes <= most);
        self.bytes += if has_room { bytes } else { 0 };
        has_room
    }

    fn push(&mut self, span: Span) {
        match self.list.len() < MOST && self.take_bytes(SPAN_BYTES) {
            true => self.list.push(span),
            false => self.too_many = true,
        }
    }

    fn name(&mut self, event: &Event<'_>, is_provider: bool) -> Option<u32> {
        let name = if event.name.is_empty() { event.category } else { event.name };
        let known = self.by_name.get(name).into_iter().flatten().copied().find(|&number| {
            let known = &self.names[number as usize];
            *known.category == *event.category && known.is_provider == is_provider
        });
        if known.is_some() {
            return known;
        }
        let bytes = NAME_BYTES + 2 * name.len() + event.category.len();
        if self.names.len() >= MOST_NAMES || !self.take_bytes(bytes) {
            self.too_many = true;
            return None;
        }
        let number = self.names.len() as u32;
        let category = event.category.into();
        self.names.push(Name { category, name: name.into(), is_provider });
        self.by_name.entry(name.into()).or_default().push(number);
        Some(number)
    }

    pub fn name_of(&self, number: u32) -> &Name {
        &self.names[number as usize]
    }

    /// The numbers of the names to which `text` [refers](is_called).
    pub fn find(&self, text: &str) -> Vec<u32> {
        let all = self.names.iter().enumerate();
        let fits = |(number, it): (usize, &Name)| {
            is_called((&it.category, &it.name), text).then_some(number as u32)
        };
        all.filter_map(fits).collect()
    }

    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.names.iter().map(|it| &*it.name)
    }

    /// The number of spans with these names, and their median length.
    pub fn median(&self, names: &[u32]) -> (u64, u64) {
        let of_these = self.list.iter().filter(|span| names.contains(&span.name));
        median(of_these.map(Span::length).collect())
    }

    /// The program's span that most exceeds the median of its name, among those that `fits` accepts, with the number of spans of that name
    /// and the median. `None` if no span is longer than the median of its name.
    pub fn worst(&self, fits: impl Fn(&Span) -> bool) -> Option<(&Span, (u64, u64))> {
        let medians = self.medians();
        let beyond = |span: &&Span| {
            let median = medians.get(&span.name).map_or(0, |known| known.1);
            span.length().saturating_sub(median)
        };
        let worst = self
            .list
            .iter()
            .filter(|span| self.name_of(span.name).is_provider && fits(span))
            .max_by_key(|span| (beyond(span), u64::MAX - span.from))?;
        let (count, median) = medians.get(&worst.name).copied()?;
        (worst.length() > median).then_some((worst, (count, median)))
    }

    /// For each name, the number of spans and their median length.
    pub fn medians(&self) -> FxHashMap<u32, (u64, u64)> {
        let mut lengths = FxHashMap::<u32, Vec<u64>>::default();
        for span in &self.list {
            lengths.entry(span.name).or_default().push(span.length());
        }
        lengths.into_iter().map(|(name, lengths)| (name, median(lengths))).collect()
    }
}

/// Puts a span on a track. Most tracks have one span, but a vector would start with a capacity of four.
fn put(track: &mut Vec<Span>, span: Span) {
    if track.capacity() == 0 {
        track.reserve_exact(1);
    }
    track.push(span);
}

/// The number of values, and the median: the lower of the two in the middle, so that it is a length that occurred.
fn median(mut lengths: Vec<u64>) -> (u64, u64) {
    if lengths.is_empty() {
        return (0, 0);
    }
    let middle = (lengths.len() - 1) / 2;
    let median = *lengths.select_nth_unstable(middle).1;
    (lengths.len() as u64, median)
}

/// Collects the spans of a trace.
#[derive(Debug, Default)]
struct Collector {
    spans: Spans,
    /// The provider of fxtrec's own records.
    own: Option<ProviderId>,
}

impl Visitor for Collector {
    #[inline]
    fn visit(&mut self, item: &Item<'_>) -> bool {
        match &item.record {
            Record::Event(event) if event.category != FXTREC && event.category != SCHED => {
                let is_provider = self.own.is_none() || item.provider != self.own;
                self.spans.event(event, is_provider);
            }
            Record::ProviderInfo(info) if info.name == FXTREC => self.own = Some(info.id),
            _ => {}
        }
        true
    }
}

/// All spans of a trace.
///
/// # Errors
/// The errors of [`Reader::next`], except for damage.
pub fn collect(reader: Reader<'_>) -> Result<Spans, Error> {
    collect_within(reader, None)
}

/// The spans of a trace, within `most_bytes` of memory: programs may write any number of them.
///
/// # Errors
/// The same as for [`collect`].
pub fn collect_within(mut reader: Reader<'_>, most_bytes: Option<usize>) -> Result<Spans, Error> {
    let mut collector = Collector::default();
    collector.spans.most_bytes = most_bytes;
    loop {
        match reader.show_all(&mut collector) {
            Ok(_) => return Ok(collector.spans),
            Err(Error::Damaged(_)) => {}
            Err(error) => return Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use fxt_writer::record::{self, Magic, Record as _};
    use fxt_writer::{Koid, Text, ThreadName, Ticks};

    use super::*;

    const ROOM: usize = 1 << 20;

    type Kind = fn(u64) -> record::EventKind;

    const BEGIN: Kind = |_| record::EventKind::DurationBegin;
    const END: Kind = |_| record::EventKind::DurationEnd;
    const ASYNC_BEGIN: Kind = |id| record::EventKind::AsyncBegin { id };
    const ASYNC_END: Kind = |id| record::EventKind::AsyncEnd { id };

    /// A trace with `number` threads and operations, each with events of these kinds; with long names, every name is different.
    fn trace(number: u64, length: usize, kinds: &[Kind]) -> Vec<u8> {
        let mut trace = Vec::new();
        Magic.write(&mut trace).expect("memory");
        for koid in 1..=number {
            let name = match length {
                0..=10 => "n".repeat(length),
                _ => format!("{koid:0length$}"),
            };
            for kind in kinds {
                let event = record::Event {
                    kind: kind(koid),
                    time: Ticks(koid),
                    thread: ThreadName::Inline { process: Koid(7), thread: Koid(koid) },
                    category: Text::Inline("x"),
                    name: Text::Inline(&name),
                    args: &[],
                };
                event.write(&mut trace).expect("memory");
            }
        }
        trace
    }

    fn within(trace: &[u8], most_bytes: Option<usize>) -> Spans {
        collect_within(Reader::from_slice(trace), most_bytes).expect("a trace")
    }

    /// A lower bound of the memory for the data that is kept.
    fn takes(spans: &Spans) -> usize {
        let of_track = |open: &Vec<Span>| open.capacity() * size_of::<Span>() + 24;
        let open = spans.open.values().chain(spans.open_async.values()).map(of_track);
        let names = spans.names.iter().map(|it| it.name.len() * 2 + it.category.len());
        spans.list.len() * size_of::<Span>() + open.sum::<usize>() + names.sum::<usize>()
    }

    #[test]
    fn spans_that_never_end_and_names_take_no_more_than_there_is_room_for() {
        for (trace, least) in [
            (trace(50_000, 4, &[BEGIN]), 2000),
            (trace(50_000, 4, &[ASYNC_BEGIN]), 2000),
            (trace(50_000, 4, &[BEGIN, END]), 2000),
            (trace(100, 30_000, &[BEGIN, END]), 10),
        ] {
            let spans = within(&trace, Some(ROOM));
            assert!(spans.too_many && spans.bytes <= ROOM && takes(&spans) <= ROOM);
            let kept = spans.opened + spans.list.len();
            assert!(kept >= least, "{kept}");
            assert!(!within(&trace, None).too_many, "who reads a trace has all");
        }
    }

    #[test]
    fn spans_that_end_leave_no_more_than_themselves() {
        for kinds in [[BEGIN, END], [ASYNC_BEGIN, ASYNC_END]] {
            let spans = within(&trace(10_000, 4, &kinds), None);
            assert!(spans.open.len() <= MOST_VACANT && spans.open_async.is_empty());
            let tracks = spans.open.len() * TRACK_BYTES;
            assert_eq!(spans.bytes, 10_000 * SPAN_BYTES + tracks + NAME_BYTES + 9);
            assert_eq!((spans.list.len(), spans.opened), (10_000, 0));
        }
    }
}
