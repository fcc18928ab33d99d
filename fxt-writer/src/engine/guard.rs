//! The engine's lock. A packet that is created while the lock is held is sent after the lock is released, so that the receiver may call the
//! engine at once.

use std::ops::{Deref, DerefMut};
use std::time::Duration;

use super::Engine;
use super::state::State;
use super::sync::{self, MutexGuard};
use crate::packet::Packet;

/// The locked state.
pub(super) struct Guard<'a> {
    engine: &'a Engine,
    state: Option<MutexGuard<'a, State>>,
}

impl Engine {
    pub(super) fn lock(&self) -> Guard<'_> {
        Guard { engine: self, state: Some(sync::lock(&self.state)) }
    }

    /// The same as [`lock`](Self::lock), but returns `None` instead of waiting.
    pub(super) fn try_lock(&self) -> Option<Guard<'_>> {
        Some(Guard { engine: self, state: Some(sync::try_lock(&self.state)?) })
    }

    /// Wakes all threads that wait for a change, if there are any; without the
    /// check, every durable record would cost a system call.
    pub(super) fn wake(&self, state: &State) {
        // Writers that drop instead of waiting must check again, too.
        self.is_not_full();
        if state.waiting > 0 {
            self.changed.notify_all();
        }
    }

    /// Sends a packet and counts it as sent, even if the callback panics.
    fn send(&self, packet: Packet) {
        struct Sent<'a>(&'a Engine);
        impl Drop for Sent<'_> {
            fn drop(&mut self) {
                let mut state = sync::lock(&self.0.state);
                state.sending -= 1;
                self.0.wake(&state);
            }
        }
        let sent = Sent(self);
        (self.notify)(packet);
        drop(sent);
    }
}

impl<'a> Guard<'a> {
    /// Releases the lock and waits until something changes or `timeout` passes.
    /// May return early.
    pub(super) fn wait(mut self, timeout: Option<Duration>) -> Guard<'a> {
        let engine = self.engine;
        if self.outbox.is_some() {
            // The awaited change may depend on this packet: send the packet first and let the caller check again.
            drop(self);
            return engine.lock();
        }
        let state = self.state.take().map(|mut state| {
            state.waiting += 1;
            let mut state = sync::wait(&engine.changed, state, timeout);
            state.waiting -= 1;
            state
        });
        Guard { engine, state }
    }
}

impl Drop for Guard<'_> {
    fn drop(&mut self) {
        let Some(mut state) = self.state.take() else { return };
        let packet = state.outbox.take();
        state.sending += usize::from(packet.is_some());
        drop(state);
        if let Some(packet) = packet {
            self.engine.send(packet);
        }
    }
}

impl Deref for Guard<'_> {
    type Target = State;

    fn deref(&self) -> &State {
        match &self.state {
            Some(state) => state,
            None => unreachable!("the lock is held until wait() or drop() take it"),
        }
    }
}

impl DerefMut for Guard<'_> {
    fn deref_mut(&mut self) -> &mut State {
        match &mut self.state {
            Some(state) => state,
            None => unreachable!("the lock is held until wait() or drop() take it"),
        }
    }
}
