//! The occupants of the CPUs that a thread waited for, if its wait changed queues or was interrupted by a quota.
//!
//! ```text
//! wait     |--- queue of CPU 0 ---|=== throttled ===|--- queue of CPU 1 ---|
//! asked     CPU 0's history         none             CPU 1's history
//! ```

use fxt_reader::{Cpu, Nanos};
use fxtrec_sched::{Held, TimeInterval};

use super::history::{History, OnCpu, Segment};
use super::{Analysis, Observer};
use crate::model::Move;

/// The maximum number of moves that are listed for a wait.
const MOST_MOVES: usize = 16;

/// The maximum number of threads whose shares are stored for the queues that a thread has left.
const MOST_SUMS: usize = 64;

/// Where a thread waited before it changed queues.
#[derive(Debug)]
pub(super) struct EarlierQueues {
    pub(super) begin: u64,
    /// When it entered its current queue.
    pub(super) at: u64,
    /// The first moves.
    pub(super) moves: Vec<Move>,
    /// The occupants of the CPUs of earlier queues.
    passed: Segment,
}

impl EarlierQueues {
    pub(super) fn new(begin: u64) -> EarlierQueues {
        EarlierQueues { begin, at: begin, moves: Vec::new(), passed: Segment::new(begin) }
    }

    /// The thread moves to another queue. If a quota held it back in that time, how long it waited for the old CPU is unknown.
    pub(super) fn pass(
        &mut self,
        (from, to): (Cpu, Cpu),
        now: u64,
        throttled: bool,
        history: &History,
    ) {
        match throttled {
            true => self.passed.extend(OnCpu::Unknown, now),
            false => {
                self.passed.skip_to(self.at);
                history.add_until(now, &mut self.passed);
            }
        }
        self.passed.trim(MOST_SUMS);
        self.at = now;
        if self.moves.len() < MOST_MOVES {
            self.moves.push(Move { at: Nanos(now), from, to });
        }
    }
}

impl<O: Observer> Analysis<O> {
    /// Sums up the occupants of the CPUs that a thread waited for, except while a quota held it back.
    pub(super) fn sum_antagonists(
        &mut self,
        (begin, end): (Nanos, Nanos),
        cpu: Cpu,
        earlier_queues: Option<&EarlierQueues>,
        held: Option<Held<'_>>,
    ) {
        let sum = &mut self.meanwhile;
        sum.reset(begin.0);
        let whole = (end.0 - begin.0).saturating_sub(held.map_or(0, |held| held.nanos));
        let intervals: Vec<TimeInterval> = match held {
            Some(held) => match self.periods.place(held) {
                Some(intervals) => intervals,
                None => return sum.add_unknown(whole),
            },
            None => Vec::new(),
        };
        if let Some(earlier_queues) = earlier_queues {
            match intervals[..] {
                [] => sum.append(&earlier_queues.passed),
                [(from, until)] if from == begin => {
                    sum.add_unknown(earlier_queues.at.saturating_sub(until.0));
                }
                _ => return sum.add_unknown(whole),
            }
            sum.skip_to(earlier_queues.at);
        }
        let history = &self.cpus.get(cpu.0).history;
        for (from, until) in intervals {
            history.add_until(from.0, sum);
            sum.skip_to(until.0);
        }
        history.add_until(end.0, sum);
    }
}
