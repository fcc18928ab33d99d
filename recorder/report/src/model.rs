//! What an analysis comes to.

use std::cmp::Reverse;
use std::sync::Arc;
use std::time::Duration;

use fxt_reader::{Cpu, Koid, Nanos};

use super::calls::call_name;
use super::counters::CounterReport;
use super::distribution::Distribution;
use super::facts::{Cause, Causes, Facts, HostSteal, Quota};
use super::fleet::TraceRow;
use super::groups::GroupBy;
use super::locks::LockReport;
use super::selection::{ThreadFilter, Who};
use super::spans::SpanReport;
use fxtrec_gates::Metric;

/// What the scheduler did with the threads of a trace.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// What the trace says about itself, where fxtrec wrote it.
    pub origin: Option<Origin>,
    /// Which facts the recording has in addition to switches.
    pub causes: Causes,
    /// What the host took from the CPUs, if the kernel counted that.
    pub host: Vec<HostSteal>,
    /// The cgroups that quotas stopped during the whole recording, if the kernel counted that.
    pub quotas: Vec<Quota>,
    /// From the first scheduling record to the end, or where it was cut.
    pub span: Span,
    /// What is known of each CPU, in order of their numbers.
    pub cpus: Vec<CpuReport>,
    /// How long one CPU ran a thread and had others queued, while another idled. Unknown for a narrow scope.
    pub unconserved: Option<Duration>,
    pub losses: Losses,
    /// Wake-ups of threads that ran or waited for a CPU already.
    pub idle_wakeups: u64,
    /// Number of ended threads that are merged by name.
    pub folded: u64,
    /// Whether there may be spans: there are, or the trace was not read to its end.
    pub may_have_spans: bool,
    /// Whether there are spans, of a program or of the kernel.
    pub has_spans: bool,
    /// Whether a program recorded its own spans or asynchronous operations.
    pub has_app_spans: bool,
    /// The [worst span](super::spans::worst) of a program, if that was determined.
    pub worst_span: Option<WorstSpan>,
    /// Whether it may be another, since there were more spans than there was room for.
    pub too_many_spans: bool,
    /// Names that programs gave their threads and processes but for which there was no room.
    pub names_left_out: u64,
    /// Strings and threads that programs registered, and for which the reader had no room: they are unknown.
    pub strings_left_out: u64,
    /// The spans, if they were [measured](super::spans::measure); for that, the trace is read again.
    pub spans: Option<SpanReport>,
    /// Whether programs recorded counters.
    pub has_counters: bool,
    /// The counters, if they were [measured](super::counters::measure).
    pub counters: Option<CounterReport>,
    /// The locks that threads waited for, if they were [measured](super::locks::measure).
    pub locks: Option<LockReport>,
    pub(super) threads: Vec<ThreadReport>,
    pub(super) total: Stats,
    pub(super) worst: Vec<Wait>,
    pub(super) worst_of_command: Vec<Wait>,
    /// What the recorder's own threads did, if they are left out of all figures except those of CPUs.
    pub recorder: Option<Recorder>,
    /// The [worst delay](fxtrec_blame::worst), if it is about one trace and there is any.
    pub delay: Option<Delay>,
    /// Different intervals in which threads were unusually late, if somebody looked for them: `fxtrec why --top`.
    pub incidents: Option<Vec<Incident>>,
    /// Whether COMMAND's threads are known.
    pub has_command: bool,
    /// From when COMMAND was let run until its process ended, or the recording did.
    pub command: Option<Span>,
    /// Whether it has only threads that were chosen.
    pub(super) is_chosen: bool,
    /// How many of the longest waits and blocked times are wanted.
    pub(super) most: usize,
    /// The traces that it is about, if they are [several](super::fleet).
    pub traces: Vec<TraceRow>,
    /// What threads were put together by, if by something else than their names.
    pub grouped_by: Option<GroupBy>,
}

