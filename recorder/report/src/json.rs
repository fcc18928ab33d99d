//! A report as JSON, in the shape that `docs/latency.md` describes.
//!
//! The shape is a promise of its own, so it has types of its own, whatever becomes of the model.

use fxtrec_units::lock_kind::LockKind;
use std::collections::BTreeMap;
use std::io::{self, Write};
use std::time::Duration;

use serde::Serialize;

use super::calls::Call;
use super::counters::CounterRow;
use super::distribution::Distribution;
use super::facts::{Cause, Causes, Facts};
use super::fleet::{self, TraceRow};
use super::gates::evaluate::Verdict;
use super::gates::show::JsonVerdict;
use super::locks::LockReport;
use super::model::{Party, Report, Sleep, Span, Stats, Wait};
use super::spans::SpanReport;
use fxtrec_gates::{Metric, SpanPart};

/// Goes up when a member changes its meaning or goes away; new members may come at any time.
pub const VERSION: u32 = 1;

#[derive(Serialize)]
struct Document<'a> {
    format: &'static str,
    version: u32,
    trace: Trace<'a>,
    /// Where there are several.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    traces: Vec<OneOfMany<'a>>,
    losses: Losses,
    switches: u64,
    switches_per_s: f64,
    ignored_wakeups: u64,
    folded_threads: u64,
    work_not_conserved_ns: Option<u64>,
    total: Figures,
    cpus: Vec<Cpu>,
    #[serde(skip_serializing_if = "Option::is_none")]
    quotas: Option<Vec<Quota<'a>>>,
    processes: Vec<Process<'a>>,
    threads: Vec<Thread<'a>>,
    /// Those that made the recording, where they are left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    recorder: Option<Recorder>,
    #[serde(skip_serializing_if = "Option::is_none")]
    worst_delay: Option<Delay<'a>>,
    worst: Vec<Worst<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    worst_of_command: Option<Vec<Worst<'a>>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    worst_blocked: Option<Vec<Blocked<'a>>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    spans: Option<Vec<Spans<'a>>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    counters: Option<Vec<Counter<'a>>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    locks: Option<Vec<LockWaits<'a>>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    gates: Option<Vec<JsonVerdict>>,
}

#[derive(Serialize)]
struct Recorder {
    threads: u64,
    #[serde(flatten)]
    figures: Figures,
}

#[derive(Serialize)]
struct Delay<'a> {
    #[serde(flatten)]
    thread: Who<'a>,
    begin_ns: u64,
    able_ns: u64,
    end_ns: u64,
    length_ns: u64,
    waker: Option<Who<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    syscall_name: Option<&'static str>,
}

#[derive(Serialize)]
struct Blocked<'a> {
    #[serde(flatten)]
    thread: Who<'a>,
    metric: &'static str,
    begin_ns: u64,
    end_ns: u64,
    length_ns: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    syscall: Option<u16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    syscall_name: Option<&'static str>,
    waker: Option<Who<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    interrupt: Option<bool>,
}

#[derive(Serialize)]
struct Spans<'a> {
    category: &'a str,
    name: &'a str,
    #[serde(rename = "async", skip_serializing_if = "std::ops::Not::not")]
    is_async: bool,
    tid: u64,
    pid: Option<u64>,
    comm: &'a str,
    /// By their names, those that the recording tells.
    parts: BTreeMap<&'static str, Values>,
    undisturbed: Values,
    blocked_by: BTreeMap<&'static str, u64>,
    unknown_ns: u64,
}

#[derive(Serialize)]
struct Counter<'a> {
    category: &'a str,
    name: &'a str,
    process: u64,
    id: u64,
    series: &'a str,
    samples: u64,
    min: f64,
    mean: f64,
    max: f64,
    last: f64,
}

#[derive(Serialize)]
struct LockWaits<'a> {
    futex: Option<String>,
    kernel_lock: Option<String>,
    kernel_lock_kind: Option<&'static str>,
    kernel_lock_name: Option<&'a str>,
    pid: Option<u64>,
    process: &'a str,
    waits: Values,
    held_by: Vec<LockParty<'a>>,
    released_by: Vec<LockParty<'a>>,
    waiters: Vec<LockParty<'a>>,
}

