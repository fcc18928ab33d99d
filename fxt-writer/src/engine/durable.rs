//! The durable lane: records that must not be lost, because others refer to them.
//!
//! The durable part is a ring. A record is built in separate memory and, when finished, copied into the ring under the lock: such records
//! are few, and no writer can leave a hole in the ring. Its space in the ring is set aside when the record is reserved.
//!
//! If the ring is full in streaming mode, the current rolling buffer is handed over before it is full: the durable records are saved before
//! it, which frees their space. In circular mode, nothing is saved before the end, so the record is rejected and counted; the caller can
//! then write names inline or to the rolling lane.

use std::fmt;

use super::Engine;
use super::config::Full;
use super::config::Mode;
use super::memory::RollingSlot;
use super::reserve::Wait;
use super::sync::Ordering;
use crate::layout::limits::MAX_RECORD_WORDS;
use crate::layout::walk::has_size;
use crate::space::{Slot, Space};

/// The lane for records that others refer to.
#[derive(Clone, Copy, Debug)]
pub struct Durable<'e> {
    engine: &'e Engine,
    counted: bool,
}

impl<'e> Durable<'e> {
    pub(super) const fn new(engine: &'e Engine) -> Self {
        Self { engine, counted: true }
    }

    /// This lane for records that are not essential: without space they do not count as dropped, since their content is then written
    /// inline.
    #[must_use]
    pub const fn uncounted(self) -> Self {
        Self { counted: false, ..self }
    }
}

impl<'e> Space for Durable<'e> {
    type Full = Full;
    type Slot<'a>
        = DurableSlot<'e>
    where
        Self: 'a;

    fn reserve(&mut self, words: usize) -> Result<DurableSlot<'e>, Full> {
        if self.engine.config.mode == Mode::Oneshot {
            let slot = self.engine.reserve_rolling(words, self.counted)?;
            return Ok(DurableSlot { inner: Inner::Rolling(slot) });
        }
        let record = self.engine.promise_durable(words, self.counted)?;
        let staged = Staged { engine: self.engine, record, words, finished: false };
        Ok(DurableSlot { inner: Inner::Staged(staged) })
    }
}

/// Room for one record in the durable part. Dropping it unfinished gives the
/// room back and counts the record as dropped.
#[must_use = "dropping a slot unfinished drops the record"]
#[derive(Debug)]
pub struct DurableSlot<'e> {
    inner: Inner<'e>,
}

#[derive(Debug)]
enum Inner<'e> {
    Staged(Staged<'e>),
    /// Oneshot mode has one buffer for everything.
    Rolling(RollingSlot<'e>),
}

impl Slot for DurableSlot<'_> {
    fn put(&mut self, word: u64) {
        match &mut self.inner {
            Inner::Staged(staged) => staged.record.push(word),
            Inner::Rolling(slot) => slot.put(word),
        }
    }

    fn finish(self, word: u64) {
        match self.inner {
            Inner::Staged(staged) => staged.finish(word),
            Inner::Rolling(slot) => slot.finish(word),
        }
    }
}

/// A record in separate memory, with room reserved for it in the ring.
struct Staged<'e> {
    engine: &'e Engine,
    record: Vec<u64>,
    words: usize,
    finished: bool,
}

impl fmt::Debug for Staged<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Staged").field("words", &self.words).finish_non_exhaustive()
    }
}

impl Staged<'_> {
    fn finish(mut self, word: u64) {
        self.record[0] = word;
        self.finished = self.record.len() == self.words && has_size(word, self.words);
    }
}

impl Drop for Staged<'_> {
    fn drop(&mut self) {
        let record = std::mem::take(&mut self.record);
        self.engine.settle_durable(record, self.words, self.finished);
    }
}

impl Engine {
    /// Sets aside room for `words` words in the ring, and returns separate memory
    /// for them, which has the header's word already.
    fn promise_durable(&self, words: usize, counted: bool) -> Result<Vec<u64>, Full> {
        let capacity = self.division.durable;
        if words == 0 || words > capacity.min(MAX_RECORD_WORDS) {
            if counted {
                self.header_words().drop_records(1);
            }
            return Err(Full::TooLarge { words, max: capacity.min(MAX_RECORD_WORDS) });
        }
        let mut wait = Wait::new(self.config.on_full, counted);
        let mut state = self.lock();
        loop {
            if !state.running {
                return Err(Full::Stopped);
            }
            if words <= state.durable.room(capacity) {
                state.durable.promised += words;
                let mut record = state.durable.scratch.pop().unwrap_or_default();
                drop(state);
                record.clear();
                record.push(0);
                return Ok(record);
            }
            if self.config.mode == Mode::Circular {
                return Err(self.drop_one(counted));
            }
            let position = self.position();
            let unannounced = state.durable.end > state.durable.announced;
            if unannounced && self.other_is_ready(&state, position) {
                self.switch(&mut state, position);
                // Unlocking sends the packet to the saver, before the next check.
                drop(state);
                state = self.lock();
                if words <= state.durable.room(capacity) {
                    continue;
                }
            }
            state = self.wait_or_drop(state, &mut wait)?;
        }
    }

    /// Copies a finished record into the ring, or releases its room.
    fn settle_durable(&self, record: Vec<u64>, words: usize, finished: bool) {
        let capacity = self.division.durable;
        let mut state = self.lock();
        state.durable.promised -= words;
        if finished {
            for (end, word) in (state.durable.end..).zip(&record) {
                let cell = self.memory.cell(self.durable_word(end));
                // Relaxed: published by the lock, and by the header's release
                // store below.
                cell.store(*word, Ordering::Relaxed);
            }
            state.durable.end += words as u64;
            self.header_words().durable_data(state.durable.saved, state.durable.end);
        } else {
            self.header_words().drop_records(1);
        }
        debug_assert!(state.durable.end - state.durable.saved <= capacity as u64);
        if state.durable.scratch.len() < MAX_SCRATCH {
            state.durable.scratch.push(record);
        }
        // There is more to hand over, or reserved room is free again.
        self.wake(&state);
    }

    /// The index in memory of the word that is number `count` since the start.
    pub(super) fn durable_word(&self, count: u64) -> usize {
        let within = count % self.division.durable as u64;
        // It is less than the part's size, so it fits a usize.
        self.division.durable_base() + within as usize
    }
}

/// The number of staging vectors kept for reuse; more records at once allocate.
const MAX_SCRATCH: usize = 8;
