//! The table of threads or processes, in the order of `perf sched latency`'s columns.

use std::cmp::Reverse;
use std::io::{self, Write};
use std::str::FromStr;
use std::time::Duration;

use super::causes::columns;
use crate::{Distribution, GroupBy, Metric, Report, Stats, ThreadReport};
use fxtrec_units::grid::{Grid, Side, printable};
use fxtrec_units::look::Look;
use fxtrec_units::text::{count, counted, millis, millis_or_dash};

/// The column by which rows are sorted, the greatest first; names from A to Z.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SortKey {
    #[default]
    Max,
    Mean,
    /// A percentile, in tenths of a percent.
    Percentile(u16),
    Sum,
    Count,
    Runtime,
    Switches,
    Migrations,
    Name,
}

/// A string that is not a sort key.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "unknown sort key; expected max, mean (avg), p50, p90, p99, p99.9, sum, count, runtime, \
     switches, migrations or name"
)]
pub struct NoSuchKey;

impl FromStr for SortKey {
    type Err = NoSuchKey;

    fn from_str(name: &str) -> Result<SortKey, NoSuchKey> {
        Ok(match name {
            "max" => SortKey::Max,
            "mean" | "avg" => SortKey::Mean,
            "p50" => SortKey::Percentile(500),
            "p90" => SortKey::Percentile(900),
            "p99" => SortKey::Percentile(990),
            "p99.9" => SortKey::Percentile(999),
            "sum" => SortKey::Sum,
            "count" => SortKey::Count,
            "runtime" => SortKey::Runtime,
            "switches" => SortKey::Switches,
            "migrations" => SortKey::Migrations,
            "name" => SortKey::Name,
            _ => return Err(NoSuchKey),
        })
    }
}

/// The form of the table.
#[derive(Clone, Copy, Debug)]
pub struct TableStyle {
    /// The metric of the length columns.
    pub metric: Metric,
    /// The column by which rows are sorted.
    pub sort: SortKey,
    /// The maximum number of rows; `None` for all.
    pub rows: Option<usize>,
    /// The style of the output.
    pub look: Look,
}

/// The column with the end of the longest value.
const ENDED: &str = "Max ended at s";

/// The strings that are shortened on a narrow terminal.
const SPARE: [&str; 11] = [
    "Migr",
    "Censored",
    "Resched max ms",
    "p50 ms",
    "Avg ms",
    "Switches",
    "IRQ ms",
    ENDED,
    "Count",
    "Steal ms",
    "Throttled ms",
];

/// The content of a row.
struct Row<'a> {
    name: String,
    in_command: bool,
    /// Whether it is in the scope of the recording.
    is_recorded: bool,
    /// How many threads or processes it represents.
    threads: u64,
    stats: &'a Stats,
}

/// How many rows of COMMAND and of the rest of the machine fit: COMMAND's rows are first; a third of the rows is reserved for others if
/// there are enough of them.
pub(super) fn share(room: usize, of_command: usize, others: usize) -> (usize, usize) {
    let left = others.min(room / 3);
    let first = of_command.min(room - left);
    (first, others.min(room - first))
}

impl Row<'_> {
    fn rank(&self, style: TableStyle) -> (Reverse<u128>, &str) {
        let distribution = self.stats.metric(style.metric);
        let nanos = |duration: Option<Duration>| duration.map_or(0, |d| d.as_nanos() + 1);
        let rank = match style.sort {
            SortKey::Max => nanos(distribution.max()),
            SortKey::Mean => nanos(distribution.mean()),
            SortKey::Percentile(tenths) => nanos(distribution.percentile(f64::from(tenths) / 10.0)),
            SortKey::Sum => distribution.sum().as_nanos(),
            SortKey::Count => distribution.count().into(),
            SortKey::Runtime => self.stats.cpu_time.as_nanos(),
            SortKey::Switches => self.stats.switches().into(),
            SortKey::Migrations => self.stats.migrations.into(),
            SortKey::Name => 0,
        };
        (Reverse(rank), &self.name)
    }
}

/// The name of a thread in tables: `cc1:1234`, `cc1:1234@host` in a merged trace, or `cc1 (12 threads)`.
pub fn thread_name(thread: &ThreadReport) -> String {
    let comm = printable(&thread.comm, 32);
    match thread.tid {
        Some(tid) => match &thread.host {
            Some(host) => format!("{comm}:{tid}@{}", printable(host, 24)),
            None => format!("{comm}:{tid}"),
        },
        None => format!("{comm} ({})", counted(thread.threads, "thread", "threads")),
    }
}

fn row_of(thread: &ThreadReport) -> Row<'_> {
    let ThreadReport { in_command, is_recorded, threads, ref stats, .. } = *thread;
    Row { name: thread_name(thread), in_command, is_recorded, threads, stats }
}

/// Writes the table of threads, COMMAND's first.
///
/// # Errors
/// The errors of `out`.
pub fn write_threads(report: &Report, style: TableStyle, out: &mut dyn Write) -> io::Result<()> {
    let rows = report.threads().iter();
    let rows = rows.map(|thread| row_of(thread));
    let headings = match report.grouped_by {
        None => ("Task", "threads"),
        Some(GroupBy::Process) => ("Process", "processes"),
        Some(GroupBy::Cgroup) => ("Cgroup", "cgroups"),
        Some(GroupBy::Host) => ("Host", "hosts"),
    };
    write_rows(headings, rows.collect(), report, style, out)
}

