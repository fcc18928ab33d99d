//! Spans that instrumented code reports, on the thread that ran it.
//!
//! A span is a pair of duration begin and end, a complete event, or an instant, which has no length. A complete event may follow long after
//! spans that began later, so all spans are kept until the end of the trace. Then they are sorted, and get their nesting depth:
//!
//! ```text
//!  depth 0   |---- request -------------------|  |- request -
//!  depth 1     |- parse -| |---- query ----|
//! ```

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use rustc_hash::FxHashMap;

use super::args::ArgsIndex;
use super::threads::ThreadIndex;

/// The number of a name in the page's list of names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct NameIndex(pub(super) u32);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SpanKind {
    /// A span with a begin and an end.
    Whole,
    /// A span whose end is not in the trace.
    Open,
    Instant,
    /// This many short spans, too close to distinguish at this zoom level.
    Many(u32),
}

/// An interval on a thread, with a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Span {
    pub(super) thread: ThreadIndex,
    /// Begin, in nanoseconds of the trace's clock.
    pub(super) start: u64,
    /// End; for open spans, that of the trace.
    pub(super) end: u64,
    pub(super) name: NameIndex,
    /// The number of spans of the thread that contain it.
    pub(super) depth: u8,
    pub(super) kind: SpanKind,
    pub(super) args: ArgsIndex,
}

#[derive(Debug, Default)]
pub(super) struct Spans {
    list: Vec<Span>,
    /// Spans whose end is not read yet, by thread, as indexes into `list`.
    open: FxHashMap<ThreadIndex, Vec<usize>>,
    names: Vec<String>,
    by_name: FxHashMap<String, NameIndex>,
    unmatched_ends: u64,
}

impl Spans {
    pub(super) fn begin(&mut self, thread: ThreadIndex, time: u64, name: &str) -> &mut Span {
        self.open.entry(thread).or_default().push(self.list.len());
        self.push(thread, (time, time), name, SpanKind::Open)
    }

    /// The most recently begun duration of the thread ends.
    pub(super) fn end(&mut self, thread: ThreadIndex, time: u64) -> Option<&mut Span> {
        let begun = self.open.get_mut(&thread).and_then(Vec::pop);
        let Some(span) = begun.and_then(|at| self.list.get_mut(at)) else {
            self.unmatched_ends += 1;
            return None;
        };
        (span.end, span.kind) = (time.max(span.start), SpanKind::Whole);
        Some(span)
    }

    /// Adds a whole duration.
    pub(super) fn complete(
        &mut self,
        thread: ThreadIndex,
        (start, end): (u64, u64),
        name: &str,
    ) -> &mut Span {
        self.push(thread, (start, end.max(start)), name, SpanKind::Whole)
    }

    pub(super) fn instant(&mut self, thread: ThreadIndex, time: u64, name: &str) -> &mut Span {
        self.push(thread, (time, time), name, SpanKind::Instant)
    }

    fn push(
        &mut self,
        thread: ThreadIndex,
        (start, end): (u64, u64),
        name: &str,
        kind: SpanKind,
    ) -> &mut Span {
        let (name, args, at) = (self.name(name), ArgsIndex::default(), self.list.len());
        self.list.push(Span { thread, start, end, name, depth: 0, kind, args });
        &mut self.list[at]
    }

    /// The number of a name.
    pub(super) fn name(&mut self, name: &str) -> NameIndex {
        if let Some(&index) = self.by_name.get(name) {
            return index;
        }
        let index = NameIndex(u32::try_from(self.names.len()).unwrap_or(u32::MAX));
        self.names.push(name.to_owned());
        self.by_name.insert(name.to_owned(), index);
        index
    }

    /// All spans, sorted by thread and begin, with their depths, and their names. Open spans end at `end`.
    pub(super) fn finish(mut self, end: u64) -> Finished {
        for span in &mut self.list {
            if span.kind == SpanKind::Open {
                span.end = end.max(span.start);
            }
        }
        // If two begin at the same time, the longer one contains the other.
        self.list.sort_by_key(|span| (span.thread, span.start, u64::MAX - span.end));
        // The ends of the enclosing spans, the earliest on top.
        let mut around: BinaryHeap<Reverse<u64>> = BinaryHeap::new();
        let mut thread = None;
        for span in &mut self.list {
            if thread.replace(span.thread) != Some(span.thread) {
                around.clear();
            }
            while around.peek().is_some_and(|&Reverse(end)| end <= span.start) {
                around.pop();
            }
            span.depth = u8::try_from(around.len()).unwrap_or(u8::MAX);
            if span.kind != SpanKind::Instant {
                around.push(Reverse(span.end));
            }
        }
        Finished { list: self.list, names: self.names, unmatched_ends: self.unmatched_ends }
    }
}

/// All spans of a trace.
#[derive(Debug, Default)]
pub(super) struct Finished {
    /// Sorted by thread, then begin, then length, the longest first.
    pub(super) list: Vec<Span>,
    /// Their names, by index.
    pub(super) names: Vec<String>,
    /// The number of ends without a begin in the trace.
    pub(super) unmatched_ends: u64,
}

