//! From typed events to FXT records: koids, names, states, weights, and each CPU's chain of threads.
//!
//! [`encoder`] takes the events of all CPUs in order of time. What it needs to
//! know about threads is kept by [`threads`]; which thread has which CPU by
//! [`chain`]. Its records go into [`lanes`](fxt_writer::lanes).

pub mod chain;
pub mod closed;
pub mod encoder;
pub mod generations;
pub mod ids;
pub mod lookup;
pub mod moment;
pub mod probes;
pub mod snapshot;
pub mod stats;
pub mod strings;
pub mod threads;
pub mod unrecorded;

pub use threads::weight;

#[cfg(test)]
mod tests;
