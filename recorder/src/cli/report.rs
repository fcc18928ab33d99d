//! The arguments of `fxtrec report`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::page::PageArgs;
use super::values::{TimePoint, number};
use crate::report::text::SortKey;
use crate::report::{GroupBy, Metric, Pattern};

const FILTERS: &str = "Filters";
const FORMAT: &str = "Format";

/// Output formats without tables: they conflict with options that shape tables.
const FOR_PROGRAMS: [&str; 3] = ["timehist", "json", "csv"];

/// The arguments of `fxtrec report`.
#[derive(Args, Clone, Debug)]
#[command(after_help = "\
Examples:
  fxtrec report a.fxt                             who waited, how long, for whom
  fxtrec report a.fxt --all                       more rows, all metrics, CPUs
  fxtrec report a.fxt --comm 'cc1*' --sort p99    compilers, by 99th percentile
  fxtrec report a.fxt --metric blocked_d          uninterruptible sleeps
  fxtrec report a.fxt --from 2s --to 3s --cpu 1   one second of one CPU
  fxtrec report a.fxt --timehist --tid 4711       every switch of one thread
  fxtrec report a.fxt --stacks --worst 3          where threads were blocked
  fxtrec report a.fxt --html a.html               one page for the browser
  fxtrec report runs/ more/*.fxt.zst              many traces in one report
  fxtrec report runs/ --by cgroup --sort p99      the same, by cgroup
  fxtrec report a.fxt.zst --json | jq .total      for programs
  fxtrec report a.fxt --fail-if 'wakeup.p99 > 2ms'
                                                  exit with status 3 if so

docs/reference/figures.md defines every figure.")]
pub struct ReportArgs {
    /// FXT trace, plain, gzip or zstd; - for standard input
    #[arg(value_name = "FILE|DIR")]
    pub file: PathBuf,
    /// More traces, or directories of traces: one report of all of them, by thread name and by trace
    #[arg(value_name = "FILE|DIR")]
    pub more: Vec<PathBuf>,

    /// Metric of the thread table and the histogram
    #[arg(long, value_name = "METRIC", default_value = "runqueue", conflicts_with_all = FOR_PROGRAMS)]
    pub metric: Metric,
    /// Sort the table by max, mean, p50, p90, p99, p99.9, sum, count, runtime, switches, migrations or name
    #[arg(long, value_name = "KEY", default_value = "max", conflicts_with_all = FOR_PROGRAMS)]
    pub sort: SortKey,
    /// One row per thread, process, cgroup or host; for several traces, threads are grouped by name
    #[arg(long, value_name = "WHAT", default_value = "thread", conflicts_with = "timehist")]
    pub by: By,
    /// Print all parts except causes, and more rows, instead of what fits on one screen; with --json, incidents too
    #[arg(long, conflicts_with_all = ["show", "timehist", "csv"])]
    pub all: bool,
    /// Maximum number of rows in each table; 0 for all [default: as many as one screen has; 25 with --all or --show]
    #[arg(long, value_name = "N", value_parser = number::<usize>, conflicts_with_all = FOR_PROGRAMS)]
    pub rows: Option<usize>,
    /// Number of longest waits, and of longest blocked times, to list [default: as many as one screen has; 10 with --all, --show or --json]
    #[arg(long, value_name = "N", value_parser = number::<usize>)]
    pub worst: Option<usize>,
    /// Parts of the report to print
    #[arg(long, value_name = "PART,..", value_delimiter = ',', conflicts_with_all = FOR_PROGRAMS)]
    pub show: Vec<Part>,
    /// Print the longest blocked times with their stacks instead, and the total blocked time of each stack
    ///
    /// The trace must contain stacks: recordings of a COMMAND do by default, others need --stacks. With --json, prints them as JSON
    /// (docs/reference/stacks.md).
    #[arg(long, conflicts_with_all = ["metric", "sort", "by", "show", "timehist", "csv", "html", "fail_if", "junit"])]
    pub stacks: bool,
    /// With --stacks, also print source lines and inlined functions
    ///
    /// fxtrec reads them from the recorded files and their separate debug files. A file whose build id differs is skipped.
    #[arg(long, requires = "stacks")]
    pub lines: bool,
    /// With --lines, also look for debug files by build id in this directory, laid out like /usr/lib/debug
    #[arg(long, value_name = "DIR", requires = "lines")]
    pub debug_dir: Option<PathBuf>,
    /// With --lines, also fetch debug files from the servers in DEBUGINFOD_URLS, by build id
    #[arg(long, requires = "lines")]
    pub debuginfod: bool,

    /// Only threads whose name matches this glob, for example 'audio*'; can be given more than once
    #[arg(long = "comm", value_name = "GLOB", help_heading = FILTERS)]
    pub comms: Vec<Pattern>,
    /// Only threads of these processes
    #[arg(short, long = "pid", value_name = "PID,..", value_delimiter = ',', value_parser = number::<u64>, help_heading = FILTERS)]
    pub pids: Vec<u64>,
    /// Only these threads
    #[arg(short, long = "tid", value_name = "TID,..", value_delimiter = ',', value_parser = number::<u64>, help_heading = FILTERS)]
    pub tids: Vec<u64>,
    /// Only threads of processes in cgroups whose path matches this glob, and in the cgroups below them, for example '/kubepods'; can be
    /// given more than once
    #[arg(long = "cgroup", value_name = "GLOB", help_heading = FILTERS)]
    pub cgroups: Vec<Pattern>,
    /// Only samples on these CPUs
    #[arg(long = "cpu", value_name = "CPU,..", value_delimiter = ',', value_parser = number::<u16>, help_heading = FILTERS)]
    pub cpus: Vec<u16>,
    /// Start of the time range: seconds as printed, or 1.5s, 50ms or +1.5 after the first scheduling record
    #[arg(long, value_name = "TIME", help_heading = FILTERS)]
    pub from: Option<TimePoint>,
    /// End of the time range, in the same form
    #[arg(long, value_name = "TIME", help_heading = FILTERS)]
    pub to: Option<TimePoint>,

    /// Print one line per switch, like perf sched timehist
    #[arg(long, conflicts_with_all = ["json", "csv"], help_heading = FORMAT)]
    pub timehist: bool,
    /// Print the whole report as JSON (fields: docs/reference/figures.md)
    #[arg(long, conflicts_with = "csv", help_heading = FORMAT)]
    pub json: bool,
    /// Print one row per thread as comma-separated values
    #[arg(long, help_heading = FORMAT)]
    pub csv: bool,

    /// The page.
    #[command(flatten)]
    pub page: PageArgs,
    /// Gates, and where their verdicts go.
    #[command(flatten)]
    pub gates: super::gates::GateArgs,
}

/// Default output: one screen.
const SCREEN: [Part; 8] = [
    Part::Head,
    Part::Figures,
    Part::Spans,
    Part::Counters,
    Part::Threads,
    Part::Worst,
    Part::Blocked,
    Part::Locks,
];

/// What `--all` prints.
const ALL: [Part; 11] = [
    Part::Incidents,
    Part::Head,
    Part::Metrics,
    Part::Spans,
    Part::Counters,
    Part::Threads,
    Part::Cpus,
    Part::Histogram,
    Part::Worst,
    Part::Blocked,
    Part::Locks,
];

impl Part {
    /// The parts that need a second pass over the trace.
    pub const MEASURED: [Part; 3] = [Part::Spans, Part::Counters, Part::Locks];

    /// The parts that need a second pass for the JSON of `--all`.
    pub const ALL_MEASURED: [Part; 4] = [Part::Spans, Part::Counters, Part::Locks, Part::Incidents];
}

impl ReportArgs {
    /// The parts to print.
    pub fn parts(&self) -> &[Part] {
        match self.show.as_slice() {
            [] if self.all => &ALL,
            [] => &SCREEN,
            show => show,
        }
    }

    /// Maximum number of rows, `None` for all; `by_default` unless the user gave a number.
    pub fn most_rows(&self, by_default: usize) -> Option<usize> {
        Some(self.rows.unwrap_or(by_default)).filter(|rows| *rows > 0)
    }

    /// Whether the output is to fit on a screen.
    pub fn is_screen(&self) -> bool {
        self.show.is_empty() && !self.all
    }

    /// Whether the output is for programs, which need no escaping for terminals.
    pub fn writes_for_programs(&self) -> bool {
        self.json || self.page.to_stdout()
    }
}

/// What each row of the table shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum By {
    /// Threads.
    Thread,
    /// Processes.
    Process,
    /// One row per cgroup.
    Cgroup,
    /// One row per machine.
    Host,
}

impl By {
    /// How threads are grouped, if not by name.
    pub fn group(self) -> Option<GroupBy> {
        match self {
            By::Thread => None,
            By::Process => Some(GroupBy::Process),
            By::Cgroup => Some(GroupBy::Cgroup),
            By::Host => Some(GroupBy::Host),
        }
    }
}

/// A part of the report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Part {
    /// Up to five different incidents, one sentence each, as in fxtrec why --top 5
    Incidents,
    /// What was recorded, and what was lost
    Head,
    /// Wakeups and preemptions in one line each, and how busy the CPUs were
    Figures,
    /// One line per metric
    Metrics,
    /// One row per span name
    Spans,
    /// One row per counter of a program
    Counters,
    /// One row per thread or process
    Threads,
    /// One row per CPU
    Cpus,
    /// The histogram of --metric
    Histogram,
    /// The longest waits
    Worst,
    /// The longest blocked times of threads
    Blocked,
    /// One row per lock that threads were blocked on, if it was recorded with --locks
    Locks,
    /// What the host, quotas and interrupts took from each thread
    Causes,
}
