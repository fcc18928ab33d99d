//! Other formats in and out: what people already have comes in, what their tools read comes out.
//!
//! A conversion is one pass over its input with bounded memory, from any [`Format`] that can be
//! read to any that can be written. Compression is no format: it is taken off the input by
//! [`input`], whatever the file is called, and put on by [`output`].
//!
//! ```text
//! file, pipe --> input: unpack, sniff --> fxt-reader ---> tef::write --+--> output: pack --> file, pipe
//!                                    |--> tef::read ----> fxt-writer --+
//!                                    \--> import -------> encode ------+
//! ```
//!
//! What the other format has no place for is kept in some other shape, counted in a [`Report`],
//! and told when the conversion ends. Nothing is left out in silence. `docs/reference/convert.md` is the
//! whole mapping.

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

/// How to convert, where there is a choice.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// What becomes of scheduling records in Trace Event Format.
    pub sched: Sched,
    /// Whether to go on behind what cannot be understood.
    pub lenient: bool,
    /// Whether to refuse what the format forbids, although its viewers accept it.
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

/// What becomes of JSON that is not as its format asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rigor {
    Strict,
    /// What every viewer accepts is counted, the rest refused.
    Usual,
    /// It is left out, and counted.
    Lenient,
}

/// Converts all of `input`, which is in the format `from`, into `output`.
///
/// # Errors
///
/// When the input cannot be read or understood, the output not be written, or the two formats
/// not be converted into each other.
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
            // By way of FXT, which has room for all that these say.
            let mut between = spool::temporary().map_err(ConvertError::Write)?;
            let report = import::import(input, from, &mut between, options.lenient)?;
            let between = spool::again(between).map_err(ConvertError::Read)?;
            tef::write::write(&mut Reader::new(between), output, options.sched)?;
            Ok(report)
        }
        (from, to) => Err(ConvertError::NoSuchWay { from, to }),
    }
}

/// Writes a trace in FXT as one of Perfetto.
///
/// # Errors
///
/// When it cannot be read, or the output not be written.
pub fn to_perfetto(input: impl Read, output: &mut dyn Write) -> Result<Report, ConvertError> {
    pftrace::write(&mut Reader::new(input), output)
}

#[cfg(test)]
mod tests;
