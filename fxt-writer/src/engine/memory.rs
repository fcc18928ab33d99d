//! The engine's memory, and the room in it that a writer fills: a [slot](RollingSlot)
//! for one record, or a [batch](Batch) for many.
//!
//! The memory is a span of words that writers store to atomically and that is
//! lent out as bytes once it is final. It is either allocated here or a mapping
//! of the caller's, for instance one shared with another process. Nothing depends
//! on the page size.
//!
//! The first word of a reservation is always a header that leads to the next one: first the header of a filler of the right size, marked as
//! claimed; finally the header of the record or, if the slot is dropped unfinished, of an empty filler. So the engine, or recovery after a
//! crash, can step over the remains of a dead writer.
//!
//! A single record costs two atomic operations on words that all writers share, which is more than the rest of its encoding costs. A batch
//! is for a thread that writes many records in a row. It reserves space for many records at once, fills it without atomic operations on
//! shared words, and commits all of them together:
//!
//! ```text
//!  reserved  [ claim .......................................... ]
//!  filled    [ claim |record|record|record| 0 0 0 0 0 0 0 0 0 0 ]
//!  closed    [ record|record|record|record][ given back, or a filler ]
//! ```
//!
//! The first record's header is written only then, so that the claim in its place covers the whole reservation until the commit.
//!
//! A batch is not just a [`Lease`](super::Lease) with larger pieces. The cost of a lease does not depend on the size of its pieces: each
//! record moves the vacant word behind it, is published by its own header, and marks its thread as busy for the engine. With pieces of the
//! size of these chunks (4095 words, a sixteenth of the buffer) a context switch took 20.6 ns in a lease, as with its own pieces (20.9),
//! and 9.1 ns in a batch; on two threads 34.1 and 15.4 (`benches/encode.rs`, interleaved, lower quartiles of 12 runs).

use std::fmt;
use std::ops::{Deref, Range};
use std::sync::Arc;

use super::Engine;
use super::config::Full;
use super::position::Position;
use super::sync::{AtomicU64, Ordering, fence};
use crate::layout::limits::{MAX_RECORD_WORDS, WORD_BYTES};
use crate::layout::walk::has_size;
use crate::layout::{Field, record_type, string};
use crate::space::{Slot, Space};

/// Keeps a caller's mapping alive for as long as the engine uses it.
pub(super) type Keep = Box<dyn Send + Sync>;

/// A span of words.
pub(super) struct Memory {
    #[cfg(not(loom))]
    base: std::ptr::NonNull<u64>,
    #[cfg(loom)]
    cells: Vec<AtomicU64>,
    words: usize,
    /// The caller's mapping; if `None`, the words were allocated here.
    #[cfg_attr(loom, allow(dead_code))]
    keep: Option<Keep>,
}

impl fmt::Debug for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Memory")
            .field("words", &self.words)
            .field("external", &self.keep.is_some())
            .finish_non_exhaustive()
    }
}

#[cfg(not(loom))]
mod native {
    use super::{AtomicU64, Keep, Memory, Range, WORD_BYTES};
    use std::ptr::NonNull;

    // SAFETY: `base` points to memory that this value owns, alone or through
    // `keep`, which is itself Send. All concurrent access goes through atomics or
    // through the contracts of `bytes` and `clear`.
    unsafe impl Send for Memory {}
    // SAFETY: as for Send; `&Memory` gives atomics, and plain references only by
    // unsafe functions whose callers exclude concurrent writes.
    unsafe impl Sync for Memory {}

    impl Memory {
        /// Allocates `words` words of zeros; untouched ones take no memory.
        pub(in super::super) fn allocate(words: usize) -> Self {
            let owned: Box<[u64]> = vec![0; words].into_boxed_slice();
            let base = NonNull::from(Box::leak(owned)).cast();
            Self { base, words, keep: None }
        }

        /// Uses a mapping of the caller.
        ///
        /// # Safety
        ///
        /// `base` must be aligned to 8 bytes and valid for reads and writes of `words` words until `keep` is dropped. During that time,
        /// nothing else in this process may access it.
        pub(in super::super) unsafe fn external(
            base: NonNull<u64>,
            words: usize,
            keep: Keep,
        ) -> Self {
            Self { base, words, keep: Some(keep) }
        }

        /// The word at `index`, which must be within the memory.
        #[inline(always)]
        pub(in super::super) fn cell(&self, index: usize) -> &AtomicU64 {
            assert!(index < self.words);
            // SAFETY: the index was just checked.
            unsafe { self.cell_unchecked(index) }
        }

        /// The word at `index`, without a bounds check: a record of 6 words would execute 6 compares and branches to check facts that its
        /// reservation already established.
        ///
        /// # Safety
        ///
        /// `index` must be less than the memory's words.
        #[inline(always)]
        pub(in super::super) unsafe fn cell_unchecked(&self, index: usize) -> &AtomicU64 {
            debug_assert!(index < self.words);
            // SAFETY: the caller keeps `index` within the memory, which is valid and
            // aligned for the life of `self` (see `allocate` and `external`). Plain
            // accesses to the same word are excluded by the contracts of `bytes` and
            // `clear`.
            unsafe { AtomicU64::from_ptr(self.base.as_ptr().add(index)) }
        }

