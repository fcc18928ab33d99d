//! Counts of the recorded events.

use super::probes::Counts;
use crate::event::{Loss, LostOthers};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Switches that the kernel reported.
    pub switches: u64,
    /// The number in the trace.
    pub switches_written: u64,
    /// Wakeups that the kernel reported, including those of new threads.
    pub wakeups: u64,
    /// The number in the trace.
    pub wakeups_written: u64,
    /// Wakeups of threads that were already awake; they are not in the trace.
    pub spurious_wakeups: u64,
    pub wakings: u64,
    /// Moves between queues that the kernel reported.
    pub moves: u64,
    /// Switches that the kernel did not report; the trace has them as inferred.
    pub inferred_switches: u64,
    /// Threads outside a narrow scope that were shown on a CPU since a thread in scope waited for it; the trace has an inferred switch each.
    pub occupants: u64,
    /// The counted missing events of the scheduler and of probes.
    pub lost: u64,
    /// Whether the number may be lower: some events were counted together with redundant records.
    pub lost_at_most: bool,
    /// The number of times that such a loss was reported.
    pub losses: u64,
    /// The number of these losses of unknown size; [`Stats::lost`] does not include them.
    pub unknown_losses: u64,
    /// Missing records of the kind that reports an incoming thread where no tracepoint does.
    pub lost_switch_records: u64,
    /// Non-scheduler events that are missing where no switch or wakeup is; not included in [`Stats::lost`].
    pub lost_others: u64,
    /// Whether the number may be lower.
    pub lost_others_at_most: bool,
    /// The counted missing forks, exits and names.
    pub lost_lives: u64,
    /// How often an unknown number of them is missing.
    pub unseen_lives: u64,
    /// Threads that are in the trace.
    pub threads: u64,
    /// Processes that are in the trace.
    pub processes: u64,
    pub forks: u64,
    pub exits: u64,
    /// Names that were changed, by execve(2) or otherwise.
    pub renames: u64,
    /// Counts of non-scheduler events.
    pub probes: Counts,
}

impl Stats {
    pub fn count_loss(&mut self, loss: &Loss) {
        self.lost = self.lost.saturating_add(loss.events.unwrap_or(0));
        self.lost_at_most |= loss.at_most;
        self.losses += 1;
        self.unknown_losses += u64::from(loss.events.is_none());
        self.lost_switch_records = self.lost_switch_records.saturating_add(loss.switch_records);
    }

    pub fn count_lost_others(&mut self, lost: LostOthers) {
        self.lost_others = self.lost_others.saturating_add(lost.count);
        self.lost_others_at_most |= lost.at_most;
    }

    /// Whether no events are known to be missing.
    pub fn is_whole(&self) -> bool {
        self.losses == 0 && self.lost_others == 0 && self.lost_lives == 0 && self.unseen_lives == 0
    }
}
