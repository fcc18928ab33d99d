//! What many traces come to: the head, and a row for each.

use std::cmp::Reverse;
use std::io::{self, Write};

use super::losses::write_losses;
use crate::Report;
use crate::fleet::TraceRow;
use fxtrec_units::grid::{Grid, Side, printable};
use fxtrec_units::look::Look;
use fxtrec_units::text::{count, counted, short, short_or_dash};

/// Writes what the traces are, and what is missing from them.
///
/// # Errors
/// Those of `out`.
pub fn write_fleet_head(report: &Report, look: Look, out: &mut dyn Write) -> io::Result<()> {
    let threads: u64 = report.threads().iter().map(|thread| thread.threads).sum();
    let of = match (report.hosts(), report.traces.iter().filter(|row| row.host.is_none()).count()) {
        (0, _) => "unknown hosts".to_owned(),
        (hosts, 0) => counted(hosts as u64, "host", "hosts"),
        (hosts, nameless) => format!(
            "{} ({} not say)",
            counted(hosts as u64, "host", "hosts"),
            counted(nameless as u64, "trace does", "traces do")
        ),
    };
    writeln!(
        out,
        "{} of {of}: {:.3} s in all, {}, {}",
        counted(report.traces.len() as u64, "trace", "traces"),
        report.span.length().as_secs_f64(),
        counted(threads, "thread", "threads"),
        counted(report.switches(), "switch", "switches")
    )?;
    write_losses(report, look, out)?;
    writeln!(out)
}

/// Writes a row for each trace, that with the greatest 99th percentile of wake-up latency first; at most so many.
///
/// # Errors
/// Those of `out`.
pub fn write_traces(
    report: &Report,
    most: Option<usize>,
    look: Look,
    out: &mut dyn Write,
) -> io::Result<()> {
    let mut rows: Vec<&TraceRow> = report.traces.iter().collect();
    rows.sort_by_key(|row| Reverse(row.wakeup.p99));
    let all = rows.len();
    rows.truncate(most.unwrap_or(all));
    let mut grid = Grid::new(&[
        ("Trace", Side::Left),
        ("Host", Side::Left),
        ("Length", Side::Right),
        ("Switches", Side::Right),
        ("Wakeup p99", Side::Right),
        ("Wakeup max", Side::Right),
        ("Preempt p99", Side::Right),
        ("Steal", Side::Right),
        ("Lost", Side::Right),
    ])
    .spare(&["Length", "Switches", "Preempt p99", "Host", "Lost", "Steal"]);
    for row in &rows {
        grid.row(vec![
            printable(&row.name, 60),
            row.host.as_deref().map_or_else(|| "-".to_owned(), |host| printable(host, 32)),
            short(row.length),
            count(row.switches),
            short_or_dash(row.wakeup.p99),
            short_or_dash(row.wakeup.max),
            short_or_dash(row.preempted.p99),
            short_or_dash(row.steal),
            count(row.lost),
        ]);
    }
    grid.write(look, out)?;
    if rows.len() < all {
        let note = format!(
            "and {} (--rows 0 shows all)",
            counted((all - rows.len()) as u64, "more trace", "more traces")
        );
        writeln!(out, "  {}", look.note(&note))?;
    }
    writeln!(out)
}
