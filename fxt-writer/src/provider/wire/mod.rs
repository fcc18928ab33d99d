//! Control messages between a provider and the manager over their control socket:
//! encoding and decoding.
//!
//! One message is one datagram of a SOCK_SEQPACKET socket, at most
//! [`MAX_MESSAGE_BYTES`] long. Numbers are in machine order, because both ends run on one machine; text is UTF-8, and every item of a list
//! ends in a newline.
//!
//! ```text
//!  0      2         4               8              16
//!  +------+---------+---------------+---------------+----------------
//!  | kind | version | payload bytes | data          | payload ...
//!  +------+---------+---------------+---------------+----------------
//!
//!  provider                                                  manager
//!     | REGISTER  name, categories                              |
//!     |-------------------------------------------------------->|
//!     | START     session, mode, disposition, size, process,    |
//!     |           enabled categories, two descriptors           |
//!     |<--------------------------------------------------------|
//!     | CATEGORIES  learnt meanwhile                            |
//!     |-------------------------------------------------------->|
//!     | ALERT       name                                        |
//!     |-------------------------------------------------------->|
//!     | STOP      session                                       |
//!     |<--------------------------------------------------------|
//!     | STOPPED     session                                     |
//!     |-------------------------------------------------------->|
//!     | TERMINATE session                                       |
//!     |<--------------------------------------------------------|
//! ```
//!
//! This module does no I/O. Neither side trusts the other: decoding arbitrary bytes returns a message or an error.
//!
//! ```
//! use fxt_writer::provider::wire::FromProvider;
//!
//! let message = FromProvider::Register { name: "app".into(), categories: vec!["net".into()] };
//! let bytes = message.encode()?;
//! assert_eq!(FromProvider::decode(&bytes)?, message);
//! # Ok::<(), fxt_writer::provider::wire::WireError>(())
//! ```

mod error;
mod head;
mod list;
mod manager;
mod provider;
mod start;

pub use error::WireError;
pub use manager::FromManager;
pub use provider::FromProvider;
pub use start::{START_BLOCK_BYTES, Start};

#[cfg(test)]
mod tests;

use std::num::NonZeroU64;

/// The maximum number of bytes in one message, head included.
pub const MAX_MESSAGE_BYTES: usize = 64 * 1024;
/// Bytes in a message's head.
pub const HEAD_BYTES: usize = 16;
/// The version of the protocol that every message carries.
pub const PROTOCOL_VERSION: u16 = 1;
/// The maximum number of bytes in an alert's name.
pub const MAX_ALERT_BYTES: usize = 14;
/// The maximum number of bytes in one item of a list: the limit of a provider's name in its
/// metadata record, which applies to categories, too.
pub const MAX_ITEM_BYTES: usize = crate::layout::limits::MAX_PROVIDER_NAME_BYTES;
/// Descriptors that travel with START: the buffer, then the provider's end of
/// the FIFO.
pub const START_DESCRIPTORS: usize = 2;

/// Numbers of the messages.
mod kind {
    pub(super) const REGISTER: u16 = 1;
    pub(super) const CATEGORIES: u16 = 2;
    pub(super) const STOPPED: u16 = 3;
    pub(super) const ALERT: u16 = 4;
    pub(super) const START: u16 = 16;
    pub(super) const STOP: u16 = 17;
    pub(super) const TERMINATE: u16 = 18;
}

/// Identifies a run of tracing; the manager gives every START a new one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Session(NonZeroU64);

impl Session {
    /// The session with that number; `None` for 0.
    #[must_use]
    pub const fn new(number: u64) -> Option<Self> {
        match NonZeroU64::new(number) {
            Some(number) => Some(Self(number)),
            None => None,
        }
    }

    /// Its number.
    #[must_use]
    pub const fn number(self) -> u64 {
        self.0.get()
    }

    fn decode(number: u64) -> Result<Self, WireError> {
        Self::new(number).ok_or(WireError::NoSession)
    }
}