/// An interval in which a thread was unusually late, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Incident {
    pub thread: Party,
    pub span: Span,
    /// The answer of `fxtrec why`.
    pub sentence: String,
}

/// What fxtrec wrote into a trace about the recording.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Origin {
    /// The version that recorded it.
    pub version: String,
    pub command_line: String,
    pub host: String,
    pub release: String,
    /// How many CPUs were recorded.
    pub cpus: u64,
    /// Whose switches are in the trace: `all` for those of the machine.
    pub scope: String,
    /// The instruction set, as `uname -m` has it.
    pub machine: String,
    /// What to add to its times for nanoseconds since 1970.
    pub wall_clock_offset: Option<i64>,
}

impl Origin {
    /// Whether the trace holds the switches of some threads only.
    pub fn is_narrow(&self) -> bool {
        !self.scope.is_empty() && self.scope != "all"
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Span {
    pub begin: Nanos,
    pub end: Nanos,
}

impl Span {
    pub fn length(&self) -> Duration {
        Duration::from_nanos(self.end.0.saturating_sub(self.begin.0))
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Losses {
    /// Events that the recorder could not keep, as far as they were counted.
    pub events: u64,
    /// Whether they may be fewer.
    pub at_most: bool,
    /// Gaps with an unknown number of missing events.
    pub unknown: u64,
    /// Further events that the kernel counted but never wrote. They are in no gap, because their times are unknown.
    pub unreported: u64,
    /// Further events, not the scheduler's and in no gap: all switches and wake-ups are there.
    pub others: u64,
    /// Whether these may be fewer.
    pub others_at_most: bool,
    /// Records that applications dropped themselves, by the application's name. No switches or wake-ups are missing.
    pub providers: Vec<ProviderLosses>,
    /// How often there was a gap; damaged places of the file count.
    pub gaps: u64,
    /// The first of them.
    pub list: Vec<Gap>,
    /// Why the recorder lost events, in its own words.
    pub causes: Vec<String>,
    /// Damaged places of the file.
    pub damaged: u64,
    /// Whether the file was cut off in the middle of a record.
    pub truncated: bool,
}

impl Losses {
    /// Records that applications dropped, as far as they were counted.
    pub fn records(&self) -> u64 {
        self.providers.iter().fold(0, |sum, one| sum.saturating_add(one.records))
    }

    /// Periods in which applications dropped records that were not counted.
    pub fn unknown_records(&self) -> u64 {
        self.providers.iter().map(|one| one.unknown).sum()
    }
}

/// The records that an application dropped because it had no room for them. Several applications with the same name are counted together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProviderLosses {
    pub name: String,
    /// Records, as far as they were counted.
    pub records: u64,
    /// Stretches of time in which there were some.
    pub gaps: u64,
    /// Those of them whose records were not counted.
    pub unknown: u64,
    /// The first of them, as far as their times are known.
    pub list: Vec<RecordGap>,
}

/// A stretch of time in which an application dropped records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordGap {
    pub span: Span,
    /// How many; `None` if unknown.
    pub records: Option<u64>,
}

/// A stretch of time in which events of a CPU are missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gap {
    /// The CPU; `None` when it is not known which.
    pub cpu: Option<Cpu>,
    /// From the CPU's last switch before it to when it was reported.
    pub span: Span,
    /// How many events; `None` if unknown.
    pub events: Option<u64>,
}

/// A thread, or ended threads that were merged by name.
#[derive(Clone, Debug)]
pub struct ThreadReport {
    /// Its id in the trace; `None` for threads that were summed up.
    pub koid: Option<Koid>,
    pub comm: Arc<str>,
    pub pid: Option<u64>,
    pub tid: Option<u64>,
    /// The id of its process in the trace.
    pub process: Option<Koid>,
    /// The name of its process.
    pub process_name: Arc<str>,
    /// The path of its process's cgroup, the last one; `None` where it is not known.
    pub cgroup: Option<Arc<str>>,
    /// The machine that it ran on, in a merged trace.
    pub host: Option<Arc<str>>,
    /// How many threads it stands for.
    pub threads: u64,
    /// Whether COMMAND started it.
    pub in_command: bool,
    /// Whether a recording of some processes is about it. Such a recording also has other threads while they have a CPU.
    pub is_recorded: bool,
    /// Whether it made the recording.
    pub is_recorder: bool,
    pub stats: Stats,
    pub worst: Option<Box<Wait>>,
    /// The longest two times for which it was blocked, the longest first; without that in which COMMAND waited for the
    /// recorder to begin.
    pub sleeps: Vec<Sleep>,
}

impl ThreadReport {
    /// The samples of a metric.
    pub fn metric(&self, metric: Metric) -> &Distribution {
        self.stats.metric(metric)
    }
}

#[derive(Clone, Debug)]
pub struct ProcessReport {
    /// Its id in the trace.
    pub koid: Koid,
    pub name: Arc<str>,
    pub pid: Option<u64>,
    /// How many of its threads are in the report.
    pub threads: u64,
    /// Whether any of them is COMMAND's.
    pub in_command: bool,
    /// Whether a recording of some processes is about it.
    pub is_recorded: bool,
    /// The figures of these threads together.
    pub stats: Stats,
}

/// The figures of a thread, or of several together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    pub(super) metrics: [Distribution; 6],
    /// How long it is known to have been on a CPU.
    pub cpu_time: Duration,
    /// Switches out in a state that waits or ends.
    pub voluntary: u64,
    /// Switches out in a state that can run.
    pub involuntary: u64,
    /// Switches in on another CPU than the one it last ran on.
    pub migrations: u64,
    /// Inferred switches that switched it out or in. In no other figure.
    pub inferred: u64,
    /// What comes from facts that not every recording has, if there is any.
    pub facts: Option<Box<Facts>>,
}

