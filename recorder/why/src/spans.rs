//! Spans: what instrumented code says of itself, on the thread that ran it.

use fxt_reader::record::{Event, EventKind};
use rustc_hash::FxHashMap;

/// So many spans are kept, and so many that are open at once.
const MOST: usize = 2_000_000;

/// So many names are told apart.
const MOST_NAMES: usize = 1 << 16;

/// A span that has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) koid: u64,
    pub(crate) from: u64,
    pub(crate) to: u64,
    pub(crate) name: u32,
    /// Whether a program told it, and not the kernel.
    pub(crate) is_provider: bool,
}

impl Span {
    pub(crate) fn length(&self) -> u64 {
        self.to - self.from
    }
}

/// All spans of a trace.
#[derive(Debug, Default)]
pub(crate) struct Spans {
    pub(crate) list: Vec<Span>,
    /// By thread, those that have not ended.
    open: FxHashMap<u64, Vec<Span>>,
    opened: usize,
    names: Vec<Box<str>>,
    by_name: FxHashMap<Box<str>, u32>,
    /// Whether there were more than are kept.
    pub(crate) too_many: bool,
}

impl Spans {
    pub(crate) fn event(&mut self, event: &Event<'_>, is_provider: bool) {
        let koid = event.thread.thread.0;
        let from = event.time.0;
        match event.kind {
            EventKind::DurationBegin => {
                let Some(name) = self.name(event) else { return };
                if self.opened >= MOST {
                    self.too_many = true;
                    return;
                }
                self.opened += 1;
                let span = Span { koid, from, to: from, name, is_provider };
                self.open.entry(koid).or_default().push(span);
            }
            EventKind::DurationEnd => {
                if let Some(span) = self.open.get_mut(&koid).and_then(Vec::pop) {
                    self.opened -= 1;
                    self.push(Span { to: from.max(span.from), ..span });
                }
            }
            EventKind::DurationComplete { end } => {
                if let Some(name) = self.name(event) {
                    self.push(Span { koid, from, to: end.0.max(from), name, is_provider });
                }
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

    fn name(&mut self, event: &Event<'_>) -> Option<u32> {
        let name = if event.name.is_empty() { event.category } else { event.name };
        if let Some(&known) = self.by_name.get(name) {
            return Some(known);
        }
        if self.names.len() >= MOST_NAMES {
            self.too_many = true;
            return None;
        }
        let number = self.names.len() as u32;
        self.names.push(name.into());
        self.by_name.insert(name.into(), number);
        Some(number)
    }

    pub(crate) fn name_of(&self, number: u32) -> &str {
        self.names.get(number as usize).map_or("", |name| name)
    }

    pub(crate) fn find(&self, name: &str) -> Option<u32> {
        self.by_name.get(name).copied()
    }

    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.names.iter().map(|name| &**name)
    }

    /// How many spans of each name there are, and their median length.
    pub(crate) fn medians(&self) -> FxHashMap<u32, (u64, u64)> {
        let mut lengths = FxHashMap::<u32, Vec<u64>>::default();
        for span in &self.list {
            lengths.entry(span.name).or_default().push(span.length());
        }
        let median = |mut lengths: Vec<u64>| {
            // The lower of the two in the middle, which is a length that occurred.
            let middle = (lengths.len() - 1) / 2;
            let (_, median, _) = lengths.select_nth_unstable(middle);
            (*median, lengths.len() as u64)
        };
        lengths
            .into_iter()
            .map(|(name, lengths)| {
                let (median, count) = median(lengths);
                (name, (count, median))
            })
            .collect()
    }
}
