//! The reason why a trace could not be written.

use std::fmt;
use std::io;

use super::outfile::OutFileError;

/// An error number of the system, which, unlike [`io::Error`], can be copied and reported twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OsError(pub i32);

impl OsError {
    /// The error number, or EIO if the error has none.
    pub fn of(error: &io::Error) -> OsError {
        OsError(error.raw_os_error().unwrap_or(libc::EIO))
    }
}

impl fmt::Display for OsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The standard library would add "(os error N)", which does not help the user.
        f.write_str(nix::errno::Errno::from_raw(self.0).desc())
    }
}

impl std::error::Error for OsError {}

/// The reason why a trace could not be written. `name` is the output as the user gave it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SinkError {
    /// The output could not be created or opened.
    #[error("cannot write {name}: {source}{}", advice(*source))]
    Create {
        name: String,
        /// The error of the system call.
        source: OsError,
    },
    /// The output is of a kind that fxtrec does not write to.
    #[error("cannot write {name}: {source}")]
    Refused { name: String, source: OutFileError },
    /// The earlier file of that name could not be kept.
    #[error("cannot keep the earlier {name} as {name}.old: {source}")]
    KeepOld { name: String, source: OsError },
    /// A FIFO without a reader.
    #[error("the pipe {name} has no reader: start the reader first")]
    NoReader { name: String },
    /// A write failed. Data written before that can be read.
    #[error("cannot write {name}: {source}; {}", what_is_left(*saved))]
    Write {
        name: String,
        source: OsError,
        /// Bytes of whole records in the output.
        saved: u64,
    },
    /// The reader of the pipe has exited, and has not read everything.
    #[error("the reader of {name} closed it before the end of the trace")]
    ReaderGone { name: String },
    /// An earlier write failed, and was reported then.
    #[error("the output failed earlier")]
    AlreadyFailed,
}

fn advice(source: OsError) -> &'static str {
    match source.0 {
        libc::ENOENT => " (create the directory first)",
        libc::EACCES | libc::EROFS | libc::EPERM => " (use another directory with -o)",
        libc::EISDIR => " (name a file in it with -o)",
        _ => "",
    }
}

fn what_is_left(saved: u64) -> String {
    match saved {
        0 => "none of the trace was saved".to_owned(),
        _ => format!("{saved} bytes of trace were saved and are readable, the rest is lost"),
    }
}

impl SinkError {
    /// The error for a write that failed with `source`.
    pub(super) fn write(name: &str, source: OsError, saved: u64) -> SinkError {
        let name = name.to_owned();
        match source.0 {
            libc::EPIPE => SinkError::ReaderGone { name },
            _ => SinkError::Write { name, source, saved },
        }
    }
}
