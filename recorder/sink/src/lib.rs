//! The destination of a trace: a file, a pipe, or a compressor in front of either.
//!
//! The drain thread passes one saved buffer after another to a [`Sink`], each of
//! whole FXT records. The sink guarantees that accepted data stays readable,
//! whatever happens next:
//!
//! - fxtrec is killed: a plain file ends in whole records (at worst in a truncated record, which readers tolerate), a compressed file can
//!   be decompressed up to the last [`Sink::flush_point`].
//! - The disk is full: the file is truncated to its last whole record, or the last flush point, and the error says how much was saved. A
//!   failed sink rejects everything after that without another system call, so that the recorder need not stop.
//! - The reader of a pipe closes it: unread data is lost, including what
//!   was in the pipe. It is not an error if it has read everything.
//!
//! After any failure, [`Sink::unsaved`] counts the records that cannot be read from the output.
//!
//! ```text
//! saved buffer --+-> Plain ----------------------+-> Medium: a file that can be cut back,
//!                +-> Compressed --> gzip / zstd -+           or a pipe or device that cannot
//!                +-> Memory, BlackHole
//! ```

#![forbid(unsafe_code)]

pub mod drain;
pub mod outfile;
pub mod tee;

mod codec;
mod compressed;
mod create;
mod error;
mod medium;
mod memory;
mod plain;

use std::fmt::{self, Debug, Display, Formatter};
use std::path::PathBuf;

pub use create::{IsPiece, NewFile, Opened, new_file, open, open_at, open_series, place};
pub use error::{OsError, SinkError};
pub use medium::MakeRoom;
pub use memory::{BlackHole, Memory};

use fxt_format::walk::count_records;

use fxtrec_units::text;

/// Accepts a trace in pieces.
pub trait Sink: Send + Debug {
    /// Accepts a piece of the trace: whole records, each a multiple of 8 bytes.
    ///
    /// # Errors
    /// Returns an error when it cannot be written, completely or partly; [`Sink::totals`] then contains the saved part. From then on
    /// [`SinkError::AlreadyFailed`].
    fn write(&mut self, records: &[u8]) -> Result<(), SinkError>;

    /// Makes all data that was accepted so far readable for other processes, even if no more follows. A no-op for sinks that do not hold
    /// data back. Compressors end a block here, so it should be called at most a few times a second.
    ///
    /// # Errors
    /// As for [`Sink::write`].
    fn flush_point(&mut self) -> Result<(), SinkError>;

    /// How much was accepted and written so far.
    fn totals(&self) -> Totals;

    /// Bytes of accepted records whose part of the output is not in [`Sink::totals`] yet. It is larger than they are by a few bytes at
    /// most.
    fn held(&self) -> u64 {
        0
    }

    /// The accepted records that cannot be read from the output: none, unless the sink failed.
    fn unsaved(&self) -> Unsaved {
        Unsaved::default()
    }

    /// Ends the trace. After that, only the counts may be queried.
    ///
    /// # Errors
    /// Returns an error if the end cannot be written; or the first error again, if there was one before.
    fn finish(&mut self) -> Result<Totals, SinkError>;
}

/// Records that a sink has accepted but that cannot be read from its output.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Unsaved {
    pub records: u64,
    pub bytes: u64,
}

impl Unsaved {
    /// These whole records are not saved either.
    fn add(&mut self, records: &[u8]) {
        self.records += count_records(records);
        self.bytes += records.len() as u64;
    }
}

impl Display for Unsaved {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let are = text::noun(self.records, "is", "are");
        let records = text::counted(self.records, "record", "records");
        write!(f, "{records} ({}) {are} missing", text::bytes(self.bytes))
    }
}

/// How much a sink has accepted and written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Bytes of records that can be read from the output.
    pub record_bytes: u64,
    /// Bytes of the output itself, fewer when it is compressed.
    pub output_bytes: u64,
}

/// The output of a trace and its compression.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Output {
    pub target: Target,
    pub compression: Compression,
    /// Whether the user named it. Only in that case may it be a FIFO or a device, because another user who wants to read the trace may have
    /// created one with a predictable name.
    pub named: bool,
}

/// A file or a pipe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    Stdout,
    /// A path, which may also lead to a fifo or a device.
    Path(PathBuf),
}

/// The compression of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compression {
    None,
    Gzip,
    Zstd,
}

#[cfg(test)]
mod tests;
