//! The state of a thread during the pass.

use fxt_reader::Cpu;
use fxtrec_sched::{State, Thread};

use super::delays::Longest;
use super::earlier_queues::EarlierQueues;
use super::sleeps::Sleeps;
use crate::facts::FactTallies;
use crate::model::Wait;
use crate::tally::Tally;
use fxtrec_gates::Metric;

/// Represents the waker if an interrupt woke the thread. No thread has this koid.
pub(super) const BY_INTERRUPT: u64 = u64::MAX;

/// The metric that counts the time in a state, unless the state is running.
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
/// A switch accesses two of these, which are rarely in the L1 cache: the fields that every switch needs come first, within one cache line.
#[derive(Debug, Default)]
#[repr(C, align(64))]
pub(super) struct Live {
    pub(super) koid: u64,
    pub(super) doing: Thread,
    /// The CPU that it last ran on.
    pub(super) last_cpu: Option<Cpu>,
    /// The system call that it is blocked in.
    pub(super) call: Option<u16>,
    /// Whether its waits may be among the longest.
    pub(super) chosen: bool,
    /// The thread that woke it last; 0 if unknown, [`BY_INTERRUPT`] if no thread did.
    pub(super) waker: u64,
    /// Its longest wait, in nanoseconds.
    pub(super) longest: u64,
    pub(super) cpu_time: u64,
    pub(super) involuntary: u64,
    pub(super) voluntary: u64,
    pub(super) migrations: u64,
    pub(super) inferred: u64,
    /// How long it was blocked before its last wakeup.
    pub(super) blocked: Option<u64>,
    /// A sleep must be longer than this, in nanoseconds, to be among its longest.
    pub(super) blocked_floor: u64,
    /// A delay must be longer than this, in nanoseconds, to be among its longest.
    pub(super) delay_floor: u64,
    /// The system call in which it was blocked before its last wakeup.
    pub(super) woken_from: Option<u16>,
    /// How long it waited before it was last switched in, and why.
    pub(super) waited: Option<(Metric, u64)>,
    pub(super) facts: Option<Box<FactTallies>>,
    /// Where it waited before it changed queues, during the wait that the `EarlierQueues` describes.
    pub(super) earlier_queues: Option<Box<EarlierQueues>>,
    pub(super) worst: Option<Box<Wait>>,
    /// Its longest sleeps.
    pub(super) sleeps: Option<Box<Sleeps>>,
    /// Its longest delays.
    pub(super) delays: Option<Box<Longest>>,
    pub(super) tallies: [Tally; 6],
}

impl Live {
    /// Counts a switch-in on a CPU, whose samples may count, by a switch that may be inferred.
    #[inline(always)]
    pub(super) fn came_in(&mut self, cpu: Cpu, (counted, inferred): (bool, bool)) {
        if counted {
            self.inferred += u64::from(inferred);
            self.migrations += u64::from(self.last_cpu.is_some_and(|last| last != cpu));
        }
    }
}
