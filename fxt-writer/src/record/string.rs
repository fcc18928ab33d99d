//! String record: registers a string in the string table ("String record").

use super::{Record, checked_size};
use crate::error::EncodeError;
use crate::ids::StringRef;
use crate::layout::{record_type, string};
use crate::space::{Slot, stream_words};
use crate::text;

/// Gives a string an index, in place of whatever had that index before.
///
/// An empty content is accepted, as readers must accept it, though the empty
/// string ref makes it pointless.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StringRecord<'a> {
    /// The index, as the ref that other records will use.
    pub index: StringRef,
    /// The string: at most 32 000 bytes, without a NUL.
    pub content: &'a str,
}

impl Record for StringRecord<'_> {
    fn words(&self) -> Result<usize, EncodeError> {
        if self.index.index().is_none() {
            return Err(EncodeError::StringIndex { index: 0 });
        }
        text::check(self.content)?;
        checked_size(1 + stream_words(self.content.len()))
    }

    fn header(&self, words: usize) -> u64 {
        string::TYPE.put(record_type::STRING)
            | string::SIZE.put(words as u64)
            | string::INDEX.put(self.index.encoded())
            | string::LENGTH.put(self.content.len() as u64)
    }

    fn body(&self, slot: &mut impl Slot) {
        slot.put_stream(self.content.as_bytes());
    }
}
