//! The arguments of `fxtrec flame`.

use std::path::PathBuf;

use clap::Args;

use super::values::number;
use crate::report::Pattern;

/// The arguments of `fxtrec flame`.
#[derive(Args, Clone, Debug)]
#[command(after_help = "\
The trace must contain stacks: recordings of a COMMAND do by default, others need --stacks; --wake needs --stacks=wake, --cpu needs --stacks=cpu. The extension of the output's name selects the format:
  .folded  a line for each stack: the thread's name, the functions from the
           outermost to the innermost (the kernel's end in _[k]), nanoseconds;
           also what is printed without -o
  .svg     a flame graph for the browser, in one file
  .pb.gz   a profile for pprof
  .json    a profile for https://profiler.firefox.com, with all kinds
           that were recorded unless one is chosen

Examples:
  fxtrec flame app.fxt -o app.svg              where threads were blocked
  fxtrec flame app.fxt --cpu -o app.pb.gz      where they ran, for pprof
  fxtrec flame app.fxt --comm 'worker*' | sort -t' ' -nk2")]
pub struct FlameArgs {
    /// FXT trace, plain, gzip or zstd; - for standard input
    pub file: PathBuf,
    /// Sum blocked time by the stacks of the blocked threads (the default)
    #[arg(long, group = "kind")]
    pub offcpu: bool,
    /// Sum blocked time by the stacks of the wakers
    #[arg(long, group = "kind")]
    pub wake: bool,
    /// Sum CPU time by the stacks of running threads
    #[arg(long, group = "kind")]
    pub cpu: bool,
    /// Output: a file that ends in .folded, .svg, .pb.gz or .json [default: folded text to standard output]
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Only threads whose name matches this glob, for example 'audio*'; can be given more than once
    #[arg(long = "comm", value_name = "GLOB")]
    pub comms: Vec<Pattern>,
    /// Only threads of these processes
    #[arg(short, long = "pid", value_name = "PID,..", value_delimiter = ',', value_parser = number::<u64>)]
    pub pids: Vec<u64>,
    /// Only threads of processes in cgroups whose path matches this glob; can be given more than once
    #[arg(long = "cgroup", value_name = "GLOB")]
    pub cgroups: Vec<Pattern>,
}
