//! A lease: a thread's own piece of the rolling buffer, which the engine can take back at any time. The thread writes many records at the
//! cost of one reservation, and each record is visible at once.
//!
//! ```text
//!  reserved  [ vacant 8 .......................... ]
//!  1 record  [ header 2 .. | vacant 6 ............ ]
//!  writing   [ header 2 .. | claim 6 ............. ]
//!  2 records [ header 2 .. | header 3 .. | vacant 3 ]
//! ```
//!
//! At any time, every first word leads to the next, so recovery finds all records except the one that was being written. A thread that
//! holds a [`Batch`](super::Batch) must close it before it does anything else. The engine closes a lease itself when it hands the buffer
//! over, even if the thread sleeps:
//!
//! ```text
//!  the thread, with each record          the engine, under its lock
//!    busy = true                           wanted = true
//!    light fence                           heavy fence
//!    wanted? then it is taken back         busy? then the thread is left to take it back itself
//!    write, advance                        else it is taken back here
//!    busy = false
//!    light fence
//!    wanted? then take it back
//! ```
//!
//! The fences ensure that at least one of the two sees the store of the other. To take a lease back, the engine turns the vacant space into
//! a filler and commits the whole piece; this happens once, under the lock.

mod piece;

use std::cell::Cell;
use std::sync::Arc;

use super::Engine;
use super::barrier;
use super::config::{Full, Mode};
use super::guard::Guard;
use super::held::Held;
use super::memory::{Reservation, filler_word, vacant_word};
use super::state::State;
use super::sync::Ordering;
use crate::error::WriteError;
use crate::record::Record;
use piece::{NoPiece, Piece};

/// Words in a thread's first piece, which it gets with its second record. Each piece is twice as large as the previous one.
const FIRST: usize = if cfg!(loom) { 5 } else { 64 };
/// Words in the largest piece.
const LARGEST: usize = if cfg!(loom) { 5 } else { 512 };
/// The largest share of a rolling buffer for one piece: with many threads, much
/// of the pieces is vacant when the buffer is full.
const SHARE: usize = if cfg!(loom) { 2 } else { 64 };

/// A thread's own piece of the rolling buffer. There is no piece before the second record, in buffers of less than 32 KiB, in oneshot mode,
/// and on kernels without the support that taking back requires ([`Engine::lend`]); each record is then reserved separately.
///
/// As on the [rolling lane](super::Rolling), each record is whole or counted as dropped. Records are
/// handed over with their buffer, even if their thread has been idle for long.
///
/// It belongs to one thread and is not `Sync`.
#[derive(Debug)]
pub struct Lease {
    engine: Arc<Engine>,
    held: Arc<Held>,
    /// Words of the next piece; 0 before the first record.
    next: Cell<usize>,
}

impl Engine {
    /// Lets threads hold [leases](Lease). False if the kernel does not support that, and in oneshot mode: there, durable records are in the
    /// same buffer, after records that refer to them in pieces that were reserved earlier. May take a few milliseconds in a process of many
    /// threads.
    pub fn lend(&self) -> bool {
        let ready = self.config.mode != Mode::Oneshot && barrier::ready();
        self.hot.lends.store(ready, Ordering::Relaxed);
        ready
    }

    /// A lease for the calling thread, which has no space yet.
    #[must_use]
    pub fn lease(self: &Arc<Self>) -> Lease {
        let held = Arc::new(Held::new());
        Lease { engine: Arc::clone(self), held, next: Cell::new(0) }
    }

