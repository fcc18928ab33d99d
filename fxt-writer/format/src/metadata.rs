//! Metadata records (type 0): written by the program that assembles an archive,
//! about its providers and about the archive itself.

word! {
    /// Header word of a metadata record of unknown kind.
    HEADER {
        /// Record type (0).
        TYPE [0 .. 3]
        /// Record size in words.
        SIZE [4 .. 15]
        /// Metadata type.
        METADATA_TYPE [16 .. 19]
        /// Varies by metadata type.
        DATA [20 .. 63]
    }
}

/// Metadata type of provider info.
pub const PROVIDER_INFO: u64 = 1;
/// Metadata type of a provider section.
pub const PROVIDER_SECTION: u64 = 2;
/// Metadata type of a provider event.
pub const PROVIDER_EVENT: u64 = 3;
/// Metadata type of trace info.
pub const TRACE_INFO: u64 = 4;

/// The whole first word of a trace: the magic number record.
pub const MAGIC_WORD: u64 = 0x0016_5478_4604_0010;

/// Provider info (metadata type 1): introduces a provider; its name follows the
/// header, padded to whole words.
pub mod provider_info {
    word! {
        /// Header word.
        HEADER {
            /// Record type (0).
            TYPE [0 .. 3]
            /// Record size in words.
            SIZE [4 .. 15]
            /// Metadata type (1).
            METADATA_TYPE [16 .. 19]
            /// Provider id.
            PROVIDER_ID [20 .. 51]
            /// Length of the name in bytes.
            NAME_LENGTH [52 .. 59]
        }
    }
}

/// Provider section (metadata type 2): the records that follow are from that provider.
pub mod provider_section {
    word! {
        /// Header word.
        HEADER {
            /// Record type (0).
            TYPE [0 .. 3]
            /// Record size in words (1).
            SIZE [4 .. 15]
            /// Metadata type (2).
            METADATA_TYPE [16 .. 19]
            /// Provider id.
            PROVIDER_ID [20 .. 51]
        }
    }
}

/// Provider event (metadata type 3): something a provider reports, anywhere in
/// the trace.
pub mod provider_event {
    word! {
        /// Header word.
        HEADER {
            /// Record type (0).
            TYPE [0 .. 3]
            /// Record size in words (1).
            SIZE [4 .. 15]
            /// Metadata type (3).
            METADATA_TYPE [16 .. 19]
            /// Provider id.
            PROVIDER_ID [20 .. 51]
            /// Event id.
            EVENT_ID [52 .. 55]
        }
    }

    /// Event id: a buffer filled up; records were likely dropped.
    pub const BUFFER_FILLED_UP: u64 = 0;
}

/// Trace info (metadata type 4): about the trace as a whole.
pub mod trace_info {
    word! {
        /// Header word of trace info of unknown kind.
        HEADER {
            /// Record type (0).
            TYPE [0 .. 3]
            /// Record size in words.
            SIZE [4 .. 15]
            /// Metadata type (4).
            METADATA_TYPE [16 .. 19]
            /// Trace info type.
            TRACE_INFO_TYPE [20 .. 23]
            /// Varies by trace info type.
            DATA [24 .. 63]
        }
    }

    /// Trace info type of the magic number record.
    pub const MAGIC_NUMBER: u64 = 0;
}

/// The magic number record (trace info type 0): the first word of a trace.
pub mod magic_number {
    word! {
        /// Header word, the whole record.
        HEADER {
            /// Record type (0).
            TYPE [0 .. 3]
            /// Record size in words (1).
            SIZE [4 .. 15]
            /// Metadata type (4).
            METADATA_TYPE [16 .. 19]
            /// Trace info type (0).
            TRACE_INFO_TYPE [20 .. 23]
            /// The magic number, [`MAGIC`].
            NUMBER [24 .. 55]
        }
    }

    /// The magic number: the bytes of "FxT" and one chosen at random.
    pub const MAGIC: u64 = 0x1654_7846;
}
