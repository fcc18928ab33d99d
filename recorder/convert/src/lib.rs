//! Converts traces from and to other formats: formats of existing traces, and formats that other tools read.
//!
//! A conversion is one pass over its input with bounded memory, from any readable [`Format`] to any writable one. Compression is
//! independent of the format: [`input`] removes it, regardless of the file's name, and [`output`] adds it.
//!
//! ```text
//! file, pipe --> input: unpack, sniff --> fxt-reader ---> tef::write --+--> output: pack --> file, pipe
//!                                    |--> tef::read ----> fxt-writer --+
//!                                    \--> import -------> encode ------+
//! ```
//!
//! Data without an equivalent in the other format is kept in some other form, counted in a [`Report`], and reported at the end of the
//! conversion. No data is dropped silently. `docs/reference/convert.md` describes the whole mapping.

#![forbid(unsafe_code)]

pub mod annotate;
mod copy;
pub mod cut;
mod error;
mod format;
mod import;
pub mod input;
pub mod merge;
mod order;
pub mod output;
mod pftrace;
pub mod redact;
mod report;
mod retype;
mod shared;
mod sort;
mod spool;
pub mod symbolize;
pub mod sync;
pub mod tef;
pub mod traces;

pub use error::{ConvertError, Position};
pub use format::{Format, Packed, Packing, UnknownFormat};
pub use import::{ImportError, PerfDataError};
pub use input::Input;
pub use output::Output;
pub use report::Report;

use std::io::{Read, Write};

use fxt_reader::Reader;

use tef::write::Sched;

/// Choices for a conversion.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// How to write scheduling records in Trace Event Format.
    pub sched: Sched,
    /// Whether to skip malformed input.
    pub lenient: bool,
    /// Whether to reject what the format forbids but viewers accept.
    pub strict: bool,
}

impl Options {
    fn rigor(self) -> Rigor {
        match (self.strict, self.lenient) {
            (true, _) => Rigor::Strict,
            (false, true) => Rigor::Lenient,
            (false, false) => Rigor::Usual,
        }
    }
}

/// How to treat JSON that violates the format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rigor {
    Strict,
    /// Deviations that every viewer accepts are counted; the rest is rejected.
    Usual,
    /// It is skipped and counted.
    Lenient,
}

/// Converts all of `input`, whose format is `from`, into `output`.
///
/// # Errors
///
/// Returns an error if the input cannot be read or understood, the output cannot be written, or there is no conversion between the two
/// formats.
pub fn convert(
    input: &mut Input,
    from: Format,
    output: &mut dyn Write,
    to: Format,
    options: Options,
) -> Result<Report, ConvertError> {
    match (from, to) {
        (Format::Fxt, Format::Json) => {
            tef::write::write(&mut Reader::new(input), output, options.sched)
        }
        (Format::Json, Format::Fxt) => tef::read::read(input, output, options.rigor()),
        (from, Format::Fxt) if from.is_imported() => {
            import::import(input, from, output, options.lenient)
        }
        (Format::Fxt, Format::Perfetto) => pftrace::write(&mut Reader::new(input), output),
        (from, Format::Perfetto) if from != Format::Perfetto => {
            let mut between = spool::temporary().map_err(ConvertError::Write)?;
            let report = convert(input, from, &mut between, Format::Fxt, options)?;
            let between = spool::again(between).map_err(ConvertError::Read)?;
            pftrace::write(&mut Reader::new(between), output)?;
            Ok(report)
        }
        (from, Format::Json) if from.is_imported() => {
            // These are converted by way of FXT, which can hold everything that they contain.
            let mut between = spool::temporary().map_err(ConvertError::Write)?;
            let report = import::import(input, from, &mut between, options.lenient)?;
            let between = spool::again(between).map_err(ConvertError::Read)?;
            tef::write::write(&mut Reader::new(between), output, options.sched)?;
            Ok(report)
        }
        (from, to) => Err(ConvertError::NoSuchWay { from, to }),
    }
}

/// Writes an FXT trace in Perfetto's format.
///
/// # Errors
///
/// Returns an error if it cannot be read, or the output cannot be written.
pub fn to_perfetto(input: impl Read, output: &mut dyn Write) -> Result<Report, ConvertError> {
    pftrace::write(&mut Reader::new(input), output)
}

#[cfg(test)]
mod tests;
