//! Operations that span several threads: asynchronous events. Those with the same name have separate rows.
//!
//! ```text
//!  row 0   |---- request 7 -----|     |-- request 9 --|
//!  row 1        |-------- request 8 --------|
//! ```

use rustc_hash::FxHashMap;

use super::args::ArgsIndex;
use super::spans::{NameIndex, Span, SpanKind};
use super::threads::ThreadIndex;

/// The maximum number of operations, and of their names.
const MOST: usize = 500_000;
const MOST_TRACKS: usize = 200;

/// The maximum number of rows of a track; further operations share the last row.
const MOST_ROWS: usize = 256;

/// The properties that identify an operation: its process, its id, and its track.
type Key = (u64, u64, usize);

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Track {
    pub(super) category: NameIndex,
    pub(super) name: NameIndex,
}

#[derive(Clone, Copy, Debug)]
struct Open {
    /// Its index in the list.
    at: usize,
    began_on: ThreadIndex,
}

#[derive(Debug, Default)]
pub(super) struct Operations {
    pub(super) tracks: Vec<Track>,
    by_name: FxHashMap<Track, usize>,
    /// For these spans, a track takes the place of the thread.
    list: Vec<Span>,
    open: FxHashMap<Key, Vec<Open>>,
    /// For each track, which rows are in use.
    rows: Vec<Vec<bool>>,
    /// The number of events that are not in the page.
    pub(super) left_out: u64,
}

impl Operations {
    fn track(&mut self, track: Track) -> Option<usize> {
        if let Some(&at) = self.by_name.get(&track) {
            return Some(at);
        }
        if self.tracks.len() >= MOST_TRACKS || self.list.len() >= MOST {
            self.left_out += 1;
            return None;
        }
        self.tracks.push(track);
        self.rows.push(Vec::new());
        self.by_name.insert(track, self.tracks.len() - 1);
        Some(self.tracks.len() - 1)
    }

    fn push(&mut self, track: usize, time: u64, row: usize, kind: SpanKind, args: ArgsIndex) {
        let (thread, name) = (ThreadIndex::at(track), self.tracks[track].name);
        let depth = u8::try_from(row).unwrap_or(u8::MAX);
        self.list.push(Span { thread, start: time, end: time, name, depth, kind, args });
    }

    /// An operation of a process begins on a thread.
    pub(super) fn begin(
        &mut self,
        track: Track,
        (process, id): (u64, u64),
        (began_on, time): (ThreadIndex, u64),
        args: ArgsIndex,
    ) {
        let Some(track) = self.track(track) else { return };
        if self.list.len() >= MOST {
            self.left_out += 1;
            return;
        }
        let rows = &mut self.rows[track];
        let free = rows.iter().position(|is_taken| !is_taken);
        let row = free.unwrap_or(rows.len()).min(MOST_ROWS - 1);
        match rows.get_mut(row) {
            Some(is_taken) => *is_taken = true,
            None => rows.push(true),
        }
        let open = Open { at: self.list.len(), began_on };
        self.open.entry((process, id, track)).or_default().push(open);
        self.push(track, time, row, SpanKind::Open, args);
    }

    /// An instant event in an operation.
    pub(super) fn instant(
        &mut self,
        track: Track,
        (process, id): (u64, u64),
        time: u64,
        args: ArgsIndex,
    ) {
        let Some(track) = self.track(track) else { return };
        if self.list.len() >= MOST {
            self.left_out += 1;
            return;
        }
        let open = self.open.get(&(process, id, track)).and_then(|open| open.last());
        let row = open.and_then(|open| self.list.get(open.at)).map_or(0, |span| span.depth);
        self.push(track, time, row.into(), SpanKind::Instant, args);
    }

