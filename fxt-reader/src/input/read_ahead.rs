//! Bytes that are read ahead, for whoever takes bytes.

use std::fmt;
use std::io::{self, BufRead, Read};

use super::stream::{Movable, Source, Stream};

/// Buffers something to read from; when it turns out long, a thread of its own reads it.
///
/// A decompressor as `source` decompresses on that thread. What a read of the source brings is handed over at once, and
/// the thread is never more than a few MiB ahead. It is as [`Reader::read_ahead`](crate::Reader::read_ahead) does it,
/// for other formats than this crate reads.
pub struct ReadAhead(Stream<'static>);

impl ReadAhead {
    /// Reads from `source`.
    pub fn new(source: impl Read + Send + 'static) -> Self {
        let source = Box::new(source);
        Self(Stream::new(Source::Movable(Movable { source, joined: false })))
    }
}

impl Read for ReadAhead {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.read(buffer)
    }
}

impl BufRead for ReadAhead {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        self.0.fill_buf()
    }

    fn consume(&mut self, length: usize) {
        BufRead::consume(&mut self.0, length);
    }
}

impl fmt::Debug for ReadAhead {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ReadAhead").finish_non_exhaustive()
    }
}
