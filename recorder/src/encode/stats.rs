//! What was recorded, counted.

use super::probes::Counts;

/// Counts of one recording.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Switches that the kernel reported.
    pub switches: u64,
    /// Of these, the ones that are in the trace.
    pub switches_written: u64,
    /// Wake-ups that the kernel reported, those of new threads included.
    pub wakeups: u64,
    /// Of these, the ones that are in the trace.
    pub wakeups_written: u64,
    /// Wake-ups of threads that were awake, which are not in the trace.
    pub spurious_wakeups: u64,
    /// `sched_waking` events.
    pub wakings: u64,
    /// Switches that the kernel did not report, and that are in the trace as inferred.
    pub inferred_switches: u64,
    /// Samples for which the kernel found no room.
    pub lost: u64,
    /// Times that the kernel reported such a loss.
    pub losses: u64,
    /// Threads that are in the trace.
    pub threads: u64,
    /// Processes that are in the trace.
    pub processes: u64,
    /// Threads that were created.
    pub forks: u64,
    /// Threads that ended.
    pub exits: u64,
    /// Names that were changed, by execve(2) or otherwise.
    pub renames: u64,
    /// What was recorded beside the scheduler's events.
    pub probes: Counts,
}
