//! The overview of the whole trace: its head, the metrics, the CPUs.

use std::io::{self, Write};

use super::causes::{host, stopped};
use super::losses::write_losses;
use super::worst::recorder_line;
use crate::{Distribution, Metric, Origin, Report};
use fxtrec_units::grid::{Grid, Side, printable};
use fxtrec_units::look::Look;
use fxtrec_units::text::{count, counted, percent, short, short_or_dash, wall_time};

/// Maximum number of recordings of a merged trace that are described.
const MOST_MERGED: usize = 8;

/// Writes what was recorded, and what is missing.
///
/// # Errors
/// The errors of `out`.
pub fn write_head(report: &Report, look: Look, out: &mut dyn Write) -> io::Result<()> {
    let length = report.span.length().as_secs_f64();
    let threads: u64 = report.threads().iter().map(|thread| thread.threads).sum();
    let switches = counted(report.switches(), "switch", "switches");
    let threads = counted(threads, "thread", "threads");
    let rate = count(report.switches_per_second() as u64);
    let cpus = counted(report.cpus.len() as u64, "CPU", "CPUs");
    let begin = report.span.begin;
    let offset = report.origin.as_ref().and_then(|origin| origin.wall_clock_offset);
    let wall = offset.and_then(|offset| wall_time(begin.0, offset));
    let wall = wall.map_or_else(String::new, |wall| format!(" ({wall})"));
    writeln!(
        out,
        "{length:.6} s from {begin}{wall}, {cpus}, {threads}, {switches} ({rate} per second)"
    )?;
    if let Some(origin) = &report.origin {
        for (number, origin) in report.merged.iter().enumerate() {
            if number == MOST_MERGED {
                let rest = (report.merged.len() - number) as u64;
                writeln!(out, "and {}", counted(rest, "more recording", "more recordings"))?;
                break;
            }
            write_recorded(origin, &origin.host, out)?;
        }
        if report.merged.is_empty() {
            // Several in a merged trace.
            let mut hosts: Vec<&str> =
                report.threads().iter().filter_map(|it| it.host.as_deref()).collect();
            hosts.extend(Some(&*origin.host).filter(|host| !host.is_empty()));
            hosts.sort_unstable();
            hosts.dedup();
            write_recorded(origin, &hosts.join(", "), out)?;
        }
        if report.is_narrow() {
            writeln!(
                out,
                "the trace has only the switches of some threads (scope {}): figures of CPUs cover only these threads",
                origin.scope
            )?;
        }
    }
    if let Some(taken) = host(report) {
        writeln!(out, "the host took {taken}: latencies include it")?;
    }
    if let Some(stopped) = stopped(report) {
        writeln!(out, "{stopped}")?;
    }
    if let Some(text) = recorder_line(report) {
        writeln!(out, "left out: {text}")?;
    }
    write_losses(report, look, out)?;
    if report.folded > 0 {
        let folded = counted(report.folded, "exited thread is", "exited threads are");
        writeln!(out, "{folded} merged by name")?;
    }
    writeln!(out)
}

/// Writes one line for each metric, over all threads.
///
/// # Errors
/// The errors of `out`.
pub fn write_metrics(report: &Report, look: Look, out: &mut dyn Write) -> io::Result<()> {
    let mut grid = Grid::new(&[
        ("All threads", Side::Left),
        ("Count", Side::Right),
        ("Min", Side::Right),
        ("Avg", Side::Right),
        ("p50", Side::Right),
        ("p90", Side::Right),
        ("p99", Side::Right),
        ("p99.9", Side::Right),
        ("Max", Side::Right),
        ("Sum", Side::Right),
        ("Censored", Side::Right),
    ])
    .spare(&["Min", "p99.9", "p90", "Censored", "Avg", "Sum", "p50"]);
    for metric in Metric::ALL.into_iter().chain(report.facts()) {
        let of: &Distribution = report.total().metric(metric);
        grid.row(vec![
            metric.title().to_owned(),
            count(of.count()),
            short_or_dash(of.min()),
            short_or_dash(of.mean()),
            short_or_dash(of.percentile(50.0)),
            short_or_dash(of.percentile(90.0)),
            short_or_dash(of.percentile(99.0)),
            short_or_dash(of.percentile(99.9)),
            short_or_dash(of.max()),
            short(of.sum()),
            count(of.censored()),
        ]);
    }
    grid.write(look, out)?;
    let total = report.total();
    writeln!(
        out,
        "  {} voluntary and {} out, {}{}",
        count(total.voluntary),
        counted(total.involuntary, "involuntary switch", "involuntary switches"),
        counted(total.migrations, "migration", "migrations"),
        match report.moved(total) {
            Some(moved) => format!(", moved {} while waiting", counted(moved, "time", "times")),
            None => String::new(),
        }
    )?;
    writeln!(out)
}

