//! The arguments of `fxtrec convert`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use crate::convert::{Format, Packed};

/// The arguments of `fxtrec convert`.
#[derive(Args, Clone, Debug)]
#[command(after_help = "\
Formats are told by the ending of a name (.fxt, .json, each also with .gz or .zst), and by
what a file begins with.

Examples:
  fxtrec convert make.fxt make.json           for chrome://tracing, speedscope and the like
  fxtrec convert make.fxt.zst make.json.gz    unpacked and packed on the way
  fxtrec convert chrome.json.gz chrome.fxt    Chrome's own traces, and what else writes them
  fxtrec convert perf.data perf.fxt           what perf record -a -e 'sched:*' wrote
  fxtrec convert trace.dat trace.fxt          what trace-cmd record -e sched wrote
  fxtrec -o - -- make | fxtrec convert --to json - - | less

Exit status: 0, or 125 when the conversion fails; OUT is removed then.")]
pub struct ConvertArgs {
    /// The trace to read; - for standard input
    #[arg(value_name = "IN")]
    pub input: PathBuf,
    /// The trace to write; - for standard output. What is there stays until the new file is complete
    #[arg(value_name = "OUT")]
    pub output: PathBuf,
    /// The format of IN: fxt, json, perf, trace-cmd or ftrace
    #[arg(long, value_name = "FORMAT")]
    pub from: Option<Format>,
    /// The format of OUT: fxt or json, or one with its packing, as json.gz
    #[arg(long, value_name = "FORMAT")]
    pub to: Option<Packed>,
    /// What becomes of scheduling in JSON
    #[arg(long, value_name = "SHAPE", value_enum, default_value_t)]
    pub sched: SchedShape,
    /// Go on behind what cannot be understood, and count it
    #[arg(long)]
    pub lenient: bool,
    /// Refuse JSON that its format forbids, although viewers accept it
    #[arg(long, conflicts_with = "lenient")]
    pub strict: bool,
    /// Say nothing unless it fails
    #[arg(short, long)]
    pub quiet: bool,
}

/// What becomes of scheduling in JSON.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum SchedShape {
    /// Slices on a track for each CPU and states on the threads, which any viewer shows
    #[default]
    Slices,
    /// systemTraceEvents as Fuchsia's own tools write them
    Fuchsia,
    /// systemTraceEvents as the text of Linux's ftrace
    Ftrace,
}
