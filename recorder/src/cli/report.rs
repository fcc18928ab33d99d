//! The arguments of `fxtrec report`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::page::PageArgs;
use super::values::{TimePoint, number};
use crate::report::text::SortKey;
use crate::report::{Metric, Pattern};

const FILTERS: &str = "Filters";
const FORMAT: &str = "Format";

/// Output formats without tables: options that shape tables are refused with them.
const FOR_PROGRAMS: [&str; 3] = ["timehist", "json", "csv"];

/// The arguments of `fxtrec report`.
#[derive(Args, Clone, Debug)]
#[command(after_help = "\
Examples:
  fxtrec report make.fxt                             who waited, for how long, and for whom
  fxtrec report make.fxt --comm 'cc1*' --sort p99    compilers, largest 99th percentile first
  fxtrec report make.fxt --metric blocked_d          uninterruptible sleeps instead of waits
  fxtrec report make.fxt --from +2s --to +3s --cpu 1 one second of one CPU
  fxtrec report make.fxt --timehist --tid 4711       every switch of one thread
  fxtrec report make.fxt --html make.html            one page for the browser
  fxtrec report make.fxt.zst --json | jq .total      for programs
  fxtrec report make.fxt --fail-if 'wakeup.p99 > 2ms'  exit with status 3 when latency is too high

docs/latency.md defines every figure.")]
pub struct ReportArgs {
    /// FXT trace, plain, gzip or zstd; - for standard input
    pub file: PathBuf,

    /// Metric of the thread table and the histogram
    #[arg(long, value_name = "METRIC", default_value = "runqueue", conflicts_with_all = FOR_PROGRAMS)]
    pub metric: Metric,
    /// Sort the table by max, mean, p50, p90, p99, p99.9, sum, count, runtime, switches, migrations or name
    #[arg(long, value_name = "KEY", default_value = "max", conflicts_with_all = FOR_PROGRAMS)]
    pub sort: SortKey,
    /// One row per thread, or per process
    #[arg(long, value_name = "WHAT", default_value = "thread", conflicts_with_all = FOR_PROGRAMS)]
    pub by: By,
    /// Maximum number of rows in the table; 0 for all
    #[arg(long, value_name = "N", default_value_t = 25, value_parser = number::<usize>, conflicts_with_all = FOR_PROGRAMS)]
    pub rows: usize,
    /// Number of longest waits to show
    #[arg(long, value_name = "N", default_value_t = crate::report::analysis::DEFAULT_WORST, value_parser = number::<usize>)]
    pub worst: usize,
    /// Parts of the report to print
    #[arg(
        long,
        value_name = "PART,..",
        value_delimiter = ',',
        default_value = "head,metrics,threads,cpus,histogram,worst",
        conflicts_with_all = FOR_PROGRAMS
    )]
    pub show: Vec<Part>,

    /// Only threads whose name matches this glob, for example 'audio*'; can be given more than once
    #[arg(long = "comm", value_name = "GLOB", help_heading = FILTERS)]
    pub comms: Vec<Pattern>,
    /// Only threads of these processes
    #[arg(short, long = "pid", value_name = "PID,..", value_delimiter = ',', value_parser = number::<u64>, help_heading = FILTERS)]
    pub pids: Vec<u64>,
    /// Only these threads
    #[arg(short, long = "tid", value_name = "TID,..", value_delimiter = ',', value_parser = number::<u64>, help_heading = FILTERS)]
    pub tids: Vec<u64>,
    /// Only samples on these CPUs
    #[arg(long = "cpu", value_name = "CPU,..", value_delimiter = ',', value_parser = number::<u16>, help_heading = FILTERS)]
    pub cpus: Vec<u16>,
    /// Start of the time range: seconds as printed, or +1.5s, +50ms after the first scheduling record
    #[arg(long, value_name = "TIME", help_heading = FILTERS)]
    pub from: Option<TimePoint>,
    /// End of the time range, in the same form
    #[arg(long, value_name = "TIME", help_heading = FILTERS)]
    pub to: Option<TimePoint>,

    /// Print one line per switch, like perf sched timehist
    #[arg(long, conflicts_with_all = ["json", "csv"], help_heading = FORMAT)]
    pub timehist: bool,
    /// Print the whole report as JSON (fields: docs/latency.md)
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

impl ReportArgs {
    /// Whether the output is for programs, so nothing in it is escaped for terminals.
    pub fn writes_for_programs(&self) -> bool {
        self.json || self.page.to_stdout()
    }
}

/// What rows of the table are about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum By {
    /// Threads.
    Thread,
    /// Processes.
    Process,
}

/// A part of the report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Part {
    /// What was recorded, and what was lost
    Head,
    /// One line per metric
    Metrics,
    /// One row per thread or process
    Threads,
    /// One row per CPU
    Cpus,
    /// The histogram of --metric
    Histogram,
    /// The longest waits
    Worst,
    /// What the host, quotas and interrupts took from each thread
    Causes,
}
