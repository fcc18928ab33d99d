//! The stages of a full buffer: switched away from, sealed, complete, sent,
//! saved, cleared.

use std::time::Instant;

use super::Engine;
use super::config::Mode;
use super::position::{Position, part_of};
use super::state::{Phase, State};
use super::sync::Ordering;
use crate::layout::limits::WORD_BYTES;
use crate::packet::Packet;

/// The reason why a buffer cannot be marked as saved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SaveError {
    /// No buffer with these values waits to be saved: it has been saved already,
    /// or the packet is not from this engine.
    #[error("no buffer waits to be saved under wrapped count {wrapped_count}")]
    NotWaiting {
        /// The packet's wrapped count.
        wrapped_count: u32,
    },
    /// The packet's durable end is beyond the engine's.
    #[error("durable end {durable_end} is not one that the engine has reported")]
    DurableEnd {
        /// The packet's durable end, in bytes.
        durable_end: u64,
    },
    /// A view of the engine's memory is alive; drop it first.
    #[error("a view of the buffer is still alive; drop it before the buffer is given back")]
    InView,
}

impl Engine {
    /// Hands over the current rolling buffer even if it is not full, provided
    /// that it has data (or there is durable data that no packet has covered) and
    /// the other one is free; returns whether it did. Streaming mode only. Never
    /// waits.
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

    /// Bytes of records that are in the engine and have not been saved, including
    /// the room that a batch has reserved.
    #[must_use]
    pub fn unsaved_bytes(&self) -> usize {
        let state = self.lock();
        let position = self.position();
        let rolling = state.parts.iter().map(|part| match part.phase {
            Phase::Open => position.offset().saturating_sub(part.start),
            Phase::Sealed | Phase::Complete => part.end - part.start,
            Phase::Free | Phase::Clearing => 0,
        });
        let durable = (state.durable.end - state.durable.saved) as usize;
        (rolling.sum::<usize>() + durable) * WORD_BYTES
    }

    /// Takes back a buffer that has been saved (or is not wanted), clears it and
    /// makes it available to writers. `packet` is the request or the answer to
    /// it, which carry the same values. In streaming mode, this also frees the
    /// room of the durable data up to the packet's end.
    ///
    /// # Errors
    ///
    /// Returns an error when no buffer with these values waits to be saved, or a view is alive.
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
        // Space for durable data is free again, even if the buffer is not.
        self.wake(&state);
        drop(state);

        let base = self.division.rolling_base(part);
        for span in data {
            // SAFETY: the span is within the part. The part's phase was Complete with no view alive, and is Clearing now: no writer has a
            // reservation in its data (abandoned reservations are in the gaps, not in the data), no view can be created, and no other
            // thread clears it.
            unsafe { self.memory.clear(base + span.start..base + span.end) };
        }

        let mut state = self.lock();
        state.parts[part].phase = Phase::Free;
        self.header_words().rolling_data(part, 0, 0);
        self.wake(&state);
        Ok(())
    }

    /// Whether `packet` is about a buffer that waits to be saved.
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

    /// Whether writing can continue in the buffer that `position` is not in.
    pub(super) fn other_is_ready(&self, state: &State, position: Position) -> bool {
        let other = 1 - position.part();
        let free = match state.parts[other].phase {
            Phase::Free => true,
            // It has the oldest data, which circular mode overwrites.
            Phase::Complete => self.config.mode == Mode::Circular && state.views == 0,
            // Still in use.
            Phase::Open | Phase::Sealed | Phase::Clearing => false,
        };
        free && self.config.mode != Mode::Oneshot && state.usable(other, &self.division)
    }

    /// Switches to the other buffer, which must be ready, and seals this one.
    pub(super) fn switch(&self, state: &mut State, from: Position) {
        let before = self.go_on_in(state, from.wrapped().wrapping_add(1));
        debug_assert_eq!(before.wrapped(), from.wrapped());
        self.seal(state, before);
    }

    /// Moves writers to the buffer with wrapped count `next`, and returns the position in the other buffer at which they stopped.
    pub(super) fn go_on_in(&self, state: &mut State, next: u32) -> Position {
        let start = self.open(state, next);
        let header = self.header_words();
        // This store precedes the position: a program that recovers the memory must not take a record in the new buffer for one of the
        // lap before the previous one.
        header.wrapped(self.config.mode, next);
        // After the count: until a concurrent reader in another process sees the
        // count, it sees this buffer without data, and so knows that its copy of
        // the lap before last may be invalid.
        header.rolling_data(part_of(next), start, 0);
        self.move_position(Position::new(next, start))
    }

    /// Prepares the buffer of wrapped count `next` for writers, and returns the
    /// start of its lap; header and position word are set afterwards.
    fn open(&self, state: &mut State, next: u32) -> usize {
        let index = part_of(next);
        // The soundness of every reservation depends on this.
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

    /// Clears a complete buffer that has no view, under the lock. The header
    /// marks it as being cleared until the caller sets its new state.
    pub(super) fn clear_part(&self, state: &mut State, index: usize) {
        let base = self.division.rolling_base(index);
        self.header_words().rolling_cleared(index, self.division.rolling);
        for span in state.parts[index].data() {
            // SAFETY: the span is within the part, whose phase is Complete with no view alive (the callers ensure this, and the lock
            // preserves it). Its data has no writer any more: see `saved`.
            unsafe { self.memory.clear(base + span.start..base + span.end) };
        }
        state.parts[index].phase = Phase::Free;
    }

    /// Moves the position word and returns its old value: the end of the lap
    /// that writers leave. Only the holder of the lock changes the wrapped count,
    /// but writers move the offset up to that moment.
    pub(super) fn move_position(&self, to: Position) -> Position {
        // AcqRel: what `open` prepared is published; and see `try_reserve`.
        Position(self.hot.position.swap(to.0, Ordering::AcqRel))
    }

    /// Ends the lap at `end`.
    pub(super) fn seal(&self, state: &mut State, end: Position) {
        let index = end.part();
        // Before the count is sealed, so that reclaimed leases do not complete it.
        self.take_leases_back(state);
        let part = &mut state.parts[index];
        part.end = end.offset();
        part.phase = Phase::Sealed;
        part.sealed_at = Some(Instant::now());
        // This follows the change of phase, which the thread that completes the count checks.
        let counter = part.counter;
        if counter.is_some_and(|counter| self.commits[counter].seal(end.offset())) {
            self.complete(state, index);
        }
    }

    /// A lap is final: everything is committed or fenced off.
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

    /// The request to save the lap of that wrapped count. It covers all
    /// durable data so far, and so everything that the lap's records refer
    /// to.
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
