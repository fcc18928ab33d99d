//! BLOB record: a piece of bulk data ("BLOB record").

use super::{Record, checked_size};
use crate::error::EncodeError;
use crate::layout::{BlobType, blob, record_type};
use crate::space::{Slot, stream_words};
use crate::text::Text;

/// A piece of bulk data; pieces of the same name are appended to each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Blob<'a> {
    /// The name of the data stream.
    pub name: Text<'a>,
    /// What the payload is.
    pub blob_type: BlobType,
    /// The payload: at most 32 752 bytes, less what an inline name takes.
    pub payload: &'a [u8],
}

impl Record for Blob<'_> {
    fn words(&self) -> Result<usize, EncodeError> {
        let words = 1 + self.name.inline_words()? + stream_words(self.payload.len());
        checked_size(words).map_err(|_| EncodeError::BlobTooLarge { bytes: self.payload.len() })
    }

    fn header(&self, words: usize) -> u64 {
        blob::TYPE.put(record_type::BLOB)
            | blob::SIZE.put(words as u64)
            | blob::NAME.put(self.name.encoded())
            | blob::PAYLOAD_SIZE.put(self.payload.len() as u64)
            | blob::BLOB_TYPE.put(self.blob_type.to_field())
    }

    fn body(&self, slot: &mut impl Slot) {
        self.name.put(slot);
        slot.put_stream(self.payload);
    }
}
