//! Room for one record in a rolling buffer.
//!
//! The first word of a reservation always is a header that leads to the next:
//! first that of a filler with the right size, marked as claimed; at the end
//! that of the record, or, when the slot is dropped unfinished, that of an empty
//! filler. So what a dead writer leaves behind can be stepped over, by the
//! engine and by whoever finds the memory after a crash.

use std::fmt;

use super::Engine;
use super::position::Position;
use super::sync::{Ordering, fence};
use crate::layout::walk::has_size;
use crate::layout::{Field, record_type, string};
use crate::space::Slot;

/// Bits that a string record leaves zero; all ones mark a claimed reservation, a
/// single one room that is not needed yet.
const CLAIMED: Field = Field::new(48, 63);
const VACANT: u64 = 1;

/// The first word of a reservation of `words` words that is being filled.
pub(super) fn claim_word(words: usize) -> u64 {
    filler_word(words) | CLAIMED.mask()
}

/// Whether the first word of a reservation is that of [`claim_word`].
pub(super) fn is_claim(word: u64) -> bool {
    string::TYPE.get(word) == record_type::STRING && CLAIMED.get(word) == CLAIMED.max()
}

/// The first word of `words` reserved words that hold nothing, and wait for more
/// records of the same thread.
pub(super) fn vacant_word(words: usize) -> u64 {
    filler_word(words) | CLAIMED.put(VACANT)
}

/// Whether the first word of a reservation is that of [`vacant_word`].
pub(super) fn is_vacant(word: u64) -> bool {
    string::TYPE.get(word) == record_type::STRING
        && string::INDEX.get(word) == 0
        && CLAIMED.get(word) == VACANT
}

/// Whether the first word of a record is that of [`filler_word`].
pub(super) fn is_filler(word: u64) -> bool {
    word == filler_word(string::SIZE.get(word) as usize)
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
    /// The position right after the reservation.
    after: Position,
}

/// A reservation without its slot: whoever takes it has to commit it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reservation {
    /// First word in the engine's memory.
    pub(super) start: usize,
    pub(super) words: usize,
    pub(super) counter: usize,
    /// The position right after the reservation.
    pub(super) after: Position,
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
    pub(super) fn claim(engine: &'e Engine, reservation: Reservation) -> Self {
        let Reservation { start, words, counter, after } = reservation;
        let slot = Self { engine, start, words, at: 1, counter, after };
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
        let filler = filler_word(self.words);
        self.engine.count_withdrawn(self.start, filler, self.counter);
        self.engine.commit(self.start, self.words, filler, self.counter);
    }

    /// Leaves the reservation to be committed by the caller.
    #[inline]
    pub(super) fn into_reservation(self) -> Reservation {
        let Self { start, words, counter, after, .. } = self;
        std::mem::forget(self);
        Reservation { start, words, counter, after }
    }
}

impl Engine {
    /// Commits the reservation of `words` words at `start` by its first word.
    #[inline]
    pub(super) fn commit(&self, start: usize, words: usize, first: u64, counter: usize) {
        // Release: whoever sees the header sees the record. The count says the
        // same to this process; this is for other ones.
        self.memory.cell(start).store(first, Ordering::Release);
        if self.commits[counter].commit(words) {
            self.completed();
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
    fn finish(self, word: u64) {
        let engine = self.engine;
        if self.at == self.words && has_size(word, self.words) {
            let Reservation { start, words, counter, .. } = self.into_reservation();
            engine.commit(start, words, word, counter);
        }
    }
}

impl Drop for RollingSlot<'_> {
    fn drop(&mut self) {
        self.withdraw();
    }
}
