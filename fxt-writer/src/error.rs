//! What can be wrong with a record.

use crate::layout::limits;

/// A record that the format cannot express. No part of it has been written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EncodeError {
    /// A string is longer than the format allows; cut it with
    /// [`text::clean`](crate::text::clean).
    #[error(
        "a string of {bytes} bytes is longer than the {} bytes that the format permits; truncate it",
        limits::MAX_STRING_BYTES
    )]
    StringTooLong {
        /// Its length in bytes.
        bytes: usize,
    },
    /// A string holds a NUL, at which many readers would end it; cut it with
    /// [`text::clean`](crate::text::clean).
    #[error("a string contains a NUL at byte {at}, where readers would end it; truncate it")]
    NulInString {
        /// Offset of the first NUL in bytes.
        at: usize,
    },
    /// A provider's name is too long for its 8-bit length field.
    #[error(
        "a provider name of {bytes} bytes is longer than the {} bytes that the format permits",
        limits::MAX_PROVIDER_NAME_BYTES
    )]
    ProviderNameTooLong {
        /// Its length in bytes.
        bytes: usize,
    },
    /// A log message is too long for its 15-bit length field.
    #[error(
        "a log message of {bytes} bytes is longer than the {} bytes that the format permits; split it",
        limits::MAX_LOG_MESSAGE_BYTES
    )]
    LogMessageTooLong {
        /// Its length in bytes.
        bytes: usize,
    },
    /// A blob's payload does not fit; split it into several blob records of the
    /// same name, or write a large blob.
    #[error("a blob payload of {bytes} bytes does not fit a record; split it or use a large blob")]
    BlobTooLarge {
        /// Its length in bytes.
        bytes: usize,
    },
    /// A record has too many arguments for its 4-bit count.
    #[error("{count} arguments are too many: the maximum is {}", limits::MAX_ARGS)]
    TooManyArgs {
        /// The number of arguments given.
        count: usize,
    },
    /// A record is too large for its size field.
    #[error("a record of {words} words is too large: its size field permits {max} words")]
    RecordTooLarge {
        /// The size of the rejected record, in words.
        words: usize,
        /// The most there may be.
        max: usize,
    },
    /// A string index is outside 0x0001 to 0x7fff.
    #[error("string index {index} is outside 1 to {}", limits::MAX_STRING_INDEX)]
    StringIndex {
        /// The index given.
        index: u16,
    },
    /// Thread index 0 stands for inline threads and cannot be registered.
    #[error("thread index 0 means an inline thread; use 1 to {}", limits::MAX_THREAD_INDEX)]
    ThreadIndex,
    /// A module's name or build id is too long for its 8-bit length field.
    #[error(
        "a module name or build id of {bytes} bytes is longer than the {} bytes that the format permits",
        limits::MAX_MODULE_NAME_BYTES
    )]
    ModuleTooLong {
        /// Its length in bytes.
        bytes: usize,
    },
    /// A backtrace has too many frames for its 8-bit count; leave out the outermost.
    #[error("{frames} frames are too many: the maximum is {}", limits::MAX_FRAMES)]
    TooManyFrames {
        /// The number of frames given.
        frames: usize,
    },
    /// The flags of a profiler record are too wide for their field.
    #[error("the flags {flags:#x} do not fit the {bits} bits that the format has for them")]
    FlagsTooWide {
        /// The flags given.
        flags: u32,
        /// The width of the field.
        bits: u32,
    },
    /// A provider event id is wider than 4 bits.
    #[error("provider event id {id} is above 15")]
    ProviderEvent {
        /// The id given.
        id: u8,
    },
    /// A legacy context switch cannot express that the outgoing thread is running.
    #[error("the outgoing thread of a legacy context switch cannot be in state running")]
    LegacyRunning,
    /// Ticks per second of 0, with which readers could not convert times.
    #[error("a trace clock cannot have 0 ticks per second")]
    ZeroTicksPerSecond,
}

/// The reason why a record was not written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WriteError<Full> {
    /// The format cannot express the record.
    #[error(transparent)]
    Encode(#[from] EncodeError),
    /// There is no room for the record.
    #[error("no space for the record: {0}")]
    Full(Full),
}
