//! The arguments of `fxtrec top`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use crate::units::quantity::TimeSpan;

/// What each row shows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum TopBy {
    #[default]
    Thread,
    Cgroup,
}

/// What rows are sorted by, the largest first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum TopSort {
    /// Time spent waiting for a CPU
    #[default]
    Wait,
    /// The 99th percentile of the wakeup latency
    P99,
    /// The longest wait for a CPU
    Max,
    /// Time on a CPU
    Run,
    /// Time spent blocked
    Blocked,
    /// Time that the host took
    Stolen,
    /// Time in which CPU quotas held threads back
    Throttled,
}

/// The arguments of `fxtrec top`.
#[derive(Args, Clone, Debug)]
#[command(after_help = "\
Keys: w p m r b s t sort by a column; / filters by name, Enter ends the input; g switches between threads and cgroups; space pauses; d writes a recording of the last seconds, y explains its worst delay (both with --history); q quits.

If standard output is not a terminal, fxtrec top prints a table for each interval.

Examples:
  sudo fxtrec top
  sudo fxtrec top --by cgroup --sort p99
  sudo fxtrec top --history                   keep history, for keys d and y
  sudo fxtrec top --count 1 --interval 5s     print what happens in five seconds
  sudo fxtrec top --filter audio | tee log")]
pub struct TopArgs {
    /// What each row shows
    #[arg(long, value_enum, default_value_t)]
    pub by: TopBy,
    /// Column to sort by, the largest first
    #[arg(long, value_enum, default_value_t)]
    pub sort: TopSort,
    /// Only rows whose name contains this text
    #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true)]
    pub filter: String,
    /// Refresh interval; figures cover this time
    #[arg(short, long, value_name = "TIME", default_value = "1s")]
    pub interval: TimeSpan,
    /// Number of intervals after which to exit [default: at q or Ctrl-C]
    #[arg(short = 'n', long, value_name = "N")]
    pub count: Option<u64>,
    /// Rows per table when output is not a terminal
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub rows: usize,
    /// Keep the last seconds in memory by running `fxtrec record --mode circular`, at the cost of a recording
    #[arg(long)]
    pub history: bool,
    /// Where to write recordings of the last seconds: top.1.fxt, top.2.fxt ...
    #[arg(short, long, value_name = "FILE", default_value = "top.fxt", requires = "history")]
    pub output: PathBuf,
}
