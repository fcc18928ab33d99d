//! Snapshot: what a circular session holds, while it goes on.

use std::os::fd::OwnedFd;

use super::super::config::bad;
use super::super::descriptor::Descriptor;
use super::super::kernel_recorder::KernelError;
use super::super::machine::{self, Request};
use super::super::output::Output;
use super::super::records;
use super::super::session::WRITING;
use super::super::wire::{BufferingMode, ControllerError};
use super::{Caller, Service};

impl Service {
    /// Snapshot.
    pub(in crate::control) fn snapshot(
        &self,
        caller: &Caller,
        output: OwnedFd,
    ) -> Result<u64, ControllerError> {
        let session = {
            let inner = self.lock();
            let session = inner.controlled_by(caller)?;
            inner.not_aborted()?;
            machine::answer(inner.state, Request::Snapshot)?;
            session
        };
        if session.config.mode != BufferingMode::Circular {
            return Err(bad("buffering_mode", "only of a circular session there are snapshots"));
        }
        let aborted = |reason: String| ControllerError::Aborted { reason };
        let descriptor =
            Descriptor::new(output).map_err(|error| bad("output", error.to_string()))?;
        let output = Output::start(descriptor, self.spool(), false, Box::new(|_| {}))
            .map_err(|error| aborted(error.to_string()))?;
        let kernel = session.kernel_snapshot().map_err(|error| match error {
            KernelError::Ended => ControllerError::Terminating,
            error => aborted(error.to_string()),
        })?;
        let applications = self.manager.snapshot().map_err(|error| aborted(error.to_string()))?;
        output.push(records::head());
        output.push(kernel);
        output.push(applications);
        output.close();
        output.settle(WRITING);
        match output.failure() {
            Some(reason) => Err(bad("output", reason)),
            None => Ok(output.total()),
        }
    }
}
