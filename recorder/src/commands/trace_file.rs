//! The trace that a command line names: a file, or `-` for standard input.

use std::io::stdin;
use std::path::{Path, PathBuf};

use fxt_reader::{Error, Reader};

/// A trace cannot be read, or not to its end.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// It cannot be opened.
    #[error(transparent)]
    Open(Error),
    /// What it holds is no trace, or damaged beyond what reading steps over.
    #[error("{}: {source}", path.display())]
    Content {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        source: Error,
    },
}

impl ReadError {
    /// What has to be said about the trace at `path`.
    pub fn new(path: &Path, source: Error) -> ReadError {
        match source {
            // This one names the file itself.
            Error::Open { .. } => ReadError::Open(source),
            source => ReadError::Content { path: path.to_owned(), source },
        }
    }
}

/// Opens the trace at `path`, or on standard input for `-`.
///
/// # Errors
/// When it cannot be opened, or its container cannot be unpacked.
pub fn open(path: &Path) -> Result<Reader<'static>, ReadError> {
    if path == Path::new("-") {
        return Ok(Reader::new(stdin().lock()));
    }
    Reader::open(path).map_err(|source| ReadError::new(path, source))
}
