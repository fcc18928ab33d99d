//! What is known of a thread while the trace goes on.

use fxt_reader::Cpu;
use fxtrec_sched::{State, Thread};

use super::delays::Longest;
use super::sleeps::Sleeps;
use super::way::Way;
use crate::facts::FactTallies;
use crate::model::Wait;
use crate::tally::Tally;
use fxtrec_gates::Metric;

/// In place of a waker: an interrupt woke it. No thread has this koid.
pub(super) const BY_INTERRUPT: u64 = u64::MAX;

/// What the time that a thread spends in a state is counted as, apart from running.
pub(super) fn metric(state: State) -> Option<Metric> {
    match state {
        State::Woken | State::WokenThrottled => Some(Metric::Wakeup),
        State::Preempted | State::Throttled => Some(Metric::Preemption),
        State::Uninterruptible => Some(Metric::BlockedUninterruptible),
        _ if state.is_blocked() => Some(Metric::Blocked),
        _ => None,
    }
}

/// A thread that has not ended.
///
/// A switch looks at two of these, which then are seldom in the nearest cache: what it always needs comes first, within a
/// cache line.
#[derive(Debug, Default)]
#[repr(C, align(64))]
pub(super) struct Live {
    pub(super) koid: u64,
    pub(super) doing: Thread,
    /// The CPU that it last ran on.
    pub(super) last_cpu: Option<Cpu>,
    /// The system call that it is blocked in.
    pub(super) call: Option<u16>,
    /// Whether its waits are wanted among the longest.
    pub(super) chosen: bool,
    /// Who woke it last; 0 when that is not known, [`BY_INTERRUPT`] when nobody did.
    pub(super) waker: u64,
    /// Its longest wait, in nanoseconds.
    pub(super) longest: u64,
    pub(super) cpu_time: u64,
    pub(super) involuntary: u64,
    pub(super) voluntary: u64,
    pub(super) migrations: u64,
    pub(super) inferred: u64,
    /// How long it was blocked before it was last woken.
    pub(super) blocked: Option<u64>,
    /// For how long it must be blocked to be among its longest times, in nanoseconds: longer than that.
    pub(super) blocked_floor: u64,
    /// How long a delay must be to be among its longest, in nanoseconds: longer than that.
    pub(super) delay_floor: u64,
    /// The system call in which it was blocked before it was last woken.
    pub(super) woken_from: Option<u16>,
    /// How long it waited before it last came in, and why.
    pub(super) waited: Option<(Metric, u64)>,
    pub(super) facts: Option<Box<FactTallies>>,
    /// Where it waited before it changed queues; of the wait that began then.
    pub(super) way: Option<Box<Way>>,
    pub(super) worst: Option<Box<Wait>>,
    /// The longest times for which it was blocked.
    pub(super) sleeps: Option<Box<Sleeps>>,
    /// Its longest delays.
    pub(super) delays: Option<Box<Longest>>,
    pub(super) tallies: [Tally; 6],
}

impl Live {
    /// Takes note that it got a CPU, which may count, by a switch that may be inferred.
    #[inline(always)]
    pub(super) fn came_in(&mut self, cpu: Cpu, (counted, inferred): (bool, bool)) {
        if counted {
            self.inferred += u64::from(inferred);
            self.migrations += u64::from(self.last_cpu.is_some_and(|last| last != cpu));
        }
    }
}