        /// The bytes of `range`.
        ///
        /// # Safety
        ///
        /// `range` must lie within the memory, and no thread may store to its words while the slice lives.
        pub(in super::super) unsafe fn bytes(&self, range: Range<usize>) -> &[u8] {
            debug_assert!(range.start <= range.end && range.end <= self.words);
            // SAFETY: the caller guarantees that the range is within the memory and has no writers; any bytes are valid u8.
            unsafe {
                std::slice::from_raw_parts(
                    self.base.as_ptr().add(range.start).cast::<u8>(),
                    range.len() * WORD_BYTES,
                )
            }
        }

        /// Zeroes the words of `range`, at the speed of memset.
        ///
        /// # Safety
        ///
        /// `range` must lie within the memory, and no other thread may access its words during the call.
        pub(in super::super) unsafe fn clear(&self, range: Range<usize>) {
            debug_assert!(range.start <= range.end && range.end <= self.words);
            // SAFETY: the caller guarantees that the range is within the memory and exclusively ours.
            unsafe { self.base.as_ptr().add(range.start).write_bytes(0, range.len()) }
        }
    }

    impl Drop for Memory {
        fn drop(&mut self) {
            if self.keep.is_none() {
                let owned = std::ptr::slice_from_raw_parts_mut(self.base.as_ptr(), self.words);
                // SAFETY: without `keep` the words come from the box that
                // `allocate` leaked, with this very length.
                drop(unsafe { Box::from_raw(owned) });
            }
        }
    }
}

/// Memory made of loom's atomics, so that the model sees every access. A relaxed load there yields any value that the memory model allows,
/// so a missing happens-before shows up as a wrong word.
#[cfg(loom)]
impl Memory {
    pub(super) fn allocate(words: usize) -> Self {
        Self { cells: (0..words).map(|_| AtomicU64::new(0)).collect(), words, keep: None }
    }

    pub(super) fn cell(&self, index: usize) -> &AtomicU64 {
        &self.cells[index]
    }

    pub(super) unsafe fn cell_unchecked(&self, index: usize) -> &AtomicU64 {
        self.cell(index)
    }

    pub(super) fn copy(&self, range: Range<usize>) -> Vec<u8> {
        let words = range.map(|index| self.cell(index).load(Ordering::Relaxed));
        words.flat_map(u64::to_ne_bytes).collect()
    }

    pub(super) unsafe fn clear(&self, range: Range<usize>) {
        for index in range {
            self.cell(index).store(0, Ordering::Relaxed);
        }
    }
}

const _: () = assert!(WORD_BYTES == size_of::<u64>());

/// Bits that a string record leaves zero; all ones mark a claimed reservation, a single one marks space that is not needed yet.
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

/// The first word of `words` reserved words that are empty and kept for more
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
    /// Words written so far, including the header.
    at: usize,
    counter: usize,
    /// The position right after the reservation.
    after: Position,
}

/// A reservation without its slot; its owner must commit it.
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
    /// reserved within a rolling buffer.
    #[inline]
    pub(super) fn claim(engine: &'e Engine, reservation: Reservation) -> Self {
        let Reservation { start, words, counter, after } = reservation;
        let slot = Self { engine, start, words, at: 1, counter, after };
        slot.store(0, claim_word(words));
        // A thread that sees a word of the record also sees the claim; see
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
        // Release: a reader that sees the header sees the record. Within this process the count ensures this; the store is for other
        // processes.
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

/// Room for a sequence of records of one thread. When it is used up, it is committed
/// and more is reserved; [`close`](Self::close) and dropping commit it, too.
///
/// Until then, neither its records nor the rolling buffer that they are in are
/// handed over. Close it before waiting for anything, in particular before
/// writing to the durable lane of a blocking engine, which may wait for that
/// buffer; a batch left open for longer than the grace period is abandoned.
///
/// It borrows its engine ([`Rolling::batch`](super::Rolling::batch)) or shares it ([`Batch::shared`]).
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

/// The share of a rolling buffer that a batch reserves at a time, but at most the
/// size of the largest record.
const SHARE: usize = if cfg!(loom) { 2 } else { 16 };

impl Batch<Arc<Engine>> {
    /// A batch that keeps its engine alive, for a writer without a scope of its own.
    pub const fn shared(engine: Arc<Engine>) -> Self {
        Self::new(engine)
    }
}

impl<E: Deref<Target = Engine>> Batch<E> {
    pub(super) const fn new(engine: E) -> Self {
        Self { engine, chunk: None }
    }

    /// The engine that the records go into.
    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    /// Commits the records written so far. The next record makes a new reservation.
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
        // In a small buffer a batch reserves a small part, so that little is left
        // over at the end.
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

    #[inline(always)]
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
    /// Words written so far, including the header.
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
    /// Commits the used part of a chunk, and releases the rest.
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

    /// Moves the position back over the unused end of a chunk, unless something
    /// has been reserved after it, or the buffer has been sealed or stopped.
    fn give_back(&self, chunk: &Chunk) -> bool {
        if chunk.at == chunk.start {
            // Nothing was written: the claim must not remain either. The word still belongs to us;
            // if the slot is not given back, the commit stores a filler there.
            self.memory.cell(chunk.start).store(0, Ordering::Relaxed);
        }
        let back = chunk.after.retreated(chunk.end - chunk.at);
        // AcqRel: the next writer of these words sees them zero; and see
        // `try_reserve`. One attempt: if it fails, another writer has reserved
        // since. The wrapped count in the position ensures that it is the same
        // lap.
        let swap = self.hot.position.compare_exchange(
            chunk.after.0,
            back.0,
            Ordering::AcqRel,
            Ordering::Relaxed,
        );
        swap.is_ok()
    }
}
