//! The common interface of all capture sources: the rest of the crate does not depend on the source of events.
//!
//! A source is opened for all online CPUs, enabled, and then read repeatedly. It passes on events merged over all CPUs in order of time,
//! each loss at its place, and its times never decrease.
//!
//! ```text
//!   open -> enable -> find_silent -> begin -> narrow -> (wait -> round)* -> finish -> stats
//! ```
//!
//! The recording holds one as a `Box<dyn Source>`. The indirect call per event
//! is lost in what encoding the event costs.

use std::fmt::{self, Debug, Display, Formatter};
use std::io;
use std::time::Duration;

use super::event::{Event, Kind};
use fxtrec_kernel::bpf::events::BpfError;
use fxtrec_kernel::cpus::CpusError;
use fxtrec_kernel::ftrace::FtraceError;
use fxtrec_kernel::perf::{KernelCount, OpenError};
use fxtrec_kernel::priority::ThreadId;
use fxtrec_kernel::stop_token::StopToken;
use fxtrec_kernel::thread_times::ThreadTimes;
use fxtrec_units::glob::Pattern;
use fxtrec_units::{Cpu, Nanos, Pid};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SourceKind {
    /// Tracepoints of perf, one ring per CPU.
    Perf,
    /// Tracepoints of ftrace, in fxtrec's own instance.
    Ftrace,
    /// BPF programs in the kernel, with one lane of shared memory per CPU.
    Bpf,
}

impl SourceKind {
    /// Its name, on the command line and in the trace.
    pub fn name(self) -> &'static str {
        match self {
            SourceKind::Perf => "perf",
            SourceKind::Ftrace => "ftrace",
            SourceKind::Bpf => "bpf",
        }
    }
}

impl Display for SourceKind {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The reason why a source could not be opened, or could not follow a change of the machine.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SourceError {
    /// The list of CPUs cannot be read.
    #[error(transparent)]
    Cpus(#[from] CpusError),
    /// The perf events of a CPU cannot be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The tracing instance is not available.
    #[error(transparent)]
    Ftrace(#[from] FtraceError),
    /// The BPF programs are not available.
    #[error(transparent)]
    Bpf(#[from] BpfError),
    /// The source reports thread ids that cannot be mapped to this pid namespace.
    #[error("inside a pid namespace, BPF programs have other thread ids than perf's records")]
    InnerPidNamespace,
    /// `sched_switch` encodes states in an unknown way.
    #[error("this kernel encodes task states in an unknown way; please report it")]
    UnknownStates,
}

/// Which facts about the causes of waits and of lost time a source provides. A fact that the source does not provide is unknown; if the
/// source provides a fact and an event does not have it, the value is zero.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Causes {
    /// The time in each slice that the host took.
    pub steal: bool,
    /// The time in each slice that interrupts took, and their number.
    pub irq: bool,
    /// How long before the end of a slice a switch was requested.
    pub need_resched: bool,
    /// Each move of a thread to another queue.
    pub migrate: bool,
    /// Which threads cannot run because the quota of their cgroup is used up, and for how long.
    pub throttled: bool,
    /// How long quotas stopped each cgroup in total, by the kernel's own counts. This is not reported by a source: it is known about the
    /// machine.
    pub quotas: bool,
    /// The system call in which a thread blocks.
    pub syscall: bool,
    /// The futex on which a thread blocks. Recorded only if requested; otherwise it does not count as missing.
    pub futex: bool,
    /// Which kernel lock a thread waits for. The same applies as for futexes.
    pub kernel_lock: bool,
    /// The waker of each wakeup, a thread or an interrupt.
    pub waker: bool,
    /// The cause of an interrupt that woke a thread.
    pub interrupt_kind: bool,
    /// The sender of the packet, if it is on this host.
    pub packets: bool,
    /// The disk request, if its completion is the cause.
    pub requests: bool,
}

impl Causes {
    /// The names of the facts, as in the trace.
    pub fn names(self) -> Vec<&'static str> {
        let asked = [("futex", self.futex), ("kernel_lock", self.kernel_lock)];
        let all = self.all().into_iter().chain(asked);
        all.filter_map(|(name, given)| given.then_some(name)).collect()
    }

    /// The names of the missing facts.
    pub fn lacking(self) -> Vec<&'static str> {
        self.all().into_iter().filter_map(|(name, given)| (!given).then_some(name)).collect()
    }

