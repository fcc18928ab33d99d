//! The arguments of `fxtrec cut`.

use std::path::PathBuf;

use clap::Args;

use super::values::{TimePoint, number};

/// The arguments of `fxtrec cut`.
#[derive(Args, Clone, Debug)]
#[command(after_help = "\
Times are those that `fxtrec dump` prints, in seconds, or with a unit; with a plus they count from
the first scheduling record: --from +50ms. The piece stands alone:
names, running threads, open operations and counters from before it are in it. What was made up
for that is marked by the arguments `inferred` and `cut`.

Examples:
  fxtrec cut day.fxt minute.fxt --from 3600 --to 3660
  fxtrec cut system.fxt app.fxt.zst --comm app --from +2s --to +3s
  fxtrec cut system.fxt cpu0.fxt --cpu 0 --from 12.5")]
pub struct CutArgs {
    /// The trace to read, FXT, plain or inside gzip or zstd; - for standard input
    #[arg(value_name = "IN")]
    pub input: PathBuf,
    /// The trace to write; - for standard output. What is there stays until the new file is complete
    #[arg(value_name = "OUT")]
    pub output: PathBuf,
    /// Begin here; without it with the trace
    #[arg(long, value_name = "TIME")]
    pub from: Option<TimePoint>,
    /// End here; without it with the trace
    #[arg(long, value_name = "TIME")]
    pub to: Option<TimePoint>,
    /// Only scheduling of these CPUs
    #[arg(long = "cpu", value_name = "CPU", value_delimiter = ',', value_parser = number::<u16>)]
    pub cpus: Vec<u16>,
    /// Only threads of this name, or of the process of this name
    #[arg(long = "comm", value_name = "NAME")]
    pub comms: Vec<String>,
    /// Only threads of these processes
    #[arg(long = "pid", value_name = "PID", value_delimiter = ',', value_parser = number::<u64>)]
    pub pids: Vec<u64>,
    /// Say nothing unless it fails
    #[arg(short, long)]
    pub quiet: bool,
}
