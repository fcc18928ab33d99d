//! How records refer to strings and threads of their provider's tables.

/// String refs: 16-bit values that name a string ("String references").
///
/// Zero is the empty string. With the top bit clear the rest is an index into
/// the string table; with the top bit set the rest is the length in bytes of a
/// string that follows inline in the same record.
pub mod string_ref {
    word! {
        /// A string ref, in the low 16 bits of a word.
        STRING_REF {
            /// Index in the string table, or length in bytes when inline.
            VALUE [0 .. 14]
            /// Set when the string follows inline.
            INLINE [15 .. 15]
        }
    }

    /// The string ref of the empty string.
    pub const EMPTY: u64 = 0;
}

/// Thread refs: 8-bit values that name a process and a thread
/// ("Thread references").
pub mod thread_ref {
    /// The thread ref of a thread whose process and thread koids follow inline in the same record; any other value is an index into the
    /// thread table.
    pub const INLINE: u64 = 0;
}
