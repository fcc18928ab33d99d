//! The reason why the trace of another recorder cannot be imported.

use super::perf_data::PerfDataError;
use fxtrec_capture::tracepoint::LayoutError;
use fxtrec_kernel::ftrace::layout::PageLayoutError;

/// The reason why the trace of another recorder cannot be imported.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ImportError {
    /// A part of the file has fewer bytes than stated.
    #[error("{part}: truncated at byte {at}")]
    Short {
        part: &'static str,
        /// The position of the end, in bytes.
        at: usize,
    },
    /// The file has a wrong magic number.
    #[error("not {format}: the file begins with {found:02x?}")]
    Magic { format: &'static str, found: Vec<u8> },
    /// The version of the file is not supported.
    #[error("{format} version {version} is not supported; supported are {known}")]
    Version { format: &'static str, version: String, known: &'static str },
    /// The file has the other byte order.
    #[error("the trace is from a machine with the other byte order: convert it on such a machine")]
    ByteOrder,
    /// The compression is not supported.
    #[error("the trace is compressed with {0}: record it with --compression zstd or none")]
    Packing(String),
    /// A compressed part cannot be decompressed.
    #[error("cannot decompress {part}: {source}")]
    Unpack { part: &'static str, source: std::io::Error },
    /// Records that perf 6.16 wrote with wrong sizes cannot be decompressed.
    #[error(
        "cannot decompress the records: perf 6.16 writes wrong sizes of compressed records ({0}); record without -z, or with another perf"
    )]
    WrongSizes(std::io::Error),
    /// The file has no descriptions of tracepoints.
    #[error("the trace does not describe its tracepoints: record at least sched:sched_switch")]
    NoTracepoints,
    /// The file's times are not nanoseconds, and it has no conversion for them.
    #[error(
        "the trace's clock `{0}` does not count nanoseconds: record with `trace-cmd record -C mono`"
    )]
    Clock(String),
    /// There are more tracepoints, or names in them, than FXT has indexes for.
    #[error("the trace has too many different tracepoints for FXT")]
    TooManyTracepoints,
    /// The samples do not have the CPU.
    #[error("the samples have no CPU: record with `perf record -a`, or with `--sample-cpu`")]
    NoCpu,
    /// The samples do not have the time.
    #[error("the samples have no time: record with `perf record --timestamp`")]
    NoTime,
    /// The samples do not have the tracepoint's raw data.
    #[error("the samples have no raw data of the tracepoints: record with `perf record -R`")]
    NoRaw,
    #[error("cannot read this perf.data: {0}")]
    PerfData(#[from] PerfDataError),
    /// The scheduler's tracepoints have an unknown layout.
    #[error(transparent)]
    Layout(#[from] LayoutError),
    /// The pages of the trace have an unknown layout.
    #[error(transparent)]
    Page(#[from] PageLayoutError),
}
