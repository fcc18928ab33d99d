//! Text and data of other formats ("Log record", "BLOB record", "Large BLOB
//! record").

use super::{Record, checked_size};
use crate::arg::{self, Arg, Text};
use crate::error::EncodeError;
use crate::ids::{ThreadName, Ticks};
use crate::layout::large_blob::{self, with_metadata, without_metadata};
use crate::layout::{BlobType, blob, large_header, limits, log, record_type};
use crate::space::{Slot, stream_words};
use crate::text;

/// A message written to the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Log<'a> {
    /// When it was written.
    pub time: Ticks,
    /// The thread that wrote it.
    pub thread: ThreadName,
    /// The message: no NUL, at most 32 744 bytes, 16 less if the thread is
    /// inline.
    pub message: &'a str,
}

impl Record for Log<'_> {
    fn words(&self) -> Result<usize, EncodeError> {
        let bytes = self.message.len();
        if bytes > limits::MAX_LOG_MESSAGE_BYTES {
            return Err(EncodeError::LogMessageTooLong { bytes });
        }
        text::check_no_nul(self.message)?;
        checked_size(2 + self.thread.inline_words() + stream_words(bytes))
    }

    fn header(&self, words: usize) -> u64 {
        log::TYPE.put(record_type::LOG)
            | log::SIZE.put(words as u64)
            | log::LENGTH.put(self.message.len() as u64)
            | log::THREAD.put(self.thread.encoded())
    }

    fn body(&self, slot: &mut impl Slot) {
        slot.put(self.time.0);
        if let ThreadName::Inline { process, thread } = self.thread {
            slot.put(process.0);
            slot.put(thread.0);
        }
        slot.put_stream(self.message.as_bytes());
    }
}

/// A piece of bulk data; readers append pieces of the same name to each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Blob<'a> {
    /// The name of the data stream.
    pub name: Text<'a>,
    /// The type of the payload.
    pub blob_type: BlobType,
    /// The payload: at most 32 752 bytes, minus the size of an inline name.
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

/// The time, thread and arguments of a large blob.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BlobMetadata<'a> {
    /// The timestamp, in ticks of the trace clock.
    pub time: Ticks,
    /// The thread.
    pub thread: ThreadName,
    /// Up to 15 arguments.
    pub args: &'a [Arg<'a>],
}

/// Bulk data in one record, whose size field has 32 bits.
///
/// Not every reader supports that size field: one that reads only its low 12 bits
/// fails on records of more than 4095 words. The lanes of the engine do not accept such large records; write them to the output directly.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LargeBlob<'a> {
    /// Its category.
    pub category: Text<'a>,
    /// Its name, which should identify the payload's format.
    pub name: Text<'a>,
    /// The metadata; its presence selects one of the two blob formats.
    pub metadata: Option<BlobMetadata<'a>>,
    /// The bytes, without padding.
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