    fn all(self) -> [(&'static str, bool); 11] {
        [
            ("steal", self.steal),
            ("irq", self.irq),
            ("throttled", self.throttled),
            ("quotas", self.quotas),
            ("migrate", self.migrate),
            ("need_resched", self.need_resched),
            ("waker", self.waker),
            ("interrupt_kind", self.interrupt_kind),
            ("packets", self.packets),
            ("requests", self.requests),
            ("syscall", self.syscall),
        ]
    }
}

/// The number of events of the scheduler's tracepoints, by kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SchedEvents {
    pub switches: u64,
    /// For the tracepoints of wakeups and of moves between queues.
    pub others: u64,
}

impl SchedEvents {
    pub fn total(self) -> u64 {
        self.switches + self.others
    }
}

impl std::ops::AddAssign for SchedEvents {
    fn add_assign(&mut self, other: SchedEvents) {
        self.switches += other.switches;
        self.others += other.others;
    }
}

/// Figures of a source that no event carries.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SourceStats {
    /// The kernel's own counts: first of `sched_switch`, then of the other tracepoints. Empty if it does not count single tracepoints.
    pub kernel_counts: Vec<KernelCount>,
    /// Samples that could not be decoded.
    pub undecoded: u64,
    /// Number of times that a ring contained something other than a record.
    pub garbled: u64,
    /// Events that the kernel counted when they happened, but neither wrote nor counted as lost; which events they were is unknown. Known
    /// only when the recording has ended.
    pub unreported: SchedEvents,
    /// Events that arrived behind the watermark and were given a later time.
    pub late: u64,
    /// The largest change of such a time.
    pub most_late: Nanos,
    /// Cgroups that should be in scope, but for which there was no space.
    pub cgroups_left_out: u64,
}

/// When a recording begins, and the earlier events that do not belong to it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct StartFilter {
    begin: Nanos,
    /// Events that the kernel counted and that are not passed on.
    before: SchedEvents,
}

impl StartFilter {
    /// The recording begins now.
    pub(crate) fn begin(&mut self, now: Nanos) -> Nanos {
        self.begin = now;
        now
    }

    /// Runs `round`, which passes on events that are not older than `emitted`. Of the events before the beginning, only losses and events
    /// about the lifetime of threads are passed on. Costs nothing after the first event within the recording.
    pub(crate) fn pass<R>(
        &mut self,
        emitted: Nanos,
        take: &mut EventSink<'_>,
        round: impl FnOnce(&mut EventSink<'_>) -> R,
    ) -> R {
        if emitted >= self.begin {
            return round(take);
        }
        round(&mut |time, cpu, event, bytes| match time < self.begin {
            true => self.take_early(cpu, event, bytes, take),
            false => take(time, cpu, event, bytes),
        })
    }

    fn take_early(
        &mut self,
        cpu: Cpu,
        event: &Event,
        bytes: &[u8],
        take: &mut EventSink<'_>,
    ) -> bool {
        match event.kind {
            Kind::Switch(_) => self.before.switches += 1,
            Kind::Wake(_) | Kind::Moved { .. } => self.before.others += 1,
            Kind::Running { .. } | Kind::Sample(_) | Kind::Contention { .. } => {}
            _ => return take(self.begin, cpu, event, bytes),
        }
        true
    }

    /// Subtracts the earlier events from the kernel's counts, those of switches first.
    pub(crate) fn subtract_from(&self, counts: &mut [KernelCount]) {
        let before = [self.before.switches, self.before.others];
        for (count, before) in counts.iter_mut().zip(before) {
            count.fired = count.fired.saturating_sub(before);
        }
    }
}

/// Receives an event with its adjusted time and its payload, if any; returns false to pause.
pub type EventSink<'a> = dyn FnMut(Nanos, Cpu, &Event, &[u8]) -> bool + 'a;

pub trait Source: Debug + Send {
    /// The kind of the source.
    fn kind(&self) -> SourceKind;

    /// The CPUs that are being recorded.
    fn cpus(&self) -> Vec<Cpu>;

    /// Which facts about causes it provides; `silent` is the result of [`Source::find_silent`].
    fn causes(&self, silent: &[Cpu]) -> Causes;

    /// Bytes of the smallest ring that the kernel granted to a CPU.
    fn ring_bytes(&self) -> usize;

    /// Makes this many threads, including the calling one, capture events, regardless of the load. By default it is one thread for few
    /// CPUs, and others help under high load. Must be called before the events run.
    fn use_threads(&mut self, _threads: usize) {}

    /// The thread that merges, if there is one, and how it spent its time: it does a part of the capture thread's work.
    fn merge_load(&self) -> Option<(ThreadId, ThreadTimes)> {
        None
    }

    /// Starts all events, CPU by CPU, and attaches all programs. That disturbs the machine, so events before [`Source::begin`] are not
    /// passed on.
    ///
    /// # Errors
    /// Returns [`SourceError`].
    fn enable(&mut self) -> Result<(), SourceError>;

    /// From now on all CPUs are recorded. Call this once, when no program needs to be attached any more. Returns the time: of earlier
    /// events, only the lifetimes and names of threads are passed on, as if they had been reported at that time.
    fn begin(&mut self) -> Nanos;

    /// Restricts the recording to these processes and their descendants: the source may leave out other events. Call this once events
    /// arrive, with the processes' ids in the recorder's pid namespace.
    fn narrow(&mut self, _pids: &[Pid]) {}

    /// Whether the kernel leaves out what is not in scope, and reports which thread has a CPU that a thread in scope waits for.
    fn narrows(&self) -> bool {
        false
    }

