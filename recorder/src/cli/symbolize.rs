//! The arguments of `fxtrec symbolize`.

use std::path::PathBuf;

use clap::Args;

use crate::units::quantity::TimeSpan;

/// The arguments of `fxtrec symbolize`.
#[derive(Args, Clone, Debug)]
#[command(after_help = "\
For traces from another machine, traces recorded with --no-symbols, and functions whose symbols were not installed at the time. Existing names stay. Files are identified by the recorded build id: a file at the recorded path with another build id is not used, and a file without one is skipped. Files are looked for at the recorded path, in --debug-dir, and in /usr/lib/debug. Kernel functions get names if the running kernel is the recorded build, or if its vmlinux is found.

Examples:
  fxtrec symbolize board.fxt                        writes board.symbolized.fxt
  fxtrec symbolize board.fxt -o named.fxt.zst --debug-dir sysroot
  fxtrec symbolize board.fxt --vmlinux build/vmlinux")]
pub struct SymbolizeArgs {
    /// FXT trace to read, plain, gzip or zstd
    #[arg(value_name = "FILE")]
    pub input: PathBuf,
    /// Trace to write; - for standard output. An existing file is replaced when the new one is complete [default: FILE with .symbolized before .fxt]
    #[arg(short, long, value_name = "OUT")]
    pub output: Option<PathBuf>,
    /// Directory with debug files, laid out like /usr/lib/debug; can be given more than once
    #[arg(long = "debug-dir", value_name = "DIR")]
    pub debug_dirs: Vec<PathBuf>,
    /// The vmlinux of the recorded kernel, with symbols
    #[arg(long, value_name = "FILE")]
    pub vmlinux: Option<PathBuf>,
    /// Fetch debug files that are not on this machine from the servers in DEBUGINFOD_URLS, by build id
    #[arg(long)]
    pub debuginfod: bool,
    /// Time limit for reading files. Files whose functions are in most stacks come first; functions not reached stay unnamed [default:
    /// 5min]
    #[arg(long, value_name = "TIME")]
    pub naming_time: Option<TimeSpan>,
    /// Print nothing unless it fails
    #[arg(short, long)]
    pub quiet: bool,
}
