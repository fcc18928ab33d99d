//! How a full buffer changes hands: switched away from, sealed, complete, sent,
//! saved, cleared.

use std::time::Instant;

use super::Engine;
use super::config::Mode;
use super::position::{Position, part_of};
use super::state::{Phase, State};
use super::sync::Ordering;
use crate::layout::limits::WORD_BYTES;
use crate::packet::Packet;

/// Why a buffer cannot be taken as saved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SaveError {
    /// No buffer waits to be saved under these values: it has been saved
    /// already, or the packet is not one of this engine's.
    #[error("no buffer waits to be saved under wrapped count {wrapped_count}")]
    NotWaiting {
        /// The packet's wrapped count.
        wrapped_count: u32,
    },
    /// The packet tells a durable end that the engine has not reached.
    #[error("durable end {durable_end} is not one that the engine has told")]
    DurableEnd {
        /// The packet's durable end, in bytes.
        durable_end: u64,
    },
    /// A view of the engine's memory is alive; drop it first.
    #[error("a view of the buffer is still alive; drop it before the buffer is given back")]
    InView,
}

impl Engine {
    /// Hands over the current rolling buffer, though it is not full, if it has
    /// data (or there is durable data that no packet has told) and the other one
    /// is free; says whether it did. Streaming mode only. Never waits.
    pub fn flush(&self) -> bool {
        if self.config.mode != Mode::Streaming {
            return false;
        }
        let mut state = self.lock();
        self.expire_stragglers(&mut state);
        let position = self.position();
        let data = position.offset() > state.parts[position.part()].start
            || state.durable.end > state.durable.announced;
        let ready = state.running && data && self.other_is_ready(&state, position);
        if ready {
            self.switch(&mut state, position);
        }
        ready
    }

    /// Takes a buffer back that has been saved (or is not wanted), clears it and
    /// lets writers have it. `packet` is the request or the answer to it: both
    /// carry the same values. In streaming mode the room of the durable data up
    /// to the packet's end is free again too.
    ///
    /// # Errors
    ///
    /// When no buffer waits under these values, or a view is alive.
    pub fn saved(&self, packet: Packet) -> Result<(), SaveError> {
        let part = part_of(packet.data32);
        let mut state = self.lock();
        self.check_waiting(&state, packet)?;
        if state.views > 0 {
            return Err(SaveError::InView);
        }
        if self.config.mode == Mode::Streaming {
            let durable = &mut state.durable;
            durable.saved = durable.saved.max(packet.data64 / WORD_BYTES as u64);
            self.header_words().durable_data(durable.saved, durable.end);
        }
        self.header_words().rolling_cleared(part, self.division.rolling);
        state.parts[part].phase = Phase::Clearing;
        let data = state.parts[part].data();
        // Durable room has come back, whatever becomes of the buffer.
        self.wake(&state);
        drop(state);

        let base = self.division.rolling_base(part);
        for span in data {
            // SAFETY: within the part. Its phase was Complete with no view alive,
            // and is Clearing now: no writer has a reservation in its data (what
            // was given up is in the gaps, not in the data), no view is made, and
            // nobody else clears.
            unsafe { self.memory.clear(base + span.start..base + span.end) };
        }

        let mut state = self.lock();
        state.parts[part].phase = Phase::Free;
        self.header_words().rolling_data(part, 0, 0);
        self.wake(&state);
        Ok(())
    }

    /// Whether `packet` speaks of a buffer that waits to be saved.
    pub(super) fn check_waiting(&self, state: &State, packet: Packet) -> Result<(), SaveError> {
        let part = &state.parts[part_of(packet.data32)];
        if part.phase != Phase::Complete || part.wrapped != packet.data32 {
            return Err(SaveError::NotWaiting { wrapped_count: packet.data32 });
        }
        let words = packet.data64 / WORD_BYTES as u64;
        let whole = words * WORD_BYTES as u64 == packet.data64;
        if !whole || words > state.durable.announced {
            return Err(SaveError::DurableEnd { durable_end: packet.data64 });
        }
        Ok(())
    }

    /// Whether writing can go on in the buffer that `position` is not in.
    pub(super) fn other_is_ready(&self, state: &State, position: Position) -> bool {
        let other = 1 - position.part();
        let free = match state.parts[other].phase {
            Phase::Free => true,
            // What it holds is the oldest there is, and circular mode wants it
            // overwritten.
            Phase::Complete => self.config.mode == Mode::Circular && state.views == 0,
            // Still in use, or in someone's hands.
            Phase::Open | Phase::Sealed | Phase::Clearing => false,
        };
        free && self.config.mode != Mode::Oneshot && state.usable(other, &self.division)
    }