    /// Reclaims all leases except those whose threads are writing a record:
    /// these threads do it themselves afterwards.
    pub(super) fn take_leases_back(&self, state: &mut State) {
        let mut leases = std::mem::take(&mut state.leases);
        let open = leases.iter().filter(|held| held.is_open());
        let asked = open.map(|held| held.wanted.store(true, Ordering::Relaxed)).count();
        // If the kernel refuses the fence, the threads execute both fences.
        if asked > 0 && barrier::heavy() {
            for held in leases.iter().filter(|held| held.is_open()) {
                // Acquire: the thread's stores precede the commit.
                if !held.busy.load(Ordering::Acquire) {
                    self.close_lease(state, held);
                }
            }
        }
        // Drops leases that no thread holds any more.
        leases.retain(|held| held.is_open() || Arc::strong_count(held) > 1);
        state.leases = leases;
    }

    /// Commits a lease whose thread is not writing a record, or is the caller.
    fn close_lease(&self, state: &mut State, held: &Held) {
        held.wanted.store(true, Ordering::Relaxed);
        held.closed.store(true, Ordering::Relaxed);
        let [start, at, end] =
            [&held.start, &held.at, &held.end].map(|it| it.load(Ordering::Relaxed));
        if at < end {
            // Relaxed: published by the commit.
            self.memory.cell(at).store(filler_word(end - at), Ordering::Relaxed);
        }
        let words = end - start;
        let counter = held.counter.load(Ordering::Relaxed);
        if self.commits[counter].commit(words) {
            self.settle(state);
        }
    }

    /// The lease that holds the vacant word at `at`, unless it was reclaimed: its thread may be starting a record there.
    pub(super) fn lease_at<'s>(&self, state: &'s State, at: usize) -> Option<&'s Held> {
        let mut open = state.leases.iter().filter(|held| held.is_open());
        let holds = |held: &&Arc<Held>| {
            let (start, end) = (&held.start, &held.end);
            (start.load(Ordering::Relaxed)..end.load(Ordering::Relaxed)).contains(&at)
        };
        open.find(holds).map(|held| &**held)
    }
}

impl Lease {
    /// The engine that the records are written to.
    #[inline]
    #[must_use]
    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    /// Writes a record of this thread to the rolling lane.
    ///
    /// # Errors
    ///
    /// Returns an error when the format cannot express the record, or the engine has no room for it; a record without room is dropped and
    /// counted.
    #[inline(always)]
    pub fn write(&self, record: &impl Record) -> Result<(), WriteError<Full>> {
        self.write_counted(record, true)
    }

    /// The same as [`write`](Self::write), for a record that the caller keeps if there is
    /// no room and writes again later: it does not count as dropped.
    ///
    /// # Errors
    ///
    /// As for [`write`](Self::write).
    #[inline(always)]
    pub fn write_uncounted(&self, record: &impl Record) -> Result<(), WriteError<Full>> {
        self.write_counted(record, false)
    }

    #[inline(always)]
    fn write_counted(&self, record: &impl Record, counted: bool) -> Result<(), WriteError<Full>> {
        match record.write(&mut Piece(self)) {
            Ok(()) => Ok(()),
            Err(WriteError::Encode(error)) => Err(error.into()),
            Err(WriteError::Full(NoPiece)) => self.write_elsewhere(record, counted),
        }
    }

    /// Writes a record in a new piece, or separately. A signal handler that interrupts a record reaches this code too; only in that case
    /// may its record precede the interrupted one.
    #[cold]
    #[inline(never)]
    fn write_elsewhere(&self, record: &impl Record, counted: bool) -> Result<(), WriteError<Full>> {
        if self.renew(record.words()?).is_some() && record.write(&mut Piece(self)).is_ok() {
            return Ok(());
        }
        // Later records must follow a record that was reserved separately.
        if let Some((at, room)) = self.enter(1) {
            self.engine.memory.cell(at).store(filler_word(room), Ordering::Release);
            self.held.at.store(at + room, Ordering::Relaxed);
            self.leave(&self.held, usize::MAX);
        }
        let rolling = self.engine.rolling();
        record.write(&mut if counted { rolling } else { rolling.uncounted() })
    }