/// A thread that had a lock or waited for it; `None` if nobody knows who it was.
#[derive(Serialize)]
struct LockParty<'a> {
    thread: Option<Who<'a>>,
    sum_ns: u64,
}

#[derive(Serialize)]
struct Trace<'a> {
    begin_ns: u64,
    end_ns: u64,
    recorded: Option<Recorded<'a>>,
}

/// One of several traces.
#[derive(Serialize)]
struct OneOfMany<'a> {
    file: &'a str,
    host: Option<&'a str>,
    length_ns: u64,
    switches: u64,
    wakeup: Few,
    preempt: Few,
    #[serde(skip_serializing_if = "Option::is_none")]
    steal_ns: Option<u64>,
    lost: u64,
    gaps: u64,
}

#[derive(Serialize)]
struct Few {
    count: u64,
    p99_ns: Option<u64>,
    max_ns: Option<u64>,
}

#[derive(Serialize)]
struct Recorded<'a> {
    version: &'a str,
    command_line: &'a str,
    host: &'a str,
    release: &'a str,
    cpus: u64,
    scope: &'a str,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    causes: Vec<&'static str>,
}

#[derive(Serialize)]
struct Losses {
    events: u64,
    at_most: bool,
    unknown: u64,
    unreported: u64,
    others: u64,
    others_at_most: bool,
    records: u64,
    providers: Vec<ProviderLosses>,
    gaps: u64,
    damaged: u64,
    truncated: bool,
    causes: Vec<String>,
    list: Vec<Gap>,
}

#[derive(Serialize)]
struct ProviderLosses {
    name: String,
    records: u64,
    gaps: u64,
    unknown: u64,
    list: Vec<RecordGap>,
}

#[derive(Serialize)]
struct RecordGap {
    begin_ns: u64,
    end_ns: u64,
    records: Option<u64>,
}

#[derive(Serialize)]
struct Gap {
    cpu: Option<u16>,
    begin_ns: u64,
    end_ns: u64,
    events: Option<u64>,
}

#[derive(Serialize)]
struct Figures {
    cpu_time_ns: u64,
    voluntary: u64,
    involuntary: u64,
    migrations: u64,
    inferred: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    irqs: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    moved: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    blocked_in: Option<Vec<BlockedIn>>,
    metrics: Metrics,
}

#[derive(Serialize)]
struct BlockedIn {
    syscall: u16,
    name: Option<&'static str>,
    count: u64,
    sum_ns: u64,
    max_ns: u64,
}

#[derive(Serialize)]
struct Metrics {
    wakeup: Values,
    preempt: Values,
    runqueue: Values,
    slice: Values,
    blocked: Values,
    blocked_d: Values,
    #[serde(skip_serializing_if = "Option::is_none")]
    steal: Option<Values>,
    #[serde(skip_serializing_if = "Option::is_none")]
    throttled: Option<Values>,
    #[serde(skip_serializing_if = "Option::is_none")]
    irq: Option<Values>,
    #[serde(skip_serializing_if = "Option::is_none")]
    need_resched: Option<Values>,
}

#[derive(Serialize)]
struct Values {
    count: u64,
    censored: u64,
    sum_ns: u64,
    min_ns: Option<u64>,
    mean_ns: Option<u64>,
    p50_ns: Option<u64>,
    p90_ns: Option<u64>,
    p99_ns: Option<u64>,
    #[serde(rename = "p99.9_ns")]
    p999_ns: Option<u64>,
    max_ns: Option<u64>,
    max_at_ns: Option<u64>,
}

#[derive(Serialize)]
struct Cpu {
    cpu: u16,
    busy_ns: u64,
    idle_ns: u64,
    utilisation: Option<f64>,
    switches: u64,
    inferred: u64,
    queue_mean: Option<f64>,
    queue_max: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    host_steal_ns: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    host_during_ns: Option<u64>,
    metrics: Metrics,
}

#[derive(Serialize)]
struct Quota<'a> {
    cgroup: &'a str,
    throttled_ns: u64,
    throttled_periods: u64,
    periods: u64,
    during_ns: u64,
}

