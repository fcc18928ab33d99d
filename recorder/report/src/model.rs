//! The result of an analysis.

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
use fxtrec_blame::cpus::CpuNames;
use fxtrec_gates::Metric;

/// The scheduling of the threads of a trace.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// The recording's description of itself, in a trace from fxtrec.
    pub origin: Option<Origin>,
    /// The descriptions of all recordings, in a merged trace.
    pub merged: Vec<Origin>,
    pub(super) cpu_names: CpuNames,
    /// In a report on several traces, the architecture of all of them; empty if it differs between them, or if they do not name it.
    pub(super) fleet_machine: String,
    /// Which facts the recording contains in addition to switches.
    pub causes: Causes,
    /// The time that the host took from the CPUs, if the kernel counted it.
    pub host: Vec<HostSteal>,
    /// The cgroups that quotas stopped during the whole recording, if the kernel counted them.
    pub quotas: Vec<Quota>,
    /// From the first scheduling record to the end of the trace or of the selected part.
    pub span: Span,
    /// The figures of each CPU, in order of CPU number.
    pub cpus: Vec<CpuReport>,
    /// How long one CPU ran a thread and had others queued, while another was idle. Unknown for a narrow scope.
    pub unconserved: Option<Duration>,
    pub losses: Losses,
    /// Wakeups of threads that were already running or waiting for a CPU.
    pub idle_wakeups: u64,
    /// Number of ended threads that are merged by name.
    pub folded: u64,
    /// Whether there may be spans: the trace has some, or was not read to its end.
    pub may_have_spans: bool,
    /// Whether the trace has spans, of a program or of the kernel.
    pub has_spans: bool,
    /// Whether a program recorded its own spans or asynchronous operations.
    pub has_app_spans: bool,
    /// The [worst span](super::spans::worst) of a program, if it was determined.
    pub worst_span: Option<WorstSpan>,
    /// Whether another span may be worse, because there was no space for all spans.
    pub too_many_spans: bool,
    /// The number of names that programs registered for their threads and processes but for which there was no space.
    pub names_left_out: u64,
    /// The number of strings and threads that programs registered but for which the reader had no space; they are unknown.
    pub strings_left_out: u64,
    /// The spans, if they were [measured](super::spans::measure), which requires reading the trace again.
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
    /// The cost of the recorder's own threads, if they are left out of all figures except those of CPUs.
    pub recorder: Option<Recorder>,
    /// The [worst delay](fxtrec_blame::worst), if the report covers one trace and there is a delay.
    pub delay: Option<Delay>,
    /// Different intervals in which threads were unusually late, if requested: `fxtrec why --top`.
    pub incidents: Option<Vec<Incident>>,
    /// Whether COMMAND's threads are known.
    pub has_command: bool,
    /// The time from the release of COMMAND until its process or the recording ended.
    pub command: Option<Span>,
    /// Whether it contains only selected threads.
    pub(super) is_chosen: bool,
    /// How many of the longest waits and blocked times are requested.
    pub(super) most: usize,
    /// The traces that it covers, if they are [several](super::fleet).
    pub traces: Vec<TraceRow>,
    /// How threads are grouped, if not by name.
    pub grouped_by: Option<GroupBy>,
}

/// An interval in which a thread was unusually late, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Incident {
    pub thread: ThreadInfo,
    pub span: Span,
    /// The explanation of `fxtrec why`.
    pub sentence: String,
}

/// The facts that fxtrec wrote to a trace about the recording.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Origin {
    /// The version of fxtrec that wrote it.
    pub version: String,
    /// How it was recorded: `bpf`, `perf` or `ftrace`; or the format from which it was imported.
    pub source: String,
    pub command_line: String,
    pub host: String,
    pub release: String,
    /// The number of recorded CPUs.
    pub cpus: u64,
    /// The scope: `all` for the whole machine.
    pub scope: String,
    /// The instruction set, in the words of `uname -m`.
    pub machine: String,
    /// The nanoseconds to add to a time of the trace to get the time since 1970.
    pub wall_clock_offset: Option<i64>,
}

impl Origin {
    /// The version of fxtrec that recorded it, if the trace was not imported from another format.
    pub fn recorder(&self) -> Option<&str> {
        Origin::recorded_by(&self.version, &self.source)
    }

