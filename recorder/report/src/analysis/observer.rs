//! Changes of CPUs and threads that an analysis reports to observers while it runs.

use fxt_reader::record::Args;
use fxt_reader::{Cpu, Item, Koid, Nanos, ThreadState};
use fxtrec_gates::Metric;
use fxtrec_sched::{Change, Met, Occupant, Periods, State, SwitchArgs, Thread};

use super::history::Shares;
use super::thread_figures::ThreadFigures;
use crate::facts::Causes;
use crate::model::{Gap, Span};

/// Receives the results of an analysis while it runs.
pub trait Observer {
    /// A record is about to be analysed.
    #[inline]
    fn record(&mut self, _: &Item<'_>) {}

    /// A CPU has switched.
    #[inline(always)]
    fn switched(&mut self, _: &Switched<'_>) {}

    /// A wakeup was recorded; the thread may have been awake already.
    #[inline(always)]
    fn woken(&mut self, _: &Woken<'_>) {}

    /// A thread has moved to the queue of another CPU.
    #[inline]
    fn moved(&mut self, _: &Moved) {}

    /// A CPU has no occupant, or an unknown one.
    #[inline]
    fn vacated(&mut self, _: &Vacated) {}

    /// A CPU had one occupant for some time that counts in the figures.
    #[inline(always)]
    fn ran(&mut self, _: &Ran<'_>) {}

    /// A thread has changed its state. If a switch caused this, its additional arguments are included.
    #[inline(always)]
    fn changed(&mut self, _: &Change<Koid>, _: Option<&SwitchArgs<'_>>) {}

    /// Whether to call [`waited`](Self::waited) for every wait of known length, which requires looking up who had the CPUs.
    #[inline(always)]
    fn wants_waits(&self) -> bool {
        false
    }

    /// A wait has ended.
    fn waited(&mut self, _: &Waited<'_>) {}

    /// Events are missing.
    fn lost(&mut self, _: &Gap) {}

    /// The trace ended while a thread was in this state.
    fn still(&mut self, _: Koid, _: &Thread, _: Nanos) {}

    /// A thread other than an idle task has left a CPU, by a switch that was not inferred.
    fn switched_out(&mut self, _: &SwitchedOut<'_>, _: Names<'_>) {}

    /// Whether the observer has seen enough, so that the analysis may end early.
    fn is_content(&self) -> bool {
        false
    }
}

impl Observer for () {}

/// A switch and its effects.
#[derive(Clone, Copy, Debug)]
pub struct Switched<'a> {
    pub time: Nanos,
    pub cpu: Cpu,
    /// Whether the outgoing thread is the one that was expected to have the CPU.
    pub met: Met,
    /// The thread that was expected to have the CPU, and may now be on any CPU.
    pub displaced: Option<Koid>,
    pub outgoing: Occupant<Koid>,
    /// The state of the outgoing thread until now.
    pub before: Option<Thread>,
    /// Its next state.
    pub next: State,
    pub incoming: Occupant<Koid>,
    /// The state of the incoming thread until now.
    pub waited: Option<Thread>,
    /// Additional arguments of the record, if it has more than the usual ones.
    pub said: Option<&'a SwitchArgs<'a>>,
    /// When cgroups were throttled.
    pub periods: &'a Periods,
}

/// An interval in which a CPU was used.
#[derive(Clone, Copy, Debug)]
pub struct Ran<'a> {
    /// Its begin and end.
    pub span: Span,
    pub cpu: Cpu,
    pub who: Occupant<Koid>,
    /// Whether its begin and its end were reported, so that it counts as a sample.
    pub is_whole: bool,
    /// The next state of the thread; `None` if it continues after the trace, or if it is not a thread.
    pub next: Option<State>,
    /// Additional arguments of the record at its end, if it has more than the usual ones.
    pub said: Option<&'a SwitchArgs<'a>>,
}

/// A wait for a CPU of known length, and which threads had the CPU during it.
#[derive(Clone, Copy, Debug)]
pub struct Waited<'a> {
    pub thread: Koid,
    /// [`Metric::Wakeup`] or [`Metric::Preemption`].
    pub metric: Metric,
    pub span: Span,
    /// The CPU on whose queue the thread was at first.
    pub queued_on: Cpu,
    /// The CPU on which it ran afterwards.
    pub ran_on: Cpu,
    /// The time within `span` in which its cgroup's quota was used up, in nanoseconds. It does not count as waiting.
    pub throttled: u64,
    /// The cgroup whose quota that was, if known.
    pub throttled_by: Option<&'a str>,
    /// The thread that woke it, if the trace contains that.
    pub waker: Option<Koid>,
    /// Whether an interrupt woke it.
    pub by_interrupt: bool,
    pub shares: &'a Shares,
}

/// A wakeup and its effects.
#[derive(Clone, Copy, Debug)]
pub struct Woken<'a> {
    pub time: Nanos,
    /// The CPU on which the thread will run.
    pub cpu: Cpu,
    pub thread: Koid,
    /// The new state of the thread; `None` if it was already able to run.
    pub next: Option<State>,
    /// Additional arguments of the record.
    pub args: Args<'a>,
}

/// A thread that moves to another queue while it waits or when it is woken.
#[derive(Clone, Copy, Debug)]
pub struct Moved {
    pub time: Nanos,
    pub thread: Koid,
    pub from: Cpu,
    pub to: Cpu,
}

/// A CPU whose occupant is unknown from now on.
#[derive(Clone, Copy, Debug)]
pub struct Vacated {
    pub time: Nanos,
    pub cpu: Cpu,
    /// The number of events that were lost since the CPU's last switch, if known. The outer `None` means that no events were lost.
    pub lost: Option<Option<u64>>,
    /// The thread that was expected to run there, and may now be on any CPU.
    pub thread: Option<Koid>,
}

/// The known facts about a thread when it leaves a CPU.
#[derive(Clone, Copy, Debug)]
pub struct SwitchedOut<'a> {
    pub time: Nanos,
    pub cpu: Cpu,
    pub koid: Koid,
    /// How long it had been blocked before it was woken, in nanoseconds.
    pub blocked: Option<u64>,
    /// How long it had waited for the CPU after that, in nanoseconds.
    pub latency: Option<u64>,
    /// How long it had waited for the CPU after it was preempted, in nanoseconds.
    pub preempted: Option<u64>,
    /// How long it ran, in nanoseconds.
    pub ran: Option<u64>,
    /// The state in which it left the CPU.
    pub state: ThreadState,
    /// The kernel's letters, if the trace has them.
    pub detail: Option<&'a str>,
    /// The facts that the recording has; they decide which of the following fields are known.
    pub causes: Causes,
    /// How long a quota held it back before it ran, in nanoseconds.
    pub throttled: u64,
    /// How much of the CPU's time the host took while it ran, in nanoseconds.
    pub steal: u64,
    /// How much of the CPU's time interrupts took while it ran, in nanoseconds.
    pub irq: u64,
}

/// The names of threads that the trace has named so far.
#[derive(Clone, Copy, Debug)]
pub struct Names<'a>(pub(super) &'a ThreadFigures);

impl<'a> Names<'a> {
    /// The thread's name, and the id of its process.
    pub fn of(self, thread: Koid) -> (Option<&'a str>, Option<u64>) {
        self.0.comm_and_pid(thread.0)
    }

    /// The path of its process's cgroup, if known.
    pub fn cgroup(self, thread: Koid) -> Option<&'a str> {
        self.0.cgroup(thread.0).map(|path| &**path)
    }

    /// The host of its process, in a merged trace.
    pub fn host(self, thread: Koid) -> Option<&'a str> {
        self.0.host(thread.0).map(|host| &**host)
    }

    pub fn tid(self, thread: Koid) -> u64 {
        self.0.tid(thread.0)
    }
}
