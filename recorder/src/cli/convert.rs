//! The arguments of `fxtrec convert`.

use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};

use crate::convert::{Format, Packed};

/// The arguments of `fxtrec convert`.
#[derive(Args, Clone, Debug)]
#[command(after_help = "\
The format follows from the file's first bytes, or from the extension of its name (.fxt, .json, .pftrace, each \
also with .gz or .zst).

Examples:
  fxtrec convert make.fxt make.json           for chrome://tracing and others
  fxtrec convert make.fxt.zst make.json.gz    decompresses and compresses
  fxtrec convert chrome.json.gz chrome.fxt    traces of Chrome and others
  fxtrec convert perf.data perf.fxt           from perf record -a -e 'sched:*'
  fxtrec convert trace.dat trace.fxt          from trace-cmd record -e sched
  fxtrec convert boot.pftrace boot.fxt        from tracebox, Android and others
  fxtrec -o - -- make | fxtrec convert --to json - - | less

Exit status: 0, or 125 when the conversion fails; OUT is then unchanged.")]
pub struct ConvertArgs {
    /// Trace to read; - for standard input
    #[arg(value_name = "IN")]
    pub input: PathBuf,
    /// Trace to write; - for standard output. An existing file is replaced when the new one is complete
    #[arg(value_name = "OUT", required_unless_present = "named_output")]
    pub output: Option<PathBuf>,
    /// The same as OUT
    #[arg(short = 'o', long = "output", value_name = "OUT", conflicts_with = "output")]
    pub named_output: Option<PathBuf>,
    /// Format of IN: fxt, json, perf, trace-cmd, ftrace or perfetto
    #[arg(long, value_name = "FORMAT")]
    pub from: Option<Format>,
    /// Format of OUT: fxt, json or perfetto, with .gz or .zst for compression, as in json.gz
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

impl ConvertArgs {
    /// Where to write.
    pub fn output(&self) -> &Path {
        output(&self.output, &self.named_output)
    }
}

/// An output that the command line names in one of two ways. clap guarantees that one of them is given.
pub(super) fn output<'a>(positional: &'a Option<PathBuf>, named: &'a Option<PathBuf>) -> &'a Path {
    positional.as_deref().or(named.as_deref()).unwrap_or(Path::new("-"))
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