#[derive(Serialize)]
struct Process<'a> {
    koid: u64,
    pid: Option<u64>,
    name: &'a str,
    threads: u64,
    #[serde(flatten)]
    figures: Figures,
}

#[derive(Serialize)]
struct Thread<'a> {
    koid: Option<u64>,
    tid: Option<u64>,
    pid: Option<u64>,
    comm: &'a str,
    process: &'a str,
    cgroup: Option<&'a str>,
    threads: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    in_command: Option<bool>,
    #[serde(flatten)]
    figures: Figures,
}

#[derive(Serialize)]
struct Worst<'a> {
    /// Its place among the traces.
    #[serde(skip_serializing_if = "Option::is_none")]
    trace: Option<usize>,
    #[serde(flatten)]
    thread: Who<'a>,
    metric: &'static str,
    begin_ns: u64,
    end_ns: u64,
    length_ns: u64,
    queued_on: u16,
    ran_on: u16,
    #[serde(skip_serializing_if = "Option::is_none")]
    moves: Option<Vec<Move>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    throttled_ns: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    throttled_by: Option<&'a str>,
    waker: Option<Who<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    interrupt: Option<bool>,
    antagonists: Vec<Antagonist<'a>>,
    more_antagonists: u64,
    others_ns: u64,
    idle_ns: u64,
    unknown_ns: u64,
}

#[derive(Serialize)]
struct Move {
    at_ns: u64,
    from: u16,
    to: u16,
}

#[derive(Serialize)]
struct Antagonist<'a> {
    #[serde(flatten)]
    thread: Who<'a>,
    ran_ns: u64,
}

#[derive(Serialize)]
struct Who<'a> {
    koid: u64,
    tid: u64,
    pid: Option<u64>,
    comm: &'a str,
}

fn ns(duration: Duration) -> u64 {
    // 584 years fit.
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

fn values(of: &Distribution) -> Values {
    Values {
        count: of.count(),
        censored: of.censored(),
        sum_ns: ns(of.sum()),
        min_ns: of.min().map(ns),
        mean_ns: of.mean().map(ns),
        p50_ns: of.percentile(50.0).map(ns),
        p90_ns: of.percentile(90.0).map(ns),
        p99_ns: of.percentile(99.0).map(ns),
        p999_ns: of.percentile(99.9).map(ns),
        max_ns: of.max().map(ns),
        max_at_ns: of.max_at().map(|at| at.0),
    }
}

fn metrics<'a>(causes: Causes, of: impl Fn(Metric) -> &'a Distribution) -> Metrics {
    // What the recording does not tell is no member.
    let fact = |metric| causes.knows(metric).then(|| values(of(metric)));
    Metrics {
        wakeup: values(of(Metric::Wakeup)),
        preempt: values(of(Metric::Preemption)),
        runqueue: values(of(Metric::RunQueue)),
        slice: values(of(Metric::Slice)),
        blocked: values(of(Metric::Blocked)),
        blocked_d: values(of(Metric::BlockedUninterruptible)),
        steal: fact(Metric::Steal),
        throttled: fact(Metric::Throttled),
        irq: fact(Metric::Irq),
        need_resched: fact(Metric::NeedResched),
    }
}

fn figures(report: &Report, stats: &Stats) -> Figures {
    let causes = report.causes;
    let fact = |cause, of: fn(&Facts) -> u64| {
        causes.has(cause).then(|| stats.facts.as_deref().map_or(0, of))
    };
    Figures {
        cpu_time_ns: ns(stats.cpu_time),
        voluntary: stats.voluntary,
        involuntary: stats.involuntary,
        migrations: stats.migrations,
        inferred: stats.inferred,
        irqs: fact(Cause::Irq, |facts| facts.irqs),
        moved: fact(Cause::Migrate, |facts| facts.moved),
        blocked_in: causes.has(Cause::Syscall).then(|| blocked_in(report, stats)),
        metrics: metrics(causes, |metric| stats.metric(metric)),
    }
}

