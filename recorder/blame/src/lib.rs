//! Where the time of an interval of a thread went: its parts, and the chain of threads that it waited for.
//!
//! The report's rows and gates of spans, and the sentences of `fxtrec why`, are all made of what this crate finds:
//!
//! ```text
//!   records -> track: what threads do -> log: what they did lately -> chain: steps that tile an interval -> parts: sums
//! ```
//!
//! What threads do is worked out by the [scheduling machine](fxtrec_sched), as in the report. `docs/reference/why.md` defines every part.
//! The parts of an interval sum up to it, and the steps of its chain tile it, to the nanosecond; what is not known is a part
//! too.

#![forbid(unsafe_code)]

pub mod chain;
mod class;
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
