//! Imports traces of other Linux recorders: perf.data, trace.dat, ftrace text, and Perfetto traces.
//!
//! ```text
//!  perf.data ---> perf_data ---+
//!  trace.dat ---> trace_dat ---+--> tracepoints --> capture's events --> importer --> encode --> FXT
//!  text --------> ftrace_text -+
//!  pftrace -----> perfetto ----+
//! ```
//!
//! Tracepoints are decoded by the code of live recordings, and the same encoder writes the records: states, weights, names and inferred
//! switches are as in fxtrec's own recordings.

mod bytes;
mod error;
pub(super) mod ftrace_text;
mod importer;
pub(super) mod perf_data;
pub(super) mod perfetto;
pub(super) mod trace_dat;
mod tracepoints;
mod tracing_data;

pub use error::ImportError;
pub use perf_data::PerfDataError;

use std::io::Write;

use super::{ConvertError, Format, Input, Report};

/// Bytes of text to read at a time.
const BUFFER_BYTES: usize = 256 * 1024;

/// Reads all of `input`, which has the format `from`, into a trace. With `lenient`, malformed lines of text are skipped.
pub(super) fn import(
    input: &mut Input,
    from: Format,
    // A trait object, so that all of this is compiled once. The input is buffered, so this has no cost at run time.
    output: &mut dyn Write,
    lenient: bool,
) -> Result<Report, ConvertError> {
    match from {
        Format::PerfData => perf_data::read(input, output),
        Format::TraceDat => trace_dat::read(&input.seekable()?, output),
        Format::Perfetto => perfetto::read(input, output),
        Format::FtraceText => ftrace_text::read(input, output, lenient),
        Format::Fxt | Format::Json => Err(ConvertError::NoSuchWay { from, to: Format::Fxt }),
    }
}
