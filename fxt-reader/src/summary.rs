//! A reader's summary of a trace.

use crate::types::{ByteOrder, Container};

/// What has been read so far, and what could not be read.
///
/// All offsets and sizes count bytes of trace, after decompression.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Summary {
    /// The container of the trace.
    pub container: Container,
    /// The byte order of the trace.
    pub byte_order: ByteOrder,
    /// Whether the trace begins with the magic number.
    pub magic: bool,
    /// Number of records returned, including unknown ones.
    pub records: u64,
    /// Size of those records in bytes.
    pub record_bytes: u64,
    /// Number of records with a type or subtype that this crate does not know.
    pub unknown_records: u64,
    /// Number of arguments of a type that this crate does not know.
    pub unknown_arguments: u64,
    /// Number of positions where records were damaged.
    pub damaged_regions: u64,
    /// Number of bytes that were skipped there.
    pub damaged_bytes: u64,
    /// Size of an incomplete last record in bytes, as a killed recorder leaves it. Not
    /// an error.
    pub truncated_tail: u64,
    /// Whether the compressed stream is truncated, as a killed recorder leaves
    /// it. Not an error.
    pub container_truncated: bool,
    /// Number of strings, threads and providers that were not kept. See [`Reader::max_table_bytes`](crate::Reader::max_table_bytes).
    pub left_out: u64,
}

impl Summary {
    /// Whether every byte of the input was part of a complete, valid record, and there was at least one.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.damaged_regions == 0 && !self.is_truncated()
    }

    /// Whether the input evidently ended too early. An empty input satisfied the first condition, but every trace has at least one record.
    #[must_use]
    pub fn is_truncated(&self) -> bool {
        self.records == 0 || self.truncated_tail > 0 || self.container_truncated
    }
}