    /// The recorder's version, from `version` and `source` of `trace_info`.
    pub fn recorded_by<'a>(version: &'a str, source: &str) -> Option<&'a str> {
        let is_own = matches!(source, "bpf" | "perf" | "ftrace");
        Some(version).filter(|version| is_own && !version.is_empty())
    }

    /// Whether the trace contains the switches of only some threads.
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
    /// Counted events that the recorder could not keep.
    pub events: u64,
    /// Whether the true number may be smaller.
    pub at_most: bool,
    /// Gaps with an unknown number of missing events.
    pub unknown: u64,
    /// Further events that the kernel counted but never wrote. They belong to no gap, because their times are unknown.
    pub unreported: u64,
    /// Further non-scheduler events outside of gaps: no switches or wakeups are missing.
    pub others: u64,
    /// Whether the true number may be smaller.
    pub others_at_most: bool,
    /// Records that applications dropped themselves, by the application's name. No switches or wakeups are missing.
    pub providers: Vec<ProviderLosses>,
    /// The number of gaps, including damaged places of the file.
    pub gaps: u64,
    /// The first gaps.
    pub list: Vec<Gap>,
    /// The reason why the recorder lost events, in its own words.
    pub causes: Vec<String>,
    /// The number of damaged places in the file.
    pub damaged: u64,
    /// Whether the file ends in the middle of a record.
    pub truncated: bool,
}

impl Losses {
    /// Counted records that applications dropped.
    pub fn records(&self) -> u64 {
        self.providers.iter().fold(0, |sum, one| sum.saturating_add(one.records))
    }

    /// Periods in which applications dropped records that were not counted.
    pub fn unknown_records(&self) -> u64 {
        self.providers.iter().map(|one| one.unknown).sum()
    }
}

/// The records that an application dropped because its buffer had no space. Several applications with the same name are counted together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProviderLosses {
    pub name: String,
    /// The counted records.
    pub records: u64,
    /// Intervals in which records were dropped.
    pub gaps: u64,
    /// The number of intervals whose records were not counted.
    pub unknown: u64,
    /// The first intervals whose times are known.
    pub list: Vec<RecordGap>,
}

/// An interval in which an application dropped records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordGap {
    pub span: Span,
    /// The number of records; `None` if unknown.
    pub records: Option<u64>,
}

/// An interval in which events of a CPU are missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gap {
    /// The CPU; `None` if unknown.
    pub cpu: Option<Cpu>,
    /// From the CPU's last switch before the loss to the time at which the loss was reported.
    pub span: Span,
    /// The number of events; `None` if unknown.
    pub events: Option<u64>,
}

/// A thread, or ended threads that were merged by name.
#[derive(Clone, Debug)]
pub struct ThreadReport {
    /// Its id in the trace; `None` for merged threads.
    pub koid: Option<Koid>,
    pub comm: Arc<str>,
    pub pid: Option<u64>,
    pub tid: Option<u64>,
    /// The id of its process in the trace.
    pub process: Option<Koid>,
    /// The name of its process.
    pub process_name: Arc<str>,
    /// The last cgroup path of its process; `None` if unknown.
    pub cgroup: Option<Arc<str>>,
    /// The host that it ran on, in a merged trace.
    pub host: Option<Arc<str>>,
    /// How many threads this entry represents.
    pub threads: u64,
    /// Whether COMMAND started it.
    pub in_command: bool,
    /// Whether it is in the scope of the recording. A recording of narrow scope also contains other threads while they have a CPU.
    pub is_recorded: bool,
    /// Whether it belongs to the recorder.
    pub is_recorder: bool,
    pub stats: Stats,
    pub worst: Option<Box<Wait>>,
    /// The two longest blocked times, the longest first, without the time in which COMMAND waited for the recorder to start.
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
    /// The number of its threads in the report.
    pub threads: u64,
    /// Whether any of them is COMMAND's.
    pub in_command: bool,
    /// Whether it is in the scope of the recording.
    pub is_recorded: bool,
    /// The combined figures of these threads.
    pub stats: Stats,
}

/// The figures of a thread, or of several threads combined.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    pub(super) metrics: [Distribution; 6],
    /// The known time on a CPU.
    pub cpu_time: Duration,
    /// Switches out in a waiting or ending state.
    pub voluntary: u64,
    /// Switches out in a runnable state.
    pub involuntary: u64,
    /// Switches in on a different CPU than the last.
    pub migrations: u64,
    /// Inferred switches that switched it out or in. No other figure includes them.
    pub inferred: u64,
    /// The figures that come from optional facts, if any.
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

