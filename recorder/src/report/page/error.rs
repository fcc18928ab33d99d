//! Why there is no page.

use std::io;

/// Why a page cannot be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PageError {
    /// The page cannot be written.
    #[error("cannot write the page: {0}; write it to a place with room, or give another FILE")]
    Write(#[source] io::Error),
    /// A block of the page cannot be compressed, or read again.
    #[error(
        "cannot pack the trace into the page: {0}; this is a fault of fxtrec, please report it"
    )]
    Pack(#[source] io::Error),
}