    /// Goes on in the other buffer, which must be ready, and seals this one.
    pub(super) fn switch(&self, state: &mut State, from: Position) {
        let before = self.go_on_in(state, from.wrapped().wrapping_add(1));
        debug_assert_eq!(before.wrapped(), from.wrapped());
        self.seal(state, before);
    }

    /// Has writers go on in the buffer of wrapped count `next`, and tells where
    /// they left the other one.
    pub(super) fn go_on_in(&self, state: &mut State, next: u32) -> Position {
        let start = self.open(state, next);
        let header = self.header_words();
        // Before the position: a record in the new buffer must not be taken for
        // one of the filling before last, by whoever finds the memory.
        header.wrapped(self.config.mode, next);
        // After the count: another process that reads meanwhile finds this buffer
        // without data until it finds the count, too, and so knows that what it
        // copied of the filling before last may be gone.
        header.rolling_data(part_of(next), start, 0);
        self.move_position(Position::new(next, start))
    }

    /// Makes the buffer of wrapped count `next` ready for writers, and tells
    /// where its filling starts; neither header nor position word say so yet.
    fn open(&self, state: &mut State, next: u32) -> usize {
        let index = part_of(next);
        // Soundness of every reservation rests on this.
        let end = self.division.rolling_base(index) + self.division.rolling;
        assert!(end <= self.division.total, "oneshot mode has no second buffer");
        if state.parts[index].phase == Phase::Complete {
            self.clear_part(state, index);
        }
        let counter = state.parts[index].counter.or_else(|| state.spare.pop());
        let part = &mut state.parts[index];
        debug_assert!(part.phase == Phase::Free && counter.is_some());
        let window = part.window(self.division.rolling);
        part.phase = Phase::Open;
        part.wrapped = next;
        (part.start, part.end) = (window.start, window.start);
        part.sealed_at = None;
        part.gaps.clear();
        part.counter = counter;
        if let Some(counter) = counter {
            self.commits[counter].open(window.start);
            self.hot.counter[index].store(counter, Ordering::Relaxed);
        }
        // Relaxed, both: published by the release store of the position.
        self.hot.limit[index].store(window.end, Ordering::Relaxed);
        window.start
    }

    /// Clears a complete buffer that nobody views, under the lock. The header says
    /// that it is being cleared until the caller says what it is now.
    pub(super) fn clear_part(&self, state: &mut State, index: usize) {
        let base = self.division.rolling_base(index);
        self.header_words().rolling_cleared(index, self.division.rolling);
        for span in state.parts[index].data() {
            // SAFETY: within the part, whose phase is Complete with no view alive
            // (the callers make sure); the lock keeps both so. Its data has no
            // writer any more: see `saved`.
            unsafe { self.memory.clear(base + span.start..base + span.end) };
        }
        state.parts[index].phase = Phase::Free;
    }

    /// Moves the position word, and tells where it was at that moment: the end
    /// of the filling that writers leave. Only the holder of the lock changes
    /// the wrapped count, but writers move the offset until the very last.
    pub(super) fn move_position(&self, to: Position) -> Position {
        // AcqRel: what `open` prepared is published; and see `try_reserve`.
        Position(self.hot.position.swap(to.0, Ordering::AcqRel))
    }

    /// Ends the filling that `end` is the end of.
    pub(super) fn seal(&self, state: &mut State, end: Position) {
        let index = end.part();
        // Before the count is sealed: what is taken back does not complete it.
        self.take_leases_back(state);
        let part = &mut state.parts[index];
        part.end = end.offset();
        part.phase = Phase::Sealed;
        part.sealed_at = Some(Instant::now());
        // After the phase: whoever completes the count looks for it.
        let counter = part.counter;
        if counter.is_some_and(|counter| self.commits[counter].seal(end.offset())) {
            self.complete(state, index);
        }
    }

    /// A filling is final: all of it is committed or fenced off.
    pub(super) fn complete(&self, state: &mut State, index: usize) {
        let part = &mut state.parts[index];
        part.phase = Phase::Complete;
        let wrapped = part.wrapped;
        self.header_words().rolling_data(index, part.start, part.end);
        if self.config.mode == Mode::Streaming && state.last != Some(wrapped) {
            state.outbox = Some(self.request(state, wrapped));
        }
        self.wake(state);
    }

    /// The request to save the filling of that wrapped count: it tells all
    /// durable data there is, hence all that its records can need.
    pub(super) fn request(&self, state: &mut State, wrapped: u32) -> Packet {
        state.durable.announced = state.durable.end;
        Packet::save_buffer(wrapped, state.durable.end * WORD_BYTES as u64)
    }

    /// A count has become complete by a commit.
    #[cold]
    pub(super) fn completed(&self) {
        let mut state = self.lock();
        self.settle(&mut state);
    }
}
