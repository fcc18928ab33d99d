//! Requests to the manager's thread, and its answers.

use std::collections::BTreeMap;
use std::fmt;
use std::time::{Duration, Instant};

use crossbeam_channel::Sender;

use super::config::{SessionConfig, StartOptions};
use super::output::{LeftOut, Section};
use super::status::{ProviderStatus, Refusals};
use fxtrec_units::Nanos;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Started {
    pub started: usize,
    /// The providers that did not report it in time, by name. The providers may still do so.
    pub late: Vec<String>,
}

/// The result of a session.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Stopped {
    /// All providers that recorded something or violated the protocol.
    pub providers: Vec<ProviderStatus>,
    /// The names of providers that did not answer in time. Their committed records were saved nevertheless.
    pub silent: Vec<String>,
    /// Rejected connections.
    pub refusals: Refusals,
    /// Pieces that were dropped before they could be written, because there were too many.
    pub forgotten: u64,
    /// The data that is missing in later archives because of memory limits.
    pub left_out: LeftOut,
}

/// The reason why a session cannot be started or stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ManagerError {
    #[error("providers are already being recorded; stop that session first")]
    AlreadyStarted,
    /// The session is being stopped.
    #[error("the recording of providers is being stopped; wait until it ends")]
    Stopping,
    /// There is nothing to stop.
    #[error("providers are not being recorded")]
    NotStarted,
    /// The manager's thread has ended.
    #[error("the provider manager's thread has exited")]
    Gone,
}

/// A callback that runs between one archive and the next.
pub(super) struct Between(pub(super) Box<dyn FnOnce() + Send>);

impl fmt::Debug for Between {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Between").finish_non_exhaustive()
    }
}

/// A request with the channel for its answer.
#[derive(Debug)]
pub(super) enum Command {
    Start(Box<(SessionConfig, StartOptions)>, Sender<Result<Started, ManagerError>>),
    Stop { write: bool, timeout: Duration, reply: Sender<Result<Stopped, ManagerError>> },
    Terminate(Sender<()>),
    Providers(Sender<Vec<ProviderStatus>>),
    Refusals(Sender<Refusals>),
    TurnedAway(Sender<BTreeMap<u32, u64>>),
    Sections(Sender<Vec<Section>>),
    Settle(Sender<()>),
    Rotate { time: Nanos, between: Between },
    End,
}

/// An answer that waits for providers.
#[derive(Debug)]
pub(super) enum Waiting {
    /// Until all providers record.
    Start { deadline: Instant, reply: Sender<Result<Started, ManagerError>> },
    /// Until all providers have stopped.
    Stop { write: bool, deadline: Instant, reply: Sender<Result<Stopped, ManagerError>> },
}

impl Waiting {
    pub(super) fn deadline(&self) -> Instant {
        match self {
            Waiting::Start { deadline, .. } | Waiting::Stop { deadline, .. } => *deadline,
        }
    }
}
