//! A buffer over something to read from.

use std::fmt;
use std::io::{self, BufRead, Cursor, ErrorKind, Read};
use std::mem;

use super::ahead::{Ahead, BLOCK, LEAD, Message};

/// Shorter inputs are read on the caller's thread: starting another would not
/// pay.
const LONG: u64 = 8 << 20;

/// Where the bytes come from.
pub(crate) enum Source<'i> {
    /// The source can only be read on this thread.
    Here(Box<dyn Read + 'i>),
    /// A thread takes it over if it turns out to be long.
    Movable(Movable),
}

/// How the bytes are read: directly, or ahead on another thread.
enum ReadMode<'i> {
    Read(Source<'i>),
    Ahead(Ahead),
}

/// A source that can be given to a thread.
pub(crate) struct Movable {
    pub(crate) source: Box<dyn Read + Send>,
    /// Whether its reads are short, so that waiting for the thread is acceptable.
    pub(crate) joined: bool,
}

pub(crate) struct Stream<'i> {
    mode: ReadMode<'i>,
    /// `buffer[start..end]` has been read and not consumed.
    buffer: Vec<u8>,
    start: usize,
    end: usize,
    /// Bytes read on the caller's thread.
    read: u64,
    ended: bool,
    error: Option<io::Error>,
}

impl<'i> Stream<'i> {
    pub(super) fn new(source: Source<'i>) -> Self {
        let (mode, buffer) = (ReadMode::Read(source), Vec::new());
        Self { mode, buffer, start: 0, end: 0, read: 0, ended: false, error: None }
    }

    #[inline]
    pub(super) fn window(&self) -> &[u8] {
        self.buffer.get(self.start..self.end).unwrap_or_default()
    }

    /// Consumes up to `length` bytes of the window; returns how many.
    #[inline]
    pub(super) fn consume(&mut self, length: usize) -> usize {
        let length = length.min(self.end - self.start);
        self.start += length;
        length
    }

    /// Reads until the window has `length` bytes; false when the input ends earlier.
    #[cold]
    pub(super) fn fill(&mut self, length: usize) -> bool {
        while self.end - self.start < length {
            if self.ended {
                return false;
            }
            if self.read >= LONG {
                self.go_ahead();
            }
            match &self.mode {
                ReadMode::Ahead(ahead) => match ahead.next() {
                    Message::Bytes(block, end) => self.take(block, end),
                    Message::End => self.ended = true,
                    Message::Failed(error) => self.fail(error),
                },
                ReadMode::Read(_) => self.read_here(),
            }
        }
        true
    }

    /// Moves reading to a thread, if that is possible.
    fn go_ahead(&mut self) {
        // Try only once.
        self.read = 0;
        let nothing = ReadMode::Read(Source::Here(Box::new(io::empty())));
        self.mode = match mem::replace(&mut self.mode, nothing) {
            ReadMode::Read(Source::Movable(Movable { source, joined })) => {
                match Ahead::start(source, joined) {
                    Ok(ahead) => ReadMode::Ahead(ahead),
                    Err(source) => ReadMode::Read(Source::Here(source)),
                }
            }
            mode => mode,
        };
    }

