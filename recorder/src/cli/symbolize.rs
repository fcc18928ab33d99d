//! The arguments of `fxtrec symbolize`.

use std::path::PathBuf;

use clap::Args;

use crate::units::quantity::TimeSpan;

/// The arguments of `fxtrec symbolize`.
#[derive(Args, Clone, Debug)]
#[command(after_help = "\
For traces from another machine, traces recorded with --no-symbols, and functions whose symbols were \
not installed at the time. Names that the trace has stay. Files are known by the build id that was \
recorded: a file at the recorded path with another one is not used, and one without is left out. \
They are looked for at the recorded path, in --debug-dir, and in /usr/lib/debug. The kernel's \
functions have names if the running kernel is the recorded build, or its vmlinux is found.

Examples:
  fxtrec symbolize board.fxt                        to board.symbolized.fxt
  fxtrec symbolize board.fxt -o named.fxt.zst --debug-dir sysroot
  fxtrec symbolize board.fxt --vmlinux build/vmlinux")]
pub struct SymbolizeArgs {
    /// FXT trace to read, plain, gzip or zstd
    #[arg(value_name = "FILE")]
    pub input: PathBuf,
    /// Trace to write; - for standard output. An existing file is replaced when the new one is complete [default: FILE with .symbolized before .fxt]
    #[arg(short, long, value_name = "OUT")]
    pub output: Option<PathBuf>,
    /// Directory with files of symbols, laid out as /usr/lib/debug is; can be given more than once
    #[arg(long = "debug-dir", value_name = "DIR")]
    pub debug_dirs: Vec<PathBuf>,
    /// The recorded kernel with its symbols
    #[arg(long, value_name = "FILE")]
    pub vmlinux: Option<PathBuf>,
    /// Fetch debug files that are not here from the servers in DEBUGINFOD_URLS, by build id
    #[arg(long)]
    pub debuginfod: bool,
    /// How long files are read in all, those first whose functions are in most stacks; what is left stays without names [default: 5min]
    #[arg(long, value_name = "TIME")]
    pub naming_time: Option<TimeSpan>,
    /// Print nothing unless it fails
    #[arg(short, long)]
    pub quiet: bool,
}
