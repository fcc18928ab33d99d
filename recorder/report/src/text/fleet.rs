//! The summary of many traces: the head, and one row per trace.

use std::cmp::Reverse;
use std::io::{self, Write};
use std::time::Duration;

use super::losses::write_losses;
use super::threads::{SortKey, TableStyle, capital};
use crate::fleet::TraceRow;
use crate::{Metric, Report};
use fxtrec_units::grid::{Grid, Side, printable};
use fxtrec_units::look::Look;
use fxtrec_units::text::{count, counted, short, short_or_dash, some};

/// The maximum number of traces without events that are named.
const MOST_NAMED: usize = 8;

/// Lists the traces, and the data that is missing from them.
///
/// # Errors
/// The errors of `out`.
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

/// Writes a row for each trace: its figures of the style's metric, in the style's order.
///
/// # Errors
/// The errors of `out`.
pub fn write_traces(report: &Report, style: TableStyle, out: &mut dyn Write) -> io::Result<()> {
    let (mut rows, empty): (Vec<&TraceRow>, Vec<&TraceRow>) =
        report.traces.iter().partition(|row| row.has_events());
    rows.sort_by_key(|row| rank(row, style));
    let all = rows.len();
    rows.truncate(style.rows.unwrap_or(all));
    let mut grid = Grid::new(&[
        ("Trace", Side::Left),
        ("Host", Side::Left),
        ("Length", Side::Right),
        ("Switches", Side::Right),
        ("Count", Side::Right),
        ("p50", Side::Right),
        ("p99", Side::Right),
        ("Max", Side::Right),
        ("Steal", Side::Right),
        ("Throttled", Side::Right),
        ("Lost", Side::Right),
    ])
    .spare(&["Length", "p50", "Throttled", "Switches", "Count", "Lost", "Steal"]);
    for row in &rows {
        let figures = row.figures(style.metric);
        grid.row(vec![
            printable(&row.name, 60),
            row.host.as_deref().map_or_else(|| "-".to_owned(), |host| printable(host, 32)),
            short(row.length),
            count(row.switches),
            count(figures.count),
            short_or_dash(figures.p50),
            short_or_dash(figures.p99),
            short_or_dash(figures.max),
            short_or_dash(row.steal),
            short_or_dash(row.throttled),
            count(row.lost),
        ]);
    }
    let title = format!("{} of each trace:", capital(style.metric.title()));
    writeln!(out, "{}", style.look.heading(&title))?;
    grid.write(style.look, out)?;
    if rows.len() < all {
        let note = format!(
            "and {} (--rows 0 shows all)",
            counted((all - rows.len()) as u64, "more trace", "more traces")
        );
        writeln!(out, "  {}", style.look.note(&note))?;
    }
    if !empty.is_empty() {
        let names: Vec<String> = empty.iter().map(|row| printable(&row.name, 100)).collect();
        writeln!(out, "  no events in {}", some(&names, MOST_NAMED))?;
    }
    writeln!(out)
}

/// The greatest first; names from A to Z. If a trace lacks a figure, such as the CPU time, the figure of its slices is used.
fn rank(row: &TraceRow, style: TableStyle) -> (Reverse<u128>, &str) {
    let figures = row.figures(style.metric);
    let nanos = |duration: Option<Duration>| duration.map_or(0, |it| it.as_nanos() + 1);
    let rank = match style.sort {
        SortKey::Max => nanos(figures.max),
        SortKey::Mean => nanos(figures.mean),
        SortKey::Percentile(tenths) => nanos(match tenths {
            500 => figures.p50,
            900 => figures.p90,
            990 => figures.p99,
            _ => figures.p999,
        }),
        SortKey::Sum => figures.sum.as_nanos(),
        SortKey::Count => figures.count.into(),
        SortKey::Runtime => row.figures(Metric::Slice).sum.as_nanos(),
        SortKey::Switches => row.switches.into(),
        SortKey::Migrations | SortKey::Name => 0,
    };
    (Reverse(rank), &row.name)
}
