//! Log record (type 9): a message written to the log at a time.
//!
//! After the header word come: the timestamp; the process and thread koids when
//! the thread is inline; the message, padded to whole words.

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