impl Stats {
    /// The samples of a metric.
    pub fn metric(&self, metric: Metric) -> &Distribution {
        let own = self.metrics.get(metric.index());
        own.unwrap_or_else(|| Facts::metric(self.facts.as_deref(), metric))
    }

    pub fn switches(&self) -> u64 {
        self.voluntary + self.involuntary
    }

    /// The figures of several threads together.
    pub fn merge<'a>(parts: impl IntoIterator<Item = &'a Stats>) -> Stats {
        let parts: Vec<&Stats> = parts.into_iter().collect();
        let mut whole = Stats::default();
        for part in &parts {
            whole.cpu_time += part.cpu_time;
            whole.voluntary += part.voluntary;
            whole.involuntary += part.involuntary;
            whole.migrations += part.migrations;
            whole.inferred += part.inferred;
        }
        whole.metrics = Metric::ALL
            .map(|metric| Distribution::merge(parts.iter().map(|part| part.metric(metric))));
        whole.facts = Facts::merge(parts.iter().filter_map(|part| part.facts.as_deref()));
        whole
    }
}

/// What is known about a CPU.
#[derive(Clone, Debug)]
pub struct CpuReport {
    pub cpu: Cpu,
    pub(super) metrics: [Distribution; 6],
    /// Switches on it, those from and to idle included.
    pub switches: u64,
    /// Switches on it that were inferred. In no other figure.
    pub inferred: u64,
    /// Time for which it is recorded that a thread other than idle had it.
    pub busy: Duration,
    /// Time for which it is recorded that the idle task had it.
    pub idle: Duration,
    /// What comes from facts that not every recording has, if there is any.
    pub facts: Option<Box<Facts>>,
    /// What can only be said where all switches are recorded.
    pub load: Option<Load>,
}

/// How much a CPU had to do.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Load {
    /// The part of the known time in which it was busy, from 0 to 1.
    pub busy: f64,
    /// The mean number of threads that waited for it, weighted by time.
    pub queue_mean: f64,
    /// The most threads that waited for it at once.
    pub queue_max: u64,
}

