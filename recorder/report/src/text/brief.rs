//! The summary at the end of a recording: a few lines.

use std::io::{self, Write};

use super::worst::{recorder_line, worst_of_all};
use crate::{Metric, Report};
use fxtrec_units::text::{counted, percent, short};

/// The maximum number of CPUs that are named individually.
const MAX_CPUS: usize = 8;

/// Writes the summary, in the style of the lines before it.
///
/// # Errors
/// The errors of `out`.
pub fn write_brief(report: &Report, out: &mut dyn Write) -> io::Result<()> {
    write_metrics(&[WAKEUP, PREEMPTED, SLICE], report, out)?;
    if let Some((what, text)) = worst_of_all(report) {
        writeln!(out, "  {what:<10} {text}")?;
    }
    if let Some(text) = recorder_line(report) {
        writeln!(out, "  left out   {text}")?;
    }
    if report.too_many_spans {
        writeln!(
            out,
            "  left out   some spans: there are more than the limit for the summary (fxtrec why)"
        )?;
    }
    for text in names_line(report).into_iter().chain(strings_line(report)) {
        writeln!(out, "  left out   {text}")?;
    }
    write_busy(report, out)
}

/// The line about names for which there was no space, if any.
pub(super) fn names_line(report: &Report) -> Option<String> {
    let names = counted(report.names_left_out, "name", "names");
    (report.names_left_out > 0).then(|| {
        format!("{names} that programs gave their threads: the limit of 32 MiB was reached")
    })
}

/// The line about strings of programs for which there was no space, if any.
pub(super) fn strings_line(report: &Report) -> Option<String> {
    let strings = counted(report.strings_left_out, "string", "strings");
    (report.strings_left_out > 0).then(|| {
        format!("{strings} that programs registered, shown here as \"?\": the limit of 16 MiB was reached")
    })
}

/// Writes the summary's figures about waits and CPUs.
///
/// # Errors
/// The errors of `out`.
pub fn write_figures(report: &Report, out: &mut dyn Write) -> io::Result<()> {
    write_metrics(&[WAKEUP, PREEMPTED], report, out)?;
    write_busy(report, out)?;
    writeln!(out)
}

const WAKEUP: (&str, Metric) = ("wakeup", Metric::Wakeup);
const PREEMPTED: (&str, Metric) = ("preempted", Metric::Preemption);
const SLICE: (&str, Metric) = ("slice", Metric::Slice);

fn write_metrics(lines: &[(&str, Metric)], report: &Report, out: &mut dyn Write) -> io::Result<()> {
    for &(label, metric) in lines {
        let of = report.total().metric(metric);
        let (Some(p50), Some(p99), Some(max)) =
            (of.percentile(50.0), of.percentile(99.0), of.max())
        else {
            continue;
        };
        let (p50, p99, max) = (short(p50), short(p99), short(max));
        let number = counted(of.count(), "sample", "samples");
        writeln!(out, "  {label:<10} p50 {p50}, p99 {p99}, max {max} ({number})")?;
    }
    let lines = [
        ("steal", Metric::Steal, ["slice", "slices"]),
        ("throttled", Metric::Throttled, ["wait", "waits"]),
    ];
    for (label, metric, [one, many]) in lines {
        let of = report.total().metric(metric);
        if let (true, Some(max)) = (report.knows(metric), of.max()) {
            let (sum, max, number) = (short(of.sum()), short(max), counted(of.count(), one, many));
            writeln!(out, "  {label:<10} {sum}, max {max} (in {number})")?;
        }
    }
    Ok(())
}

fn write_busy(report: &Report, out: &mut dyn Write) -> io::Result<()> {
    let loads = report.cpus.iter().filter_map(|cpu| cpu.load.map(|load| (cpu.cpu, load.busy)));
    let busy: Vec<String> = loads
        .map(|(cpu, busy)| format!("CPU {} {}", report.cpu_name(cpu), percent(busy)))
        .collect();
    if (1..=MAX_CPUS).contains(&busy.len()) {
        writeln!(out, "  busy       {}", busy.join(", "))?;
    }
    Ok(())
}
