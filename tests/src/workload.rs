//! The output of `workload threads` about its threads, compared with a trace.

use crate::trace::Trace;

/// The kernel's report about a thread of the workload.
#[derive(Clone, Copy, Debug)]
pub struct Thread {
    pub koid: u64,
    pub begin: u64,
    pub end: u64,
    pub switches: u64,
}

impl Thread {
    pub fn has(&self, time: u64) -> bool {
        (self.begin..=self.end).contains(&time)
    }

    /// How often it is switched out in the trace while the kernel counted.
    pub fn outs(&self, trace: &Trace) -> u64 {
        trace.outs(self.koid).filter(|switch| self.has(switch.time)).count() as u64
    }
}

/// The threads that the workload printed a line for.
///
/// # Panics
/// When it printed something else.
pub fn threads(printed: &str) -> Vec<Thread> {
    let number = |word: &str| word.parse().expect("a number");
    let thread = |line: &str| {
        let words: Vec<u64> = line.split_whitespace().map(number).collect();
        Thread { koid: words[0], begin: words[1], end: words[2], switches: words[3] }
    };
    printed.lines().map(thread).collect()
}
