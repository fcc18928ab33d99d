//! Spans by time: for each window, a block with every span that overlaps it.

use std::io;

use super::args::ArgsIndex;
use super::columns::{Column, pack};
use super::spans::{Span, SpanKind};

/// The kinds of spans in a block. From `MANY` on, they represent several short spans: `MANY` plus their number.
mod kind {
    pub(super) const WHOLE: u64 = 0;
    pub(super) const OPEN: u64 = 1;
    pub(super) const INSTANT: u64 = 2;
    pub(super) const MANY: u64 = 3;
}

/// A block for each window; `None` if it would be empty. `starts` contains the beginnings of the windows; each ends where the next begins,
/// and the last one has no end. Spans are sorted by thread and begin.
pub(super) fn blocks(spans: &[Span], starts: &[u64]) -> io::Result<Vec<Option<Vec<u8>>>> {
    let mut members: Vec<Vec<u32>> = vec![Vec::new(); starts.len()];
    for (index, span) in spans.iter().enumerate() {
        let index = u32::try_from(index).unwrap_or(u32::MAX);
        let first = starts.partition_point(|&start| start <= span.start).saturating_sub(1);
        let behind = starts.partition_point(|&start| start <= span.end).max(first + 1);
        for window in members.iter_mut().take(behind).skip(first) {
            window.push(index);
        }
    }
    let block = |(members, &start): (&Vec<u32>, &u64)| {
        let spans = members.iter().filter_map(|&index| spans.get(index as usize));
        if members.is_empty() { Ok(None) } else { pack(&columns(spans, start)).map(Some) }
    };
    members.iter().zip(starts).map(block).collect()
}

fn columns<'a>(spans: impl Iterator<Item = &'a Span>, start: u64) -> [Column; 7] {
    let mut columns: [Column; 7] = Default::default();
    let [threads, starts, lengths, names, depths, kinds, args] = &mut columns;
    let (mut thread, mut last) = (0, start);
    let mut next = 0;
    for (span, at) in spans.zip(0_u64..) {
        threads.number((span.thread.0 - thread).into());
        if span.thread.0 != thread {
            last = start;
        }
        starts.signed(difference(span.start, last));
        (thread, last) = (span.thread.0, span.start);
        lengths.number(span.end - span.start);
        names.number(span.name.0.into());
        depths.byte(span.depth);
        kinds.number(match span.kind {
            SpanKind::Whole => kind::WHOLE,
            SpanKind::Open => kind::OPEN,
            SpanKind::Instant => kind::INSTANT,
            SpanKind::Many(count) => kind::MANY + u64::from(count),
        });
        // For spans that have arguments: the number of preceding spans without arguments.
        if span.args != ArgsIndex::default() {
            args.number(at - next);
            args.number(span.args.0.into());
            next = at + 1;
        }
    }
    columns
}

fn difference(to: u64, from: u64) -> i64 {
    i64::try_from(i128::from(to) - i128::from(from)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::super::columns::{Cursor, unpack};
    use super::super::spans::NameIndex;
    use super::super::threads::ThreadIndex;
    use super::*;

    fn span(start: u64, end: u64) -> Span {
        let (thread, name) = (ThreadIndex(4), NameIndex(0));
        Span { thread, start, end, name, depth: 0, kind: SpanKind::Whole, args: ArgsIndex(0) }
    }

    /// The number of spans in each window's block.
    fn counts(spans: &[Span], starts: &[u64]) -> Vec<usize> {
        let count = |block: Option<Vec<u8>>| {
            let bytes = block.map(|block| unpack(&block).unwrap()).unwrap_or_default();
            let mut threads = Cursor::new(&bytes).column().unwrap_or(Cursor::new(&[]));
            std::iter::from_fn(|| threads.number()).count()
        };
        blocks(spans, starts).unwrap().into_iter().map(count).collect()
    }

    #[test]
    fn a_span_is_in_every_window_it_reaches_into() {
        let spans = [span(5, 35), span(12, 13), span(20, 29), span(100, 200)];
        assert_eq!(counts(&spans, &[0, 10, 20, 30]), [1, 2, 2, 2]);
    }

    #[test]
    fn what_lies_before_the_first_window_belongs_to_it() {
        assert_eq!(counts(&[span(1, 2)], &[10, 20]), [1, 0]);
    }
}
