//! Traces of other recorders of Linux: perf.data, trace.dat, the text of ftrace, and traces of Perfetto.
//!
//! ```text
//!  perf.data ---> perf_data ---+
//!  trace.dat ---> trace_dat ---+--> tracepoints --> capture's events --> importer --> encode --> FXT
//!  text --------> ftrace_text -+
//!  pftrace -----> perfetto ----+
//! ```
//!
//! What a tracepoint's bytes mean is decided by the code that a live recording uses, and the same encoder makes the
//! records: states, weights, names and inferred switches are as in a recording of fxtrec's own.

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

/// Bytes of text that are read at a time.
const BUFFER_BYTES: usize = 256 * 1024;

/// Reads all of `input`, which is of the format `from`, into a trace. With `lenient`, lines of text that cannot be
/// understood are passed over.
pub(super) fn import(
    input: &mut Input,
    from: Format,
    // Of one type, so that all of this is compiled once. It is buffered, so that this costs nothing at run time.
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