/// The known facts about a CPU.
#[derive(Clone, Debug)]
pub struct CpuReport {
    pub cpu: Cpu,
    pub(super) metrics: [Distribution; 6],
    /// Switches on it, including those from and to idle.
    pub switches: u64,
    /// Inferred switches on it. No other figure includes them.
    pub inferred: u64,
    /// The recorded time in which a thread other than the idle task had the CPU.
    pub busy: Duration,
    /// The recorded time in which the idle task had the CPU.
    pub idle: Duration,
    /// The figures of optional facts, if there are any.
    pub facts: Option<Box<Facts>>,
    /// Figures that require a recording of all switches.
    pub load: Option<Load>,
}

/// How busy a CPU was.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Load {
    /// The fraction of the known time in which it was busy, from 0 to 1.
    pub busy: f64,
    /// The mean number of threads that waited for it, weighted by time.
    pub queue_mean: f64,
    /// The maximum number of threads that waited for it at once.
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
    /// The index of its trace, if there are several.
    pub trace: Option<usize>,
    /// The thread that waited, by its name at that time.
    pub thread: ThreadInfo,
    /// [`Metric::Wakeup`] or [`Metric::Preemption`].
    pub metric: Metric,
    pub span: Span,
    /// The CPU on whose queue the thread was put.
    pub queued_on: Cpu,
    /// The CPU on which it was switched in.
    pub ran_on: Cpu,
    /// The first times at which it changed queues during the wait, if the recording has that fact.
    pub moves: Vec<Move>,
    /// How much of `span` is time in which its cgroup's quota was used up; it is not part of the wait.
    pub throttled: Duration,
    /// The cgroup whose quota that was, if known.
    pub throttled_by: Option<Arc<str>>,
    /// Its waker, if recorded.
    pub waker: Option<ThreadInfo>,
    /// Whether an interrupt woke it.
    pub by_interrupt: bool,
    /// The threads that had the CPU on which it was queued, the longest first.
    pub antagonists: Vec<Antagonist>,
    /// How many more threads had the CPU, each for a shorter time.
    pub more_antagonists: u64,
    /// How long those had the CPU in total.
    pub others: Duration,
    /// How long that CPU was idle during the wait.
    pub idle: Duration,
    /// How long it is unknown which thread had the CPU.
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
    pub thread: ThreadInfo,
    /// [`Metric::Blocked`] or [`Metric::BlockedUninterruptible`].
    pub metric: Metric,
    /// From the switch out to the wakeup.
    pub span: Span,
    /// The number of the system call that it was in, if known.
    pub call: Option<u16>,
    /// Its waker, if recorded.
    pub waker: Option<ThreadInfo>,
    /// Whether an interrupt woke it.
    pub by_interrupt: bool,
    /// The file or socket that its system call referred to, if the trace has it.
    pub waited_for: Option<String>,
}

/// The longest blocked times, at most one per thread.
#[derive(Clone, Debug)]
pub struct Blocked<'a> {
    /// The longest first; of the selected threads if any are selected, else of COMMAND's threads if there is a COMMAND.
    pub sleeps: Vec<&'a Sleep>,
    /// Whether it contains only uninterruptible ones, as it does without selected threads: most threads of a machine sleep because they
    /// have nothing to do.
    pub only_uninterruptible: bool,
}

/// A thread moves to the queue of another CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Move {
    pub at: Nanos,
    pub from: Cpu,
    pub to: Cpu,
}

/// The recorder's own threads.
#[derive(Clone, Debug, Default)]
pub struct Recorder {
    /// The number of threads.
    pub threads: u64,
    /// Their figures together.
    pub stats: Stats,
}

/// The span of a program that most exceeds the median of its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorstSpan {
    /// Category and name, with a colon between them.
    pub name: String,
    /// The thread on which it ended.
    pub thread: String,
    pub span: Span,
    /// The number of spans with that name, and their median length.
    pub count: u64,
    pub median: Duration,
}

/// An interval in which a thread made no progress, and not by its own choice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delay {
    pub thread: ThreadInfo,
    /// From the time at which it was preempted or blocked, or woken by no thread, until it had a CPU.
    pub span: Span,
    /// When it was woken or preempted; before that, it was blocked.
    pub able: Nanos,
    /// Its waker, if recorded.
    pub waker: Option<ThreadInfo>,
    /// The number of the system call that it was blocked in, if known.
    pub call: Option<u16>,
}

