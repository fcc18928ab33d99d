//! Why the trace of another recorder cannot be taken over.

use super::perf_data::PerfDataError;
use fxtrec_capture::tracepoint::LayoutError;
use fxtrec_kernel::ftrace::layout::PageLayoutError;

/// Why the trace of another recorder cannot be taken over.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ImportError {
    /// A part of the file has fewer bytes than it says.
    #[error("{part} end too early, at byte {at}")]
    Short {
        /// Which part.
        part: &'static str,
        /// How far it went, in bytes.
        at: usize,
    },
    /// The file does not begin as its format wants.
    #[error("this is not {format}: it begins with {found:02x?}")]
    Magic {
        /// The format.
        format: &'static str,
        /// What it begins with.
        found: Vec<u8>,
    },
    /// The file is of a version that is not known.
    #[error("{format} of version {version} is not known; versions {known} are")]
    Version {
        /// The format.
        format: &'static str,
        /// The version.
        version: String,
        /// What could be read.
        known: &'static str,
    },
    /// Its numbers are in the other byte order.
    #[error(
        "the trace is from a machine of the other byte order; convert it on a machine like that one"
    )]
    ByteOrder,
    /// It is packed in a way that is not known.
    #[error("the trace is packed with {0}; record it with --compression zstd or none")]
    Packing(String),
    /// A packed part does not unpack.
    #[error("{part} cannot be unpacked: {source}")]
    Unpack {
        /// Which part.
        part: &'static str,
        /// Why.
        source: std::io::Error,
    },
    /// There is no description of tracepoints in it.
    #[error("the trace does not describe its tracepoints: record at least sched:sched_switch")]
    NoTracepoints,
    /// Its times are no nanoseconds, and it does not say how to make them such.
    #[error("the times of this trace count ticks of `{0}`: record with `trace-cmd record -C mono`")]
    Clock(String),
    /// There are more tracepoints, or names in them, than a trace has indices for.
    #[error("the trace has more different tracepoints than FXT has room to name")]
    TooManyTracepoints,
    /// Its samples do not say on which CPU they were taken.
    #[error(
        "the samples do not say on which CPU they were taken: record with `perf record -a`, or with \
         `--sample-cpu`"
    )]
    NoCpu,
    /// Its samples do not say when they were taken.
    #[error("the samples do not say when they were taken: record with `perf record --timestamp`")]
    NoTime,
    /// The samples do not hold the tracepoint's own bytes.
    #[error("the samples do not hold what the tracepoints say: record with `perf record -R`")]
    NoRaw,
    /// A perf.data contradicts itself.
    #[error("this perf.data cannot be read: {0}")]
    PerfData(#[from] PerfDataError),
    /// The scheduler's tracepoints are of no known shape.
    #[error(transparent)]
    Layout(#[from] LayoutError),
    /// The pages of the trace are of no known form.
    #[error(transparent)]
    Page(#[from] PageLayoutError),
}
