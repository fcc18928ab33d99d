//! Why the trace of another recorder cannot be taken over.

use super::perf_data::PerfDataError;
use fxtrec_capture::tracepoint::LayoutError;
use fxtrec_kernel::ftrace::layout::PageLayoutError;

/// Why the trace of another recorder cannot be taken over.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ImportError {
    /// A part of the file has fewer bytes than it says.
    #[error("{part}: truncated at byte {at}")]
    Short {
        part: &'static str,
        /// How far it went, in bytes.
        at: usize,
    },
    /// The file does not begin as its format wants.
    #[error("not {format}: the file begins with {found:02x?}")]
    Magic { format: &'static str, found: Vec<u8> },
    /// The file is of a version that is not known.
    #[error("{format} version {version} is not supported; supported are {known}")]
    Version { format: &'static str, version: String, known: &'static str },
    /// Its numbers are in the other byte order.
    #[error("the trace is from a machine with the other byte order: convert it on such a machine")]
    ByteOrder,
    /// It is packed in a way that is not known.
    #[error("the trace is compressed with {0}: record it with --compression zstd or none")]
    Packing(String),
    /// A packed part does not unpack.
    #[error("cannot decompress {part}: {source}")]
    Unpack { part: &'static str, source: std::io::Error },
    /// The same of records whose sizes are not their own, as perf 6.16 writes them.
    #[error(
        "cannot decompress the records: perf 6.16 writes wrong sizes of compressed records ({0}); record without -z, or with another perf"
    )]
    WrongSizes(std::io::Error),
    /// There is no description of tracepoints in it.
    #[error("the trace does not describe its tracepoints: record at least sched:sched_switch")]
    NoTracepoints,
    /// Its times are no nanoseconds, and it does not say how to make them such.
    #[error(
        "the trace's clock `{0}` does not count nanoseconds: record with `trace-cmd record -C mono`"
    )]
    Clock(String),
    /// There are more tracepoints, or names in them, than a trace has indices for.
    #[error("the trace has too many different tracepoints for FXT")]
    TooManyTracepoints,
    /// Its samples do not say on which CPU they were taken.
    #[error("the samples have no CPU: record with `perf record -a`, or with `--sample-cpu`")]
    NoCpu,
    /// Its samples do not say when they were taken.
    #[error("the samples have no time: record with `perf record --timestamp`")]
    NoTime,
    /// The samples do not hold the tracepoint's own bytes.
    #[error("the samples have no raw data of the tracepoints: record with `perf record -R`")]
    NoRaw,
    #[error("cannot read this perf.data: {0}")]
    PerfData(#[from] PerfDataError),
    /// The scheduler's tracepoints are of no known shape.
    #[error(transparent)]
    Layout(#[from] LayoutError),
    /// The pages of the trace are of no known form.
    #[error(transparent)]
    Page(#[from] PageLayoutError),
}
