//! Where trace bytes come from: a slice, or a stream that is read piece by piece
//! into a buffer.
//!
//! The reader sees a window of bytes that begins at its position. It requests a window of a minimum length, parses it, and moves on:
//!
//! ```text
//!   consumed    window()            not yet read
//! |===========|-------------------|- - - - - - -
//!             ^ position          ^ filled
//! ```

mod ahead;
mod decompress;
mod stream;

use std::io;

pub(crate) use decompress::{container_of, decompressor};
pub use stream::ReadAhead;
use stream::Stream;
pub(crate) use stream::{Movable, Source};

/// The bytes of a trace and a position in them.
pub(crate) enum Input<'i> {
    Slice { bytes: &'i [u8], position: usize },
    Stream { stream: Stream<'i>, consumed: u64 },
}

impl<'i> Input<'i> {
    pub(crate) fn slice(bytes: &'i [u8]) -> Self {
        Self::Slice { bytes, position: 0 }
    }

    pub(crate) fn stream(source: Source<'i>) -> Self {
        Self::Stream { stream: Stream::new(source), consumed: 0 }
    }

    /// The available bytes from the position on.
    #[inline]
    pub(crate) fn window(&self) -> &[u8] {
        match self {
            Self::Slice { bytes, position } => bytes.get(*position..).unwrap_or_default(),
            Self::Stream { stream, .. } => stream.window(),
        }
    }

    /// Tries to make at least `length` bytes available; false when the input ends
    /// before. Memory grows with the bytes that the input really has, not with
    /// `length`.
    #[inline]
    pub(crate) fn ensure(&mut self, length: usize) -> bool {
        match self {
            Self::Slice { bytes, position } => bytes.len() - *position >= length,
            Self::Stream { stream, .. } => stream.window().len() >= length || stream.fill(length),
        }
    }

    /// Moves the position on by `length` available bytes.
    #[inline]
    pub(crate) fn consume(&mut self, length: usize) {
        match self {
            Self::Slice { bytes, position } => *position = bytes.len().min(*position + length),
            Self::Stream { stream, consumed } => {
                *consumed += stream.consume(length) as u64;
            }
        }
    }

    /// The position, in bytes from the start.
    #[inline]
    pub(crate) fn offset(&self) -> u64 {
        match self {
            Self::Slice { position, .. } => *position as u64,
            Self::Stream { consumed, .. } => *consumed,
        }
    }

    /// The error that ended the input early, once.
    pub(crate) fn take_error(&mut self) -> Option<io::Error> {
        match self {
            Self::Slice { .. } => None,
            Self::Stream { stream, .. } => stream.take_error(),
        }
    }

    /// A reader over the rest of the input, from the position on.
    pub(crate) fn into_source(self) -> Source<'i> {
        match self {
            Self::Slice { bytes, position } => {
                Source::Here(Box::new(bytes.get(position..).unwrap_or_default()))
            }
            Self::Stream { stream, .. } => stream.into_source(),
        }
    }
}

impl Default for Input<'_> {
    fn default() -> Self {
        Self::slice(&[])
    }
}
