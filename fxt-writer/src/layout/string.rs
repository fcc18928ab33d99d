//! String record (type 2): gives a string an index in the string table.

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
