//! Stopping the engine, saving the remaining data, and restarting.

use super::Engine;
use super::config::Mode;
use super::guard::Guard;
use super::position::{Position, part_of};
use super::state::{Phase, State};
use super::sync::Ordering;
use crate::packet::Packet;

/// What happens to the buffers' content when the engine starts again
/// (`BufferDisposition` of the trace controller).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BufferDisposition {
    /// Everything is discarded, durable data included.
    ClearEntire,
    /// The rolling buffers are discarded; durable data, and so every
    /// registration, is kept.
    ClearNondurable,
    /// Everything is kept, and writing continues after it.
    Retain,
}

/// The reason why the engine cannot start again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// It has not been stopped.
    #[error("the trace engine is running; stop it first")]
    Running,
    /// A view is alive, or a buffer is being released.
    #[error("the buffers are in use; drop all views and let saved() return, then start again")]
    InUse,
    /// A writer has not finished a record that it reserved before the stop.
    #[error("a record reserved before the stop is not finished; call finish(), which waits for it")]
    Unfinished,
    /// Both buffers hold data that must be kept.
    #[error("both buffers wait to be saved; save one, or clear them")]
    NoRoom,
}

impl Engine {
    /// Stops accepting records. Writers that wait for room wake up with an error; records that have been reserved can still be finished.
    pub fn stop(&self) {
        let mut state = self.lock();
        self.stop_locked(&mut state);
    }

    fn stop_locked(&self, state: &mut State) {
        state.running = false;
        // AcqRel: like every move of the position.
        self.hot.position.fetch_or(Position::new(0, 0).closed().0, Ordering::AcqRel);
        self.take_leases_back(state);
        self.wake(state);
    }

    /// Stops, and returns requests for all buffers without one, in the order in
    /// which to save them: at most one in streaming and oneshot mode, up to two
    /// in circular mode. Handle them like the requests that were sent, and after
    /// those. A buffer that is viewed and not yet released is retained.
    ///
    /// Waits for records that have been reserved to be finished, at most for the
    /// grace period.
    #[must_use = "unsaved data is lost"]
    pub fn finish(&self) -> Vec<Packet> {
        let mut state = self.lock();
        self.stop_locked(&mut state);
        let position = self.position();
        if state.parts[position.part()].phase == Phase::Open {
            state.last = Some(position.wrapped());
            self.seal(&mut state, position);
        }
        state = self.wait_until_final(state);
        let last = position.wrapped();
        if self.config.mode == Mode::Streaming {
            return self.last_request(&mut state, last).into_iter().collect();
        }
        let mut requests = Vec::new();
        for wrapped in [last.wrapping_sub(1), last] {
            let part = &state.parts[part_of(wrapped)];
            if part.phase == Phase::Complete && part.wrapped == wrapped {
                requests.push(self.request(&mut state, wrapped));
            }
        }
        state.first = requests.first().map(|request| request.data32);
        requests
    }

    /// Waits until no buffer is sealed and every packet has been sent, so that
    /// the requests that `finish` returns come after.
    fn wait_until_final<'a>(&'a self, mut state: Guard<'a>) -> Guard<'a> {
        loop {
            self.settle(&mut state);
            self.expire_stragglers(&mut state);
            let sealed = state.parts.iter().any(|part| part.phase == Phase::Sealed);
            if !sealed && state.sending == 0 && state.outbox.is_none() {
                return state;
            }
            let timeout = self.until_expiry(&state);
            state = state.wait(timeout);
        }
    }

    /// The request for the last lap, unless there is nothing to save.
    fn last_request(&self, state: &mut State, last: u32) -> Option<Packet> {
        let part = &mut state.parts[part_of(last)];
        if part.phase != Phase::Complete || part.wrapped != last {
            return None;
        }
        if part.end > part.start || state.durable.end > state.durable.announced {
            return Some(self.request(state, last));
        }
        // It will not be released: it is clear already.
        part.phase = Phase::Free;
        None
    }

    /// Takes records again after [`stop`](Self::stop) or
    /// [`finish`](Self::finish). Data that has been saved is discarded, whatever
    /// the disposition.
    ///
    /// # Errors
    ///
    /// Returns an error when the engine is running, the buffers are in use, or there is no room in addition to the data to keep; the engine
    /// stays stopped then.
    pub fn start(&self, disposition: BufferDisposition) -> Result<(), StartError> {
        let mut state = self.lock();
        self.settle(&mut state);
        if state.running {
            return Err(StartError::Running);
        }
        if state.views > 0 || state.parts.iter().any(|part| part.phase == Phase::Clearing) {
            return Err(StartError::InUse);
        }
        if disposition == BufferDisposition::Retain && self.reopen(&mut state) {
            state.running = true;
            return Ok(());
        }
        self.seal_for_start(&mut state)?;
        if disposition != BufferDisposition::Retain {
            for index in [0, 1] {
                if state.parts[index].phase == Phase::Complete {
                    self.clear_part(&mut state, index);
                    self.header_words().rolling_data(index, 0, 0);
                }
            }
        }
        if disposition == BufferDisposition::ClearEntire {
            let durable = &mut state.durable;
            (durable.saved, durable.announced) = (durable.end, durable.end);
            self.header_words().durable_data(durable.saved, durable.end);
        }
        // Oneshot mode has only one buffer; two switches lead back to it.
        let switches = if self.config.mode == Mode::Oneshot { 2 } else { 1 };
        let next = self.position().wrapped().wrapping_add(switches);
        let part = part_of(next);
        if state.parts[part].phase != Phase::Free || !state.usable(part, &self.division) {
            return Err(StartError::NoRoom);
        }
        self.go_on_in(&mut state, next);
        state.running = true;
        Ok(())
    }

    /// Continues where the engine stopped: in a buffer that was only stopped, or in one that was finished, is complete, and for which no
    /// save was requested yet.
    fn reopen(&self, state: &mut State) -> bool {
        let position = self.position();
        let index = position.part();
        let part = &mut state.parts[index];
        let resume = match (part.phase, part.counter) {
            (Phase::Open, Some(_)) => true,
            // In streaming mode, the request to save it may already be in flight.
            (Phase::Complete, Some(counter))
                if self.config.mode != Mode::Streaming && part.wrapped == position.wrapped() =>
            {
                part.phase = Phase::Open;
                self.commits[counter].open(part.end);
                self.header_words().rolling_data(index, part.start, 0);
                true
            }
            _ => false,
        };
        if resume {
            state.last = None;
            self.move_position(Position::new(position.wrapped(), position.offset()));
        }
        resume
    }

    /// Seals a buffer that was stopped and not finished, so that a new one can be
    /// opened.
    fn seal_for_start(&self, state: &mut State) -> Result<(), StartError> {
        let position = self.position();
        if state.parts[position.part()].phase == Phase::Open {
            state.last = Some(position.wrapped());
            self.seal(state, position);
        }
        if state.parts.iter().any(|part| part.phase == Phase::Sealed) {
            return Err(StartError::Unfinished);
        }
        state.last = None;
        Ok(())
    }
}
