//! The reason why a conversion ended early.

use std::fmt;
use std::io;
use std::path::PathBuf;

use super::format::{Format, UnknownFormat};
use super::import::ImportError;
use fxt_reader::Nanos;
use fxtrec_sink::outfile::OutFileError;

/// A position in text, counted from 1. Columns count bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position {
    pub line: u64,
    /// The byte in the line.
    pub column: u64,
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}, column {}", self.line, self.column)
    }
}

/// The reason why a conversion ended early.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConvertError {
    /// The input cannot be opened.
    #[error("cannot open {}: {source}", path.display())]
    Open { path: PathBuf, source: io::Error },
    #[error("cannot read the input: {0}")]
    Read(#[source] io::Error),
    /// The output cannot be created.
    #[error("cannot create {}: {source}", path.display())]
    Create { path: PathBuf, source: OutFileError },
    /// The output is the same file as the input.
    #[error("{} is the same file as the input: give the output another name", path.display())]
    SameFile { path: PathBuf },
    /// The output is a terminal, which a binary trace must not go to.
    #[error("standard output is a terminal: redirect it, or name a file")]
    Terminal,
    /// The output accepts no more data.
    #[error("cannot write the output: {0}")]
    Write(#[source] io::Error),
    /// The format is unknown.
    #[error(transparent)]
    Format(#[from] UnknownFormat),
    /// There is no conversion between the two.
    #[error("there is no conversion from {from} to {to}{}", advice(*from, *to))]
    NoSuchWay {
        from: Format,
        /// The intended output.
        to: Format,
    },
    /// A trace in FXT cannot be read.
    #[error(transparent)]
    Fxt(#[from] fxt_reader::Error),
    /// A window contains nothing of the trace.
    #[error(
        "the window is outside of the trace, which goes from {begin} to {end} ({} s): times without a unit are seconds as \
         `fxtrec dump` prints them, those with a unit or a plus count from the beginning",
        Nanos(end.0.saturating_sub(begin.0))
    )]
    Outside { begin: Nanos, end: Nanos },
    /// A string does not have the required format.
    #[error("{at}: {problem}")]
    Malformed {
        at: Position,
        /// The input at this position, and what was expected instead.
        problem: String,
    },
    /// The trace of another recorder cannot be imported.
    #[error(transparent)]
    Import(#[from] ImportError),
    /// FXT cannot express a record; the callers avoid this.
    #[error("cannot write a record as FXT: {0}")]
    Encode(#[from] fxt_writer::EncodeError),
    /// A trace to be merged does not describe its clock.
    #[error(
        "{} has no wall-clock offset (fxtrec writes it in `trace_info`): use --offset for how \
         far its clock is ahead of the first file's",
        path.display()
    )]
    NoClock { path: PathBuf },
    /// Messages between two recordings do not determine the offset of their clocks.
    #[error(
        "{} and {}: --sync needs messages both ways, but {forth} went from the second to the first and {back} back: give an argument that identifies a message, or use --offset",
        path.display(), first.display()
    )]
    NoMessages { path: PathBuf, first: PathBuf, forth: usize, back: usize },
    /// There is no offset of the clocks with which all messages arrive after they were sent.
    #[error(
        "{} and {}: some messages would arrive before they were sent, by {nanos} ns at least: the clocks drifted by more than messages take, or the argument does not identify messages; cut shorter windows, or use --offset",
        path.display(), first.display()
    )]
    Contradictory { path: PathBuf, first: PathBuf, nanos: u64 },
    /// With this offset of the clocks, a message would arrive before it was sent.
    #[error(
        "with this alignment, {} receives a message {early} before {} sends it: at least one wall clock, or --offset, is wrong; --sync aligns clocks by messages that go both ways, and --offset corrects them by hand",
        receiver.display(), sender.display()
    )]
    Reversed { sender: PathBuf, receiver: PathBuf, early: String },
    /// The format numbers the modules of a process with 16 bits.
    #[error(
        "the recordings have more than 65536 modules of one process in total: merge fewer of them"
    )]
    TooManyModules,
    /// There are no frames to name.
    #[error("{}: the trace has no stacks: record it with --stacks", path.display())]
    NoStacks { path: PathBuf },
    /// Records cannot be inserted between records of another byte order.
    #[error("the trace is big-endian: convert it to little-endian with `fxtrec cut IN OUT`")]
    BigEndian,
}

fn advice(from: Format, to: Format) -> &'static str {
    if from == to {
        ": they are the same; to compress or decompress a file, use gzip or zstd"
    } else {
        ""
    }
}

impl ConvertError {
    /// Whether the output was closed by its reader, which needs no message.
    pub fn is_broken_pipe(&self) -> bool {
        matches!(self, Self::Write(error) if error.kind() == io::ErrorKind::BrokenPipe)
    }
}

/// Errors of an [`fxt_writer`] record on its way to an output.
impl From<fxt_writer::WriteError<io::Error>> for ConvertError {
    fn from(error: fxt_writer::WriteError<io::Error>) -> Self {
        match error {
            fxt_writer::WriteError::Encode(error) => Self::Encode(error),
            fxt_writer::WriteError::Full(error) => Self::Write(error),
        }
    }
}
