//! The encoder's state for probes, tracepoints, system calls and interrupts.
//!
//! All possible events are known before the recording begins: a [`catalog`] has the event that the samples of each become, and registers
//! every name. [`fields`] decodes the contents of a sample. The beginning of a duration must be remembered: [`spans`] stores the open
//! durations of each thread, and [`interrupts`] those of each CPU.

pub mod catalog;
pub mod fields;
pub mod interrupts;
pub mod spans;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Hits of user probes, without returns that end a span.
    pub probe_hits: u64,
    pub tracepoints: u64,
    pub syscalls: u64,
    /// Interrupts that began, hard and soft.
    pub interrupts: u64,
    /// Ends whose beginning was not recorded: it was before the recording, or was lost.
    pub unmatched_ends: u64,
    /// Durations whose end was not recorded; they were ended when that became clear.
    pub inferred_ends: u64,
    /// Durations that had not ended when their thread or the recording did.
    pub unfinished: u64,
    /// Samples that are shorter than their format.
    pub undecoded: u64,
}

impl Counts {
    pub fn total(&self) -> u64 {
        self.probe_hits + self.tracepoints + self.syscalls + self.interrupts
    }
}