impl CpuReport {
    /// The samples that belong to the CPU.
    pub fn metric(&self, metric: Metric) -> &Distribution {
        let own = self.metrics.get(metric.index());
        own.unwrap_or_else(|| Facts::metric(self.facts.as_deref(), metric))
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wait {
    /// The number of its trace, where there are several.
    pub trace: Option<usize>,
    /// The thread that waited, by its name at that time.
    pub thread: Party,
    /// [`Metric::Wakeup`] or [`Metric::Preemption`].
    pub metric: Metric,
    pub span: Span,
    /// The CPU on whose queue the thread was put.
    pub queued_on: Cpu,
    /// The CPU on which it was switched in.
    pub ran_on: Cpu,
    /// When it changed queues during the wait, the first times; if the recording has that fact.
    pub moves: Vec<Move>,
    /// How long of `span` its cgroup's quota was used up: no part of the wait.
    pub throttled: Duration,
    /// The cgroup whose quota that was, if known.
    pub throttled_by: Option<Arc<str>>,
    /// Its waker, if the trace has it.
    pub waker: Option<Party>,
    /// Whether an interrupt did.
    pub by_interrupt: bool,
    /// The threads that had the CPU on which it was queued, the longest first.
    pub antagonists: Vec<Antagonist>,
    /// How many more threads had the CPU, each for a shorter time.
    pub more_antagonists: u64,
    /// How long they had the CPU in total.
    pub others: Duration,
    /// How long that CPU was idle during the wait.
    pub idle: Duration,
    /// For how long it is unknown which thread had the CPU.
    pub unknown: Duration,
}

impl Wait {
    /// How long it waited for a CPU.
    pub fn length(&self) -> Duration {
        self.span.length().saturating_sub(self.throttled)
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sleep {
    /// The thread, by its name at the end.
    pub thread: Party,
    /// [`Metric::Blocked`] or [`Metric::BlockedUninterruptible`].
    pub metric: Metric,
    /// From the switch out to the wake-up.
    pub span: Span,
    /// The number of the system call that it was in, where that is known.
    pub call: Option<u16>,
    /// Its waker, if the trace has it.
    pub waker: Option<Party>,
    /// Whether an interrupt did.
    pub by_interrupt: bool,
    /// The file or socket that its system call was about, if the trace has it.
    pub waited_for: Option<String>,
}

/// The longest blocked times, at most one of each thread.
#[derive(Clone, Debug)]
pub struct Blocked<'a> {
    /// The longest first; those of selected threads if any are selected, else of COMMAND's threads if there is a COMMAND.
    pub sleeps: Vec<&'a Sleep>,
    /// Whether it has only uninterruptible ones, as without a selection of threads: most threads of a machine sleep because they have
    /// nothing to do.
    pub only_uninterruptible: bool,
}

/// A thread moves to the queue of another CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Move {
    pub at: Nanos,
    pub from: Cpu,
    pub to: Cpu,
}

/// The threads that made the recording.
#[derive(Clone, Debug, Default)]
pub struct Recorder {
    /// How many there are.
    pub threads: u64,
    /// Their figures together.
    pub stats: Stats,
}

/// The span of a program that is longest beyond the median of its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorstSpan {
    /// Category and name, with a colon between them.
    pub name: String,
    /// The thread on which it ended.
    pub thread: String,
    pub span: Span,
    /// The number with that name, and their median length.
    pub count: u64,
    pub median: Duration,
}

/// A time in which a thread did not get on, and not by its own choice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delay {
    pub thread: Party,
    /// From when it was preempted or blocked, or from when it was woken by no thread, until it had a CPU.
    pub span: Span,
    /// When it was woken or preempted; before, it was blocked.
    pub able: Nanos,
    /// Its waker, if the trace has it.
    pub waker: Option<Party>,
    /// The number of the system call that it was blocked in, where that is known.
    pub call: Option<u16>,
}