fn blocked_in(report: &Report, stats: &Stats) -> Vec<BlockedIn> {
    let calls = stats.facts.as_deref().map(Facts::calls).unwrap_or_default();
    let one = |call: &Call| BlockedIn {
        syscall: call.number,
        name: report.call_name(call.number),
        count: call.count,
        sum_ns: ns(call.sum),
        max_ns: ns(call.max),
    };
    calls.iter().map(one).collect()
}

fn one_of_many(row: &TraceRow) -> OneOfMany<'_> {
    let few = |of: &fleet::Figures| Few {
        count: of.count,
        p99_ns: of.p99.map(ns),
        max_ns: of.max.map(ns),
    };
    OneOfMany {
        file: &row.name,
        host: row.host.as_deref(),
        length_ns: ns(row.length),
        switches: row.switches,
        wakeup: few(&row.wakeup),
        preempt: few(&row.preempted),
        steal_ns: row.steal.map(ns),
        lost: row.lost,
        gaps: row.gaps,
    }
}

fn who(party: &Party) -> Who<'_> {
    Who { koid: party.koid.0, tid: party.tid, pid: party.pid, comm: &party.comm }
}

fn worst(causes: Causes, wait: &Wait) -> Worst<'_> {
    let Span { begin, end } = wait.span;
    let moves =
        || wait.moves.iter().map(|it| Move { at_ns: it.at.0, from: it.from.0, to: it.to.0 });
    Worst {
        trace: wait.trace,
        thread: who(&wait.thread),
        metric: wait.metric.name(),
        begin_ns: begin.0,
        end_ns: end.0,
        length_ns: ns(wait.length()),
        queued_on: wait.queued_on.0,
        ran_on: wait.ran_on.0,
        moves: causes.has(Cause::Migrate).then(|| moves().collect()),
        throttled_ns: causes.has(Cause::Throttled).then(|| ns(wait.throttled)),
        throttled_by: wait.throttled_by.as_deref(),
        waker: wait.waker.as_ref().map(who),
        interrupt: causes.has(Cause::Waker).then_some(wait.by_interrupt),
        antagonists: wait
            .antagonists
            .iter()
            .map(|antagonist| Antagonist {
                thread: who(&antagonist.thread),
                ran_ns: ns(antagonist.ran),
            })
            .collect(),
        more_antagonists: wait.more_antagonists,
        others_ns: ns(wait.others),
        idle_ns: ns(wait.idle),
        unknown_ns: ns(wait.unknown),
    }
}

fn blocked<'a>(report: &Report, sleep: &'a Sleep) -> Blocked<'a> {
    let Span { begin, end } = sleep.span;
    Blocked {
        thread: who(&sleep.thread),
        metric: sleep.metric.name(),
        begin_ns: begin.0,
        end_ns: end.0,
        length_ns: ns(sleep.span.length()),
        syscall: sleep.call,
        syscall_name: sleep.call.and_then(|number| report.call_name(number)),
        waker: sleep.waker.as_ref().map(who),
        interrupt: report.causes.has(Cause::Waker).then_some(sleep.by_interrupt),
    }
}

