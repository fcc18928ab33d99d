//! Counts the committed words of one lap (one use of a rolling buffer, from open to handed over), and informs exactly one thread when the
//! lap is complete.
//!
//! One atomic word holds the number of committed words and, once the buffer is sealed, the end that they must reach. Committing and sealing
//! are single additions; the addition that makes the two halves equal completes the buffer.

use super::sync::{AtomicU64, Ordering};
use crate::layout::Field;

/// Words committed, counted from where the lap began in the buffer.
const COMMITTED: Field = Field::new(0, 31);
/// The end of the sealed lap plus one; zero while it is open.
const SEALED_END: Field = Field::new(32, 63);

/// The count, on separate cache lines, since every commit writes it.
#[derive(Debug)]
#[repr(align(128))]
pub(super) struct Commits(AtomicU64);

impl Commits {
    pub(super) fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    /// Begins a lap at word `start` of the buffer.
    ///
    /// No thread adds to the count in the meantime: the previous lap is complete, and writers see the new one only afterwards, through
    /// the position word.
    pub(super) fn open(&self, start: usize) {
        // Relaxed: published by the release store of the position word.
        self.0.store(COMMITTED.put(start as u64), Ordering::Relaxed);
    }

    /// Adds `words` committed words; true if that completes the lap.
    #[inline]
    pub(super) fn commit(&self, words: usize) -> bool {
        // Release: the thread that completes the lap sees this record's
        // words. Acquire: if this thread completes the lap, it sees the words of all other threads.
        let before = self.0.fetch_add(COMMITTED.put(words as u64), Ordering::AcqRel);
        is_complete(before + COMMITTED.put(words as u64))
    }

    /// Sets the end of the lap to word `end` of the buffer; returns true if everything is already committed.
    pub(super) fn seal(&self, end: usize) -> bool {
        let sealed = SEALED_END.put(end as u64 + 1);
        // Acquire: if everything is committed, this thread sees all of it.
        let before = self.0.fetch_add(sealed, Ordering::AcqRel);
        is_complete(before + sealed)
    }

    /// Whether the lap is sealed and all of it committed.
    pub(super) fn complete(&self) -> bool {
        is_complete(self.0.load(Ordering::Acquire))
    }
}

fn is_complete(count: u64) -> bool {
    // While unsealed, the end is 0 and never equal: 0 - 1 wraps to a value that
    // 32 bits cannot hold.
    COMMITTED.get(count) == SEALED_END.get(count).wrapping_sub(1)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn an_unsealed_filling_is_never_complete() {
        let commits = Commits::new();
        commits.open(0);
        assert!(!commits.complete());
        assert!(!commits.commit(5));
        assert!(!commits.complete());
    }

    #[test]
    fn the_last_commit_after_sealing_completes() {
        let commits = Commits::new();
        commits.open(10);
        assert!(!commits.commit(5));
        assert!(!commits.seal(18));
        assert!(commits.commit(3));
        assert!(commits.complete());
    }

    #[test]
    fn sealing_what_is_all_committed_completes() {
        let commits = Commits::new();
        commits.open(0);
        assert!(!commits.commit(5));
        assert!(commits.seal(5));
    }

    #[test]
    fn sealing_an_empty_filling_completes() {
        let commits = Commits::new();
        commits.open(7);
        assert!(commits.seal(7));
    }
}
