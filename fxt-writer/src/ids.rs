//! Identities and times, each with its own type, so that they cannot be mixed up.

use std::num::NonZeroU8;

pub use fxt_format::{Koid, ProviderId};

use crate::error::EncodeError;
use crate::layout::thread_ref;

/// A point in time, in ticks of the trace's clock; the initialization record has
/// the length of a tick ("Timestamps").
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticks(pub u64);

/// An index in the thread table, 1 to 255 ("Thread references").
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ThreadRef(NonZeroU8);

impl ThreadRef {
    /// The thread that a [`ThreadRecord`](crate::record::ThreadRecord) with the
    /// same index registers.
    ///
    /// # Errors
    ///
    /// Returns [`EncodeError::ThreadIndex`] when the index is 0, which the format reserves for inline threads.
    pub const fn indexed(index: u8) -> Result<Self, EncodeError> {
        match NonZeroU8::new(index) {
            Some(index) => Ok(Self(index)),
            None => Err(EncodeError::ThreadIndex),
        }
    }

    /// The table index.
    #[must_use]
    pub const fn index(self) -> u8 {
        self.0.get()
    }
}

/// How a record names a thread: by table index, or by its koids in the record
/// itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ThreadName {
    /// A thread registered with a thread record.
    Indexed(ThreadRef),
    /// The koids themselves, which take two words in the record.
    Inline {
        /// The process.
        process: Koid,
        /// The thread.
        thread: Koid,
    },
}

impl ThreadName {
    /// The 8-bit value that represents the thread in a record.
    #[must_use]
    #[inline]
    pub const fn encoded(self) -> u64 {
        match self {
            Self::Indexed(index) => index.index() as u64,
            Self::Inline { .. } => thread_ref::INLINE,
        }
    }

    /// Words that the inline koids take: 0 or 2.
    #[must_use]
    #[inline]
    pub const fn inline_words(self) -> usize {
        match self {
            Self::Indexed(_) => 0,
            Self::Inline { .. } => 2,
        }
    }
}