/// The settings of a recording on `hosts`, if the trace has them: other recorders write less about it.
fn write_recorded(origin: &Origin, hosts: &str, out: &mut dyn Write) -> io::Result<()> {
    let version = origin.recorder().unwrap_or_default();
    let parts = [
        (" on ", hosts, ""),
        (" by fxtrec ", version, ""),
        (" (Linux ", &origin.release, ")"),
        (": ", &origin.command_line, ""),
    ];
    let known = parts.iter().filter(|(_, text, _)| !text.is_empty());
    let said: String = known
        .map(|(before, text, after)| format!("{before}{}{after}", printable(text, 100)))
        .collect();
    if said.is_empty() { Ok(()) } else { writeln!(out, "recorded{said}") }
}

fn or_dash(text: Option<String>) -> String {
    text.unwrap_or_else(|| "-".to_owned())
}

/// Writes a line for each CPU.
///
/// # Errors
/// The errors of `out`.
pub fn write_cpus(report: &Report, look: Look, out: &mut dyn Write) -> io::Result<()> {
    let mut grid = Grid::new(&[
        ("CPU", Side::Right),
        ("Busy", Side::Right),
        ("Switches", Side::Right),
        ("Per s", Side::Right),
        ("Inferred", Side::Right),
        ("Queue avg", Side::Right),
        ("Queue max", Side::Right),
        ("Wakeup p99", Side::Right),
        ("Wakeup max", Side::Right),
        ("Wait p99", Side::Right),
        ("Wait max", Side::Right),
        ("Slice avg", Side::Right),
    ])
    .spare(&[
        "Inferred",
        "Per s",
        "Slice avg",
        "Queue avg",
        "Wakeup p99",
        "Wait p99",
        "Queue max",
        "Switches",
    ]);
    for cpu in &report.cpus {
        let (wakeup, wait) = (cpu.metric(Metric::Wakeup), cpu.metric(Metric::RunQueue));
        grid.row(vec![
            report.cpu_name(cpu.cpu),
            or_dash(cpu.load.map(|load| percent(load.busy))),
            count(cpu.switches),
            count(report.per_second(cpu.switches) as u64),
            count(cpu.inferred),
            or_dash(cpu.load.map(|load| format!("{:.2}", load.queue_mean))),
            or_dash(cpu.load.map(|load| count(load.queue_max))),
            short_or_dash(wakeup.percentile(99.0)),
            short_or_dash(wakeup.max()),
            short_or_dash(wait.percentile(99.0)),
            short_or_dash(wait.max()),
            short_or_dash(cpu.metric(Metric::Slice).mean()),
        ]);
    }
    grid.write(look, out)?;
    match report.unconserved {
        Some(unconserved) => {
            let length = report.span.length().as_secs_f64();
            let share = if length > 0.0 { unconserved.as_secs_f64() / length } else { 0.0 };
            writeln!(
                out,
                "  work not conserved: for {} ({}) one CPU had a queue while another was idle",
                short(unconserved),
                percent(share)
            )?;
        }
        None => writeln!(
            out,
            "  busy, queue, work not conserved: unknown, because the trace has only the switches in its scope (record with -a)"
        )?,
    }
    writeln!(out)
}
