//! Computes figures from a trace: how long threads waited, for whom, and how long they ran.
//!
//! ```text
//!  fxt_reader::Reader --records--> Analysis --finish--> Report --> table, JSON, CSV, gates, page
//! ```
//!
//! An [`Analysis`] takes the records of a trace one by one and keeps a state
//! machine for each thread and each CPU. The result is a [`Report`]: plain data that can be sent to another thread, filtered and merged.
//! `docs/reference/figures.md` defines every figure.
//!
//! ```
//! use fxt_reader::Reader;
//! use fxtrec_report::{Metric, Options};
//!
//! # fn main() -> Result<(), fxt_reader::Error> {
//! // A magic number record; on CPU 1: 40 -> 41 at 1 us, 41 (blocked) -> 40 at 3 us.
//! let words = [
//!     0x0016_5478_4604_0010_u64,
//!     0x1000_0010_0010_0048, 1_000, 40, 41,
//!     0x1000_0030_0010_0048, 3_000, 41, 40,
//! ];
//! let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
//!
//! let report = fxtrec_report::analyse(Reader::from_slice(&bytes), Options::default())?;
//! let thread = report.threads().iter().find(|thread| thread.tid == Some(41)).unwrap();
//! assert_eq!(thread.metric(Metric::Slice).max().unwrap().as_micros(), 2);
//! assert_eq!(thread.stats.voluntary, 1);
//! # Ok(())
//! # }
//! ```

#![forbid(unsafe_code)]

pub mod analysis;
mod calls;
pub mod compare;
pub mod counters;
mod counts;
pub mod csv;
mod distribution;
mod facts;
pub mod fleet;
pub mod gates;
mod groups;
pub mod json;
pub mod locks;
mod model;
pub mod page;
#[cfg(any(test, feature = "scene"))]
pub mod scene;
mod selection;
pub mod spans;
pub mod stacks;
mod tally;
pub mod text;
pub mod timehist;

pub use analysis::{Analysis, Observer, Options, analyse};
pub use calls::{Call, call_name};
pub use distribution::{Bucket, Distribution};
pub use facts::{Cause, Causes, Facts, HostSteal, Quota};
pub use fxtrec_gates::{Metric, NoSuchMetric, SpanPart};
pub use fxtrec_units::glob::{Pattern, PatternError};
pub use groups::GroupBy;
pub use model::{
    Antagonist, Blocked, CpuReport, Delay, Gap, Incident, Losses, Move, Origin, ProcessReport,
    ProviderLosses, RecordGap, Recorder, Report, Sleep, Span, Stats, ThreadInfo, ThreadReport,
    Wait, WorstSpan,
};
pub use selection::{Selection, ThreadFilter, TimeRange, TimeSpec, Who};
pub use spans::{SpanFigures, SpanReport, SpanRow, SpanTime};
