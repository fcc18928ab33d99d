//! Many records under one reservation, for a thread that writes them one after
//! the other.
//!
//! A lone record costs two atomic operations that all writers share, more than
//! the rest of its encoding. A [`Batch`] reserves room for many at once, fills it
//! without any, and commits all of them together:
//!
//! ```text
//!  reserved  [ claim .......................................... ]
//!  filled    [ claim |record|record|record| 0 0 0 0 0 0 0 0 0 0 ]
//!  closed    [ record|record|record|record][ given back, or a filler ]
//! ```
//!
//! The first record's header is held back until then, so that the claim in its
//! place keeps covering the whole reservation.
//!
//! It is no [`Lease`](super::Lease) with larger pieces. What a lease pays for is not its size: each
//! record moves the vacant word behind it, is published by its own header, and
//! tells the engine that its thread is at work. With pieces of the size of these
//! chunks (4095 words, a sixteenth of the buffer) a context switch took 20.6 ns in
//! a lease, as with its own pieces (20.9), and 9.1 ns in a batch; on two threads
//! 34.1 and 15.4 (`benches/encode.rs`, interleaved, lower quartiles of 12 runs).

use std::ops::Deref;
use std::sync::Arc;

use super::Engine;
use super::position::Position;
use super::reserve::{Full, Rolling};
use super::slot::{Reservation, filler_word};
use super::sync::Ordering;
use crate::layout::limits::MAX_RECORD_WORDS;
use crate::layout::walk::has_size;
use crate::space::{Slot, Space};

/// Room for a run of records of one thread. When it is used up, it is committed
/// and more is reserved; [`close`](Self::close) and dropping commit it too.
///
/// Records in it are not handed over until then, nor is the rolling buffer they
/// are in. Close it before waiting for anything, in particular before writing to
/// the durable lane of a blocking engine, which may wait for that very buffer;
/// a batch left open for longer than the grace period is given up.
///
/// It borrows its engine ([`Rolling::batch`]) or shares it ([`Batch::shared`]).
#[derive(Debug)]
#[must_use = "records reach the buffer when the batch is closed or dropped"]
pub struct Batch<E: Deref<Target = Engine>> {
    engine: E,
    chunk: Option<Chunk>,
}

/// One reservation and how far it is filled.
#[derive(Debug)]
struct Chunk {
    /// First word in the engine's memory, and the word after the last.
    start: usize,
    end: usize,
    /// The next free word.
    at: usize,
    /// The header of the first record, once that is finished.
    first: Option<u64>,
    counter: usize,
    /// The position right after the reservation.
    after: Position,
}

/// The share of a rolling buffer that a batch takes at a time, if that is not
/// more than a record can be.
const SHARE: usize = if cfg!(loom) { 2 } else { 16 };

impl<'e> Rolling<'e> {
    /// Room for a run of records of this thread, at a fraction of the cost; see
    /// [`Batch`].
    pub const fn batch(&self) -> Batch<&'e Engine> {
        Batch::new(self.engine)
    }
}

impl Batch<Arc<Engine>> {
    /// A batch that keeps its engine alive, for a writer that is not tied to a scope.
    pub const fn shared(engine: Arc<Engine>) -> Self {
        Self::new(engine)
    }
}

impl<E: Deref<Target = Engine>> Batch<E> {
    const fn new(engine: E) -> Self {
        Self { engine, chunk: None }
    }

    /// The engine that the records go into.
    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    /// Commits the records written so far. The next record reserves anew.
    pub fn close(&mut self) {
        if let Some(chunk) = self.chunk.take() {
            self.engine.close_chunk(&chunk);
        }
    }

    /// Closes the chunk, which has no room for `words` words, and reserves
    /// another.
    #[cold]
    #[inline(never)]
    fn renew(&mut self, words: usize) -> Result<(), Full> {
        self.close();
        // Of a small buffer a batch takes a small part, so that little is left
        // over at its end.
        let share = self.engine.division.rolling / SHARE;
        let size = share.min(MAX_RECORD_WORDS).max(words);
        let reservation = self.engine.reserve_rolling(size, true)?;
        let Reservation { start, words, counter, after } = reservation.into_reservation();
        let end = start + words;
        self.chunk = Some(Chunk { start, end, at: start, first: None, counter, after });
        Ok(())
    }
}

