//! The raw view of a record: its words, and the named fields of its header.

use std::fmt;

use fxt_format::header;
use fxt_format::limits::WORD_BYTES;

use crate::record::header_table;
use crate::types::{ByteOrder, RecordType};

/// A record's bytes as in the file, borrowed from the reader's buffer.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct RawRecord<'a> {
    bytes: &'a [u8],
    order: ByteOrder,
}

impl<'a> RawRecord<'a> {
    /// `bytes` must be a whole number of words, at least one.
    pub(crate) fn new(bytes: &'a [u8], order: ByteOrder) -> Self {
        Self { bytes, order }
    }

    /// The record's bytes, header included.
    #[must_use]
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// The record's words, header first. Streams appear as the words that their
    /// bytes make in the file's byte order.
    pub fn words(&self) -> impl ExactSizeIterator<Item = u64> + use<'a> {
        let order = self.order;
        // A remainder would be less than a word, and records are whole words.
        let (words, _) = self.bytes.as_chunks::<WORD_BYTES>();
        words.iter().map(move |&word| order.word(word))
    }

    /// The header word.
    #[must_use]
    pub fn header(&self) -> u64 {
        self.words().next().unwrap_or(0)
    }

    /// The record type in the header.
    #[must_use]
    pub fn record_type(&self) -> RecordType {
        record_type(self.header())
    }

    /// The header's fields, lowest bits first, with the names they have in
    /// [`fxt_format`].
    pub fn fields(&self) -> impl Iterator<Item = (&'static str, u64)> + use<> {
        let header = self.header();
        header_table(header).fields().iter().map(move |(name, field)| (*name, field.get(header)))
    }
}

impl fmt::Debug for RawRecord<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.fields()).finish()
    }
}

pub(crate) fn record_type(header_word: u64) -> RecordType {
    RecordType::from_field(header::TYPE.get(header_word))
}
