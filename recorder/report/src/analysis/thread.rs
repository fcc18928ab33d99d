//! What is known of a thread while the trace goes on.

use crate::model::Wait;
use crate::tally::Tally;
use fxtrec_gates::Metric;

/// What a thread does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum State {
    /// Not known: it was not seen yet, or something about it is missing.
    #[default]
    Unknown,
    /// It has a CPU.
    Running,
    /// It waits for a CPU.
    Waiting(Cause),
    /// It waits for something else.
    Blocked {
        /// In the kernel's state `D`.
        uninterruptible: bool,
    },
    /// It was stopped.
    Stopped,
}

/// Why a thread waits for a CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cause {
    /// It was woken.
    Woken,
    /// It was preempted, or gave way.
    Preempted,
}

impl Cause {
    pub(super) fn metric(self) -> Metric {
        match self {
            Cause::Woken => Metric::Wakeup,
            Cause::Preempted => Metric::Preemption,
        }
    }
}

/// The metric of a blocked time.
pub(super) fn blocked(uninterruptible: bool) -> Metric {
    if uninterruptible { Metric::BlockedUninterruptible } else { Metric::Blocked }
}

/// A thread that has not ended.
///
/// A switch looks at two of these, which then are seldom in the nearest cache: what it always needs comes first, within a
/// cache line.
#[derive(Debug, Default)]
#[repr(C, align(64))]
pub(super) struct Live {
    pub(super) koid: u64,
    /// When the state began.
    pub(super) since: u64,
    /// The epoch in which it began.
    pub(super) epoch: u32,
    /// The CPU that it has or waits for.
    pub(super) cpu: u16,
    pub(super) state: State,
    /// The CPU that it last ran on.
    pub(super) last_cpu: Option<u16>,
    /// Whether its waits are wanted among the longest.
    pub(super) chosen: bool,
    /// Who woke it last; 0 when that is not known.
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
    /// How long it waited before it last came in, and why.
    pub(super) waited: Option<(Cause, u64)>,
    pub(super) worst: Option<Box<Wait>>,
    pub(super) tallies: [Tally; 6],
}

impl Live {
    /// Gets a CPU, which may count, by a switch that may be inferred.
    #[inline(always)]
    pub(super) fn come_in(
        &mut self,
        cpu: u16,
        now: u64,
        epoch: u32,
        (counted, inferred): (bool, bool),
    ) {
        if counted {
            self.inferred += u64::from(inferred);
            self.migrations += u64::from(self.last_cpu.is_some_and(|last| last != cpu));
        }
        self.enter(State::Running, cpu, now, epoch);
    }

    /// Goes over to another state.
    #[inline]
    pub(super) fn enter(&mut self, state: State, cpu: u16, now: u64, epoch: u32) {
        self.state = state;
        self.cpu = cpu;
        self.since = now;
        self.epoch = epoch;
    }
}
