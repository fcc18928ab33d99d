//! The option that selects the source of events.

use clap::{Args, ValueEnum};

use super::record::BUFFERS;

/// The source of events.
#[derive(Args, Clone, Debug, Default)]
pub struct SourceArgs {
    /// How the kernel reports events
    ///
    /// All sources write the same trace; they differ in cost and in the permissions that they need. [default: auto]
    #[arg(long = "source", value_name = "SOURCE", help_heading = BUFFERS)]
    pub choice: Option<SourceChoice>,
}

/// The sources of events, and the choice to let fxtrec decide.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum SourceChoice {
    /// bpf, which costs least; if the kernel refuses it, perf, then ftrace. Probes and tracepoints need bpf or perf
    #[default]
    Auto,
    /// perf events, one ring per CPU
    Perf,
    /// A private tracing instance of ftrace
    Ftrace,
    /// BPF programs in the kernel; needs BTF and CAP_BPF
    Bpf,
}
