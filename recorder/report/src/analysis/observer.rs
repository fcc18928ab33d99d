//! What an analysis shows of a trace as it goes: what became of CPUs and threads, as its machine has it.

use fxt_reader::record::Args;
use fxt_reader::{Cpu, Item, Koid, Nanos, ThreadState};
use fxtrec_gates::Metric;
use fxtrec_sched::{Change, Met, Occupant, Periods, State, SwitchArgs, Thread};

use super::history::Shares;
use super::roster::Roster;
use crate::facts::Causes;
use crate::model::{Gap, Span};

/// Is shown what an analysis makes of a trace, as it goes.
pub trait Observer {
    /// A record is about to be looked at.
    #[inline]
    fn record(&mut self, _: &Item<'_>) {}

    /// A CPU has gone from one to another.
    #[inline(always)]
    fn switched(&mut self, _: &Switched<'_>) {}

    /// A wake-up was recorded, perhaps of a thread that was awake.
    #[inline(always)]
    fn woken(&mut self, _: &Woken<'_>) {}

    /// A thread has gone over to the queue of another CPU.
    #[inline]
    fn moved(&mut self, _: &Moved) {}

    /// Nobody has a CPU any more, or nobody knows who does.
    #[inline]
    fn vacated(&mut self, _: &Vacated) {}

    /// A CPU was used by one for some time, as far as figures count that.
    #[inline(always)]
    fn ran(&mut self, _: &Ran<'_>) {}

    /// A thread has gone over from one state to another, by a switch that may say more, or otherwise.
    #[inline(always)]
    fn changed(&mut self, _: &Change<Koid>, _: Option<&SwitchArgs<'_>>) {}

    /// Whether it wants to be shown every wait whose length is known, which takes looking up who had the CPUs.
    #[inline(always)]
    fn wants_waits(&self) -> bool {
        false
    }

    /// A wait is over.
    fn waited(&mut self, _: &Waited<'_>) {}

    /// Events are missing.
    fn lost(&mut self, _: &Gap) {}

    /// The trace ended while a thread did this.
    fn still(&mut self, _: Koid, _: &Thread, _: Nanos) {}

    /// A thread other than idle has left a CPU, by a switch that was not inferred.
    fn switched_out(&mut self, _: &SwitchedOut<'_>, _: Names<'_>) {}

    /// Whether it has seen enough: the analysis may then end early.
    fn is_content(&self) -> bool {
        false
    }
}

impl Observer for () {}

/// A switch, and what follows from it.
#[derive(Clone, Copy, Debug)]
pub struct Switched<'a> {
    pub time: Nanos,
    pub cpu: Cpu,
    /// Whether who goes out is the one that was thought to have the CPU.
    pub met: Met,
    /// Who was thought to have the CPU, and is anywhere now.
    pub displaced: Option<Koid>,
    pub outgoing: Occupant<Koid>,
    /// What the thread that goes out did until now.
    pub before: Option<Thread>,
    /// What it does next.
    pub next: State,
    pub incoming: Occupant<Koid>,
    /// What the thread that comes in did until now.
    pub waited: Option<Thread>,
    /// What the record says besides, if it says more than usual.
    pub said: Option<&'a SwitchArgs<'a>>,
    /// When cgroups were throttled.
    pub periods: &'a Periods,
}

/// A time for which a CPU was used.
#[derive(Clone, Copy, Debug)]
pub struct Ran<'a> {
    /// From when to when.
    pub span: Span,
    pub cpu: Cpu,
    pub who: Occupant<Koid>,
    /// Whether its beginning and its end were reported, so that it is a sample.
    pub is_whole: bool,
    /// What a thread does next; `None` if it goes on beyond the trace, or is none.
    pub next: Option<State>,
    /// What the record of its end says besides, if it says more than usual.
    pub said: Option<&'a SwitchArgs<'a>>,
}

/// A wait for a CPU whose length is known, and who had the CPU meanwhile.
#[derive(Clone, Copy, Debug)]
pub struct Waited<'a> {
    pub thread: Koid,
    /// [`Metric::Wakeup`] or [`Metric::Preemption`].
    pub metric: Metric,
    pub span: Span,
    /// The CPU on whose queue the thread was put at first.
    pub queued_on: Cpu,
    /// The CPU it came in on.
    pub ran_on: Cpu,
    /// How long of `span` its cgroup's quota was used up, in nanoseconds: no part of the wait.
    pub throttled: u64,
    /// Whose quota that was, where that is known.
    pub throttled_by: Option<&'a str>,
    /// Who woke it, where the trace says so.
    pub waker: Option<Koid>,
    /// Whether an interrupt did.
    pub by_interrupt: bool,
    pub shares: &'a Shares,
}

/// A wake-up, and what follows from it.
#[derive(Clone, Copy, Debug)]
pub struct Woken<'a> {
    pub time: Nanos,
    /// The CPU that the thread is to run on.
    pub cpu: Cpu,
    pub thread: Koid,
    /// What it does now; `None` if it could run already.
    pub next: Option<State>,
    /// What the record says besides.
    pub args: Args<'a>,
}

/// A thread that goes over to another queue, as it waits or is woken.
#[derive(Clone, Copy, Debug)]
pub struct Moved {
    pub time: Nanos,
    pub thread: Koid,
    pub from: Cpu,
    pub to: Cpu,
}

/// A CPU of which nothing is known from now on.
#[derive(Clone, Copy, Debug)]
pub struct Vacated {
    pub time: Nanos,
    pub cpu: Cpu,
    /// Since the CPU's last switch, events were lost: how many, where that is known. `None` if nothing was lost.
    pub lost: Option<Option<u64>>,
    /// The thread that was thought to run there, and is anywhere now.
    pub thread: Option<Koid>,
}

/// What is known of a thread when it leaves a CPU.
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
    /// The state it left in.
    pub state: ThreadState,
    /// The kernel's letters, where the trace keeps them.
    pub detail: Option<&'a str>,
    /// Which facts the recording has, and so which of the following are known.
    pub causes: Causes,
    /// For how long a quota held it back before it ran, in nanoseconds.
    pub throttled: u64,
    /// How long the host took the CPU while it ran, in nanoseconds.
    pub steal: u64,
    /// How long interrupts took the CPU while it ran, in nanoseconds.
    pub irq: u64,
}

/// The names of threads, as far as the trace has told them.
#[derive(Clone, Copy, Debug)]
pub struct Names<'a>(pub(super) &'a Roster);

impl<'a> Names<'a> {
    /// The thread's name, and the id of its process.
    pub fn of(self, thread: Koid) -> (Option<&'a str>, Option<u64>) {
        self.0.comm_and_pid(thread.0)
    }

    /// The path of its process's cgroup, where that is known.
    pub fn cgroup(self, thread: Koid) -> Option<&'a str> {
        self.0.cgroup(thread.0).map(|path| &**path)
    }

    pub fn tid(self, thread: Koid) -> u64 {
        self.0.tid(thread.0)
    }
}
