//! Why there is no page.

use std::io;
use std::path::PathBuf;

use fxtrec_sink::outfile::OutFileError;

/// Why a page cannot be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PageError {
    /// The file cannot be created.
    #[error("cannot create {}: {source}; give --html another file", path.display())]
    Create {
        /// The file.
        path: PathBuf,
        /// Why.
        source: OutFileError,
    },
    /// The page cannot be written.
    #[error("cannot write the page: {0}; give --html a file in a place with room")]
    Write(#[source] io::Error),
    /// A block of the page cannot be compressed, or read again.
    #[error(
        "cannot pack the trace into the page: {0}; this is a fault of fxtrec, please report it"
    )]
    Pack(#[source] io::Error),
}