    /// Restricts the recording to processes in cgroups whose path matches one of the globs, as long as they are in such a cgroup. True if
    /// the source selects them in the kernel, and says for each thread whether it is in scope ([`Switch::in_scope`]); otherwise the
    /// consumer of the events has to select. To be called once the events run.
    ///
    /// [`Switch::in_scope`]: super::event::Switch::in_scope
    fn narrow_to_cgroups(&mut self, _globs: &[Pattern]) -> bool {
        false
    }

    /// Looks for CPUs with a task that the kernel does not report to this source, above all the idle task, and requests further records for
    /// these if possible. To be called once the events run. Returns those CPUs.
    ///
    /// # Errors
    /// Returns [`SourceError`] when the additional records are not available.
    fn find_silent(&mut self) -> Result<Vec<Cpu>, SourceError> {
        Ok(Vec::new())
    }

    /// A task of `cpu` was not reported although nothing was lost: requests more records about that CPU.
    ///
    /// # Errors
    /// Returns [`SourceError`]; recording continues without them.
    fn is_silent(&mut self, _cpu: Cpu) -> Result<(), SourceError> {
        Ok(())
    }

    /// Reads the rings and passes on, in order of time, all events that no older event can precede. Events that are not accepted stay for
    /// the next round.
    fn round(&mut self, take: &mut EventSink<'_>);

    /// Limits a round to `most` events, or a few more.
    fn limit_rounds(&mut self, _most: usize) {}

    /// Whether the last round left events for the next one because of that limit.
    fn has_more(&self) -> bool {
        false
    }

    /// Stops the events and passes on everything that is left.
    fn finish(&mut self, take: &mut EventSink<'_>);

    /// The reason why rings can no longer be read; returned once. Check this after [`Source::finish`]; before that, [`Source::wait`]
    /// returns it.
    fn take_failure(&mut self) -> Option<io::Error>;

    /// Waits until the rings should be read, `timeout` has passed or `stop` is stopped.
    ///
    /// # Errors
    /// Errors of the system call that waits, or the reason why rings can no longer be read.
    fn wait(&mut self, stop: &StopToken, timeout: Duration) -> io::Result<()>;

    /// Whether its program on switches notes which threads wait, as requested for stacks.
    fn notes_waits(&self) -> bool {
        false
    }

    /// Opens CPUs that came online and closes those that went offline, as soon as the kernel reports them. To be called
    /// after each wait.
    ///
    /// # Errors
    /// Returns [`SourceError`]; CPUs that are already recorded stay recorded.
    fn follow_hotplug(&mut self) -> Result<(), SourceError>;

    /// The figures so far.
    fn stats(&self) -> SourceStats;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::{Comm, Switch};
    use fxtrec_kernel::prev_state::PrevState;
    use fxtrec_units::{LocalId, Tid};

    fn switch() -> Kind {
        let comm = Comm::default();
        Kind::Switch(Switch {
            prev: Tid(1),
            next: Tid(2),
            prev_prio: 120,
            next_prio: 120,
            state: PrevState { letter: 'S', preempted: false },
            syscall: None,
            in_scope: None,
            prev_comm: comm,
            next_comm: comm,
        })
    }

    #[test]
    fn of_what_happened_before_a_recording_begins_only_lives_and_losses_are_reported() {
        let mut outset = StartFilter::default();
        assert_eq!(outset.begin(Nanos(100)), Nanos(100));
        let exit = || Kind::Exit { pid: LocalId(7), tid: LocalId(7) };
        let moved = Kind::Moved { tid: Tid(1), from: Cpu(0), to: Cpu(1) };
        let lost = Kind::Lost(super::super::event::Loss::exactly(3));
        let events = [(90, switch()), (95, exit()), (96, moved), (97, lost), (100, switch())];
        let mut reported = Vec::new();
        let mut take = |time: Nanos, _: Cpu, event: &Event, _: &[u8]| {
            reported.push((time.0, std::mem::discriminant(&event.kind)));
            true
        };
        let all = outset.pass(Nanos(0), &mut take, |take| {
            let mut give =
                |(time, kind)| take(Nanos(time), Cpu(0), &Event { time: Nanos(time), kind }, &[]);
            events.into_iter().all(&mut give)
        });
        assert!(all, "none ends the round");
        let kind = |kind: Kind| std::mem::discriminant(&kind);
        let lost = Kind::Lost(super::super::event::Loss::exactly(3));
        assert_eq!(reported, [(100, kind(exit())), (100, kind(lost)), (100, kind(switch()))]);
        let mut counts = [5, 2].map(|fired| KernelCount { fired, lost: None });
        outset.subtract_from(&mut counts);
        assert_eq!(counts.map(|count| count.fired), [4, 1]);
    }

    #[test]
    fn when_a_younger_event_was_handed_out_events_pass_as_they_are() {
        let mut outset = StartFilter::default();
        outset.begin(Nanos(100));
        let mut reported = Vec::new();
        let mut take = |time: Nanos, _: Cpu, _: &Event, _: &[u8]| {
            reported.push(time.0);
            false
        };
        let event = Event { time: Nanos(90), kind: switch() };
        let go_on =
            outset.pass(Nanos(101), &mut take, |take| take(Nanos(101), Cpu(0), &event, &[]));
        assert!(!go_on);
        assert_eq!(reported, [101]);
    }
}