/// A thread that has a part in something.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Party {
    /// Its id in the trace.
    pub koid: Koid,
    pub comm: Arc<str>,
    pub pid: Option<u64>,
    pub tid: u64,
    /// The path of its process's cgroup, where that is known.
    pub cgroup: Option<Arc<str>>,
    /// The host of its process, in a merged trace.
    pub host: Option<Arc<str>>,
}

impl Party {
    /// It as a filter sees it.
    pub fn who(&self) -> Who<'_> {
        let Party { comm, pid, tid, cgroup, .. } = self;
        Who { comm, pid: *pid, tid: Some(*tid), cgroup: cgroup.as_deref() }
    }
}

/// A thread that had a CPU for which another waited.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Antagonist {
    pub thread: Party,
    /// For how long, within the wait.
    pub ran: Duration,
}

impl Report {
    /// The threads, the one with the longest run-queue wait first.
    pub fn threads(&self) -> &[ThreadReport] {
        &self.threads
    }

    /// The figures of all threads together.
    pub fn total(&self) -> &Stats {
        &self.total
    }

    /// The wait for a CPU with which the worst delay ended, if it is among those that are kept.
    pub fn wait_of_delay(&self) -> Option<&Wait> {
        let delay = self.delay.as_ref()?;
        let of_threads = self.threads.iter().filter_map(|thread| thread.worst.as_deref());
        self.worst_of_command
            .iter()
            .chain(&self.worst)
            .chain(of_threads)
            .find(|wait| wait.thread.koid == delay.thread.koid && wait.span.end == delay.span.end)
    }

    /// Takes the threads out that made the recording.
    pub(super) fn leave_out_recorder(&mut self) {
        let mut own = Vec::new();
        self.threads.retain(|thread| {
            if thread.is_recorder {
                own.push(thread.stats.clone());
            }
            !thread.is_recorder
        });
        if !own.is_empty() {
            self.recorder = Some(Recorder { threads: own.len() as u64, stats: Stats::merge(&own) });
            self.total = Stats::merge(self.threads.iter().map(|thread| &thread.stats));
        }
    }

    /// The longest run-queue waits, the longest first.
    pub fn worst(&self) -> &[Wait] {
        &self.worst
    }

    /// The longest run-queue waits of COMMAND's threads, the longest first.
    pub fn worst_of_command(&self) -> &[Wait] {
        &self.worst_of_command
    }

