//! Spans: what instrumented code says of itself, on the thread that ran it; of an asynchronous one, on the thread that ended it.

use fxt_reader::record::{Event, EventKind};
use fxt_reader::{Error, Item, ProviderId, Reader, Record, Visitor};
use rustc_hash::FxHashMap;

use crate::pass::{Interval, Lasting};
use crate::track::{FXTREC, SCHED};

/// So many spans are kept, and so many that are open at once.
const MOST: usize = 2_000_000;

/// So many names are told apart.
const MOST_NAMES: usize = 1 << 16;

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
    /// Whether a program told them, and not the kernel.
    pub is_provider: bool,
}

/// Whether spans of a category and name are meant by `text`: the name, or both with a colon between them.
pub fn is_called((category, name): (&str, &str), text: &str) -> bool {
    let rest = text.strip_prefix(category).and_then(|rest| rest.strip_prefix(':'));
    name == text || rest == Some(name)
}

/// What [`is_called`] knows a span by: category and name, or the name alone if there is no category.
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

/// All spans of a trace.
#[derive(Debug, Default)]
pub struct Spans {
    pub list: Vec<Span>,
    /// By thread, those that have not ended.
    open: FxHashMap<u64, Vec<Span>>,
    /// The asynchronous ones, by process and id.
    open_async: FxHashMap<(u64, u64), Vec<Span>>,
    opened: usize,
    names: Vec<Name>,
    /// By name, those of each category.
    by_name: FxHashMap<Box<str>, Vec<u32>>,
    /// Whether there were more than are kept.
    pub too_many: bool,
}

impl Spans {
    pub fn event(&mut self, event: &Event<'_>, is_provider: bool) {
        let koid = event.thread.thread.0;
        let from = event.time.0;
        match event.kind {
            EventKind::DurationBegin => {
                let Some(name) = self.name(event, is_provider) else { return };
                if self.opened >= MOST {
                    self.too_many = true;
                    return;
                }
                self.opened += 1;
                let span = Span { koid, from, to: from, name, begun_on: None };
                self.open.entry(koid).or_default().push(span);
            }
            EventKind::DurationEnd => {
                if let Some(span) = self.open.get_mut(&koid).and_then(Vec::pop) {
                    self.opened -= 1;
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
                if self.opened >= MOST {
                    self.too_many = true;
                    return;
                }
                self.opened += 1;
                let span = Span { koid, from, to: from, name, begun_on: Some(koid) };
                self.open_async.entry((event.thread.process.0, id)).or_default().push(span);
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
                }
                self.opened -= 1;
                self.push(Span { koid, to: from.max(span.from), ..span });
            }
            _ => {}
        }
    }

    fn push(&mut self, span: Span) {
        match self.list.len() < MOST {
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
        if self.names.len() >= MOST_NAMES {
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

    /// The numbers of the names that are [meant](is_called) by `text`.
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

    /// How many spans of these names there are, and their median length.
    pub fn median(&self, names: &[u32]) -> (u64, u64) {
        let of_these = self.list.iter().filter(|span| names.contains(&span.name));
        median(of_these.map(Span::length).collect())
    }

    /// The span of a program that is longest beyond the median of its name, of those that `fits`; how many of that name there
    /// are, and the median. `None` if no span is longer than that of its name.
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

    /// How many spans of each name there are, and their median length.
    pub fn medians(&self) -> FxHashMap<u32, (u64, u64)> {
        let mut lengths = FxHashMap::<u32, Vec<u64>>::default();
        for span in &self.list {
            lengths.entry(span.name).or_default().push(span.length());
        }
        lengths.into_iter().map(|(name, lengths)| (name, median(lengths))).collect()
    }
}

/// How many there are, and the lower of the two in the middle, which is a length that occurred.
fn median(mut lengths: Vec<u64>) -> (u64, u64) {
    if lengths.is_empty() {
        return (0, 0);
    }
    let middle = (lengths.len() - 1) / 2;
    let median = *lengths.select_nth_unstable(middle).1;
    (lengths.len() as u64, median)
}

/// Takes the spans of a trace, and looks at nothing else.
#[derive(Debug, Default)]
struct Collector {
    spans: Spans,
    /// That of fxtrec's own records.
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
/// Those of [`Reader::next`], apart from damage.
pub fn collect(mut reader: Reader<'_>) -> Result<Spans, Error> {
    let mut collector = Collector::default();
    loop {
        match reader.show_all(&mut collector) {
            Ok(_) => return Ok(collector.spans),
            Err(Error::Damaged(_)) => {}
            Err(error) => return Err(error),
        }
    }
}
