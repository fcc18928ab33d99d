//! The arguments of `fxtrec convert`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use crate::convert::{Format, Packed};

/// The arguments of `fxtrec convert`.
#[derive(Args, Clone, Debug)]
#[command(after_help = "\
The format follows from the file's first bytes, or from the ending of its name (.fxt, .json, each
also with .gz or .zst).

Examples:
  fxtrec convert make.fxt make.json           for chrome://tracing, speedscope and others
  fxtrec convert make.fxt.zst make.json.gz    decompresses and compresses on the way
  fxtrec convert chrome.json.gz chrome.fxt    traces of Chrome and others in its format
  fxtrec convert perf.data perf.fxt           from perf record -a -e 'sched:*'
  fxtrec convert trace.dat trace.fxt          from trace-cmd record -e sched
  fxtrec -o - -- make | fxtrec convert --to json - - | less

Exit status: 0, or 125 when the conversion fails; OUT is then left as it was.")]
pub struct ConvertArgs {
    /// Trace to read; - for standard input
    #[arg(value_name = "IN")]
    pub input: PathBuf,
    /// Trace to write; - for standard output. An existing file is replaced when the new one is complete
    #[arg(value_name = "OUT")]
    pub output: PathBuf,
    /// Format of IN: fxt, json, perf, trace-cmd or ftrace
    #[arg(long, value_name = "FORMAT")]
    pub from: Option<Format>,
    /// Format of OUT: fxt or json, with .gz or .zst for compression, as in json.gz
    #[arg(long, value_name = "FORMAT")]
    pub to: Option<Packed>,
    /// How scheduling is written to JSON
    #[arg(long, value_name = "SHAPE", value_enum, default_value_t)]
    pub sched: SchedShape,
    /// Skip input that cannot be parsed, and count it
    #[arg(long)]
    pub lenient: bool,
    /// Reject JSON that violates the format, even where viewers accept it
    #[arg(long, conflicts_with = "lenient")]
    pub strict: bool,
    /// Print nothing unless it fails
    #[arg(short, long)]
    pub quiet: bool,
}

/// How scheduling is written to JSON.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum SchedShape {
    /// Slices on a track per CPU and states on the threads; works in any viewer
    #[default]
    Slices,
    /// systemTraceEvents as Fuchsia's own tools write them
    Fuchsia,
    /// systemTraceEvents as the text of Linux's ftrace
    Ftrace,
}
