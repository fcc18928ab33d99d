//! What was recorded, counted.

use super::probes::Counts;
use crate::event::{Loss, LostOthers};

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
    pub wakings: u64,
    /// Moves between queues that the kernel reported.
    pub moves: u64,
    /// Switches that the kernel did not report, and that are in the trace as inferred.
    pub inferred_switches: u64,
    /// Events of the scheduler and of probes that are missing, as far as they were counted.
    pub lost: u64,
    /// Whether they may be fewer: some were counted together with records that tell nothing new.
    pub lost_at_most: bool,
    /// Times that such a loss was reported.
    pub losses: u64,
    /// How many of these were of a size that nobody knows, which is not in [`Stats::lost`].
    pub unknown_losses: u64,
    /// Records that are missing of those that say who came in where no tracepoint does.
    pub lost_switch_records: u64,
    /// Events beside the scheduler's that are missing where no switch or wake-up is; they are not in [`Stats::lost`].
    pub lost_others: u64,
    /// Whether they may be fewer.
    pub lost_others_at_most: bool,
    /// Forks, exits and names that are missing, as far as they were counted.
    pub lost_lives: u64,
    /// Times that nobody knows how many of these are.
    pub unseen_lives: u64,
    /// Threads that are in the trace.
    pub threads: u64,
    /// Processes that are in the trace.
    pub processes: u64,
    pub forks: u64,
    pub exits: u64,
    /// Names that were changed, by execve(2) or otherwise.
    pub renames: u64,
    /// What was recorded beside the scheduler's events.
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

    /// Whether every event is there, as far as anybody can know.
    pub fn is_whole(&self) -> bool {
        self.losses == 0 && self.lost_others == 0 && self.lost_lives == 0 && self.unseen_lives == 0
    }
}
