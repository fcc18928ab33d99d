//! Units and identities, so that one cannot be passed where another belongs.

use std::fmt;

pub use fxt_format::{Koid, ObjectType, ProviderId, RecordType, ThreadState};

/// A time in nanoseconds on the trace's clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Nanos(pub u64);

/// Seconds with nine decimals, as `12.000000345`.
impl fmt::Display for Nanos {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:09}", self.0 / 1_000_000_000, self.0 % 1_000_000_000)
    }
}

/// The number of a CPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Cpu(pub u16);

impl fmt::Display for Cpu {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A thread and the process it belongs to, as thread refs name them
/// ("Thread references").
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Thread {
    /// The process.
    pub process: Koid,
    /// The thread.
    pub thread: Koid,
}
