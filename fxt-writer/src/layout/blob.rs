//! BLOB record (type 5): bulk data of some other format.
//!
//! After the header word come the name when it is inline, then the payload,
//! padded to whole words.

word! {
    /// Header word.
    HEADER {
        /// Record type (5).
        TYPE [0 .. 3]
        /// Record size in words.
        SIZE [4 .. 15]
        /// Name of the blob (string ref).
        NAME [16 .. 31]
        /// Payload size in bytes, padding excluded.
        PAYLOAD_SIZE [32 .. 46]
        /// Blob type.
        BLOB_TYPE [48 .. 55]
    }
}

/// Raw untyped data.
pub const DATA: u64 = 0x01;
/// Last branch records of an Intel performance monitor.
pub const LAST_BRANCH: u64 = 0x02;
/// A piece of a Perfetto protobuf trace.
pub const PERFETTO: u64 = 0x03;
