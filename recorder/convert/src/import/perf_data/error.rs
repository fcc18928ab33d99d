//! The reason why a perf.data cannot be read.

/// The reason why a perf.data cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PerfDataError {
    /// The header is incomplete.
    #[error("its header has {0} bytes instead of 104")]
    Head(usize),
    /// No event is described.
    #[error("it does not describe its events")]
    NoEvents,
    /// The description of an event is too short.
    #[error("the description of an event has {0} bytes")]
    EventBytes(u64),
    /// There are more events, or event ids, than possible.
    #[error("it describes more events than perf can open")]
    TooManyEvents,
    /// The layout of a record depends on its event, which cannot be determined.
    #[error("its events have different records, which do not identify their event")]
    NoIdentifier,
    /// A record is smaller than its header or its contents.
    #[error("the record of type {kind} at byte {at} of the records is too small: {bytes} bytes")]
    Record {
        kind: u32,
        at: u64,
        /// The size in its header.
        bytes: u64,
    },
    /// The file has fewer records than its header says.
    #[error("the records end too early, at byte {0} of them")]
    Records(u64),
    /// The descriptions of tracepoints are larger than those of any kernel.
    #[error("the descriptions of tracepoints have {0} bytes")]
    Described(u64),
}
