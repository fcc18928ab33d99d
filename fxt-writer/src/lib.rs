//! Writes the Fuchsia trace format (FXT).
//!
//! The crate has two halves that can be used separately: the encoder, which turns
//! typed records into 64-bit words, and the trace engine, in which many threads
//! write such records to one buffer and which hands full parts of it to a saver.
//!
//! There are two levels. [`Writer`] takes events by name and keeps the tables of
//! strings and threads; with the records of [`record`], the caller manages every
//! reference. A trace in memory, at the lower level:
//!
//! ```
//! use fxt_writer::record::{Event, EventKind, Initialization, Magic, ProviderInfo, Record};
//! use fxt_writer::{Koid, ProviderId, Text, ThreadName, Ticks};
//!
//! let mut trace: Vec<u8> = Vec::new();
//! Magic.write(&mut trace)?;
//! ProviderInfo { id: ProviderId(1), name: "example" }.write(&mut trace)?;
//! Initialization { ticks_per_second: 1_000_000_000 }.write(&mut trace)?;
//! Event {
//!     kind: EventKind::Instant,
//!     time: Ticks(42),
//!     thread: ThreadName::Inline { process: Koid(1), thread: Koid(2) },
//!     category: Text::Inline("example"),
//!     name: Text::Inline("hello"),
//!     args: &[],
//! }
//! .write(&mut trace)?;
//! assert_eq!(trace.len() % 8, 0);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![warn(missing_docs)]
#![cfg_attr(docsrs, feature(doc_cfg))]

pub mod engine;
pub mod lanes;
/// The format itself: tables of fields, limits, and record boundaries.
pub use fxt_format as layout;
pub mod packet;
#[cfg(all(feature = "provider", target_os = "linux", not(loom)))]
pub mod provider;
pub mod record;
pub mod space;
pub mod text;
pub mod writer;

mod arg;
mod error;
mod ids;

pub use arg::{Arg, Args, ShortArgs, StringRef, Text, Value};
pub use error::{EncodeError, WriteError};
pub use ids::{Koid, ProviderId, ThreadName, ThreadRef, Ticks};
pub use space::{Slot, Space};
pub use writer::Writer;

/// The examples of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
