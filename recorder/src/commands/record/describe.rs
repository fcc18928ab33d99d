//! The statements of a trace about itself: its head, and the counts at its end.

use std::time::Duration;

use fxt_reader::record::{ABSENT_WEIGHT_ARG, WEIGHT_INFO};
use fxt_writer::lanes::Lanes;
use fxt_writer::record::{Initialization, Magic, ProviderInfo, ProviderSection};
use fxt_writer::{Arg, Koid, Text, ThreadName, Value};

use crate::capture::losses::LossCause;
use crate::capture::source::{Causes, SourceKind, SourceStats};
use crate::commands::record::flight::snapshots::Cause;
use crate::encode::Closed;
use crate::encode::encoder::watch::about;
use crate::encode::encoder::{Encoder, own_event};
use crate::encode::stats::Stats;
use crate::encode::strings;
use crate::encode::throttles::path_text;
use crate::encode::weight::NICE_0;
use crate::kernel::bpf::stacks::Wanted;
use crate::kernel::clock::{self, ClockChange};
use crate::kernel::machine::Machine;
use crate::kernel::namespaces::{Namespaces, ProcView};
use crate::kernel::quotas::{QuotaCounts, QuotaGrowth, QuotaWatch};
use crate::kernel::steal::{StealGrowth, StealWatch};
use crate::kernel::sys::Linux;
use crate::sched::backtrace::OF_CHOSEN;
use crate::sink::drain::LeftOut;
use crate::units::convention::{PROVIDER, SCHEMA, inner_process_koid};
use crate::units::text::counted;
use crate::units::{Cpu, LocalId, Nanos};

/// The clock's ticks per second: one tick is a nanosecond.
const TICKS_PER_SECOND: u64 = 1_000_000_000;

/// Maximum number of cgroups whose throttled time the trace lists; the longest are listed.
const MOST_QUOTAS: usize = 64;

/// The thread that fxtrec's own events belong to: its main thread.
pub(super) fn recorder(namespaces: &Namespaces) -> ThreadName {
    let pid = std::process::id();
    let koid = match namespaces.proc_view {
        _ if namespaces.initial_pid => Koid(u64::from(pid)),
        ProcView::Initial => Koid(namespaces.own_ids.first().copied().unwrap_or(pid).into()),
        // Its id in the initial namespace is unknown until the first sample of it.
        ProcView::Own | ProcView::Between | ProcView::Foreign => inner_process_koid(LocalId(pid)),
    };
    ThreadName::Inline { process: koid, thread: koid }
}

/// Records that the machine was suspended, or its wall clock set, some time before `time`.
pub(super) fn clock_change<L: Lanes>(
    encoder: &mut Encoder<L>,
    time: Nanos,
    change: &ClockChange,
) -> Result<(), Closed> {
    let suspended = change.suspended.map(|it| number("suspended_ns", it.0));
    let set_by = change.set_by.map(|it| Arg::new(Text::Inline("set_by_ns"), Value::int(it)));
    let offset = number("wall_clock_offset_ns", change.wall_clock_offset);
    let args: Vec<Arg<'_>> = [suspended, set_by, Some(offset)].into_iter().flatten().collect();
    encoder.instant(time, Text::Inline("clock_change"), &args)
}

/// The kernel's own counts of time taken from all threads, as of the beginning of a recording.
#[derive(Clone, Debug, Default)]
pub(super) struct Watches {
    /// Time that the host took.
    host: StealWatch,
    /// The time for which quotas prevented threads from running.
    pub(super) quotas: QuotaWatch,
}

/// Their increase.
#[derive(Clone, Debug, Default)]
pub(super) struct Growth {
    pub(super) host: StealGrowth,
    pub(super) quotas: QuotaGrowth,
}

impl Watches {
    pub(super) fn begin() -> Watches {
        Watches { host: StealWatch::begin(&Linux), quotas: QuotaWatch::begin() }
    }

    /// The throttled time without quotas, whose cgroups it would have to name.
    pub(super) fn of_host() -> Watches {
        Watches { host: StealWatch::begin(&Linux), quotas: QuotaWatch::default() }
    }

    pub(super) fn growth(&self) -> Growth {
        Growth { host: self.host.growth(&Linux), quotas: self.quotas.growth() }
    }
}

