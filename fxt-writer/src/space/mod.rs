//! The destination of records: it has space for a whole record, or rejects the record.
//!
//! A record reserves all its words in its [`Space`] at once, writes them into the
//! [`Slot`] it gets, and writes the header word last. So there is one capacity check per record, no record is ever truncated, and a
//! concurrent reader of a shared space sees the header of a record only after the rest of the record.
//!
//! Spaces here: `Vec<u64>` and `Vec<u8>` in memory, [`Output`] over anything that
//! implements [`std::io::Write`], and [`BlackHole`] for measurements. The lanes
//! of the [engine](crate::engine) are spaces too.

mod black_hole;
mod memory;
mod output;

pub use black_hole::{BlackHole, BlackHoleSlot};
pub use memory::{BytesSlot, WordsSlot};
pub use output::{Output, OutputSlot};

use crate::layout::limits::WORD_BYTES;

/// A space that accepts whole records.
pub trait Space {
    /// The reason why there is no room.
    type Full;
    /// Room for one record.
    type Slot<'a>: Slot
    where
        Self: 'a;

    /// Space for a record of `words` words, including its header.
    ///
    /// # Errors
    ///
    /// Returns an error when there is no room; nothing has been written then.
    fn reserve(&mut self, words: usize) -> Result<Self::Slot<'_>, Self::Full>;
}

/// Room for one record, filled from its second word on.
///
/// A slot takes exactly as many words as were reserved. Further words are
/// ignored, and a record finished with too few or too many words is withdrawn, as
/// if the slot had been dropped: a record in a space always has the size in its
/// header.
pub trait Slot: Sized {
    /// Appends one word after the header.
    fn put(&mut self, word: u64);

    /// Completes the record with its header word.
    fn finish(self, header: u64);

    /// Appends bytes, padded with zeros to whole words.
    #[inline]
    fn put_stream(&mut self, bytes: &[u8]) {
        let (whole, rest) = bytes.as_chunks::<WORD_BYTES>();
        for chunk in whole {
            self.put(u64::from_ne_bytes(*chunk));
        }
        if !rest.is_empty() {
            let mut last = [0; WORD_BYTES];
            last[..rest.len()].copy_from_slice(rest);
            self.put(u64::from_ne_bytes(last));
        }
    }
}

/// Words that a stream of `bytes` bytes needs with its padding.
#[must_use]
#[inline]
pub const fn stream_words(bytes: usize) -> usize {
    bytes.div_ceil(WORD_BYTES)
}