    /// The most recently begun operation with this id ends. Returns it, and the thread on which it began.
    pub(super) fn end(
        &mut self,
        track: Track,
        (process, id): (u64, u64),
        time: u64,
    ) -> Option<(&mut Span, ThreadIndex)> {
        let at = *self.by_name.get(&track)?;
        let key = (process, id, at);
        let open = self.open.get_mut(&key)?;
        let Open { at: place, began_on } = open.pop()?;
        if open.is_empty() {
            self.open.remove(&key);
        }
        let span = self.list.get_mut(place)?;
        if let Some(is_taken) = self.rows[at].get_mut(usize::from(span.depth)) {
            *is_taken = false;
        }
        (span.end, span.kind) = (time.max(span.start), SpanKind::Whole);
        Some((span, began_on))
    }

    /// For each open operation, its index and the thread on which it began.
    pub(super) fn still_open(&self) -> Vec<(usize, ThreadIndex)> {
        self.open.values().flatten().map(|open| (open.at, open.began_on)).collect()
    }

    pub(super) fn span_mut(&mut self, at: usize) -> Option<&mut Span> {
        self.list.get_mut(at)
    }

    /// All of them, by track and begin, as spans of additional threads with indexes from `threads` on. Open ones end at `end`.
    pub(super) fn finish(&mut self, threads: usize, end: u64) -> Vec<Span> {
        let mut list = std::mem::take(&mut self.list);
        for span in &mut list {
            span.thread = ThreadIndex::at(threads + span.thread.index());
            if span.kind == SpanKind::Open {
                span.end = end.max(span.start);
            }
        }
        list.sort_by_key(|span| (span.thread, span.start, u64::MAX - span.end));
        list
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: ThreadIndex = ThreadIndex(1);
    const NONE: ArgsIndex = ArgsIndex(0);
    const REQUEST: Track = Track { category: NameIndex(0), name: NameIndex(1) };
    const OTHER: Track = Track { category: NameIndex(0), name: NameIndex(2) };

    #[test]
    fn operations_that_overlap_have_a_row_each_and_rows_are_used_again() {
        let mut all = Operations::default();
        all.begin(REQUEST, (40, 7), (A, 10), NONE);
        all.begin(REQUEST, (40, 8), (A, 20), NONE);
        // The same id in another process, or with another name, is another operation.
        all.begin(REQUEST, (50, 7), (A, 30), NONE);
        all.begin(OTHER, (40, 7), (A, 35), NONE);
        all.instant(REQUEST, (40, 8), 38, NONE);
        let (span, began) = all.end(REQUEST, (40, 7), 40).unwrap();
        assert_eq!((span.start, span.end, began), (10, 40, A));
        all.begin(REQUEST, (40, 9), (A, 50), NONE);
        assert!(all.end(REQUEST, (40, 99), 60).is_none(), "it never began");
        assert_eq!(all.still_open().len(), 4);
        let list = all.finish(3, 90);
        let shape: Vec<_> =
            list.iter().map(|it| (it.thread.0, it.start, it.end, it.depth)).collect();
        let expected = [
            (3, 10, 40, 0),
            (3, 20, 90, 1),
            (3, 30, 90, 2),
            (3, 38, 38, 1),
            (3, 50, 90, 0),
            (4, 35, 90, 0),
        ];
        assert_eq!(shape, expected);
        assert_eq!(list[1].kind, SpanKind::Open);
        assert_eq!(all.left_out, 0);
    }

    #[test]
    fn more_at_once_than_there_are_rows_share_the_last() {
        let mut all = Operations::default();
        for id in 0..MOST_ROWS as u64 + 10 {
            all.begin(REQUEST, (40, id), (A, 10), NONE);
        }
        let list = all.finish(3, 90);
        assert_eq!(list.iter().filter(|span| span.depth == u8::MAX).count(), 11);
        assert_eq!(all.rows[0].len(), MOST_ROWS);
    }

    #[test]
    fn more_names_than_there_is_room_for_are_counted() {
        let mut all = Operations::default();
        for n in 0..MOST_TRACKS as u32 + 5 {
            let track = Track { category: NameIndex(0), name: NameIndex(n) };
            all.begin(track, (1, 1), (A, 1), NONE);
        }
        assert_eq!((all.tracks.len(), all.left_out), (MOST_TRACKS, 5));
    }
}
