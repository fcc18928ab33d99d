//! Why a perf.data cannot be read.

/// Why a perf.data cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PerfDataError {
    /// Its head ends too early.
    #[error("its header has {0} bytes instead of 104")]
    Head(usize),
    /// It does not describe any event.
    #[error("it does not describe its events")]
    NoEvents,
    /// The description of an event is too short to be one.
    #[error("the description of an event has {0} bytes")]
    EventBytes(u64),
    /// It describes more events, or numbers of them, than can be.
    #[error("it describes more events than perf can open")]
    TooManyEvents,
    /// Which event a record is of decides what is in it, and cannot be told.
    #[error("its events have different records, which do not identify their event")]
    NoIdentifier,
    /// A record is smaller than its own head, or than what it says to hold.
    #[error("the record of type {kind} at byte {at} of the records is too small: {bytes} bytes")]
    Record {
        kind: u32,
        at: u64,
        /// How large it says to be.
        bytes: u64,
    },
    /// The file has fewer records than its head says.
    #[error("the records end too early, at byte {0} of them")]
    Records(u64),
    /// The descriptions of tracepoints are larger than any kernel's.
    #[error("the descriptions of tracepoints have {0} bytes")]
    Described(u64),
}
