//! The reason why the kernel is not recorded.

use std::io;

/// The reason why the kernel is not recorded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub(in crate::control) enum KernelError {
    /// The recorder could not be started.
    #[error("cannot {doing}: {source}")]
    System { doing: &'static str, source: io::Error },
    /// It ended before it recorded.
    #[error("cannot record the kernel: {0}")]
    Refused(String),
    /// It neither records nor exits.
    #[error("the kernel's recorder did not become ready")]
    Silent,
    /// Waiting for it failed.
    #[error("the session was ended before the kernel's recorder was ready")]
    Cancelled,
    /// Its session has been ended.
    #[error("the session was ended before the kernel's recorder wrote a snapshot")]
    Ended,
    #[error("the kernel's recorder could not write a snapshot: {0}")]
    NoSnapshot(String),
}

impl KernelError {
    /// Adds the context of [`KernelError::System`] to an error.
    pub(super) fn while_doing(doing: &'static str) -> impl FnOnce(io::Error) -> KernelError {
        move |source| KernelError::System { doing, source }
    }
}
