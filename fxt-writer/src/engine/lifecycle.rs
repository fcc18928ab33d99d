//! Stopping, and getting at what is left.

use super::Engine;
use super::config::Mode;
use super::guard::Guard;
use super::position::{Position, part_of};
use super::state::{Phase, State};
use super::sync::Ordering;
use crate::packet::Packet;

impl Engine {
    /// Takes no more records. Writers that wait for room are woken and told so;
    /// records that have been reserved can still be finished.
    pub fn stop(&self) {
        let mut state = self.lock();
        self.stop_locked(&mut state);
    }

    fn stop_locked(&self, state: &mut State) {
        state.running = false;
        // AcqRel: as any other move of the position.
        self.hot.position.fetch_or(Position::new(0, 0).closed().0, Ordering::AcqRel);
        self.wake(state);
    }

    /// Stops, and makes requests for all that no request has been sent for, in
    /// the order in which to save it: at most one in streaming and oneshot mode,
    /// up to two in circular mode. They are to be treated like, and after, those
    /// that were sent.
    ///
    /// Waits for records that have been reserved to be finished, at most for the
    /// grace period.
    #[must_use = "what is not saved is lost"]
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
        match self.config.mode {
            Mode::Streaming => self.last_request(&mut state, last).into_iter().collect(),
            Mode::Circular | Mode::Oneshot => {
                let older = last.wrapping_sub(1);
                let mut requests = Vec::new();
                for wrapped in [older, last] {
                    let part = &state.parts[part_of(wrapped)];
                    if part.phase == Phase::Complete && part.wrapped == wrapped {
                        requests.push(self.request(&mut state, wrapped));
                    }
                }
                requests
            }
        }
    }

    /// Waits until no buffer is sealed any more and every packet is with whoever
    /// saves, so that what `finish` returns comes after.
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

    /// The request for the last filling, unless there is nothing to save.
    fn last_request(&self, state: &mut State, last: u32) -> Option<Packet> {
        let index = part_of(last);
        let part = &mut state.parts[index];
        if part.phase != Phase::Complete || part.wrapped != last {
            return None;
        }
        if part.end > part.start || state.durable.end > state.durable.announced {
            return Some(self.request(state, last));
        }
        part.phase = Phase::Free;
        None
    }
}
