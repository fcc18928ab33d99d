//! What is known of a provider, for whoever asks.

use fxt_writer::engine::{Mode, Tally};
use fxt_writer::{Koid, ProviderId};

use fxtrec_units::Nanos;

/// How far a provider is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ProviderState {
    /// It has told its name, and records nothing.
    Registered,
    /// It was told to record, and has not said that it does.
    Starting,
    Started,
    /// It was told to stop, and has not said that it did.
    Stopping,
    Stopped,
    /// It did not keep to the protocol; what came after that is ignored.
    Failed,
    Gone,
}

impl ProviderState {
    /// The word for it.
    pub fn name(self) -> &'static str {
        match self {
            ProviderState::Registered => "registered",
            ProviderState::Starting => "starting",
            ProviderState::Started => "started",
            ProviderState::Stopping => "stopping",
            ProviderState::Stopped => "stopped",
            ProviderState::Failed => "failed",
            ProviderState::Gone => "gone",
        }
    }
}

/// A provider, and what was recorded of it (`ProviderInfo` and `ProviderStats` of the trace controller).
#[derive(Clone, Debug, PartialEq)]
pub struct ProviderStatus {
    /// Its id in the archive.
    pub id: ProviderId,
    pub name: String,
    /// Its process as this pid namespace numbers it.
    pub pid: u32,
    pub uid: u32,
    /// Its process as the trace numbers it.
    pub koid: Koid,
    /// The categories that it is known to have.
    pub categories: Vec<String>,
    pub state: ProviderState,
    pub stats: ProviderStats,
    /// Whether it ended after it was told to record, and before it did: what it would have recorded by then is missing.
    pub missed_start: bool,
    /// What it did against the protocol, when it did something.
    pub fault: Option<String>,
}

/// What was recorded of a provider, over all sessions of the manager.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ProviderStats {
    /// The buffering mode of the last session, when there was one.
    pub mode: Option<Mode>,
    /// Records found in the buffers; those that were never finished or refused are counted beside them.
    pub tally: Tally,
    /// Records that the provider dropped, as it says.
    pub dropped: u64,
    pub buffers: u64,
    /// Bytes of durable records: strings, threads, names.
    pub durable_bytes: u64,
    /// Bytes of all other records.
    pub rolling_bytes: u64,
    /// The largest part of the durable buffer that was in use when something was saved, from 0 to 1.
    pub durable_used: f64,
    pub alerts: u64,
    /// How much smaller its buffer was than what was asked for, in bytes: all buffers have a budget together.
    pub buffer_short: u64,
    /// Categories that are not listed, since those of all providers take too much.
    pub categories_left_out: u64,
}

/// Connections that were not let in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Refusals {
    /// There were as many providers as there can be.
    pub too_many: u64,
    /// Their user had as many as one may have where everybody is let in.
    pub too_many_of_one_user: u64,
    /// They were of a user who may not.
    pub foreign_user: u64,
    /// Their process is in a pid namespace that cannot be seen from here.
    pub invisible: u64,
    /// They did not register, or not as the protocol wants.
    pub unregistered: u64,
}

impl Refusals {
    pub fn total(&self) -> u64 {
        let for_want_of_room = self.too_many + self.too_many_of_one_user;
        for_want_of_room + self.foreign_user + self.invisible + self.unregistered
    }
}

/// Something that a provider says has happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Alert {
    /// Its name, 1 to 14 bytes.
    pub name: String,
    /// The provider's id in the archive.
    pub provider: ProviderId,
    /// What the provider calls itself; it may have ended already.
    pub provider_name: String,
    /// Its process as this pid namespace numbers it.
    pub pid: u32,
    /// When the manager heard of it.
    pub time: Nanos,
    pub uid: u32,
}