/// The known facts when a recording begins.
#[derive(Clone, Debug)]
pub(super) struct Beginning {
    pub(super) time: Nanos,
    /// The thread that fxtrec's own events belong to.
    pub(super) recorder: ThreadName,
    pub(super) source: SourceKind,
    /// Which facts about causes the source provides.
    pub(super) causes: Causes,
    pub(super) scope: &'static str,
    pub(super) cpus: usize,
    pub(super) ring_bytes: usize,
    /// CPUs whose idle task the kernel does not report.
    pub(super) silent: Vec<Cpu>,
    /// The name records that non-scheduler events refer to.
    pub(super) names: Vec<u8>,
    pub(super) initial_pid_namespace: bool,
    /// Whether weights of nice 0 are left out.
    pub(super) brief_weights: bool,
    /// The request for the recording.
    pub(super) command_line: String,
    /// The process of COMMAND, if its koid is known already.
    pub(super) command: Option<Koid>,
    /// The waits for which the source records stacks.
    pub(super) stacks: Option<Wanted>,
    pub(super) watches: Watches,
}

impl std::fmt::Display for Beginning {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let kib = self.ring_bytes / 1024;
        let cpus = counted(self.cpus as u64, "CPU", "CPUs");
        write!(f, "{cpus}, a ring of {kib} KiB on each, source {}", self.source)?;
        if !self.silent.is_empty() {
            let silent: Vec<String> = self.silent.iter().map(|cpu| cpu.0.to_string()).collect();
            let silent = silent.join(", ");
            write!(f, "; CPU {silent} has a silent task, so switch records are on there")?;
        }
        if !self.initial_pid_namespace {
            write!(f, "; inside a pid namespace")?;
        }
        Ok(())
    }
}

fn string<'a>(name: &'a str, value: &'a str) -> Arg<'a> {
    Arg::new(Text::Inline(name), Value::Str(Text::Inline(value)))
}

fn number(name: &str, value: u64) -> Arg<'_> {
    Arg::new(Text::Inline(name), Value::uint(value))
}

/// The head of a trace: magic number, provider, clock, strings, and the event `trace_info`, which marks the beginning of the trace.
pub(super) fn head(beginning: &Beginning) -> Result<Vec<u8>, Closed> {
    let mut head = Vec::new();
    head.durable(&Magic)?;
    head.durable(&ProviderInfo { id: PROVIDER, name: "fxtrec" })?;
    head.durable(&ProviderSection { id: PROVIDER })?;
    head.durable(&Initialization { ticks_per_second: TICKS_PER_SECOND })?;
    strings::write(&mut head).map_err(|_| Closed)?;
    head.extend(&beginning.names);

    let machine = Machine::current();
    let wall_clock = clock::wall_clock();
    let silent: Vec<String> = beginning.silent.iter().map(|cpu| cpu.0.to_string()).collect();
    let silent = silent.join(",");
    let causes = beginning.causes.names().join(",");
    let namespace = if beginning.initial_pid_namespace { "initial" } else { "inner" };
    let mut args = vec![
        string("version", env!("CARGO_PKG_VERSION")),
        number("schema", SCHEMA),
        string("command_line", &beginning.command_line),
        string("host", &machine.host),
        string("release", &machine.release),
        string("machine", &machine.architecture),
        number("cpus", beginning.cpus as u64),
        string("clock", "CLOCK_MONOTONIC"),
        number("wall_clock_offset_ns", wall_clock.offset),
        string("scope", beginning.scope),
        string("source", beginning.source.name()),
        string("pid_namespace", namespace),
        string("silent_cpus", &silent),
        string("causes", &causes),
    ];
    if let Some(command) = beginning.command {
        args.push(Arg::new(Text::Inline("command"), Value::Koid(command)));
    }
    head.rolling(&own_event(beginning.time, beginning.recorder, strings::TRACE_INFO, &args))?;
    // A separate event, because `trace_info` already has the maximum number of arguments.
    let args = [number("ring_bytes", beginning.ring_bytes as u64)];
    let name = Text::Inline("source_info");
    head.rolling(&own_event(beginning.time, beginning.recorder, name, &args))?;
    // A clock that is not synchronized has no known error.
    if let Some(error) = wall_clock.error {
        let args = [number("wall_clock_error_ns", error)];
        let name = Text::Inline("clock_info");
        head.rolling(&own_event(beginning.time, beginning.recorder, name, &args))?;
    }
    if beginning.brief_weights {
        let args = [Arg::new(Text::Inline(ABSENT_WEIGHT_ARG), Value::Int32(NICE_0))];
        let name = Text::Inline(WEIGHT_INFO);
        head.rolling(&own_event(beginning.time, beginning.recorder, name, &args))?;
    }
    if let Some(wanted) = &beginning.stacks {
        let name = Text::Inline("stack_info");
        let args = stack_info(wanted);
        head.rolling(&own_event(beginning.time, beginning.recorder, name, &args))?;
    }
    Ok(head)
}

