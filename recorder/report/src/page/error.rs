//! Errors of the page.

use std::io;
use std::path::PathBuf;

use fxtrec_sink::outfile::OutFileError;

/// The reason why a page cannot be written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PageError {
    /// The file cannot be created.
    #[error("cannot create {}: {source}; use another file for --html", path.display())]
    Create { path: PathBuf, source: OutFileError },
    /// The page cannot be written.
    #[error("cannot write the page: {0}; use --html with a file on a disk with free space")]
    Write(#[source] io::Error),
    /// A block of the page cannot be compressed or decompressed.
    #[error(
        "cannot compress the trace for the page: {0}; this is a bug in fxtrec, please report it"
    )]
    Pack(#[source] io::Error),
}
