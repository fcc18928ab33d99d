//! Probes, tracepoints, system calls and interrupts, as the encoder keeps them.
//!
//! What may arrive is known before recording begins: a [`catalog`] says for
//! each event what its samples become, and registers every name. What a sample
//! carries is decoded by [`fields`]. A duration needs a memory of its begin:
//! [`spans`] keeps what each thread is inside of, [`interrupts`] the same of each
//! CPU.

pub mod catalog;
pub mod fields;
pub mod interrupts;
pub mod spans;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Hits of user probes, returns not counted where they end a span.
    pub probe_hits: u64,
    pub tracepoints: u64,
    pub syscalls: u64,
    /// Interrupts that began, hard and soft.
    pub interrupts: u64,
    /// Ends of something whose begin was not seen: it began before the recording did, or its begin was lost.
    pub unmatched_ends: u64,
    /// Durations whose end was not seen, and that were ended when that became clear.
    pub inferred_ends: u64,
    /// Durations that had not ended when their thread or the recording did.
    pub unfinished: u64,
    /// Samples that are shorter than their description.
    pub undecoded: u64,
}

impl Counts {
    pub fn total(&self) -> u64 {
        self.probe_hits + self.tracepoints + self.syscalls + self.interrupts
    }
}
