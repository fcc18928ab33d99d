//! Converts a report to the JSON format.

use std::io::{self, Write};
use std::time::Duration;

use fxtrec_gates::{Metric, SpanPart};
use fxtrec_units::escape;
use fxtrec_units::lock_kind::LockKind;

use super::*;
use crate::calls::Call;
use crate::counters::CounterRow;
use crate::distribution::Distribution;
use crate::facts::{Cause, Causes, Facts};
use crate::fleet::TraceRow;
use crate::gates::evaluate::Verdict;
use crate::groups::GroupBy;
use crate::locks::LockReport;
use crate::model::{self, Report, Sleep, Span, Stats, ThreadInfo, Wait};
use crate::spans::SpanReport;

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
    // Facts that the recording does not have have no member.
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
    let few = |metric| {
        let of = row.figures(metric);
        Few {
            count: of.count,
            sum_ns: ns(of.sum),
            mean_ns: of.mean.map(ns),
            p50_ns: of.p50.map(ns),
            p90_ns: of.p90.map(ns),
            p99_ns: of.p99.map(ns),
            max_ns: of.max.map(ns),
        }
    };
    OneOfMany {
        file: &row.name,
        host: row.host.as_deref(),
        length_ns: ns(row.length),
        switches: row.switches,
        wakeup: few(Metric::Wakeup),
        preempt: few(Metric::Preemption),
        runqueue: few(Metric::RunQueue),
        slice: few(Metric::Slice),
        blocked: few(Metric::Blocked),
        blocked_d: few(Metric::BlockedUninterruptible),
        steal_ns: row.steal.map(ns),
        throttled_ns: row.throttled.map(ns),
        lost: row.lost,
        gaps: row.gaps,
    }
}

fn who(thread: &ThreadInfo) -> Who<'_> {
    Who { koid: thread.koid.0, tid: thread.tid, pid: thread.pid, comm: &thread.comm }
}

fn incident(incident: &model::Incident) -> Incident<'_> {
    let model::Incident { thread, span, sentence } = incident;
    let (begin_ns, end_ns, length_ns) = (span.begin.0, span.end.0, ns(span.length()));
    Incident { thread: who(thread), begin_ns, end_ns, length_ns, sentence }
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
        waited_for: sleep.waited_for.as_deref(),
    }
}

/// Writes the report as one JSON object, with the verdicts if there are gates.
///
/// # Errors
/// The errors of `out`.
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
        by: report.grouped_by.map(GroupBy::name),
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
                host: thread.host.as_deref(),
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
        incidents: report.incidents.as_ref().map(|all| all.iter().map(incident).collect()),
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
    serde_json::to_writer_pretty(escape::Json(&mut *out), &document)?;
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

fn lock_threads(all: &[(Option<ThreadInfo>, Duration)]) -> Vec<LockThread<'_>> {
    let one = |(thread, sum)| LockThread { thread, sum_ns: ns(sum) };
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
        held_by: lock_threads(&row.held_by),
        released_by: lock_threads(&row.released_by),
        waiters: row
            .waiters
            .iter()
            .map(|(waiter, sum)| LockThread { thread: Some(who(waiter)), sum_ns: ns(*sum) })
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

fn provider_losses(losses: &crate::model::ProviderLosses) -> ProviderLosses {
    let gap = |gap: &crate::model::RecordGap| RecordGap {
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

fn cpu(report: &Report, cpu: &crate::model::CpuReport) -> Cpu {
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

fn quota(quota: &crate::facts::Quota) -> Quota<'_> {
    Quota {
        cgroup: &quota.cgroup,
        throttled_ns: ns(quota.throttled),
        throttled_periods: quota.throttled_periods,
        periods: quota.periods,
        during_ns: ns(quota.during),
    }
}
