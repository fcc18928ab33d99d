//! Room for one record in a rolling buffer.
//!
//! The first word of a reservation always is a header that leads to the next:
//! first that of a filler with the right size, marked as claimed; at the end
//! that of the record, or, when the slot is dropped unfinished, that of an empty
//! filler. So what a dead writer leaves behind can be stepped over, by the
//! engine and by whoever finds the memory after a crash.

use std::fmt;

use super::Engine;
use super::sync::{Ordering, fence};
use crate::layout::{Field, header, record_type, string};
use crate::space::Slot;

/// Bits that a string record leaves zero; all ones mark a claimed reservation.
const CLAIMED: Field = Field::new(48, 63);

/// The first word of a reservation of `words` words that is being filled.
pub(super) fn claim_word(words: usize) -> u64 {
    filler_word(words) | CLAIMED.mask()
}

/// Whether the first word of a reservation is that of [`claim_word`].
pub(super) fn is_claim(word: u64) -> bool {
    string::TYPE.get(word) == record_type::STRING && CLAIMED.get(word) == CLAIMED.max()
}

/// The header of a record that readers skip: a string record for index 0, which
/// they must ignore, with an empty string and `words - 1` words of zeros.
pub(super) fn filler_word(words: usize) -> u64 {
    string::TYPE.put(record_type::STRING) | string::SIZE.put(words as u64)
}

/// Room for one record in a rolling buffer. Finishing commits the record;
/// dropping it unfinished turns the room into an empty string record for index
/// 0, which readers skip, and counts the record as dropped.
#[must_use = "dropping a slot unfinished drops the record"]
pub struct RollingSlot<'e> {
    engine: &'e Engine,
    /// First word in the engine's memory.
    start: usize,
    words: usize,
    /// Words put so far, the header counted.
    at: usize,
    counter: usize,
}

impl fmt::Debug for RollingSlot<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RollingSlot")
            .field("start", &self.start)
            .field("words", &self.words)
            .field("at", &self.at)
            .finish_non_exhaustive()
    }
}

impl<'e> RollingSlot<'e> {
    /// The slot for words `[start, start + words)`, which the caller has just
    /// reserved for itself within a rolling buffer.
    #[inline]
    pub(super) fn claim(engine: &'e Engine, start: usize, words: usize, counter: usize) -> Self {
        let slot = Self { engine, start, words, at: 1, counter };
        slot.store(0, claim_word(words));
        // Whoever sees a word of the record sees the claim too; see
        // `stragglers`. Costs nothing on x86.
        fence(Ordering::Release);
        slot
    }

    /// Stores word `index` of the record, which must be less than `words`.
    #[inline(always)]
    fn store(&self, index: usize, word: u64) {
        debug_assert!(index < self.words);
        // SAFETY: `index < self.words` at every call here (0, or checked against
        // `words`), and the reservation lies within the memory.
        let cell = unsafe { self.engine.memory.cell_unchecked(self.start + index) };
        // Relaxed: published by the commit.
        cell.store(word, Ordering::Relaxed);
    }

    /// Withdraws the record: its room becomes a filler.
    #[cold]
    fn withdraw(&mut self) {
        for index in 1..self.words {
            self.store(index, 0);
        }
        self.engine.header_words().drop_records(1);
        self.commit(filler_word(self.words));
    }

    #[inline]
    fn commit(&mut self, word: u64) {
        // SAFETY: as in `store`; a reservation has at least one word.
        let first = unsafe { self.engine.memory.cell_unchecked(self.start) };
        // Release: whoever sees the header sees the record. The count below says
        // the same to this process; this is for other ones.
        first.store(word, Ordering::Release);
        if self.engine.commits[self.counter].commit(self.words) {
            self.engine.completed();
        }
    }
}

impl Slot for RollingSlot<'_> {
    #[inline(always)]
    fn put(&mut self, word: u64) {
        if self.at < self.words {
            self.store(self.at, word);
        }
        self.at += 1;
    }

    #[inline(always)]
    fn finish(mut self, word: u64) {
        if self.at == self.words && header::SIZE.get(word) == self.words as u64 {
            self.commit(word);
            std::mem::forget(self);
        }
    }
}

impl Drop for RollingSlot<'_> {
    fn drop(&mut self) {
        self.withdraw();
    }
}
