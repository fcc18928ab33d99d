//! A buffer over something to read from.

use std::io::{self, Cursor, ErrorKind, Read};

/// How much is asked of the source at once, and the buffer's first size. Small
/// enough to stay in a core's own cache.
const CHUNK: usize = 512 * 1024;

pub(crate) struct Stream<'i> {
    source: Box<dyn Read + 'i>,
    /// `buffer[start..end]` has been read and not consumed.
    buffer: Vec<u8>,
    start: usize,
    end: usize,
    ended: bool,
    error: Option<io::Error>,
}

impl<'i> Stream<'i> {
    pub(super) fn new(source: Box<dyn Read + 'i>) -> Self {
        Self { source, buffer: Vec::new(), start: 0, end: 0, ended: false, error: None }
    }

    #[inline]
    pub(super) fn window(&self) -> &[u8] {
        self.buffer.get(self.start..self.end).unwrap_or_default()
    }

    /// Consumes up to `length` bytes of the window; says how many it were.
    #[inline]
    pub(super) fn consume(&mut self, length: usize) -> usize {
        let length = length.min(self.end - self.start);
        self.start += length;
        length
    }

    /// Reads until the window has `length` bytes; false when the input ends before.
    #[cold]
    pub(super) fn fill(&mut self, length: usize) -> bool {
        while self.end - self.start < length {
            if self.ended {
                return false;
            }
            self.make_room();
            let Some(room) = self.buffer.get_mut(self.end..) else { return false };
            match self.source.read(room) {
                Ok(0) => self.ended = true,
                Ok(count) => self.end += count.min(room.len()),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => {
                    self.ended = true;
                    self.error = Some(error);
                }
            }
        }
        true
    }

    /// Frees what was consumed, and doubles a buffer that is full of bytes in use.
    fn make_room(&mut self) {
        if self.start > 0 {
            self.buffer.copy_within(self.start..self.end, 0);
            self.end -= self.start;
            self.start = 0;
        }
        if self.end == self.buffer.len() {
            self.buffer.resize((self.buffer.len() * 2).max(CHUNK), 0);
        }
    }

    pub(super) fn take_error(&mut self) -> Option<io::Error> {
        self.error.take()
    }

    /// The window, then the rest of the source.
    pub(super) fn into_read(mut self) -> Box<dyn Read + 'i> {
        self.buffer.truncate(self.end);
        let mut window = Cursor::new(self.buffer);
        window.set_position(self.start as u64);
        if self.ended { Box::new(window) } else { Box::new(window.chain(self.source)) }
    }
}
