//! Why the daemon does not run.

use std::io;
use std::path::PathBuf;

use super::alerts::AlertsError;
use super::metrics::MetricsError;
use crate::control::policy::PolicyError;

/// Why the daemon does not run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DaemonError {
    /// It records for others, and so must be permitted to record everything.
    #[error(
        "fxtrec daemon records for other users and needs root: use sudo fxtrec daemon, or systemctl start fxtrec"
    )]
    NotRoot,
    /// The policy is not to be relied on.
    #[error(transparent)]
    Policy(#[from] PolicyError),
    #[error(transparent)]
    Metrics(#[from] MetricsError),
    #[error(transparent)]
    Alerts(#[from] AlertsError),
    #[error(
        "a daemon already runs in {} (pid {pid}): stop it, or use another --runtime-dir",
        .folder.display()
    )]
    Running {
        folder: PathBuf,
        /// Its process, as it wrote it down.
        pid: String,
    },
    /// There is no such group.
    #[error("--group {0}: unknown group")]
    NoGroup(String),
    /// A socket was passed that is of no use.
    #[error(
        "cannot use the passed socket '{name}': {source}; see fxtrec.socket and fxtrec-providers.socket"
    )]
    PassedSocket {
        name: &'static str,
        /// What is wrong with it.
        source: io::Error,
    },
    /// A socket was passed that nobody knows what for.
    #[error(
        "unknown passed socket '{0}': FileDescriptorName= must be control or providers, as in fxtrec.socket"
    )]
    UnknownSocket(String),
    /// Something about a file.
    #[error("cannot {doing} {}: {source}", .path.display())]
    File { doing: &'static str, path: PathBuf, source: io::Error },
    #[error("cannot {doing}: {source}")]
    System { doing: &'static str, source: io::Error },
}

impl DaemonError {
    /// What [`DaemonError::System`] wants to know beside the error.
    pub(super) fn while_doing(doing: &'static str) -> impl FnOnce(io::Error) -> DaemonError {
        move |source| DaemonError::System { doing, source }
    }
}
