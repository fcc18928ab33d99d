//! StopTracing and TerminateTracing, and whatever else ends a session.

use std::sync::{Arc, MutexGuard};
use std::time::Duration;

use super::super::machine::{self, Request};
use super::super::session::{ClientId, Session};
use super::super::wire::{self, ControllerError, SessionState};
use super::{Caller, Inner, Service};
use crate::manager::Stopped;

/// How long providers may take to hand over the rest.
const STOP_TIMEOUT: Duration = Duration::from_secs(2);

impl Service {
    pub(in crate::control) fn stop_tracing(
        &self,
        caller: &Caller,
        options: wire::StopOptions,
    ) -> Result<wire::Stopped, ControllerError> {
        let session = {
            let mut inner = self.lock();
            let session = inner.controlled_by(caller)?;
            inner.not_aborted()?;
            let next = machine::answer(inner.state, Request::Stop)?;
            inner.begin_stop(next);
            session
        };
        let write = options.write_results.unwrap_or(false);
        let (stopped, written) = self.stop(&session, write);
        let mut inner = self.lock();
        let incomplete = written.unwrap_or_else(|reason| {
            if inner.is(&session) {
                inner.aborted.get_or_insert(reason.clone());
            }
            Some(reason)
        });
        let answer = match inner.is(&session) {
            true => inner.not_aborted(),
            false => Ok(()),
        };
        self.end_stop(inner, &session);
        let provider_stats = session.stats(&stopped.providers);
        answer.map(|()| wire::Stopped { provider_stats, incomplete })
    }

    /// Stops applications, then the kernel's recorder, so that the last events of applications are within the kernel's recording.
    fn stop(&self, session: &Session, write: bool) -> (Stopped, Result<Option<String>, String>) {
        // This notifies the thread that is starting the session, which then ends soon.
        let stopped = self.manager.stop(write, STOP_TIMEOUT).unwrap_or_default();
        drop(self.wait_until_busy_are(1));
        session.stop_kernel();
        (stopped, session.write(write))
    }

    fn end_stop(&self, mut inner: MutexGuard<'_, Inner>, session: &Session) {
        inner.busy -= 1;
        if inner.is(session) && inner.state == SessionState::Stopping {
            inner.enter(SessionState::Stopped);
        }
        self.settled.notify_all();
    }

    /// Stops a session that cannot continue.
    pub(super) fn abort(&self, number: u64, reason: String) {
        let session = {
            let mut inner = self.lock();
            let Some(session) = inner.session.clone().filter(|now| now.number == number) else {
                return;
            };
            inner.aborted.get_or_insert(reason);
            let Ok(next) = machine::answer(inner.state, Request::Stop) else { return };
            inner.begin_stop(next);
            session
        };
        // The recorded data cannot be written.
        let _ = self.stop(&session, false);
        self.end_stop(self.lock(), &session);
    }

    pub(in crate::control) fn terminate_tracing(
        &self,
        caller: &Caller,
    ) -> Result<wire::Ended, ControllerError> {
        let session = {
            let mut inner = self.lock();
            let session = inner.controlled_by(caller)?;
            let next = machine::answer(inner.state, Request::Terminate)?;
            inner.interrupt(next);
            session
        };
        Ok(wire::Ended { incomplete: self.end(&session) })
    }

    /// Ends a session whose state is `terminating` already; returns why the trace is incomplete, if it is.
    fn end(&self, session: &Session) -> Option<String> {
        // This notifies the thread that is starting or stopping the session, which then ends soon.
        let _ = self.manager.terminate();
        drop(self.wait_until_busy_are(0));
        let incomplete = session.end();
        self.set_archive(None);
        let mut inner = self.lock();
        inner.session = None;
        inner.aborted = None;
        inner.watchers.forget_alerts();
        inner.enter(SessionState::Ready);
        incomplete
    }

    /// Called when a connection is closed: ends its session, unless that is detached.
    pub(in crate::control) fn client_gone(&self, client: ClientId) {
        let session = {
            let mut inner = self.lock();
            let ours =
                |session: &&Arc<Session>| session.client == client && !session.config.detached;
            let Some(session) = inner.session.as_ref().filter(ours).cloned() else { return };
            let Ok(next) = machine::answer(inner.state, Request::Terminate) else { return };
            inner.interrupt(next);
            session
        };
        self.end(&session);
    }

    /// Stops the session, if there is one, writes its results, and ends it.
    pub fn shut_down(&self) {
        if let Some(session) = self.take_over(Request::Stop) {
            // A failure can no longer be reported.
            let _ = self.stop(&session, true);
            self.end_stop(self.lock(), &session);
        }
        drop(self.wait_until_busy_are(0));
        if let Some(session) = self.take_over(Request::Terminate) {
            self.end(&session);
        }
    }

    /// Passes this request to the session, if there is one; `None` if it is refused.
    fn take_over(&self, request: Request) -> Option<Arc<Session>> {
        let mut inner = self.lock();
        let session = inner.session.clone()?;
        let next = machine::answer(inner.state, request).ok()?;
        match request {
            Request::Stop => inner.begin_stop(next),
            _ => inner.interrupt(next),
        }
        Some(session)
    }
}