/// Writes the report as one JSON object, with the verdicts if there are gates.
///
/// # Errors
/// Those of `out`.
pub fn write_json(
    report: &Report,
    verdicts: Option<&[Verdict<'_>]>,
    out: &mut dyn Write,
) -> io::Result<()> {
    let processes = report.processes();
    let causes = report.causes;
    let document = Document {
        format: "fxtrec-report",
        version: VERSION,
        trace: Trace {
            begin_ns: report.span.begin.0,
            end_ns: report.span.end.0,
            recorded: report.origin.as_ref().map(|origin| Recorded {
                version: &origin.version,
                command_line: &origin.command_line,
                host: &origin.host,
                release: &origin.release,
                cpus: origin.cpus,
                scope: &origin.scope,
                causes: causes.names().collect(),
            }),
        },
        traces: report.traces.iter().map(one_of_many).collect(),
        losses: losses(report),
        switches: report.switches(),
        switches_per_s: report.switches_per_second(),
        ignored_wakeups: report.idle_wakeups,
        folded_threads: report.folded,
        work_not_conserved_ns: report.unconserved.map(ns),
        total: figures(report, report.total()),
        cpus: report.cpus.iter().map(|of| cpu(report, of)).collect(),
        quotas: report.causes.has(Cause::Quotas).then(|| report.quotas.iter().map(quota).collect()),
        processes: processes
            .iter()
            .map(|process| Process {
                koid: process.koid.0,
                pid: process.pid,
                name: &process.name,
                threads: process.threads,
                figures: figures(report, &process.stats),
            })
            .collect(),
        threads: report
            .threads()
            .iter()
            .map(|thread| Thread {
                koid: thread.koid.map(|koid| koid.0),
                tid: thread.tid,
                pid: thread.pid,
                comm: &thread.comm,
                process: &thread.process_name,
                cgroup: thread.cgroup.as_deref(),
                threads: thread.threads,
                in_command: report.has_command.then_some(thread.in_command),
                figures: figures(report, &thread.stats),
            })
            .collect(),
        recorder: report
            .recorder
            .as_ref()
            .map(|own| Recorder { threads: own.threads, figures: figures(report, &own.stats) }),
        worst_delay: report.delay.as_ref().map(|delay| Delay {
            thread: who(&delay.thread),
            begin_ns: delay.span.begin.0,
            able_ns: delay.able.0,
            end_ns: delay.span.end.0,
            length_ns: ns(delay.span.length()),
            waker: delay.waker.as_ref().map(who),
            syscall_name: delay.call.and_then(|number| report.call_name(number)),
        }),
        worst: report.worst().iter().map(|wait| worst(causes, wait)).collect(),
        worst_of_command: report
            .has_command
            .then(|| report.worst_of_command().iter().map(|wait| worst(causes, wait)).collect()),
        worst_blocked: (!report.is_fleet())
            .then(|| report.blocked().sleeps.iter().map(|sleep| blocked(report, sleep)).collect()),
        spans: report.spans.as_ref().map(spans),
        counters: report.counters.as_ref().map(|all| all.rows.iter().map(counter).collect()),
        locks: report.locks.as_ref().map(locks),
        gates: verdicts.map(|all| all.iter().map(JsonVerdict::of).collect()),
    };
    serde_json::to_writer_pretty(&mut *out, &document)?;
    writeln!(out)
}

fn spans(of: &SpanReport) -> Vec<Spans<'_>> {
    let known = || SpanPart::ALL.into_iter().filter(|part| of.knows(*part));
    let rows = of.rows.iter().map(|row| {
        let figures = &row.figures;
        let blocked_by = figures.blocked_by.iter();
        Spans {
            category: &row.category,
            name: &row.name,
            is_async: row.is_async,
            tid: row.tid,
            pid: row.pid,
            comm: &row.comm,
            parts: known().map(|part| (part.name(), values(figures.part(part)))).collect(),
            undisturbed: values(&figures.undisturbed),
            blocked_by: blocked_by.map(|(class, sum)| (class.name(), ns(*sum))).collect(),
            unknown_ns: ns(figures.unknown),
        }
    });
    rows.collect()
}

fn counter(row: &CounterRow) -> Counter<'_> {
    Counter {
        category: &row.category,
        name: &row.name,
        process: row.process,
        id: row.id,
        series: &row.series,
        samples: row.samples,
        min: row.min,
        mean: row.mean,
        max: row.max,
        last: row.last,
    }
}

fn parties(all: &[(Option<Party>, Duration)]) -> Vec<LockParty<'_>> {
    let one = |(thread, sum)| LockParty { thread, sum_ns: ns(sum) };
    all.iter().map(|(thread, sum)| one((thread.as_ref().map(who), *sum))).collect()
}

