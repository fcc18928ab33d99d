//! Errors of a tracing instance.

use std::io;
use std::path::PathBuf;

use super::layout::PageLayoutError;

/// The reason why an instance cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FtraceError {
    /// The instance's directory cannot be created.
    #[error("cannot create the tracing instance {}: {source}", path.display())]
    Create { path: PathBuf, source: io::Error },
    /// One of its settings is refused.
    #[error("cannot write `{value}` to {}: {source}", path.display())]
    Write { path: PathBuf, value: String, source: io::Error },
    /// A file of tracefs cannot be opened or read.
    #[error("cannot read {}: {source}", path.display())]
    Read { path: PathBuf, source: io::Error },
    /// The format of the pages is unknown.
    #[error(transparent)]
    Layout(#[from] PageLayoutError),
}

impl FtraceError {
    /// The kernel's error, if there is one.
    pub fn source_error(&self) -> Option<&io::Error> {
        match self {
            FtraceError::Create { source, .. }
            | FtraceError::Write { source, .. }
            | FtraceError::Read { source, .. } => Some(source),
            FtraceError::Layout(_) => None,
        }
    }

    /// Whether the kernel did not have enough memory.
    pub fn is_out_of_memory(&self) -> bool {
        self.source_error().is_some_and(|error| error.raw_os_error() == Some(libc::ENOMEM))
    }
}
