//! Initialization record (type 1): a header and the number of ticks per second.

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
/// Ticks per second that a reader assumes where the record is missing.
pub const DEFAULT_TICKS_PER_SECOND: u64 = 1_000_000_000;
