//! Effects on each thread other than waits: the time that the host, quotas and interrupts took.

use std::cmp::Reverse;
use std::io::{self, Write};

use super::threads::thread_name;
use crate::facts::{Cause, Causes};
use crate::{Call, Facts, HostSteal, Metric, Quota, Report, Stats, ThreadReport};
use fxtrec_units::grid::{Grid, Side, printable};
use fxtrec_units::look::Look;
use fxtrec_units::text::{count, counted, millis, millis_or_dash, percent, short};

/// The maximum number of CPUs that are named individually.
const MAX_CPUS: usize = 8;

/// Longer paths of cgroups are cut.
const MAX_PATH: usize = 120;

/// Smaller shares of a CPU are not shown.
const WORTH_A_LINE: f64 = 0.0005;

/// The time that the host took, as a part of a sentence: `3.1 % of CPU 0, 0.4 % of CPU 1`. `None` if the time is too short to be mentioned.
pub(super) fn host(report: &Report) -> Option<String> {
    let mut taken: Vec<&HostSteal> =
        report.host.iter().filter(|host| host.share() >= WORTH_A_LINE).collect();
    taken.sort_by(|a, b| b.share().total_cmp(&a.share()).then(a.cpu.cmp(&b.cpu)));
    let rest = taken.split_off(MAX_CPUS.min(taken.len()));
    let cpu = |host: &HostSteal| report.cpu_name(host.cpu);
    let mut parts: Vec<String> =
        taken.iter().map(|it| format!("{} of CPU {}", percent(it.share()), cpu(it))).collect();
    if !rest.is_empty() {
        parts.push(format!("less of {}", counted(rest.len() as u64, "more CPU", "more CPUs")));
    }
    (!parts.is_empty()).then(|| parts.join(", "))
}

/// The maximum number of cgroups that are named individually.
const MAX_CGROUPS: usize = 3;

/// The cgroups that quotas stopped, as a sentence. `None` if quotas stopped no cgroup.
pub(super) fn stopped(report: &Report) -> Option<String> {
    let one = |quota: &Quota| {
        let periods = counted(quota.throttled_periods, "period", "periods");
        let cgroup = printable(&quota.cgroup, MAX_PATH);
        format!("{cgroup} for {} in {periods}", short(quota.throttled))
    };
    let reported: Vec<String> = report.quotas.iter().take(MAX_CGROUPS).map(one).collect();
    let rest = match report.quotas.len().saturating_sub(MAX_CGROUPS) {
        0 => String::new(),
        more => format!(", {more} more for less time"),
    };
    // If the recording does not show which threads a quota stopped, the text says so.
    let which = match report.causes.has(Cause::Throttled) {
        true => "",
        false => "; the recording does not show which threads",
    };
    (!reported.is_empty()).then(|| format!("quotas stopped {}{rest}{which}", reported.join(", ")))
}

/// The columns that are left out first on a narrow terminal: longest single times, and counts.
const SPARE: [&str; 6] = ["Moved", "IRQs", "Waits", "Max ms", "Max ms", "Max ms"];

/// A column of a table of threads, for recordings that have a certain fact.
pub(super) struct Column {
    pub(super) title: &'static str,
    pub(super) cell: fn(&Stats) -> String,
}

fn sum(stats: &Stats, metric: Metric) -> String {
    millis(stats.metric(metric).sum())
}

fn max(stats: &Stats, metric: Metric) -> String {
    millis_or_dash(stats.metric(metric).max())
}

/// The additional columns of the table of threads, if they have any values.
pub(super) fn columns(report: &Report) -> Vec<Column> {
    let column = |metric| match metric {
        Metric::Steal => Column { title: "Steal ms", cell: |of| sum(of, Metric::Steal) },
        Metric::Throttled => {
            Column { title: "Throttled ms", cell: |of| sum(of, Metric::Throttled) }
        }
        Metric::Irq => Column { title: "IRQ ms", cell: |of| sum(of, Metric::Irq) },
        _ => Column { title: "Resched max ms", cell: |of| max(of, Metric::NeedResched) },
    };
    report.facts().into_iter().map(column).collect()
}