impl Finished {
    /// At most `most` of the longest spans with a begin and an end, the longest first.
    pub(super) fn longest(&self, most: usize) -> Vec<&Span> {
        let whole = |span: &&Span| span.kind == SpanKind::Whole && span.end > span.start;
        let mut spans: Vec<&Span> = self.list.iter().filter(whole).collect();
        let rank = |span: &&Span| (Reverse(span.end - span.start), span.start, span.thread.0);
        if spans.len() > most {
            spans.select_nth_unstable_by_key(most, rank);
            spans.truncate(most);
        }
        spans.sort_unstable_by_key(rank);
        spans
    }

    /// The spans as they appear if nothing shorter than `width` nanoseconds can be distinguished: long spans are unchanged, and short spans
    /// that follow each other more closely are merged.
    pub(super) fn coarse(&self, width: u64) -> Vec<Span> {
        let mut coarse: Vec<Span> = Vec::new();
        // By depth: the index in `coarse` of merged short spans that may still grow.
        let mut short: Vec<Option<usize>> = Vec::new();
        let mut thread = None;
        for span in &self.list {
            if thread.replace(span.thread) != Some(span.thread) {
                short.clear();
            }
            let depth = usize::from(span.depth);
            if short.len() <= depth {
                short.resize(depth + 1, None);
            }
            let before = short[depth].and_then(|at| coarse.get_mut(at));
            if span.end - span.start >= width {
                short[depth] = None;
                coarse.push(*span);
            } else if let Some(block) = before.filter(|block| span.start < block.end + width) {
                let count = if let SpanKind::Many(count) = block.kind { count } else { 1 };
                block.kind = SpanKind::Many(count.saturating_add(1));
                block.end = block.end.max(span.end);
            } else {
                short[depth] = Some(coarse.len());
                coarse.push(*span);
            }
        }
        coarse
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: ThreadIndex = ThreadIndex(1);
    const B: ThreadIndex = ThreadIndex(2);

    fn shape(spans: &[Span]) -> Vec<(u32, u64, u64, u8)> {
        spans.iter().map(|span| (span.thread.0, span.start, span.end, span.depth)).collect()
    }

    #[test]
    fn spans_are_nested_by_thread_whatever_order_they_come_in() {
        let mut spans = Spans::default();
        spans.begin(A, 10, "request");
        spans.begin(B, 15, "other");
        spans.begin(A, 20, "parse");
        spans.end(A, 30);
        spans.instant(A, 35, "cache miss");
        spans.complete(A, (30, 90), "query");
        spans.end(A, 100);
        spans.complete(A, (40, 50), "row");
        let finished = spans.finish(200);
        let expected = [
            (1, 10, 100, 0),
            (1, 20, 30, 1),
            (1, 30, 90, 1),
            (1, 35, 35, 2),
            (1, 40, 50, 2),
            (2, 15, 200, 0),
        ];
        assert_eq!(shape(&finished.list), expected);
        assert_eq!(finished.list[5].kind, SpanKind::Open);
    }

    #[test]
    fn very_many_open_spans_have_their_depths() {
        const MANY: u64 = 400_000;
        let mut spans = Spans::default();
        for time in 0..MANY {
            spans.begin(A, time, "recursion");
        }
        // The enclosing spans are those that end after its beginning, in any order of their ends.
        spans.complete(A, (MANY, MANY + 1), "within");
        let finished = spans.finish(MANY + 2);
        let depths: Vec<u8> = finished.list.iter().map(|span| span.depth).collect();
        let expected = (0..=MANY).map(|around| u8::try_from(around).unwrap_or(u8::MAX));
        assert_eq!(depths, expected.collect::<Vec<_>>());
    }

    #[test]
    fn spans_that_are_not_nested_are_as_deep_as_those_that_they_begin_in() {
        let mut spans = Spans::default();
        for (start, end) in [(0, 10), (5, 15), (8, 12), (11, 20), (13, 14), (16, 17)] {
            spans.complete(A, (start, end), "span");
        }
        let depths: Vec<u8> = spans.finish(20).list.iter().map(|span| span.depth).collect();
        assert_eq!(depths, [0, 1, 2, 2, 2, 1]);
    }

    #[test]
    fn an_end_without_a_begin_is_counted() {
        let mut spans = Spans::default();
        spans.end(A, 10);
        let finished = spans.finish(20);
        assert_eq!((finished.list.len(), finished.unmatched_ends), (0, 1));
    }

    #[test]
    fn short_spans_that_are_close_become_one_block_and_long_ones_stay() {
        let mut spans = Spans::default();
        for start in [0, 12, 24, 500] {
            spans.complete(A, (start, start + 5), "short");
        }
        spans.complete(A, (600, 900), "long");
        let coarse = spans.finish(1_000).coarse(50);
        assert_eq!(shape(&coarse), [(1, 0, 29, 0), (1, 500, 505, 0), (1, 600, 900, 0)]);
        let kinds: Vec<_> = coarse.iter().map(|span| span.kind).collect();
        assert_eq!(kinds, [SpanKind::Many(3), SpanKind::Whole, SpanKind::Whole]);
    }
}
