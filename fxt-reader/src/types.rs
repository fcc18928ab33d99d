//! Types for units and identities, which prevent confusion between them, and for a trace's byte order and compression.

use std::fmt;

use fxt_format::limits::WORD_BYTES;
pub use fxt_format::{Koid, ObjectType, ProviderId, RecordType, ThreadState};

/// A time in nanoseconds on the trace's clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Nanos(pub u64);

/// Seconds with nine decimals, for example `12.000000345`.
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

/// The byte order of a trace's words; streams have none ("Atoms").
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum ByteOrder {
    /// Least significant byte first, as on every machine Fuchsia or Linux
    /// commonly runs on.
    #[default]
    Little,
    /// Most significant byte first.
    Big,
}

impl ByteOrder {
    #[inline(always)]
    pub(crate) fn word(self, bytes: [u8; WORD_BYTES]) -> u64 {
        match self {
            Self::Little => u64::from_le_bytes(bytes),
            Self::Big => u64::from_be_bytes(bytes),
        }
    }
}

/// The container of the trace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Container {
    /// Uncompressed.
    #[default]
    Plain,
    /// A gzip stream, or several in a row.
    Gzip,
    /// A Zstandard stream of one or more frames.
    Zstd,
}

impl fmt::Display for Container {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Plain => "plain",
            Self::Gzip => "gzip",
            Self::Zstd => "zstd",
        })
    }
}