    fn read_here(&mut self) {
        self.make_room();
        let Some(room) = self.buffer.get_mut(self.end..self.end + BLOCK) else { return };
        let read = match &mut self.mode {
            ReadMode::Read(Source::Here(source)) => source.read(room),
            ReadMode::Read(Source::Movable(movable)) => movable.source.read(room),
            ReadMode::Ahead(_) => return,
        };
        match read {
            Ok(0) => self.ended = true,
            Ok(count) => {
                let count = count.min(room.len());
                self.end += count;
                self.read += count as u64;
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => self.fail(error),
        }
    }

    fn fail(&mut self, error: io::Error) {
        self.ended = true;
        self.error = Some(error);
    }

    /// Takes the bytes of a block that was read ahead, which end at `end`.
    fn take(&mut self, mut block: Vec<u8>, end: usize) {
        let left = self.end - self.start;
        let begin = LEAD.saturating_sub(left);
        if left > LEAD {
            // The unread bytes do not fit in front of the block's.
            self.buffer.truncate(self.end);
            self.buffer.drain(..self.start);
            self.buffer.extend_from_slice(block.get(LEAD..end).unwrap_or_default());
            (self.start, self.end) = (0, self.buffer.len());
        } else {
            let window = self.buffer.get(self.start..self.end).unwrap_or_default();
            if let Some(room) = block.get_mut(begin..LEAD) {
                room.copy_from_slice(window);
            }
            mem::swap(&mut self.buffer, &mut block);
            (self.start, self.end) = (begin, end);
        }
        if let ReadMode::Ahead(ahead) = &self.mode {
            ahead.give_back(block);
        }
    }

    /// Makes room for a whole block after the bytes in use. Reads here and on the thread have the same size, since that
    /// decides how much a decompressor yields before it reports damage.
    fn make_room(&mut self) {
        if self.buffer.len() - self.end >= BLOCK {
            return;
        }
        let left = self.end - self.start;
        let begin = LEAD.saturating_sub(left);
        let length = begin + left + BLOCK;
        if self.buffer.len() < length {
            // A buffer that is larger than a block grows while one large record is read.
            let doubled = if left > LEAD { 2 * self.buffer.len() } else { 0 };
            self.buffer.resize(length.max(doubled), 0);
        }
        self.buffer.copy_within(self.start..self.end, begin);
        (self.start, self.end) = (begin, begin + left);
    }

    pub(super) fn take_error(&mut self) -> Option<io::Error> {
        self.error.take()
    }

    /// The window, then the rest of the source.
    pub(super) fn into_source(mut self) -> Source<'i> {
        self.buffer.truncate(self.end);
        let mut window = Cursor::new(mem::take(&mut self.buffer));
        window.set_position(self.start as u64);
        match self.mode {
            _ if self.ended => Source::Here(Box::new(window)),
            ReadMode::Read(Source::Here(rest)) => Source::Here(Box::new(window.chain(rest))),
            ReadMode::Read(Source::Movable(Movable { source, joined })) => {
                Source::Movable(Movable { source: Box::new(window.chain(source)), joined })
            }
            mode @ ReadMode::Ahead(_) => {
                Source::Here(Box::new(Stream { mode, buffer: window.into_inner(), ..self }))
            }
        }
    }
}

impl Read for Stream<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.fill_buf()?.read(buffer)?;
        BufRead::consume(self, read);
        Ok(read)
    }
}

impl BufRead for Stream<'_> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        // Bytes that were read before a failure are returned first.
        match self.fill(1) {
            true => Ok(self.window()),
            false => self.take_error().map_or(Ok(&[]), Err),
        }
    }

    fn consume(&mut self, length: usize) {
        Stream::consume(self, length);
    }
}

/// Buffers a source; a separate thread reads it if it turns out to be long.
///
/// If `source` is a decompressor, it decompresses on that thread. The result of each read is available at once, and the
/// thread is never more than a few MiB ahead. This is what [`Reader::read_ahead`](crate::Reader::read_ahead) does, for
/// formats that this crate does not read.
pub struct ReadAhead(Stream<'static>);

impl ReadAhead {
    /// Reads from `source`.
    pub fn new(source: impl Read + Send + 'static) -> Self {
        let source = Box::new(source);
        Self(Stream::new(Source::Movable(Movable { source, joined: false })))
    }

    /// Waits for the next bytes and returns them without consuming them: at least `length`, or all up to the end.
    ///
    /// # Errors
    /// Returns an error when the source fails before it yields any. A later failure is returned once the bytes before it have been read.
    pub fn peek(&mut self, length: usize) -> io::Result<&[u8]> {
        self.0.fill(length);
        self.0.fill_buf()
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
