//! Errors in a control message.

use super::{HEAD_BYTES, MAX_ALERT_BYTES, MAX_ITEM_BYTES, MAX_MESSAGE_BYTES, PROTOCOL_VERSION};

/// A message that cannot be sent, or bytes that are not a valid message. A receiver of such bytes closes the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WireError {
    /// The other side speaks another version of the protocol.
    #[error(
        "unsupported control protocol version {found}: expected {PROTOCOL_VERSION}; update the older side"
    )]
    Version {
        /// The version in the message.
        found: u16,
    },
    /// There are fewer bytes than in a head.
    #[error("a control message of {bytes} bytes is shorter than its header of {HEAD_BYTES}")]
    Truncated {
        /// Bytes that there are.
        bytes: usize,
    },
    /// The payload size in the head differs from that of the payload received.
    #[error("a control message announces {announced} bytes of payload but has {found}")]
    PayloadSize {
        /// The number of bytes in the header.
        announced: u32,
        /// Bytes after the head.
        found: usize,
    },
    /// The message is longer than the maximum.
    #[error(
        "a control message of {bytes} bytes is longer than {MAX_MESSAGE_BYTES}; send it in pieces"
    )]
    TooLong {
        /// Its bytes.
        bytes: usize,
    },
    /// The sending side has no message of this kind.
    #[error("control message kind {kind} is not permitted from this side")]
    Kind {
        /// The kind in the message.
        kind: u16,
    },
    /// A field that must be zero is not.
    #[error("a control message has {value:#x} instead of zero in a reserved field")]
    NotZero {
        /// The value found.
        value: u64,
    },
    /// A message about a session has the number 0.
    #[error("a control message about a session has session number 0")]
    NoSession,
    /// The mode is not oneshot (0), circular (1) or streaming (2).
    #[error("unknown buffering mode {mode}; expected 0, 1 or 2")]
    Mode {
        /// The value found.
        mode: u32,
    },
    /// The disposition is not clear entire (1), clear nondurable (2) or retain (3).
    #[error("unknown buffer disposition {disposition}; expected 1, 2 or 3")]
    Disposition {
        /// The value found.
        disposition: u32,
    },
    /// Text is not UTF-8.
    #[error("text in a control message is not UTF-8 at byte {at} of the payload")]
    NotUtf8 {
        /// Offset of the first bad byte in the text.
        at: usize,
    },
    /// The last item of a list does not end in a newline: the list was cut.
    #[error("the last item of a list in a control message does not end in a newline")]
    CutList,
    /// An item is empty, too long, or holds a newline or a NUL.
    #[error("item {index} of a list must have 1 to {MAX_ITEM_BYTES} bytes without newline and NUL")]
    Item {
        /// Its position in the list, from 0.
        index: usize,
    },
    /// A registration has no name.
    #[error("a provider registers without a name")]
    NoName,
    /// An alert's name is empty, too long, or holds a NUL.
    #[error(
        "invalid alert name of {bytes} bytes: expected 1 to {MAX_ALERT_BYTES} bytes without NUL"
    )]
    AlertName {
        /// Its bytes.
        bytes: usize,
    },
}
