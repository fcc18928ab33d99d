//! The option that says where events come from.

use clap::{Args, ValueEnum};

use super::record::BUFFERS;

/// Where events come from.
#[derive(Args, Clone, Debug, Default)]
pub struct SourceArgs {
    /// How the kernel is to report events
    ///
    /// All sources give the same trace.
    #[arg(long = "source", value_name = "SOURCE", default_value = "auto", help_heading = BUFFERS)]
    pub choice: SourceChoice,
}

/// The sources, and the choice to leave it to fxtrec.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum SourceChoice {
    /// bpf, which costs least; where it is refused perf, then ftrace; with probes and tracepoints perf
    #[default]
    Auto,
    /// Tracepoints of perf, one ring per CPU
    Perf,
    /// Tracepoints of ftrace, in a tracing instance of fxtrec's own
    Ftrace,
    /// Small programs inside of the kernel; needs BTF and CAP_BPF
    Bpf,
}