    /// The longest blocked times of threads. A wait of more than half of the trace is normal for the thread, not an incident:
    /// the next longest of that thread replaces it.
    pub fn blocked(&self) -> Blocked<'_> {
        let only_uninterruptible = !self.has_command && !self.is_chosen;
        let half = self.span.length() / 2;
        let fits = |sleep: &&Sleep| {
            sleep.span.length() <= half
                && (!only_uninterruptible || sleep.metric == Metric::BlockedUninterruptible)
        };
        let threads = self.threads.iter();
        let all = self.is_chosen || !self.has_command;
        let threads = threads.filter(|thread| all || thread.in_command);
        let mut sleeps: Vec<&Sleep> =
            threads.filter_map(|thread| thread.sleeps.iter().find(fits)).collect();
        sleeps.sort_by_key(|sleep| {
            (Reverse(sleep.span.length()), sleep.span.begin, sleep.thread.koid)
        });
        sleeps.truncate(self.most);
        Blocked { sleeps, only_uninterruptible }
    }

    /// Switches of all CPUs, those from and to idle included.
    pub fn switches(&self) -> u64 {
        let traces = self.traces.iter().map(|trace| trace.switches);
        self.cpus.iter().map(|cpu| cpu.switches).chain(traces).sum()
    }

    /// Switches of all CPUs by the length of the trace, in seconds.
    pub fn switches_per_second(&self) -> f64 {
        self.per_second(self.switches())
    }

    /// A count by the length of the trace, in seconds; 0 for a trace without length.
    pub fn per_second(&self, count: u64) -> f64 {
        let seconds = self.span.length().as_secs_f64();
        if seconds > 0.0 { count as f64 / seconds } else { 0.0 }
    }

    /// Whether there are figures of this metric, though they may be none or 0.
    pub fn knows(&self, metric: Metric) -> bool {
        self.causes.knows(metric)
    }

    /// The metrics of facts that this recording has, if there is any sample.
    pub fn facts(&self) -> Vec<Metric> {
        let is_told = |&metric: &Metric| {
            let of = self.total.metric(metric);
            self.knows(metric) && of.count() + of.censored() > 0
        };
        Metric::FACTS.into_iter().filter(is_told).collect()
    }

    /// How often threads changed queues while they waited, if the recording has that.
    pub fn moved(&self, stats: &Stats) -> Option<u64> {
        let moved = stats.facts.as_ref().map_or(0, |facts| facts.moved);
        self.causes.has(Cause::Migrate).then_some(moved)
    }

    /// Whether the trace holds the switches of some threads only.
    pub fn is_narrow(&self) -> bool {
        self.origin.as_ref().is_some_and(Origin::is_narrow)
    }

    /// The processes, the one with the most CPU time first. Threads that were summed up by name
    /// are of none.
    pub fn processes(&self) -> Vec<ProcessReport> {
        let mut members: Vec<(Koid, &ThreadReport)> = self
            .threads
            .iter()
            .filter_map(|thread| thread.process.map(|process| (process, thread)))
            .collect();
        members.sort_by_key(|(process, _)| *process);
        let mut processes: Vec<ProcessReport> = members
            .chunk_by(|a, b| a.0 == b.0)
            .map(|members| ProcessReport {
                koid: members[0].0,
                name: members[0].1.process_name.clone(),
                pid: members[0].1.pid,
                threads: members.len() as u64,
                in_command: members.iter().any(|(_, thread)| thread.in_command),
                is_recorded: members.iter().any(|(_, thread)| thread.is_recorded),
                stats: Stats::merge(members.iter().map(|(_, thread)| &thread.stats)),
            })
            .collect();
        processes.sort_by_key(|process| Reverse(process.stats.cpu_time));
        processes
    }

    /// Adds each thread's longest wait to the list of the longest waits, which keeps `most`.
    pub(super) fn complete_worst(&mut self, most: usize) {
        self.most = most;
        self.worst
            .extend(self.threads.iter().filter_map(|thread| thread.worst.as_deref()).cloned());
        self.worst.sort_by_key(|wait| (Reverse(wait.length()), wait.span.begin, wait.thread.koid));
        self.worst.dedup_by_key(|wait| (wait.thread.koid, wait.span.begin));
        let of_command: std::collections::HashSet<Koid> = self
            .threads
            .iter()
            .filter(|thread| thread.in_command)
            .filter_map(|thread| thread.worst.as_ref().map(|wait| wait.thread.koid))
            .collect();
        let waits = self.worst.iter().filter(|wait| of_command.contains(&wait.thread.koid));
        self.worst_of_command = waits.take(most).cloned().collect();
        self.worst.truncate(most);
    }

    /// What the machine that was recorded calls the system call of this number.
    pub fn call_name(&self, number: u16) -> Option<&'static str> {
        call_name(self.origin.as_ref().map_or("", |origin| &origin.machine), number)
    }

    /// Removes all threads that the filter does not select, and their waits; the total is then that of the rest. Figures of CPUs remain.
    pub fn retain(&mut self, filter: &ThreadFilter) {
        if filter.is_everything() {
            return;
        }
        self.threads.retain(|thread| filter.admits_thread(thread));
        let kept: std::collections::HashSet<Koid> =
            self.threads.iter().filter_map(|thread| thread.koid).collect();
        self.worst.retain(|wait| {
            let thread = &wait.thread;
            kept.contains(&thread.koid) || (self.folded > 0 && filter.admits(thread.who()))
        });
        self.total = Stats::merge(self.threads.iter().map(|thread| &thread.stats));
    }
}