impl Chunk {
    #[inline]
    const fn has_room(&self, words: usize) -> bool {
        words <= self.end - self.at
    }
}

impl<E: Deref<Target = Engine>> Space for Batch<E> {
    type Full = Full;
    type Slot<'a>
        = BatchSlot<'a>
    where
        Self: 'a;

    #[inline]
    fn reserve(&mut self, words: usize) -> Result<BatchSlot<'_>, Full> {
        if words == 0 {
            return Err(self.engine.too_large(words, true));
        }
        if !self.chunk.as_ref().is_some_and(|chunk| chunk.has_room(words)) {
            self.renew(words)?;
        }
        match &mut self.chunk {
            Some(chunk) => {
                Ok(BatchSlot { engine: &self.engine, words, put: 1, finished: false, chunk })
            }
            None => unreachable!("a chunk was just reserved"),
        }
    }
}

impl<E: Deref<Target = Engine>> Drop for Batch<E> {
    fn drop(&mut self) {
        self.close();
    }
}

/// Room for one record in a [`Batch`]. Dropping it unfinished leaves the batch
/// as it was, and counts the record as dropped.
#[derive(Debug)]
#[must_use = "dropping a slot unfinished drops the record"]
pub struct BatchSlot<'a> {
    engine: &'a Engine,
    chunk: &'a mut Chunk,
    words: usize,
    /// Words put so far, the header counted.
    put: usize,
    finished: bool,
}

impl BatchSlot<'_> {
    /// Stores word `index` of the record, which must be less than `words`.
    #[inline(always)]
    fn store(&self, index: usize, word: u64) {
        debug_assert!(index < self.words && self.chunk.at + self.words <= self.chunk.end);
        // SAFETY: the chunk has room for `words` words from `at` on, as checked
        // when the slot was made, and lies within the memory.
        let cell = unsafe { self.engine.memory.cell_unchecked(self.chunk.at + index) };
        // Relaxed: published when the chunk is committed.
        cell.store(word, Ordering::Relaxed);
    }
}

impl Slot for BatchSlot<'_> {
    #[inline(always)]
    fn put(&mut self, word: u64) {
        if self.put < self.words {
            self.store(self.put, word);
        }
        self.put += 1;
    }

    #[inline(always)]
    fn finish(mut self, word: u64) {
        if self.put == self.words && has_size(word, self.words) {
            if self.chunk.at == self.chunk.start {
                self.chunk.first = Some(word);
            } else {
                self.store(0, word);
            }
            self.chunk.at += self.words;
            self.finished = true;
        }
    }
}

impl Drop for BatchSlot<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        if !self.finished {
            for index in 1..self.words {
                self.store(index, 0);
            }
            self.engine.header_words().drop_records(1);
        }
    }
}

impl Engine {
    /// Commits what a chunk holds, and gives back what it does not.
    fn close_chunk(&self, chunk: &Chunk) {
        let unused = chunk.end - chunk.at;
        let kept = if unused > 0 && !self.give_back(chunk) {
            if chunk.at > chunk.start {
                // Relaxed: published with the first header below.
                self.memory.cell(chunk.at).store(filler_word(unused), Ordering::Relaxed);
            }
            chunk.end - chunk.start
        } else {
            chunk.at - chunk.start
        };
        if kept > 0 {
            let first = chunk.first.unwrap_or_else(|| filler_word(kept));
            self.commit(chunk.start, kept, first, chunk.counter);
        }
    }

    /// Moves the position back over the unused end of a chunk; not if anything
    /// has been reserved after it, or the buffer has been sealed or stopped.
    fn give_back(&self, chunk: &Chunk) -> bool {
        if chunk.at == chunk.start {
            // Nothing at all was written: the claim must not stay behind either.
            // The word is still ours; should it not be given back, the commit
            // stores a filler there.
            self.memory.cell(chunk.start).store(0, Ordering::Relaxed);
        }
        let back = chunk.after.retreated(chunk.end - chunk.at);
        // AcqRel: the next writer of these words sees them zero; and see
        // `try_reserve`. One attempt: who fails has been overtaken. The wrapped
        // count in the position makes sure that it is the same filling.
        let swap = self.hot.position.compare_exchange(
            chunk.after.0,
            back.0,
            Ordering::AcqRel,
            Ordering::Relaxed,
        );
        swap.is_ok()
    }
}
