//! StartTracing: first the kernel's recorder, then applications.

use super::super::config::{engine_disposition, select};
use super::super::machine::{self, Request};
use super::super::policy::Granted;
use super::super::session::Session;
use super::super::wire::{self, ControllerError, SessionState};
use super::{Caller, Service, may_choose};
use crate::manager::{ManagerError, StartOptions, Started};
use fxtrec_kernel::stop_token::StopToken;

impl Service {
    pub(in crate::control) fn start_tracing(
        &self,
        caller: &Caller,
        options: wire::StartOptions,
    ) -> Result<wire::Started, ControllerError> {
        let additional = options.additional_categories.unwrap_or_default();
        let more = match additional.is_empty() {
            true => None,
            false => Some(select("additional_categories", &additional)?),
        };
        let (session, granted, cancel) = {
            let mut inner = self.lock();
            let session = inner.controlled_by(caller)?;
            let next = machine::answer(inner.state, Request::Start)?;
            inner.not_aborted()?;
            let granted = match more {
                Some(more) => {
                    let wanted = session.config.selection.clone().with(more);
                    let granted = self.grant(&session.owner, &wanted)?;
                    may_choose(&session.owner, &granted, &session.config)?;
                    granted
                }
                None => session.granted.clone(),
            };
            let cancel = StopToken::new()
                .map_err(|error| ControllerError::Aborted { reason: error.to_string() })?;
            inner.cancel = Some(cancel.clone());
            inner.busy += 1;
            inner.enter(next);
            (session, granted, cancel)
        };
        let disposition = session.disposition(options.buffer_disposition);
        let started = self.record(&session, &granted, disposition, &cancel);

        let mut inner = self.lock();
        inner.busy -= 1;
        let interrupted = !inner.is(&session) || inner.state != SessionState::Starting;
        let answer = match started {
            Ok(started) if !interrupted => {
                inner.enter(SessionState::Started);
                Ok(started)
            }
            Err(reason) if !interrupted => {
                inner.aborted = Some(reason.clone());
                inner.enter(SessionState::Stopped);
                Err(ControllerError::Aborted { reason })
            }
            _ if inner.state == SessionState::Terminating => Err(ControllerError::Terminating),
            // The session was stopped: report everything that had started before that.
            started => inner.not_aborted().map(|()| started.unwrap_or_default()),
        };
        self.settled.notify_all();
        answer.map(|Started { started, late }| wire::Started {
            started: u32::try_from(started).unwrap_or(u32::MAX),
            late,
        })
    }

    /// Starts the recorder of the kernel, and then applications.
    fn record(
        &self,
        session: &Session,
        granted: &Granted,
        disposition: wire::BufferDisposition,
        cancel: &StopToken,
    ) -> Result<Started, String> {
        let folder = &self.private_folder;
        session
            .start_kernel(granted, disposition, &self.launcher, folder, cancel)
            .map_err(|error| error.to_string())?;
        let options = StartOptions {
            disposition: engine_disposition(disposition),
            // These are among the granted categories.
            additional_categories: Vec::new(),
            timeout: session.config.start_timeout,
        };
        let answer = {
            let inner = self.lock();
            if !inner.is(session) || inner.state != SessionState::Starting {
                return Ok(Started::default());
            }
            self.manager.begin_start(session.manager_config(granted), options)
        };
        match answer.and_then(|answer| answer.recv().unwrap_or(Err(ManagerError::Gone))) {
            Ok(started) => Ok(started),
            // It was ended before they had started.
            Err(ManagerError::NotStarted) => Ok(Started::default()),
            Err(error) => {
                session.stop_kernel();
                Err(error.to_string())
            }
        }
    }
}
