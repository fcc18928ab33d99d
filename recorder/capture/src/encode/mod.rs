//! Encodes typed events as FXT records: koids, names, states, weights, and each CPU's chain of threads.
//!
//! [`encoder`] takes the events of all CPUs in time order. [`threads`] stores what it needs to know about threads; [`chain`] stores which
//! thread is on which CPU. Its records go into [`lanes`](fxt_writer::lanes).

pub mod chain;
pub mod encoder;
pub mod generations;
pub mod ids;
pub mod lookup;
pub mod moment;
pub mod periods;
pub mod probes;
pub mod snapshot;
pub mod stats;
pub mod strings;
pub mod threads;
pub mod throttles;
pub mod unrecorded;

pub use threads::weight;

use fxt_writer::WriteError;

/// The trace accepts no more records: it is full, or its sink has failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the trace is closed")]
pub struct Closed;

impl<Full> From<WriteError<Full>> for Closed {
    #[inline]
    fn from(_: WriteError<Full>) -> Closed {
        Closed
    }
}

#[cfg(test)]
mod tests;
