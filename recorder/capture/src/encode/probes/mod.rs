//! Probes, tracepoints, system calls and interrupts, as the encoder keeps them.
//!
//! What may arrive is known before the recording begins: a [`catalog`] says what the samples of each event become, and registers every
//! name. [`fields`] decodes the contents of a sample. The beginning of a duration must be remembered: [`spans`] keeps what each thread is
//! inside of, and [`interrupts`] what each CPU is inside of.

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
    /// Ends whose beginning was not seen: it was before the recording, or was lost.
    pub unmatched_ends: u64,
    /// Durations whose end was not seen; they were ended when that became clear.
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
