//! Sorts records by time, since the records of each CPU are written together.
//!
//! perf reads the CPUs' buffers in rounds, and marks the end of each round. A round may contain records that are older than some of the
//! previous round, but none that is older than the records of the round before that:
//!
//! ```text
//!   round 1   |<-------->|                              nothing is ready: round 2 may bring something older
//!   round 2        |<--------->|                        all up to the newest of round 1 is ready
//!   round 3                 |<--------->|               all up to the newest of round 2 is ready
//! ```

use std::collections::VecDeque;

/// A record that can be sorted.
pub(super) trait Timed {
    /// The time of the record; records without a time come first.
    fn time(&self) -> Option<u64>;
    /// The size of the record in memory.
    fn bytes(&self) -> usize;
}

/// Records that wait to be sorted.
#[derive(Debug)]
pub(super) struct Rounds<T> {
    waiting: Vec<T>,
    waiting_bytes: usize,
    most_bytes: usize,
    ready: VecDeque<T>,
    /// The newest time up to this round, and up to the previous round.
    newest: Option<u64>,
    newest_before: Option<u64>,
    /// The number of rounds that were ended because they were too large.
    pub(super) split: u64,
}

impl<T: Timed> Rounds<T> {
    /// Keeps at most about `most_bytes` in memory.
    pub(super) fn new(most_bytes: usize) -> Rounds<T> {
        let (waiting, ready) = (Vec::new(), VecDeque::new());
        let (newest, newest_before) = (None, None);
        Rounds { waiting, waiting_bytes: 0, most_bytes, ready, newest, newest_before, split: 0 }
    }

    /// The next record in order, if it is certain which record that is.
    pub(super) fn next(&mut self) -> Option<T> {
        self.ready.pop_front()
    }

    pub(super) fn add(&mut self, record: T) {
        self.waiting_bytes += record.bytes();
        self.newest = self.newest.max(record.time());
        self.waiting.push(record);
        if self.waiting_bytes > self.most_bytes {
            self.split += 1;
            self.end();
        }
    }

    /// The end of a round.
    pub(super) fn end_round(&mut self) {
        self.release(self.newest_before);
        self.newest_before = self.newest;
    }

    /// The end of the file: all records are ready.
    pub(super) fn end(&mut self) {
        self.release(self.newest);
        self.newest_before = self.newest;
    }

    fn release(&mut self, up_to: Option<u64>) {
        // Stable: records with equal times keep the order of the file.
        self.waiting.sort_by_key(Timed::time);
        let count = self.waiting.partition_point(|record| record.time() <= up_to);
        let released = self.waiting.drain(..count);
        self.ready.extend(released.inspect(|record| self.waiting_bytes -= record.bytes()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Timed for (Option<u64>, char) {
        fn time(&self) -> Option<u64> {
            self.0
        }

        fn bytes(&self) -> usize {
            1
        }
    }

    fn ready(rounds: &mut Rounds<(Option<u64>, char)>) -> String {
        std::iter::from_fn(|| rounds.next()).map(|(_, name)| name).collect()
    }

    fn add(rounds: &mut Rounds<(Option<u64>, char)>, records: &[(u64, char)]) {
        records.iter().for_each(|(time, name)| rounds.add((Some(*time), *name)));
    }

    #[test]
    fn rounds_are_ordered_as_in_the_picture() {
        let mut rounds = Rounds::new(100);
        rounds.add((None, '-'));
        add(&mut rounds, &[(30, 'c'), (10, 'a')]);
        rounds.end_round();
        assert_eq!(ready(&mut rounds), "-", "the second round may bring something older");
        add(&mut rounds, &[(20, 'b'), (50, 'e'), (30, 'd')]);
        rounds.end_round();
        assert_eq!(ready(&mut rounds), "abcd");
        add(&mut rounds, &[(70, 'g'), (60, 'f')]);
        rounds.end_round();
        assert_eq!(ready(&mut rounds), "e");
        rounds.end();
        assert_eq!((ready(&mut rounds).as_str(), rounds.split), ("fg", 0));
    }

    #[test]
    fn a_round_that_is_too_large_is_split() {
        let mut rounds = Rounds::new(3);
        add(&mut rounds, &[(4, 'd'), (3, 'c'), (2, 'b')]);
        assert_eq!(ready(&mut rounds), "");
        add(&mut rounds, &[(5, 'e')]);
        assert_eq!((ready(&mut rounds).as_str(), rounds.split), ("bcde", 1));
        add(&mut rounds, &[(1, 'a')]);
        rounds.end();
        assert_eq!(ready(&mut rounds), "a", "late, and not lost");
    }
}
