//! The session: starts, stops, rotates and ends it at all providers.

use std::time::Instant;

use fxt_writer::engine::{BufferDisposition, Mode};
use fxt_writer::provider::wire;

use super::super::ahead::MAX_AHEAD_BYTES;
use super::super::command::{ManagerError, Started, Waiting};
use super::super::config::{SessionConfig, StartOptions};
use super::super::follower::Follower;
use super::super::provider::Provider;
use super::super::recording::Phase;
use super::Core;
use fxtrec_units::Nanos;

/// The current session, or the last one.
#[derive(Debug)]
pub(super) struct Session {
    number: wire::Session,
    config: SessionConfig,
    options: StartOptions,
    running: bool,
}

impl Core {
    /// Starts a session; returns until when to wait for providers.
    pub(super) fn start(
        &mut self,
        config: SessionConfig,
        options: StartOptions,
    ) -> Result<Instant, ManagerError> {
        match &self.waiting {
            Some(Waiting::Stop { .. }) => return Err(ManagerError::Stopping),
            Some(Waiting::Start { .. }) => return Err(ManagerError::AlreadyStarted),
            None => {}
        }
        if self.session.as_ref().is_some_and(|session| session.running) {
            return Err(ManagerError::AlreadyStarted);
        }
        self.sessions += 1;
        let Some(number) = wire::Session::new(self.sessions) else {
            return Err(ManagerError::Gone);
        };
        let holds = config.hold || config.mode != Mode::Streaming;
        match options.disposition {
            BufferDisposition::Retain if holds => {}
            BufferDisposition::Retain => self.output.release(),
            _ => self.output.discard(),
        }
        if holds {
            self.output.hold();
        }
        let deadline = Instant::now() + options.timeout;
        self.session = Some(Session { number, config, options, running: true });
        for index in 0..self.providers.len() {
            self.start_one(index);
        }
        Ok(deadline)
    }

    /// Starts a provider that has just registered, or informs it that no session is running.
    pub(super) fn start_or_send_idle(&mut self, index: usize) {
        if !self.start_one(index)
            && let Some(number) = wire::Session::new(self.sessions.max(1))
        {
            self.providers[index].send_idle(number);
        }
    }

    /// Lets a provider record if a running session includes it; returns whether it does.
    fn start_one(&mut self, index: usize) -> bool {
        let Some(session) = self.session.as_ref().filter(|session| session.running) else {
            return false;
        };
        let Session { number, config, options, .. } = session;
        // The previous recording of this provider ends.
        let others = self.providers.iter().enumerate().filter(|(other, _)| *other != index);
        let beyond = others.map(|(_, other)| other.bytes_beyond_the_least()).sum();
        let provider = &mut self.providers[index];
        if !config.includes(provider.uid()) {
            return false;
        }
        let wanted = config.buffer_of(provider.name());
        let granted = config.granted(wanted, beyond);
        let start = wire::Start {
            mode: config.mode,
            // The buffer is always a new one: the content of the last one belongs to the output.
            disposition: BufferDisposition::ClearEntire,
            buffer_bytes: granted as u64,
            process: provider.process(),
            categories: config.categories_of(provider.name(), &options.additional_categories),
        };
        let limits = &self.options.spans;
        let follower =
            (!limits.is_empty()).then(|| Follower::new(limits.clone(), self.spans.clone()));
        provider.start(*number, start, wanted, follower);
        true
    }

    pub(super) fn stop(&mut self, write: bool) -> Result<(), ManagerError> {
        if matches!(self.waiting, Some(Waiting::Stop { .. })) {
            return Err(ManagerError::Stopping);
        }
        let Some(session) = self.session.as_mut().filter(|session| session.running) else {
            return Err(ManagerError::NotStarted);
        };
        session.running = false;
        // The start has timed out for the providers that have not started at this point.
        if let Some(Waiting::Start { reply, .. }) = self.waiting.take() {
            let started = self.in_phase(Phase::Started).count();
            let late = self.in_phase(Phase::Starting).map(|one| one.name().to_owned()).collect();
            let _ = reply.send(Ok(Started { started, late }));
        }
        if !write {
            self.output.hold();
        }
        self.providers.iter_mut().for_each(Provider::stop);
        Ok(())
    }

    /// Continues in another archive.
    pub(super) fn rotate(&mut self, time: Nanos, between: impl FnOnce()) {
        let mut taken: usize = self.providers.iter().map(Provider::ahead_bytes).sum();
        for provider in &mut self.providers {
            taken -= provider.ahead_bytes();
            provider.hand_over(&mut self.output, MAX_AHEAD_BYTES.saturating_sub(taken));
            taken += provider.ahead_bytes();
        }
        let departed = self.departed.iter().map(|one| (one.id, one.name.as_str()));
        let present = self.providers.iter().map(|one| (one.id(), one.name()));
        self.output.rotate(time, between, departed.chain(present));
    }

    /// Ends the session and discards its state.
    pub(super) fn terminate(&mut self) {
        if let Some(waiting) = self.waiting.take() {
            match waiting {
                Waiting::Start { reply, .. } => drop(reply.send(Err(ManagerError::NotStarted))),
                Waiting::Stop { reply, .. } => drop(reply.send(Err(ManagerError::NotStarted))),
            }
        }
        self.providers.iter_mut().for_each(Provider::terminate);
        self.session = None;
        // The next archive has its own statistics.
        self.output.discard();
        self.output.forget_all();
        self.departed.clear();
        self.providers.iter_mut().for_each(Provider::reset_stats);
    }
}
