//! Thread record (type 3): gives a process and thread an index in the thread table.

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