/// Writes a row for each thread with any of these facts, and lists the facts that the recording does not have.
///
/// # Errors
/// The errors of `out`.
pub fn write_causes(
    report: &Report,
    rows: Option<usize>,
    look: Look,
    out: &mut dyn Write,
) -> io::Result<()> {
    // A fact that is only recorded on request is not reported as missing.
    let lacking = |it: &Cause| {
        let is_asked_for = matches!(it, Cause::Futex | Cause::KernelLock);
        !report.causes.has(*it) && !is_asked_for
    };
    let lacks: Vec<&str> = Cause::ALL.into_iter().filter(lacking).map(Cause::name).collect();
    if report.causes == Causes::default() {
        writeln!(out, "Delays of each task other than waits: not recorded")?;
        return writeln!(out);
    }
    let mut headings = vec![("Task", Side::Left)];
    let mut cells: Vec<fn(&Stats) -> String> = Vec::new();
    let mut add = |title, cell: fn(&Stats) -> String| {
        headings.push((title, Side::Right));
        cells.push(cell);
    };
    if report.knows(Metric::Steal) {
        add("Steal ms", |of| sum(of, Metric::Steal));
        add("Max ms", |of| max(of, Metric::Steal));
    }
    if report.knows(Metric::Throttled) {
        add("Throttled ms", |of| sum(of, Metric::Throttled));
        add("Max ms", |of| max(of, Metric::Throttled));
        add("Waits", |of| count(of.metric(Metric::Throttled).count()));
    }
    if report.knows(Metric::Irq) {
        add("IRQ ms", |of| sum(of, Metric::Irq));
        add("IRQs", |of| count(of.facts.as_ref().map_or(0, |facts| facts.irqs)));
    }
    if report.knows(Metric::NeedResched) {
        add("Resched p99 ms", |of| millis_or_dash(of.metric(Metric::NeedResched).percentile(99.0)));
        add("Max ms", |of| max(of, Metric::NeedResched));
    }
    if report.causes.has(Cause::Migrate) {
        add("Moved", |of| count(of.facts.as_ref().map_or(0, |facts| facts.moved)));
    }
    let taken = |stats: &Stats| {
        let metrics = [Metric::Steal, Metric::Throttled, Metric::Irq];
        metrics.map(|metric| stats.metric(metric).sum()).into_iter().sum::<std::time::Duration>()
    };
    let mut threads: Vec<_> =
        report.threads().iter().filter(|thread| thread.stats.facts.is_some()).collect();
    threads.sort_by_key(|thread| (Reverse(taken(&thread.stats)), thread.koid));
    let shown = rows.unwrap_or(usize::MAX).min(threads.len());
    let mut grid = Grid::new(&headings).spare(&SPARE);
    let row = |name: String, stats: &Stats| {
        std::iter::once(name).chain(cells.iter().map(|cell| cell(stats))).collect()
    };
    for thread in &threads[..shown] {
        grid.row(row(thread_name(thread), &thread.stats));
    }
    grid.row(row("TOTAL".to_owned(), report.total()));
    writeln!(out, "{}", look.heading("Delays of each task other than waits:"))?;
    grid.write(look, out)?;
    if shown < threads.len() {
        let rest = counted((threads.len() - shown) as u64, "more thread", "more threads");
        let note = format!("and {rest} (--rows 0 shows all)");
        writeln!(out, "  {}", look.note(&note))?;
    }
    if report.causes.has(Cause::Syscall) {
        write_calls(report, rows, look, out)?;
    }
    for host in &report.host {
        let (stolen, during) = (short(host.stolen), short(host.during));
        let share = percent(host.share());
        let cpu = report.cpu_name(host.cpu);
        writeln!(out, "  the host took {stolen} of CPU {cpu} in {during} ({share})")?;
    }
    for quota in &report.quotas {
        let (cgroup, time) = (printable(&quota.cgroup, MAX_PATH), short(quota.throttled));
        let throttled = count(quota.throttled_periods);
        let periods = counted(quota.periods, "period", "periods");
        writeln!(
            out,
            "  quotas stopped {cgroup} for {time}, all CPUs together, in {throttled} of {periods}"
        )?;
    }
    if !lacks.is_empty() {
        writeln!(out, "  not recorded: {}", lacks.join(", "))?;
    }
    writeln!(out)
}

/// Writes the system calls in which threads were blocked longest.
fn write_calls(
    report: &Report,
    rows: Option<usize>,
    look: Look,
    out: &mut dyn Write,
) -> io::Result<()> {
    let of_thread = |thread: &'_ ThreadReport| {
        let calls = thread.stats.facts.as_deref().map(Facts::calls).unwrap_or_default();
        let name = thread_name(thread);
        calls.into_iter().map(move |call| (name.clone(), call))
    };
    let mut all: Vec<(String, Call)> = report.threads().iter().flat_map(of_thread).collect();
    if all.is_empty() {
        return Ok(());
    }
    all.sort_by(|(_, a), (_, b)| b.sum.cmp(&a.sum).then(b.count.cmp(&a.count)));
    let shown = rows.unwrap_or(usize::MAX).min(all.len());
    let right = ["Times", "Sum ms", "Max ms"].map(|title| (title, Side::Right));
    let mut headings = vec![("Task", Side::Left), ("Blocked in", Side::Left)];
    headings.extend(right);
    let mut grid = Grid::new(&headings);
    for (task, call) in &all[..shown] {
        let number = || format!("system call {}", call.number);
        let name = report.call_name(call.number).map_or_else(number, str::to_owned);
        let (sum, max) = (millis(call.sum), millis(call.max));
        grid.row(vec![task.clone(), name, count(call.count), sum, max]);
    }
    grid.write(look, out)?;
    if shown < all.len() {
        let rest = count((all.len() - shown) as u64);
        let note = format!("and {rest} more (--rows 0 shows all)");
        writeln!(out, "  {}", look.note(&note))?;
    }
    Ok(())
}