/// Writes the table of processes.
///
/// # Errors
/// The errors of `out`.
pub fn write_processes(report: &Report, style: TableStyle, out: &mut dyn Write) -> io::Result<()> {
    let processes = report.processes();
    let rows = processes.iter().map(|process| Row {
        name: match process.pid {
            Some(pid) => format!("{}:{pid}", printable(&process.name, 32)),
            None => printable(&process.name, 32),
        },
        in_command: process.in_command,
        is_recorded: process.is_recorded,
        threads: 1,
        stats: &process.stats,
    });
    let folded = report.threads().iter().filter(|thread| thread.koid.is_none());
    let folded = folded.map(row_of);
    let rows = rows.chain(folded).collect();
    write_rows(("Process", "processes"), rows, report, style, out)
}

fn write_rows(
    (heading, what): (&'static str, &str),
    mut rows: Vec<Row<'_>>,
    report: &Report,
    style: TableStyle,
    out: &mut dyn Write,
) -> io::Result<()> {
    let has_command = rows.iter().any(|row| row.in_command);
    let is_first = |row: &Row<'_>| row.in_command || !has_command && row.is_recorded;
    rows.sort_by(|a, b| (!is_first(a), a.rank(style)).cmp(&(!is_first(b), b.rank(style))));
    let whose = if has_command { "COMMAND" } else { "RECORDED" };
    let (first, others) = rows.split_at(rows.partition_point(is_first));
    let room = style.rows.unwrap_or(usize::MAX);
    let shown = share(room, first.len(), others.len());
    let mut headings = vec![
        (heading, Side::Left),
        ("Runtime ms", Side::Right),
        ("Switches", Side::Right),
        ("Count", Side::Right),
        ("Avg ms", Side::Right),
        ("p50 ms", Side::Right),
        ("p99 ms", Side::Right),
        ("Max ms", Side::Right),
        (ENDED, Side::Right),
        ("Censored", Side::Right),
        ("Migr", Side::Right),
    ];
    // Times of several traces cannot be compared.
    let has_times = report.total().metric(style.metric).max_at().is_some();
    headings.retain(|heading| has_times || heading.0 != ENDED);
    let columns = columns(report);
    headings.extend(columns.iter().map(|column| (column.title, Side::Right)));
    let mut grid = Grid::new(&headings).spare(&SPARE);
    let cells = |name: &str, stats: &Stats| {
        let mut row = cells(name, stats, style.metric, has_times);
        row.extend(columns.iter().map(|column| (column.cell)(stats)));
        row
    };
    for row in &first[..shown.0] {
        grid.row(cells(&row.name, row.stats));
    }
    // A group has rows for threads of COMMAND and for others, but one row for threads in and outside the scope of a recording.
    let is_exact = has_command || report.grouped_by.is_none() && !report.is_fleet();
    if first.len() > 1 && !others.is_empty() && is_exact {
        let sum = Stats::merge(first.iter().map(|row| row.stats));
        let number: u64 = first.iter().map(|row| row.threads).sum();
        let what = if report.grouped_by.is_some() { "threads" } else { what };
        grid.row(cells(&format!("{whose} ({} {what})", count(number)), &sum));
    }
    for row in &others[..shown.1] {
        grid.row(cells(&row.name, row.stats));
    }
    grid.row(cells("TOTAL", report.total()));
    let title = format!("{} of each {}:", capital(style.metric.title()), heading.to_lowercase());
    writeln!(out, "{}", style.look.heading(&title))?;
    grid.write(style.look, out)?;
    let left_out = |rows: &[Row<'_>], shown: usize| (rows.len() - shown) as u64;
    let rest = (left_out(first, shown.0), left_out(others, shown.1));
    if rest.0 + rest.1 > 0 {
        let of_command = match rest.0 {
            0 => String::new(),
            rest if has_command => format!(", {} of COMMAND", count(rest)),
            _ if !is_exact => String::new(),
            rest => format!(", {} of those recorded", count(rest)),
        };
        let rest = rest.0 + rest.1;
        let what =
            if rest == 1 { what.strip_suffix("es").filter(|it| it.ends_with('s')) } else { None }
                .or_else(|| what.strip_suffix('s').filter(|_| rest == 1))
                .unwrap_or(what);
        let note = format!("and {} more {what}{of_command} (--rows 0 shows all)", count(rest));
        writeln!(out, "  {}", style.look.note(&note))?;
    }
    writeln!(out)
}

fn cells(name: &str, stats: &Stats, metric: Metric, has_times: bool) -> Vec<String> {
    let distribution: &Distribution = stats.metric(metric);
    let mut cells = vec![
        name.to_owned(),
        millis(stats.cpu_time),
        count(stats.switches()),
        count(distribution.count()),
        millis_or_dash(distribution.mean()),
        millis_or_dash(distribution.percentile(50.0)),
        millis_or_dash(distribution.percentile(99.0)),
        millis_or_dash(distribution.max()),
    ];
    if has_times {
        cells.push(distribution.max_at().map_or_else(|| "-".to_owned(), |at| at.to_string()));
    }
    cells.extend([count(distribution.censored()), count(stats.migrations)]);
    cells
}

pub(super) fn capital(text: &str) -> String {
    let mut chars = text.chars();
    let first = chars.next().map(|first| first.to_uppercase().to_string()).unwrap_or_default();
    first + chars.as_str()
}
