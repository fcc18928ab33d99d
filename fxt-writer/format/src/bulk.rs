//! Records that carry text or data of some other format: log messages and BLOBs.

/// Log record (type 9): a message written to the log at a time.
///
/// After the header word come: the timestamp; the process and thread koids when
/// the thread is inline; the message, padded to whole words.
pub mod log {
    word! {
        /// Header word.
        HEADER {
            /// Record type (9).
            TYPE [0 .. 3]
            /// Record size in words.
            SIZE [4 .. 15]
            /// Message length in bytes.
            LENGTH [16 .. 30]
            /// Thread (thread ref).
            THREAD [32 .. 39]
        }
    }
}

/// BLOB record (type 5): bulk data of some other format.
///
/// After the header word come the name when it is inline, then the payload,
/// padded to whole words.
pub mod blob {
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
}

/// Large BLOB record (type 15, large type 0): bulk data beyond 32 KB.
pub mod large_blob {
    word! {
        /// Header word.
        HEADER {
            /// Record type (15).
            TYPE [0 .. 3]
            /// Record size in words.
            SIZE [4 .. 35]
            /// Large record type (0).
            LARGE_TYPE [36 .. 39]
            /// Blob format type.
            FORMAT [40 .. 43]
        }
    }

    /// Blob format: in band, with metadata.
    pub const WITH_METADATA: u64 = 0;
    /// Blob format: in band, without metadata.
    pub const WITHOUT_METADATA: u64 = 1;

    /// The word after the header of a blob with metadata. Then come: the category
    /// and the name when they are inline; the timestamp; the process and thread
    /// koids when the thread is inline; the arguments; the payload size in bytes;
    /// the payload, padded to whole words.
    pub mod with_metadata {
        word! {
            /// Format header word.
            FORMAT_HEADER {
                /// Category (string ref).
                CATEGORY [0 .. 15]
                /// Name (string ref).
                NAME [16 .. 31]
                /// Number of arguments.
                ARG_COUNT [32 .. 35]
                /// Thread (thread ref).
                THREAD [36 .. 43]
            }
        }
    }

    /// The word after the header of a blob without metadata. Then come: the
    /// category and the name when they are inline; the payload size in bytes; the
    /// payload, padded to whole words.
    pub mod without_metadata {
        word! {
            /// Format header word.
            FORMAT_HEADER {
                /// Category (string ref).
                CATEGORY [0 .. 15]
                /// Name (string ref).
                NAME [16 .. 31]
            }
        }
    }
}
