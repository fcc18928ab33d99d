//! Reads the Fuchsia trace format (FXT).
//!
//! A [`Reader`] takes a file, a pipe or a slice, plain or inside gzip or zstd,
//! and hands out its records one by one, resolved: names as `&str`, threads as
//! koids, times in nanoseconds, arguments with their types. Everything is
//! borrowed from the reader's buffer; nothing is allocated per record.
//!
//! Traces are often truncated, since their writer was killed. An incomplete last record ends the trace and is
//! [reported](Summary::truncated_tail). A damaged record is an [error](Damage) with its offset, type and reason, after which reading
//! continues with the next valid record.
//!
//! ```
//! use fxt_reader::{Reader, Record};
//!
//! # fn main() -> Result<(), fxt_reader::Error> {
//! // A magic number record; a context switch on CPU 1 at 1 us, 40 -> 41.
//! let words = [
//!     0x0016_5478_4604_0010_u64,
//!     0x1000_0030_0010_0048, 1_000, 40, 41,
//! ];
//! let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
//!
//! let mut reader = Reader::new(&bytes[..]);
//! let mut switches = 0;
//! while let Some(item) = reader.next()? {
//!     if let Record::ContextSwitch(switch) = item.record {
//!         assert_eq!((switch.cpu.0, switch.time.0), (1, 1_000));
//!         assert_eq!((switch.outgoing.0, switch.incoming.0), (40, 41));
//!         switches += 1;
//!     }
//! }
//! assert_eq!(switches, 1);
//! assert!(reader.summary().is_complete());
//! # Ok(())
//! # }
//! ```
//!
//! The crate takes the position of every bit, the limits and the enumerations
//! from [`fxt_format`], as the writer does. The two crates share no code that encodes or decodes records, so each can test the other.

#![forbid(unsafe_code)]
#![cfg_attr(docsrs, feature(doc_cfg))]
#![warn(missing_docs)]

pub mod check;
mod cursor;
mod error;
mod input;
mod names;
mod oddities;
mod raw;
mod reader;
pub mod record;
mod resync;
mod strings;
mod summary;
mod tables;
mod types;

pub use error::{Damage, Error, Reason};
pub use input::ReadAhead;
pub use names::Names;
pub use oddities::Oddities;
pub use raw::RawRecord;
pub use reader::{DEFAULT_MAX_RECORD_BYTES, Decoder, Item, Reader, Visitor};
pub use record::{Kind, Record};
pub use summary::Summary;
pub use types::{
    ByteOrder, Container, Cpu, Koid, Nanos, ObjectType, ProviderId, RecordType, Thread, ThreadState,
};

/// The examples of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
