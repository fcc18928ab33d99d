//! Where every bit of the format is: one table of named fields per word.
//!
//! The tables below are the format specification's own, `[first .. last]` with
//! inclusive bit positions, one submodule per record family. The encoder puts
//! values together from them, a reader takes words apart with them, and tests
//! build words by hand with every field named. Nothing else in the workspace
//! shifts or masks trace words.
//!
//! ```
//! use fxt_writer::layout::{record_type, string};
//!
//! // A string record of two words that registers a 5-byte string as index 7.
//! let word = string::TYPE.put(record_type::STRING)
//!     | string::SIZE.put(2)
//!     | string::INDEX.put(7)
//!     | string::LENGTH.put(5);
//! assert_eq!(word, 0x0000_0005_0007_0022);
//! assert_eq!(string::INDEX.get(word), 7);
//! assert_eq!(string::HEADER.reserved() & word, 0);
//! ```
//!
//! Values are `u64` throughout, since that is what a field of a word yields;
//! the constants can be used as `match` patterns on what [`Field::get`] returns.
//! This module depends on nothing else in the crate.

mod field;
#[macro_use]
mod word_macro;

pub mod argument;
pub mod blob;
pub mod event;
pub mod initialization;
pub mod kernel_object;
pub mod large_blob;
pub mod limits;
pub mod log;
pub mod metadata;
pub mod scheduling;
pub mod string;
pub mod string_ref;
pub mod thread;
pub mod thread_ref;
pub mod userspace_object;

pub use field::{Field, Word};

/// Values of the record type field that every record header begins with
/// ("Record Types").
pub mod record_type {
    /// Metadata record: written by whoever assembles an archive.
    pub const METADATA: u64 = 0;
    /// Initialization record.
    pub const INITIALIZATION: u64 = 1;
    /// String record.
    pub const STRING: u64 = 2;
    /// Thread record.
    pub const THREAD: u64 = 3;
    /// Event record.
    pub const EVENT: u64 = 4;
    /// BLOB record.
    pub const BLOB: u64 = 5;
    /// Userspace object record.
    pub const USERSPACE_OBJECT: u64 = 6;
    /// Kernel object record.
    pub const KERNEL_OBJECT: u64 = 7;
    /// Scheduling record.
    pub const SCHEDULING: u64 = 8;
    /// Log record.
    pub const LOG: u64 = 9;
    /// Large record, whose size field has 32 bits.
    pub const LARGE: u64 = 15;
}

/// The header word that all records but large ones share ("Record header").
pub mod header {
    word! {
        /// Header word of a record of unknown type.
        HEADER {
            /// Record type, see [`record_type`](super::record_type).
            TYPE [0 .. 3]
            /// Record size in words, this one included.
            SIZE [4 .. 15]
            /// Varies by record type.
            DATA [16 .. 63]
        }
    }
}

/// The header word of large records ("Large record header").
pub mod large_header {
    word! {
        /// Header word of a large record of unknown large type.
        HEADER {
            /// Record type (15).
            TYPE [0 .. 3]
            /// Record size in words, this one included.
            SIZE [4 .. 35]
            /// Large record type.
            LARGE_TYPE [36 .. 39]
            /// Varies by large record type.
            DATA [40 .. 63]
        }
    }

    /// Large record type of a large BLOB record.
    pub const TYPE_BLOB: u64 = 0;
}
