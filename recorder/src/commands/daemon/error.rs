//! The reason why the daemon failed.

use std::io;
use std::path::PathBuf;

use super::alerts::AlertsError;
use super::metrics::MetricsError;
use crate::control::policy::PolicyError;

/// The reason why the daemon failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DaemonError {
    /// It records for other users, so it needs the rights to record everything.
    #[error(
        "fxtrec daemon records for other users and needs root: use sudo fxtrec daemon, or systemctl start fxtrec"
    )]
    NotRoot,
    /// The policy file cannot be trusted or is invalid.
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
        /// Its process id, from the lock file.
        pid: String,
    },
    /// There is no such group.
    #[error("--group {0}: unknown group")]
    NoGroup(String),
    /// A socket was passed that cannot be used.
    #[error(
        "cannot use the passed socket '{name}': {source}; see fxtrec.socket and fxtrec-providers.socket"
    )]
    PassedSocket {
        name: &'static str,
        /// The error of the socket.
        source: io::Error,
    },
    /// A socket was passed under an unknown name.
    #[error(
        "unknown passed socket '{0}': FileDescriptorName= must be control or providers, as in fxtrec.socket"
    )]
    UnknownSocket(String),
    /// An operation on a file failed.
    #[error("cannot {doing} {}: {source}", .path.display())]
    File { doing: &'static str, path: PathBuf, source: io::Error },
    #[error("cannot {doing}: {source}")]
    System { doing: &'static str, source: io::Error },
}

impl DaemonError {
    /// Adds the context of [`DaemonError::System`] to an error.
    pub(super) fn while_doing(doing: &'static str) -> impl FnOnce(io::Error) -> DaemonError {
        move |source| DaemonError::System { doing, source }
    }
}
