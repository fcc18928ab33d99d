//! Space for one record in the piece that a thread holds: first claimed, then filled, and completed by the header, after the vacant space
//! behind it has been marked.

use super::Lease;
use crate::engine::held::Held;
use crate::engine::memory::{claim_word, vacant_word};
use crate::engine::sync::{AtomicU64, Ordering, fence};
use crate::layout::walk::has_size;
use crate::space::{Slot, Space};

/// A lease's piece, from the current position on.
pub(super) struct Piece<'l>(pub(super) &'l Lease);

impl<'l> Space for Piece<'l> {
    type Full = NoPiece;
    type Slot<'a>
        = PieceSlot<'l>
    where
        Self: 'a;

    #[inline(always)]
    fn reserve(&mut self, words: usize) -> Result<PieceSlot<'l>, NoPiece> {
        let lease = self.0;
        let (start, room) = lease.enter(words).ok_or(NoPiece)?;
        let slot = PieceSlot { lease, held: &lease.held, start, room, words, put: 1 };
        slot.store(0, claim_word(room));
        // As for a single reservation: a thread that sees a word of the record sees the claim.
        fence(Ordering::Release);
        if words < room {
            slot.store_in_room(words, vacant_word(room - words));
        }
        Ok(slot)
    }
}

/// There is no piece, or not enough room in it.
#[derive(Clone, Copy, Debug)]
pub(super) struct NoPiece;

/// Room for one record in a piece. Dropping it unfinished leaves the lease as it
/// was, and counts the record as dropped.
pub(super) struct PieceSlot<'l> {
    lease: &'l Lease,
    held: &'l Held,
    /// First word in the engine's memory, words of vacant room from there on, and
    /// words of the record.
    start: usize,
    room: usize,
    words: usize,
    /// Words written so far, including the header.
    put: usize,
}

impl PieceSlot<'_> {
    /// Stores word `index` of the record, which must be less than `words`.
    #[inline(always)]
    fn store(&self, index: usize, word: u64) {
        debug_assert!(index < self.words);
        self.store_in_room(index, word);
    }

    /// Stores word `index` of the room, which must be less than `room`.
    #[inline(always)]
    fn store_in_room(&self, index: usize, word: u64) {
        // Relaxed: published by the first word.
        self.cell(index).store(word, Ordering::Relaxed);
    }

    #[inline(always)]
    fn cell(&self, index: usize) -> &AtomicU64 {
        debug_assert!(index < self.room);
        // SAFETY: every index here is less than `room` (0, or checked against
        // `words`, which is no more). The room is the rest of a piece that was reserved, so it is within the memory.
        unsafe { self.lease.engine.memory.cell_unchecked(self.start + index) }
    }

    /// Withdraws the record.
    #[cold]
    fn withdraw(&self) {
        // The words that were written, and the vacant word after them.
        (1..self.room.min(self.words + 1)).for_each(|index| self.store_in_room(index, 0));
        // Under the lock, so that it is counted once: here, or as a claim when
        // its writer was abandoned.
        let engine = &*self.lease.engine;
        let state = engine.lock();
        if !state.lost.contains(&self.held.counter.load(Ordering::Relaxed)) {
            self.cell(0).store(vacant_word(self.room), Ordering::Release);
            engine.count_dropped(1);
        }
        drop(state);
        self.lease.leave(self.held, usize::MAX);
    }
}

impl Slot for PieceSlot<'_> {
    #[inline(always)]
    fn put(&mut self, word: u64) {
        if self.put < self.words {
            self.store(self.put, word);
        }
        self.put += 1;
    }

    #[inline(always)]
    fn finish(self, word: u64) {
        if self.put == self.words && has_size(word, self.words) {
            // Release: a thread that sees the header sees the record.
            self.cell(0).store(word, Ordering::Release);
            let (lease, held, start, words) = (self.lease, self.held, self.start, self.words);
            std::mem::forget(self);
            held.at.store(start + words, Ordering::Relaxed);
            lease.leave(held, start);
        }
    }
}

impl Drop for PieceSlot<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        self.withdraw();
    }
}
