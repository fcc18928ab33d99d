//! What can go wrong: the file cannot be read at all, or a record in it is
//! damaged.

use std::io;
use std::path::PathBuf;

use crate::types::{Container, RecordType};

/// The reason why [`Reader::next`](crate::Reader::next) cannot return a record.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The file cannot be opened.
    #[error("cannot open {}: {source}", path.display())]
    Open {
        /// The path that was given.
        path: PathBuf,
        /// The operating system's error.
        source: io::Error,
    },
    /// Reading the input failed; the records before that point were returned.
    #[error("cannot read the trace after {offset} bytes: {source}")]
    Read {
        /// Bytes of (decompressed) trace that had been read.
        offset: u64,
        /// The operating system's error.
        source: io::Error,
    },
    /// The compressed stream around the trace is damaged; the records before that
    /// point were returned.
    #[error(
        "the {container} stream is damaged after {offset} bytes of trace: {source}; the rest cannot be decompressed"
    )]
    Decompress {
        /// The compression that was detected.
        container: Container,
        /// Bytes of trace that had been decompressed.
        offset: u64,
        /// The decompressor's error.
        source: io::Error,
    },
    /// The input is compressed in a way that this build of the crate cannot read.
    #[error(
        "the input is a {container} stream, and this build was made without it; \
         decompress it first, or build with the feature \"{container}\""
    )]
    Unsupported {
        /// The compression that was detected.
        container: Container,
    },
    /// The input is not a trace.
    #[error(
        "not a Fuchsia trace: it begins with the bytes {first:02x?}; expected 10 00 04 46 78 54 \
         16 00, or a gzip or zstd stream"
    )]
    NotFxt {
        /// The first bytes of the input, at most 8.
        first: Vec<u8>,
    },
    /// A record is damaged. The reader can continue: the next call skips it, or looks for the next position where valid records begin.
    #[error(transparent)]
    Damaged(#[from] Damage),
}

impl Error {
    /// The damage, if this is [`Error::Damaged`], after which the reader can continue.
    #[must_use]
    pub fn damage(&self) -> Option<Damage> {
        match self {
            Self::Damaged(damage) => Some(*damage),
            _ => None,
        }
    }
}

/// A record that cannot be understood.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("damaged {record_type} at byte {offset}: {reason}")]
pub struct Damage {
    /// Where the record begins, in bytes of (decompressed) trace.
    pub offset: u64,
    /// The record type in its header.
    pub record_type: RecordType,
    /// The defect of the file.
    pub reason: Reason,
}

/// The defect of the record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Reason {
    /// The trace does not begin with the magic number, but valid records follow.
    #[error("the trace should begin with the magic number")]
    NoMagic,
    /// A magic number record with the wrong number.
    #[error("its number {0:#018x} is not the magic number")]
    WrongMagic(u64),
    /// A record of size zero; the start of the next record is unknown.
    #[error("its size is zero")]
    ZeroSize,
    /// A large record beyond the reader's limit.
    #[error("its size of {bytes} bytes is over the limit of {limit}")]
    TooLarge {
        /// The size in the record's header, in bytes.
        bytes: u64,
        /// See [`Reader::max_record_bytes`](crate::Reader::max_record_bytes).
        limit: u64,
    },
    /// The record's size extends beyond the end of the trace, yet valid records
    /// begin within it: the size is wrong, the trace is not cut short.
    #[error("its size of {bytes} bytes extends beyond the end of the trace")]
    Overrun {
        /// The size in the record's header, in bytes.
        bytes: u64,
    },
    /// The record's type is unknown, or the record is longer than its content.
    /// The format allows both, but no valid record follows: its header is
    /// damaged.
    #[error("its type or size is unusual and no valid record follows it")]
    Unconfirmed,
    /// The record ends before its content does.
    #[error("it is too short for its content")]
    TooShort,
    /// An argument of size zero.
    #[error("an argument in it has size zero")]
    ZeroSizeArgument,
    /// A string that is not UTF-8. The reader still keeps the content of a string
    /// record for the records that refer to it, with U+FFFD in place of invalid
    /// bytes.
    #[error("a string in it is not UTF-8")]
    NotUtf8,
    /// A string ref to an index that no string record has set.
    #[error("it refers to string {0}, which is not in the string table")]
    UnknownString(u16),
    /// A thread ref to an index that no thread record has set.
    #[error("it refers to thread {0}, which is not in the thread table")]
    UnknownThread(u8),
    /// A timestamp that does not fit 64 bits when converted to nanoseconds.
    #[error("its time of {0} ticks does not fit 64 bits of nanoseconds")]
    TimeOverflow(u64),
    /// An initialization record with zero ticks per second.
    #[error("it gives 0 ticks per second")]
    ZeroTicks,
}