    /// Ends the lease, for a thread that ends; vacant room stays empty. Otherwise, the engine does that when it hands the buffer over.
    pub fn give_back(&self) {
        if self.held.is_open() {
            let mut state = self.engine.lock();
            self.close(&mut state, usize::MAX);
        }
    }

    /// Room for a record of `words` words in the piece, if there is a piece and
    /// room in it; the thread is busy then.
    #[inline(always)]
    fn enter(&self, words: usize) -> Option<(usize, usize)> {
        let held = &*self.held;
        // A signal handler that interrupted a record must not use the lease.
        if held.busy.load(Ordering::Relaxed) {
            return None;
        }
        held.busy.store(true, Ordering::Relaxed);
        barrier::light();
        let at = held.at.load(Ordering::Relaxed);
        let room = held.end.load(Ordering::Relaxed).wrapping_sub(at);
        if !held.wanted.load(Ordering::Relaxed) && words.wrapping_sub(1) < room {
            return Some((at, room));
        }
        self.leave(held, usize::MAX);
        None
    }

    /// The thread has finished writing a record; `record` is where its last record began, if there was one.
    #[inline(always)]
    fn leave(&self, held: &Held, record: usize) {
        // Release: the thread that reclaims the room sees the record in it.
        held.busy.store(false, Ordering::Release);
        barrier::light();
        if held.wanted.load(Ordering::Relaxed) {
            self.taken_back(record);
        }
    }

    #[cold]
    #[inline(never)]
    fn taken_back(&self, record: usize) {
        // Relaxed: only this thread opens it, so at worst it sees the closing late.
        if record != usize::MAX || self.held.is_open() {
            let mut state = self.engine.lock();
            self.close(&mut state, record);
        }
    }

    /// Commits the piece, unless the engine has done so, and counts the record that began at `record` if it came too late. The thread must
    /// not be writing a record.
    fn close(&self, state: &mut Guard<'_>, record: usize) {
        let missed = self.held.missed.swap(usize::MAX, Ordering::Relaxed);
        if record != usize::MAX && record >= missed {
            self.engine.count_dropped(1);
        }
        if self.held.is_open() {
            self.engine.close_lease(state, &self.held);
        }
    }

    /// Gets a new piece, if that can have room for a record of `words` words.
    fn renew(&self, words: usize) -> Option<()> {
        let engine = &*self.engine;
        let held = &*self.held;
        let most = LARGEST.min(engine.division.rolling / SHARE);
        if !engine.hot.lends.load(Ordering::Relaxed) || most < FIRST {
            return None;
        }
        let size = self.next.get();
        if size == 0 {
            // The first record is reserved separately: the thread may never write another one.
            self.next.set(FIRST);
        }
        let is_full = engine.hot.full_at.load(Ordering::Relaxed) == engine.position().0;
        if words > size || is_full || held.busy.load(Ordering::Relaxed) {
            return None;
        }
        // Another thread may hold the lock for a while: then this record is reserved separately.
        let mut state = engine.try_lock()?;
        self.close(&mut state, usize::MAX);
        if !state.running {
            return None;
        }
        let slot = engine.try_reserve(size).ok()?;
        self.next.set((size * 2).min(most));
        let Reservation { start, words: size, counter, .. } = slot.into_reservation();
        // Replaces the claim: no record is being written here.
        engine.memory.cell(start).store(vacant_word(size), Ordering::Release);
        held.at.store(start, Ordering::Relaxed);
        held.start.store(start, Ordering::Relaxed);
        held.end.store(start + size, Ordering::Relaxed);
        held.counter.store(counter, Ordering::Relaxed);
        held.closed.store(false, Ordering::Relaxed);
        // For a signal handler, which must see a complete piece.
        barrier::light();
        held.wanted.store(false, Ordering::Relaxed);
        if !state.leases.iter().any(|other| Arc::ptr_eq(other, &self.held)) {
            state.leases.push(Arc::clone(&self.held));
        }
        Some(())
    }
}