/// Records which trigger caused a snapshot that begins at `time`: the arguments and the time of its event `trigger`.
pub(super) fn snapshot_info(
    time: Nanos,
    recorder: ThreadName,
    cause: &Cause,
) -> Result<Vec<u8>, Closed> {
    let mut info = Vec::new();
    let mut args = about(&cause.fired, &cause.expression);
    args.push(number("trigger_ns", cause.fired.time.0));
    args.extend(cause.fired.since.map(|since| number("from_ns", since.0)));
    info.rolling(&own_event(time, recorder, Text::Inline("snapshot_info"), &args))?;
    Ok(info)
}

/// The events that stacks were recorded for.
fn stack_info(wanted: &Wanted) -> Vec<Arg<'static>> {
    let kind = match (wanted.wakes, wanted.frequency.is_some()) {
        (false, false) => "offcpu",
        (true, false) => "offcpu,wake",
        (false, true) => "offcpu,cpu",
        (true, true) => "offcpu,wake,cpu",
    };
    let mut args = vec![string("kind", kind), number("over_ns", wanted.over.0)];
    args.extend(wanted.frequency.map(|frequency| number("frequency", frequency.into())));
    args.extend(wanted.chosen.then(|| string("of", OF_CHOSEN)));
    args
}

impl Beginning {
    /// The head of a file of this recording that begins at `time`.
    pub(super) fn head_at(&self, time: Nanos) -> Vec<u8> {
        // It contains only valid names, since fxtrec itself chose them.
        head(&Beginning { time, ..self.clone() }).unwrap_or_default()
    }
}

/// The known facts when a trace ends.
#[derive(Clone, Debug)]
pub(super) struct Ending {
    pub(super) stats: Stats,
    pub(super) source: SourceStats,
    /// When the last event happened.
    pub(super) ended: Nanos,
    /// The reasons why events were lost; empty in a file that is not the last of its recording.
    pub(super) causes: Vec<LossCause>,
}

/// The counts of events that were recorded in addition to the scheduler's.
fn probe_stats(stats: &Stats) -> [Arg<'static>; 8] {
    let counts = &stats.probes;
    [
        number("probe_hits", counts.probe_hits),
        number("tracepoints", counts.tracepoints),
        number("syscalls", counts.syscalls),
        number("interrupts", counts.interrupts),
        number("unmatched_ends", counts.unmatched_ends),
        number("inferred_ends", counts.inferred_ends),
        number("unfinished", counts.unfinished),
        number("undecoded", counts.undecoded),
    ]
}

/// One cause of losses, with a description for people.
fn loss_cause<'a>(cause: &LossCause, text: &'a str) -> [Arg<'a>; 6] {
    let nanos = |duration: Duration| u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
    [
        string("cause", cause.cause.name()),
        number("lost", cause.events),
        number("gaps", cause.gaps),
        number("held_up_ns", nanos(cause.held_up)),
        number("longest_ns", nanos(cause.longest)),
        string("text", text),
    ]
}

/// The time that the host took from a CPU.
fn host_steal(cpu: Cpu, stolen: Nanos, during: Nanos) -> [Arg<'static>; 3] {
    [
        Arg::new(strings::CPU, Value::Uint32(cpu.0)),
        Arg::new(strings::STEAL_NS, Value::uint(stolen.0)),
        number("during_ns", during.0),
    ]
}

