//! What a reader can say about a trace after having read it.

use crate::types::{ByteOrder, Container};

/// What has been read so far, and what could not be read.
///
/// All offsets and sizes count bytes of trace, after decompression.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Summary {
    /// What was around the trace.
    pub container: Container,
    /// The byte order of the trace.
    pub byte_order: ByteOrder,
    /// Whether the trace begins with the magic number.
    pub magic: bool,
    /// Records returned, unknown ones included.
    pub records: u64,
    /// Bytes of those records.
    pub record_bytes: u64,
    /// The ones among them with a type or subtype that this crate does not know.
    pub unknown_records: u64,
    /// Arguments of a type that this crate does not know.
    pub unknown_arguments: u64,
    /// Places where records were damaged.
    pub damaged_regions: u64,
    /// Bytes that were skipped there.
    pub damaged_bytes: u64,
    /// Bytes of an incomplete last record, such as a killed recorder leaves. Not
    /// an error.
    pub truncated_tail: u64,
    /// Whether the compressed stream is truncated, as a killed recorder leaves
    /// it. Not an error.
    pub container_truncated: bool,
    /// Strings, threads and providers that were not kept. See
    /// [`Reader::max_table_bytes`](crate::Reader::max_table_bytes).
    pub left_out: u64,
}

impl Summary {
    /// Whether every byte of the input was part of a whole, sound record, and there was at least one.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.damaged_regions == 0 && !self.is_truncated()
    }

    /// Whether the input visibly ended too early. An empty input did: every trace
    /// has at least one record.
    #[must_use]
    pub fn is_truncated(&self) -> bool {
        self.records == 0 || self.truncated_tail > 0 || self.container_truncated
    }
}
