//! Where the time of an interval of a thread went: its parts, and the chain of threads that it waited for.
//!
//! The report's rows and gates for spans, and the sentences of `fxtrec why`, are all based on this crate:
//!
//! ```text
//!   records -> track: what threads do -> log: what they did lately -> chain: steps that tile an interval -> parts: sums
//! ```
//!
//! The states of threads come from the [scheduling machine](fxtrec_sched), as in the report. `docs/reference/why.md` defines every part.
//! The parts of an interval sum up to its length, and the steps of its chain tile it, to the nanosecond; unknown time is a part too.

#![forbid(unsafe_code)]

pub mod chain;
mod class;
pub mod cpus;
mod facts;
pub mod log;
pub mod origins;
pub mod parts;
pub mod pass;
pub mod spans;
pub mod threads;
pub mod track;
pub mod trigger;
pub mod worst;

pub use class::Class;
pub use facts::{Cause, Causes};