/// How long a quota stopped a cgroup.
fn quota_stat<'a>(path: &'a str, counts: &QuotaCounts, during: Nanos) -> [Arg<'a>; 5] {
    [
        Arg::new(strings::CGROUP, Value::Str(Text::Inline(path))),
        Arg::new(strings::THROTTLED_NS, Value::uint(counts.throttled.0)),
        number("throttled_periods", counts.throttled_periods),
        number("periods", counts.periods),
        number("during_ns", during.0),
    ]
}

/// Details of losses in addition to their sum.
fn loss_stats(stats: &Stats, source: &SourceStats) -> Vec<Arg<'static>> {
    let mut args = vec![
        number("lost", stats.lost),
        Arg::new(strings::AT_MOST, Value::Bool(stats.lost_at_most)),
        number("losses", stats.losses),
        number("unknown_losses", stats.unknown_losses),
        number("switch_records", stats.lost_switch_records),
        number("others", stats.lost_others),
        number("lives", stats.lost_lives),
        number("unseen_lives", stats.unseen_lives),
        number("moves", stats.moves),
    ];
    if !source.kernel_counts.is_empty() {
        let fired = source.kernel_counts.iter().map(|count| count.fired).sum();
        args.push(number("kernel_events", fired));
        args.push(number("unreported", source.unreported.total()));
        args.push(number("unreported_switches", source.unreported.switches));
    }
    args
}

/// The event `trace_stats`, which ends the trace. `bytes` is the length of the trace up to this event, and `left_out` counts data for which
/// there was no space in the trace.
pub(super) fn tail(
    ending: &Ending,
    growth: &Growth,
    recorder: ThreadName,
    (bytes, left_out): (u64, LeftOut),
) -> Result<Vec<u8>, Closed> {
    let Ending { stats, source, ended, causes } = ending;
    let fired = source.kernel_counts.first().map(|count| count.fired);
    let mut args = vec![
        number("switches", stats.switches_written),
        number("inferred_switches", stats.inferred_switches + stats.occupants),
        number("wakeups", stats.wakeups_written),
        number("spurious_wakeups", stats.spurious_wakeups),
        number("wakings", stats.wakings),
        number("lost", stats.lost),
        number("threads", stats.threads),
        number("processes", stats.processes),
        number("forks", stats.forks),
        number("exits", stats.exits),
        number("renames", stats.renames),
        number("late_events", source.late),
        number("undecoded", source.undecoded + source.garbled),
        number("bytes", bytes),
    ];
    args.extend(fired.map(|fired| number("kernel_switches", fired)));
    let mut tail = Vec::new();
    let Growth { host, quotas } = growth;
    if host.stolen.iter().any(|(_, stolen)| *stolen > Nanos(0)) {
        for (cpu, stolen) in &host.stolen {
            let args = host_steal(*cpu, *stolen, host.during);
            tail.rolling(&own_event(*ended, recorder, Text::Inline("host_steal"), &args))?;
        }
    }
    for (path, counts) in quotas.stopped.iter().take(MOST_QUOTAS) {
        let path = path_text(path);
        let args = quota_stat(&path, counts, quotas.during);
        tail.rolling(&own_event(*ended, recorder, Text::Inline("quota_stat"), &args))?;
    }
    if left_out != LeftOut::default() {
        let args = [number("names", left_out.names), number("stacks", left_out.stacks)];
        let name = Text::Inline("explanation_cut");
        tail.rolling(&own_event(*ended, recorder, name, &args))?;
    }
    if stats.probes.total() > 0 {
        tail.rolling(&own_event(*ended, recorder, strings::PROBE_STATS, &probe_stats(stats)))?;
    }
    for cause in causes {
        let text = cause.to_string();
        let args = loss_cause(cause, &text);
        tail.rolling(&own_event(*ended, recorder, Text::Inline("loss_cause"), &args))?;
    }
    if !stats.is_whole() || source.unreported.total() > 0 {
        let args = loss_stats(stats, source);
        tail.rolling(&own_event(*ended, recorder, Text::Inline("loss_stats"), &args))?;
    }
    tail.rolling(&own_event(*ended, recorder, strings::TRACE_STATS, &args))?;
    Ok(tail)
}
