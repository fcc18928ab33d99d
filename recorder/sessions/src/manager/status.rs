//! The known facts about a provider, for status queries.

use fxt_writer::engine::{Mode, Tally};
use fxt_writer::{Koid, ProviderId};

use fxtrec_units::Nanos;

/// The state of a provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ProviderState {
    /// It has registered and records nothing.
    Registered,
    /// It was sent START and has not confirmed it.
    Starting,
    Started,
    /// It was sent STOP and has not confirmed it.
    Stopping,
    Stopped,
    /// It violated the protocol; all further data from it is ignored.
    Failed,
    Gone,
}

impl ProviderState {
    /// Its name.
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

/// A provider and its statistics (`ProviderInfo` and `ProviderStats` of the trace controller).
#[derive(Clone, Debug, PartialEq)]
pub struct ProviderStatus {
    /// Its id in the archive.
    pub id: ProviderId,
    pub name: String,
    /// The id of its process in this PID namespace.
    pub pid: u32,
    pub uid: u32,
    /// The koid of its process in the trace.
    pub koid: Koid,
    /// Its known categories.
    pub categories: Vec<String>,
    pub state: ProviderState,
    pub stats: ProviderStats,
    /// Whether it ended between START and its confirmation, so that its records of that time are missing.
    pub missed_start: bool,
    /// Its violation of the protocol, if any.
    pub fault: Option<String>,
}

/// The recorded data of a provider, over all sessions of the manager.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ProviderStats {
    /// The buffering mode of the last session, if there was one.
    pub mode: Option<Mode>,
    /// Records found in the buffers; unfinished and rejected ones are counted separately.
    pub tally: Tally,
    /// Records that the provider dropped, by its own count.
    pub dropped: u64,
    pub buffers: u64,
    /// The size of durable records (strings, threads, names) in bytes.
    pub durable_bytes: u64,
    /// The size of all other records in bytes.
    pub rolling_bytes: u64,
    /// The maximum use of the durable part at any save, from 0 to 1.
    pub durable_used: f64,
    pub alerts: u64,
    /// How much smaller its buffer was than requested, in bytes: all buffers share a budget.
    pub buffer_short: u64,
    /// Categories that are not listed because the categories of all providers use too much memory.
    pub categories_left_out: u64,
}

/// Rejected connections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Refusals {
    /// The maximum number of providers was reached.
    pub too_many: u64,
    /// Their user's limit was reached.
    pub too_many_of_one_user: u64,
    /// Their user is not allowed.
    pub foreign_user: u64,
    /// Their process is in a PID namespace that is not visible from here.
    pub invisible: u64,
    /// They did not register, or violated the protocol.
    pub unregistered: u64,
}

impl Refusals {
    pub fn total(&self) -> u64 {
        let for_want_of_room = self.too_many + self.too_many_of_one_user;
        for_want_of_room + self.foreign_user + self.invisible + self.unregistered
    }
}

/// An event reported by a provider.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Alert {
    /// Its name, 1 to 14 bytes.
    pub name: String,
    /// The provider's id in the archive.
    pub provider: ProviderId,
    /// The provider's name; it may have ended already.
    pub provider_name: String,
    /// The id of its process in this PID namespace.
    pub pid: u32,
    /// When the manager received it.
    pub time: Nanos,
    pub uid: u32,
}