fn locks(of: &LockReport) -> Vec<LockWaits<'_>> {
    let rows = of.rows.iter().map(|row| LockWaits {
        futex: row.kernel.is_none().then(|| format!("{:#x}", row.address)),
        kernel_lock: row.kernel.map(|_| format!("{:#x}", row.address)),
        kernel_lock_kind: row.kernel.map(LockKind::name),
        kernel_lock_name: row.name.as_deref(),
        pid: row.pid,
        process: &row.process,
        waits: values(&row.waits),
        held_by: parties(&row.held_by),
        released_by: parties(&row.released_by),
        waiters: row
            .waiters
            .iter()
            .map(|(waiter, sum)| LockParty { thread: Some(who(waiter)), sum_ns: ns(*sum) })
            .collect(),
    });
    rows.collect()
}

fn losses(report: &Report) -> Losses {
    let losses = &report.losses;
    Losses {
        events: losses.events,
        at_most: losses.at_most,
        unknown: losses.unknown,
        unreported: losses.unreported,
        others: losses.others,
        others_at_most: losses.others_at_most,
        records: losses.records(),
        providers: losses.providers.iter().map(provider_losses).collect(),
        gaps: losses.gaps,
        damaged: losses.damaged,
        truncated: losses.truncated,
        causes: losses.causes.clone(),
        list: losses
            .list
            .iter()
            .map(|gap| Gap {
                cpu: gap.cpu.map(|cpu| cpu.0),
                begin_ns: gap.span.begin.0,
                end_ns: gap.span.end.0,
                events: gap.events,
            })
            .collect(),
    }
}

fn provider_losses(losses: &super::model::ProviderLosses) -> ProviderLosses {
    let gap = |gap: &super::model::RecordGap| RecordGap {
        begin_ns: gap.span.begin.0,
        end_ns: gap.span.end.0,
        records: gap.records,
    };
    ProviderLosses {
        name: losses.name.clone(),
        records: losses.records,
        gaps: losses.gaps,
        unknown: losses.unknown,
        list: losses.list.iter().map(gap).collect(),
    }
}

fn cpu(report: &Report, cpu: &super::model::CpuReport) -> Cpu {
    let host = report.host.iter().find(|host| host.cpu == cpu.cpu);
    Cpu {
        cpu: cpu.cpu.0,
        busy_ns: ns(cpu.busy),
        idle_ns: ns(cpu.idle),
        utilisation: cpu.load.map(|load| load.busy),
        switches: cpu.switches,
        inferred: cpu.inferred,
        queue_mean: cpu.load.map(|load| load.queue_mean),
        queue_max: cpu.load.map(|load| load.queue_max),
        host_steal_ns: host.map(|host| ns(host.stolen)),
        host_during_ns: host.map(|host| ns(host.during)),
        metrics: metrics(report.causes, |metric| cpu.metric(metric)),
    }
}

