//! Large BLOB record: bulk data beyond 32 KB ("Large BLOB record").

use super::Record;
use crate::arg::{self, Arg};
use crate::error::EncodeError;
use crate::ids::{ThreadName, Ticks};
use crate::layout::large_blob::{self, with_metadata, without_metadata};
use crate::layout::{large_header, limits, record_type};
use crate::space::{Slot, stream_words};
use crate::text::Text;

/// When and where a large blob came from.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BlobMetadata<'a> {
    /// When.
    pub time: Ticks,
    /// The thread.
    pub thread: ThreadName,
    /// Up to 15 arguments.
    pub args: &'a [Arg<'a>],
}

/// Bulk data in one record, whose size field has 32 bits.
///
/// Not every reader follows that size field: a reader that takes only its low
/// 12 bits loses its way in records of more than 4095 words. Lanes of the
/// engine take no records that large; write them to the output itself.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LargeBlob<'a> {
    /// Its category.
    pub category: Text<'a>,
    /// Its name, which should identify what the payload is.
    pub name: Text<'a>,
    /// When and where it came from; decides between the two blob formats.
    pub metadata: Option<BlobMetadata<'a>>,
    /// The payload.
    pub payload: &'a [u8],
}

impl Record for LargeBlob<'_> {
    fn words(&self) -> Result<usize, EncodeError> {
        let metadata = match &self.metadata {
            Some(metadata) => 1 + metadata.thread.inline_words() + arg::words(metadata.args)?,
            None => 0,
        };
        let words = 3
            + self.category.inline_words()?
            + self.name.inline_words()?
            + metadata
            + stream_words(self.payload.len());
        if words > limits::MAX_LARGE_RECORD_WORDS {
            let max = limits::MAX_LARGE_RECORD_WORDS;
            return Err(EncodeError::RecordTooLarge { words, max });
        }
        Ok(words)
    }

    fn header(&self, words: usize) -> u64 {
        let format = match self.metadata {
            Some(_) => large_blob::WITH_METADATA,
            None => large_blob::WITHOUT_METADATA,
        };
        large_blob::TYPE.put(record_type::LARGE)
            | large_blob::SIZE.put(words as u64)
            | large_blob::LARGE_TYPE.put(large_header::TYPE_BLOB)
            | large_blob::FORMAT.put(format)
    }

    fn body(&self, slot: &mut impl Slot) {
        match &self.metadata {
            Some(metadata) => slot.put(
                with_metadata::CATEGORY.put(self.category.encoded())
                    | with_metadata::NAME.put(self.name.encoded())
                    | with_metadata::ARG_COUNT.put(metadata.args.len() as u64)
                    | with_metadata::THREAD.put(metadata.thread.encoded()),
            ),
            None => slot.put(
                without_metadata::CATEGORY.put(self.category.encoded())
                    | without_metadata::NAME.put(self.name.encoded()),
            ),
        }
        self.category.put(slot);
        self.name.put(slot);
        if let Some(metadata) = &self.metadata {
            slot.put(metadata.time.0);
            if let ThreadName::Inline { process, thread } = metadata.thread {
                slot.put(process.0);
                slot.put(thread.0);
            }
            arg::put(metadata.args, slot);
        }
        slot.put(self.payload.len() as u64);
        slot.put_stream(self.payload);
    }
}
