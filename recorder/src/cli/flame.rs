//! The arguments of `fxtrec flame`.

use std::path::PathBuf;

use clap::Args;

use super::values::number;
use crate::report::Pattern;

/// The arguments of `fxtrec flame`.
#[derive(Args, Clone, Debug)]
#[command(after_help = "\
Each line is a thread's name, the functions from the outermost to the innermost (the kernel's end
in _[k]), and for how many nanoseconds threads were blocked there. The trace must have been
recorded with --stacks.

Examples:
  fxtrec flame app.fxt > app.folded            flamegraph.pl, inferno and speedscope read this
  fxtrec flame app.fxt --comm 'worker*' | sort -nk2")]
pub struct FlameArgs {
    /// FXT trace, plain, gzip or zstd
    pub file: PathBuf,
    /// Only threads whose name matches this glob, for example 'audio*'; can be given more than once
    #[arg(long = "comm", value_name = "GLOB")]
    pub comms: Vec<Pattern>,
    /// Only threads of these processes
    #[arg(short, long = "pid", value_name = "PID,..", value_delimiter = ',', value_parser = number::<u64>)]
    pub pids: Vec<u64>,
}