/// A thread that contributes to a figure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ThreadInfo {
    /// Its id in the trace.
    pub koid: Koid,
    pub comm: Arc<str>,
    pub pid: Option<u64>,
    pub tid: u64,
    /// The path of its process's cgroup, if known.
    pub cgroup: Option<Arc<str>>,
    /// The host of its process, in a merged trace.
    pub host: Option<Arc<str>>,
}

impl ThreadInfo {
    /// The thread as filters see it.
    pub fn who(&self) -> Who<'_> {
        let ThreadInfo { comm, pid, tid, cgroup, .. } = self;
        Who { comm, pid: *pid, tid: Some(*tid), cgroup: cgroup.as_deref() }
    }
}

/// A thread that had a CPU for which another thread waited.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Antagonist {
    pub thread: ThreadInfo,
    /// How long it had the CPU within the wait.
    pub ran: Duration,
}

impl Report {
    /// The number of a CPU; in a merged trace its number on its host and the host, as in `0@web-1`.
    pub fn cpu_name(&self, cpu: Cpu) -> String {
        self.cpu_names.name(cpu.0)
    }

    /// The threads, the one with the longest run-queue wait first.
    pub fn threads(&self) -> &[ThreadReport] {
        &self.threads
    }

    /// The combined figures of all threads.
    pub fn total(&self) -> &Stats {
        &self.total
    }

    /// The wait for a CPU that ended the worst delay, if it is one of the waits that are kept.
    pub fn wait_of_delay(&self) -> Option<&Wait> {
        let delay = self.delay.as_ref()?;
        let of_threads = self.threads.iter().filter_map(|thread| thread.worst.as_deref());
        self.worst_of_command
            .iter()
            .chain(&self.worst)
            .chain(of_threads)
            .find(|wait| wait.thread.koid == delay.thread.koid && wait.span.end == delay.span.end)
    }

    /// Removes the recorder's own threads.
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

    /// The longest blocked times of threads. A wait of more than half of the trace is normal for the thread, not an incident: its next
    /// longest wait replaces it.
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

    /// Switches of all CPUs, including those from and to idle.
    pub fn switches(&self) -> u64 {
        let traces = self.traces.iter().map(|trace| trace.switches);
        self.cpus.iter().map(|cpu| cpu.switches).chain(traces).sum()
    }

    /// Switches of all CPUs per second.
    pub fn switches_per_second(&self) -> f64 {
        self.per_second(self.switches())
    }

    /// A count per second; 0 for a trace of length zero.
    pub fn per_second(&self, count: u64) -> f64 {
        let seconds = self.span.length().as_secs_f64();
        if seconds > 0.0 { count as f64 / seconds } else { 0.0 }
    }

    /// Whether the recording has this metric, even if there are no samples.
    pub fn knows(&self, metric: Metric) -> bool {
        self.causes.knows(metric)
    }

    /// The optional metrics that this recording has and that have samples.
    pub fn facts(&self) -> Vec<Metric> {
        let is_reported = |&metric: &Metric| {
            let of = self.total.metric(metric);
            self.knows(metric) && of.count() + of.censored() > 0
        };
        Metric::FACTS.into_iter().filter(is_reported).collect()
    }

    /// How often threads changed queues while they waited, if recorded.
    pub fn moved(&self, stats: &Stats) -> Option<u64> {
        let moved = stats.facts.as_ref().map_or(0, |facts| facts.moved);
        self.causes.has(Cause::Migrate).then_some(moved)
    }

    /// Whether the trace contains the switches of only some threads.
    pub fn is_narrow(&self) -> bool {
        self.origin.as_ref().is_some_and(Origin::is_narrow)
    }

    /// The processes, the one with the most CPU time first. Threads that were merged by name belong to no process.
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

    /// Adds each thread's longest wait to the list of longest waits, which keeps at most `most`.
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

    /// The name of the system call with this number on the recorded machine.
    pub fn call_name(&self, number: u16) -> Option<&'static str> {
        let machine = self.origin.as_ref().map_or(&self.fleet_machine, |origin| &origin.machine);
        call_name(machine, number)
    }

    /// Removes all threads that the filter does not select, and their waits; the total then covers the rest. Figures of CPUs are unchanged.
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