fn quota(quota: &super::facts::Quota) -> Quota<'_> {
    Quota {
        cgroup: &quota.cgroup,
        throttled_ns: ns(quota.throttled),
        throttled_periods: quota.throttled_periods,
        periods: quota.periods,
        during_ns: ns(quota.during),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::scene::{Leaves, Scene};

    fn document() -> Value {
        let mut scene = Scene::new();
        scene.wake_by(10, 0, 101, 202);
        scene.switch(15, 0, 0, Leaves::R, 101);
        scene.switch(20, 0, 101, Leaves::D, 0);
        scene.lose(30, 0, 3);
        let mut out = Vec::new();
        write_json(&scene.report(), None, &mut out).expect("memory");
        serde_json::from_slice(&out).expect("JSON")
    }

    #[test]
    fn the_document_says_what_it_is_and_has_every_part() {
        let document = document();
        assert_eq!(document["format"], "fxtrec-report");
        assert_eq!(document["version"], VERSION);
        let keys: Vec<&str> = document.as_object().expect("one").keys().map(|k| &**k).collect();
        let mut documented = include_str!("../../../docs/latency.md")
            .lines()
            .filter_map(|line| line.strip_prefix("| `")?.split('`').next())
            .filter(|key| keys.contains(key))
            .collect::<Vec<_>>();
        documented.sort_unstable();
        documented.dedup();
        assert_eq!(documented.len(), keys.len(), "docs/latency.md has {documented:?} of {keys:?}");
    }

    #[test]
    fn figures_are_numbers_and_what_is_not_known_is_null() {
        let document = document();
        let thread = &document["threads"][0];
        assert_eq!((&thread["tid"], &thread["comm"]), (&json!(101), &json!("t101")));
        let wakeup = &thread["metrics"]["wakeup"];
        let figures = ["count", "censored", "sum_ns", "p99_ns", "p99.9_ns", "max_ns", "max_at_ns"];
        let expected = [1, 0, 5_000, 5_000, 5_000, 5_000, 15_000];
        assert_eq!(figures.map(|name| wakeup[name].as_u64()), expected.map(Some));
        assert_eq!(thread["metrics"]["preempt"]["max_ns"], Value::Null);
        assert_eq!(document["losses"]["list"][0]["events"], 3);
        assert_eq!(document["worst"][0]["waker"]["tid"], 202);
        assert_eq!(document["worst"][0]["idle_ns"], 5_000);
        assert!(thread.get("in_command").is_none() && document.get("worst_of_command").is_none());
    }

    #[test]
    fn what_a_recording_does_not_tell_is_no_member_and_what_it_tells_is_one_even_if_there_is_none()
    {
        let names = ["steal", "throttled", "irq", "need_resched"];
        let plain = document();
        let metrics = &plain["total"]["metrics"];
        assert!(names.iter().all(|name| metrics.get(*name).is_none()), "{metrics}");
        let wait = &plain["worst"][0];
        for member in ["moves", "throttled_ns", "throttled_by", "interrupt"] {
            assert!(wait.get(member).is_none(), "{wait}");
        }
        assert!(plain["trace"]["recorded"].get("causes").is_none());
        assert!(plain["total"].get("irqs").is_none() && plain["total"].get("moved").is_none());

        let mut scene = Scene::with_causes("steal,throttled,migrate,waker");
        scene.wake(10, 0, 101).switch(15, 0, 0, Leaves::R, 101).switch(20, 0, 101, Leaves::S, 0);
        scene.host_steal(30, 0, 3, 30);
        let mut out = Vec::new();
        write_json(&scene.report(), None, &mut out).expect("memory");
        let document: Value = serde_json::from_slice(&out).expect("JSON");
        let causes = json!(["steal", "throttled", "migrate", "waker"]);
        assert_eq!(document["trace"]["recorded"]["causes"], causes);
        let total = &document["total"];
        assert_eq!(total["metrics"]["steal"]["sum_ns"], 0);
        assert_eq!(total["metrics"]["throttled"]["max_ns"], Value::Null);
        assert!(total["metrics"].get("irq").is_none() && total.get("irqs").is_none());
        assert_eq!(total["moved"], 0);
        let wait = &document["worst"][0];
        assert_eq!((&wait["moves"], &wait["throttled_ns"]), (&json!([]), &json!(0)));
        assert_eq!(wait["interrupt"], false);
        assert!(document.get("quotas").is_none() && total.get("blocked_in").is_none());
        let cpu = &document["cpus"][0];
        assert_eq!((&cpu["host_steal_ns"], &cpu["host_during_ns"]), (&json!(3000), &json!(30_000)));
    }

    #[test]
    fn of_a_command_its_threads_its_waits_and_what_blocked_it_are_told() {
        let mut scene = Scene::of_command("waker,syscall", 100);
        scene.switch(0, 0, 0, Leaves::R, 101).wake_by(10, 0, 201, 101);
        let call = [("syscall", fxt_writer::Value::Uint32(202))];
        scene.switch_with((60, 0), 101, Leaves::S, 201, &call);
        scene.wake_by(80, 0, 101, 201).switch(85, 0, 201, Leaves::S, 101);
        scene.switch(95, 0, 101, Leaves::R, 0).end(200);
        let mut out = Vec::new();
        write_json(&scene.report(), None, &mut out).expect("memory");
        let document: Value = serde_json::from_slice(&out).expect("JSON");
        let tids = |list: &str| -> Vec<u64> {
            let list = document[list].as_array().expect("a list").iter();
            list.map(|it| it["tid"].as_u64().expect("a number")).collect()
        };
        assert_eq!((tids("worst"), tids("worst_of_command")), (vec![201, 101], vec![101]));
        let is_of_command = |thread: &Value| (thread["tid"].clone(), thread["in_command"].clone());
        let threads: Vec<_> =
            document["threads"].as_array().expect("a list").iter().map(is_of_command).collect();
        assert_eq!(threads, [(json!(201), json!(false)), (json!(101), json!(true))]);
        let expected = json!([{
            "koid": 101, "tid": 101, "pid": 100, "comm": "t101", "metric": "blocked",
            "begin_ns": 60_000, "end_ns": 80_000, "length_ns": 20_000, "syscall": 202,
            "syscall_name": "futex", "interrupt": false,
            "waker": {"koid": 201, "tid": 201, "pid": 200, "comm": "t201"},
        }]);
        assert_eq!(document["worst_blocked"], expected);
    }

    #[test]
    fn without_usual_weights_the_same_is_told() {
        let told = |brief: bool| {
            let mut scene = Scene::of_command("waker,syscall", 100);
            if brief {
                scene.leave_out_usual_weights();
            }
            scene.switch(0, 0, 0, Leaves::R, 101);
            scene.wake_with(10, 0, 201, &[("interrupt", fxt_writer::Value::Bool(true))]);
            let call = [("syscall", fxt_writer::Value::Uint32(202))];
            scene.switch_with((60, 0), 101, Leaves::D, 201, &call);
            scene.wake_by(80, 0, 101, 201).switch(85, 0, 201, Leaves::S, 0);
            scene.switch(95, 0, 0, Leaves::R, 101).end(200);
            let mut out = Vec::new();
            write_json(&scene.report(), None, &mut out).expect("memory");
            let mut document: Value = serde_json::from_slice(&out).expect("JSON");
            let bytes = document["trace"].as_object_mut().and_then(|trace| trace.remove("bytes"));
            (document, bytes)
        };
        let (all, brief) = (told(false), told(true));
        assert_eq!(all.0["worst_blocked"][0]["syscall_name"], "futex");
        assert_eq!(all.0["worst"][0]["interrupt"], true);
        assert_eq!(all.0, brief.0);
    }

    #[test]
    fn quotas_that_stopped_cgroups_are_listed_where_the_recording_knows() {
        let mut scene = Scene::with_causes("quotas");
        scene.switch(10, 0, 0, Leaves::R, 101).quota_stat(30, "/x", 12, (3, 4));
        let mut out = Vec::new();
        write_json(&scene.report(), None, &mut out).expect("memory");
        let document: Value = serde_json::from_slice(&out).expect("JSON");
        let expected = json!([{
            "cgroup": "/x", "throttled_ns": 12_000, "throttled_periods": 3, "periods": 4, "during_ns": 30_000,
        }]);
        assert_eq!(document["quotas"], expected);
    }

    #[test]
    fn the_system_calls_that_a_thread_was_blocked_in_are_listed_with_their_times() {
        let in_call = |number| [("syscall", fxt_writer::Value::Uint32(number))];
        let mut scene = Scene::with_causes("syscall");
        scene.switch(10, 0, 0, Leaves::R, 101);
        for (out, number, back) in [(20, 202, 50), (60, 0, 70), (80, 202, 90)] {
            scene.switch_with((out, 0), 101, Leaves::S, 0, &in_call(number));
            scene.wake(back, 0, 101).switch(back + 1, 0, 0, Leaves::R, 101);
        }
        let mut out = Vec::new();
        write_json(&scene.report(), None, &mut out).expect("memory");
        let document: Value = serde_json::from_slice(&out).expect("JSON");
        let thread = document["threads"]
            .as_array()
            .expect("threads")
            .iter()
            .find(|thread| thread["koid"] == 101);
        let calls = &thread.expect("it is there")["blocked_in"];
        let expected = json!([
            {"syscall": 202, "name": "futex", "count": 2, "sum_ns": 40_000, "max_ns": 30_000},
            {"syscall": 0, "name": "read", "count": 1, "sum_ns": 10_000, "max_ns": 10_000},
        ]);
        assert_eq!(calls, &expected);
        assert_eq!(document["total"]["blocked_in"], expected);
    }
}
