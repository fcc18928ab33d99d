//! Userspace object record (type 6): names what a pointer of a process refers to.
//!
//! After the header word come: the pointer; the process koid (and no thread
//! koid) when the process is inline; the name when it is inline; the arguments.

word! {
    /// Header word.
    HEADER {
        /// Record type (6).
        TYPE [0 .. 3]
        /// Record size in words.
        SIZE [4 .. 15]
        /// Process (thread ref).
        PROCESS [16 .. 23]
        /// Name (string ref).
        NAME [24 .. 39]
        /// Number of arguments.
        ARG_COUNT [40 .. 43]
    }
}
