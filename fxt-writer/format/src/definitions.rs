//! Records that later ones rely on: the clock, and the entries of the string and thread tables.

/// Initialization record (type 1): a header and the number of ticks per second.
pub mod initialization {
    word! {
        /// Header word.
        HEADER {
            /// Record type (1).
            TYPE [0 .. 3]
            /// Record size in words (2).
            SIZE [4 .. 15]
        }
    }

    /// Words in the record.
    pub const WORDS: usize = 2;
    /// Ticks per second that a reader assumes if the record is missing.
    pub const DEFAULT_TICKS_PER_SECOND: u64 = 1_000_000_000;
}

/// String record (type 2): gives a string an index in the string table.
pub mod string {
    word! {
        /// Header word; the string's bytes follow, padded to whole words.
        HEADER {
            /// Record type (2).
            TYPE [0 .. 3]
            /// Record size in words.
            SIZE [4 .. 15]
            /// String index, 0x0001 to 0x7fff; index 0 is ignored by readers.
            INDEX [16 .. 30]
            /// String length in bytes.
            LENGTH [32 .. 46]
        }
    }
}

/// Thread record (type 3): gives a process and thread an index in the thread table.
pub mod thread {
    word! {
        /// Header word; the process koid and the thread koid follow.
        HEADER {
            /// Record type (3).
            TYPE [0 .. 3]
            /// Record size in words (3).
            SIZE [4 .. 15]
            /// Thread index, 0x01 to 0xff; index 0 is ignored by readers.
            INDEX [16 .. 23]
        }
    }

    /// Words in the record.
    pub const WORDS: usize = 3;
}
