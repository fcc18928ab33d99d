//! Snapshot: writes the current content of a running circular session.

use super::super::config::bad;
use super::super::kernel_recorder::KernelError;
use super::super::machine::{self, Request};
use super::super::output::Output;
use super::super::records;
use super::super::session::WRITING;
use super::super::wire::{BufferingMode, ControllerError};
use super::{Caller, PassedOutput, Service};

impl Service {
    pub(in crate::control) fn snapshot(
        &self,
        caller: &Caller,
        output: PassedOutput,
        fired: bool,
    ) -> Result<u64, ControllerError> {
        let session = {
            let inner = self.lock();
            let session = inner.controlled_by(caller)?;
            inner.not_aborted()?;
            machine::answer(inner.state, Request::Snapshot)?;
            session
        };
        if session.config.mode != BufferingMode::Circular {
            return Err(bad("buffering_mode", "snapshots need a circular session"));
        }
        let aborted = |reason: String| ControllerError::Aborted { reason };
        let (writer, destination) = output.open()?;
        let output = Output::start(writer, destination, self.spool(), false, Box::new(|_| {}))
            .map_err(|error| aborted(error.to_string()))?;
        let kernel = session.kernel_snapshot(fired).map_err(|error| match error {
            KernelError::Ended => ControllerError::Terminating,
            error => aborted(error.to_string()),
        })?;
        let applications = self.manager.snapshot().map_err(|error| aborted(error.to_string()))?;
        output.push(records::head());
        output.push(kernel);
        output.push(applications);
        output.close();
        let incomplete = output.settle(WRITING);
        match output.failure().or(incomplete) {
            Some(reason) => Err(bad("output", reason)),
            None => Ok(output.total()),
        }
    }
}
