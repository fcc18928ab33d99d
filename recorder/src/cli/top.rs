//! The arguments of `fxtrec top`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use crate::units::quantity::TimeSpan;

/// What rows are of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum TopBy {
    #[default]
    Thread,
    Cgroup,
}

/// What rows are sorted by, the most first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum TopSort {
    /// Time in which they waited for a CPU
    #[default]
    Wait,
    /// The 99th percentile of the wakeup latency
    P99,
    /// The longest wait for a CPU
    Max,
    /// Time on a CPU
    Run,
    /// Time in which they were blocked
    Blocked,
    /// Time that the host took
    Stolen,
    /// Time for which quotas kept them from running
    Throttled,
}

/// The arguments of `fxtrec top`.
#[derive(Args, Clone, Debug)]
#[command(after_help = "\
Keys: w p m r b s t sort by a column; / filters by name, Enter ends the text; g changes between threads and cgroups; \
space pauses; d writes a recording of the last seconds, y explains the worst of it (both with --history); q quits.

If standard output is no terminal, it prints a table for each interval.

Examples:
  sudo fxtrec top
  sudo fxtrec top --by cgroup --sort p99
  sudo fxtrec top --history                   keep seconds, for keys d and y
  sudo fxtrec top --count 1 --interval 5s     print what happens in five seconds
  sudo fxtrec top --filter audio | tee log")]
pub struct TopArgs {
    /// What rows are of
    #[arg(long, value_enum, default_value_t)]
    pub by: TopBy,
    /// Column to sort by, the most first
    #[arg(long, value_enum, default_value_t)]
    pub sort: TopSort,
    /// Only rows whose name contains this text
    #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true)]
    pub filter: String,
    /// Refresh interval; figures cover this time
    #[arg(short, long, value_name = "TIME", default_value = "1s")]
    pub interval: TimeSpan,
    /// End after so many intervals [default: at q or Ctrl-C]
    #[arg(short = 'n', long, value_name = "N")]
    pub count: Option<u64>,
    /// Rows of each table where it is not a terminal that says how many fit
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub rows: usize,
    /// Keep the last seconds in memory by `fxtrec record --mode circular`, which costs what recording costs
    #[arg(long)]
    pub history: bool,
    /// Where recordings of the last seconds go: top.1.fxt, top.2.fxt ...
    #[arg(short, long, value_name = "FILE", default_value = "top.fxt", requires = "history")]
    pub output: PathBuf,
}
