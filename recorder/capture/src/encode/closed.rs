//! Why the encoder stops.

use fxt_writer::WriteError;

/// The trace takes no more records: it is full, or its sink has failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the trace is closed")]
pub struct Closed;

impl<Full> From<WriteError<Full>> for Closed {
    #[inline]
    fn from(_: WriteError<Full>) -> Closed {
        Closed
    }
}
