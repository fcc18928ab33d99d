//! The layout of the Fuchsia trace format (FXT), shared by its writer and its reader.
//!
//! - **Where every bit is**: one table of named fields per word. The tables are the format specification's own, `[first
//!   .. last]` with inclusive bit positions, one module per record family. The encoder builds words with them, a reader
//!   decodes words with them, and tests build words by hand, field by field.
//! - **What the values mean**: one enumeration for each of the specification's ([`ThreadState`], [`ObjectType`], [`EventKind`],
//!   [`BlobType`], [`ProviderEventKind`], [`RecordType`]), and a type for each kind of identity ([`Koid`], [`ProviderId`]).
//! - **Where a record ends and the next begins**: in [`walk`] and the functions that it re-exports.
//! - **What the format allows at most**: [`limits`].
//!
//! Nothing else in the workspace shifts or masks trace words, and this crate depends on nothing.
//!
//! ```
//! use fxt_format::{record_type, string};
//!
//! // A string record of two words that registers a 5-byte string as index 7.
//! let word = string::TYPE.put(record_type::STRING)
//!     | string::SIZE.put(2)
//!     | string::INDEX.put(7)
//!     | string::LENGTH.put(5);
//! assert_eq!(word, 0x0000_0005_0007_0022);
//! assert_eq!(string::INDEX.get(word), 7);
//! assert_eq!(string::HEADER.reserved() & word, 0);
//! assert_eq!(fxt_format::walk::record_words(word), Some(2));
//! ```
//!
//! Fields are `u64` because [`Field::get`] returns `u64`; the constants can be used as `match` patterns on that value.

#![forbid(unsafe_code)]
#![warn(missing_docs)]

#[macro_use]
mod word;

mod bulk;
mod definitions;
mod ids;
mod objects;
mod refs;

pub mod argument;
pub mod event;
pub mod limits;
pub mod metadata;
pub mod profiler;
pub mod scheduling;
pub mod walk;

pub use bulk::{blob, large_blob, log};
pub use definitions::{initialization, string, thread};
pub use ids::{Koid, ProviderId};
pub use objects::{kernel_object, userspace_object};
pub use refs::{string_ref, thread_ref};
pub use word::{
    BlobType, EventKind, Field, ObjectType, ProviderEventKind, RecordType, ThreadState, Word,
};

/// Values of the record type field that every record header begins with
/// ("Record Types").
pub mod record_type {
    /// Metadata record: written by the program that assembles an archive.
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
    /// Profiler record, which the format specification does not describe.
    pub const PROFILER: u64 = 10;
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

/// The examples of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
