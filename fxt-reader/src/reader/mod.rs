//! The reader: frames records, keeps the providers' state, returns records.

mod known;
mod recover;
mod run;
mod start;

pub use known::Decoder;
pub use run::Visitor;

use std::fmt;
use std::fs::File;
use std::io::Read;
use std::path::Path;

use fxt_format::limits::WORD_BYTES;
use fxt_format::walk::{record_bytes, record_words};
use fxt_format::{header, record_type};

use crate::cursor::Cursor;
use crate::error::{Damage, Error, Reason};
use crate::input::{Input, Movable, Source};
use crate::oddities::Oddities;
use crate::raw::RawRecord;
use crate::record::{Record, Unknown};
use crate::summary::Summary;
use crate::tables::Tables;
use crate::types::{ByteOrder, Container, ProviderId};
use known::Known;

/// The largest record that a reader accepts by default, in bytes. Only large records are nearly as large as this.
pub const DEFAULT_MAX_RECORD_BYTES: usize = 256 << 20;

/// The number of byte positions per step of the search for the end of a damaged region.
const SEARCH_STEP: usize = 64 * 1024;

/// The number of valid records in a row that confirm the size of a record with damaged content.
const CONFIRMING: usize = 2;

/// One record and its position, borrowed from the reader until its next call.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Item<'a> {
    /// Where the record begins, in bytes of (decompressed) trace.
    pub offset: u64,
    /// Its provider; `None` before any has been introduced.
    pub provider: Option<ProviderId>,
    /// The record, resolved.
    pub record: Record<'a>,
    /// The record's words.
    pub raw: RawRecord<'a>,
    /// Deviations from the specification that did not prevent the record from being read.
    pub oddities: Oddities,
}

/// Reads a trace, record by record.
///
/// The reader takes care of compression, byte order and the tables that records
/// refer to. See the [crate documentation](crate) for an example.
pub struct Reader<'i> {
    input: Input<'i>,
    order: ByteOrder,
    known: Known,
    any_reference: Tables,
    max_record_bytes: usize,
    state: State,
    summary: Summary,
}

/// The first action of the next call of [`Reader::next`].
#[derive(Clone, Copy, Debug)]
enum State {
    /// Detect what the input is.
    Start,
    /// Skip the record that was returned, of this many bytes.
    After(usize),
    /// Skip a damaged record; of this many bytes, if its size was plausible.
    Damaged(Option<usize>),
    /// Nothing.
    Ended,
}

impl Reader<'static> {
    /// Reads the file at `path`: a trace, or a gzip or zstd stream of one.
    ///
    /// The file is read through a buffer, not mapped, so another process may
    /// still append to it or truncate it: the trace then ends where the file
    /// does. A long file is [read ahead](Self::read_ahead).
    ///
    /// # Errors
    ///
    /// Returns [`Error::Open`] when the file cannot be opened. Whether the file is a trace is checked when the first record is read.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, Error> {
        let path = path.as_ref();
        let file =
            File::open(path).map_err(|source| Error::Open { path: path.to_path_buf(), source })?;
        Ok(Self::from_file(file, |file| file))
    }

    /// Reads `file` through the reader that `wrap` returns for it, for example one that counts bytes.
    ///
    /// A regular file that turns out long is [read ahead](Self::read_ahead).
    /// Dropping this reader also drops the reader that `wrap` made.
    pub fn from_file<R: Read + Send + 'static>(file: File, wrap: impl FnOnce(File) -> R) -> Self {
        let is_regular = file.metadata().is_ok_and(|facts| facts.is_file());
        let source = Box::new(wrap(file));
        Self::with_input(Input::stream(match is_regular {
            true => Source::Movable(Movable { source, joined: true }),
            // Reads of a pipe or device may block for any time.
            false => Source::Here(source),
        }))
    }

    /// Reads from `input` as [`new`](Self::new) does; if it turns out to be long,
    /// a separate thread reads and decompresses while the caller processes
    /// records.
    ///
    /// The thread starts after a few MiB of trace, if there is more than one CPU and a thread can be
    /// started. The records, errors and [`summary`](Self::summary) are the same. The thread passes on
    /// the result of each read of `input` at once and is never more than a few MiB ahead. Dropping
    /// the reader does not wait for the thread, which then ends when its current read returns. If
    /// reading panics, the error is [`Error::Read`] or [`Error::Decompress`].
    pub fn read_ahead(input: impl Read + Send + 'static) -> Self {
        let source = Box::new(input);
        Self::with_input(Input::stream(Source::Movable(Movable { source, joined: false })))
    }
}

impl<'i> Reader<'i> {
    /// Reads from `input`, in pieces of any size, into a buffer.
    pub fn new(input: impl Read + 'i) -> Self {
        Self::with_input(Input::stream(Source::Here(Box::new(input))))
    }

    /// Reads from a slice without copying, unless it is compressed.
    #[must_use]
    pub fn from_slice(bytes: &'i [u8]) -> Self {
        Self::with_input(Input::slice(bytes))
    }

    fn with_input(input: Input<'i>) -> Self {
        Self {
            input,
            order: ByteOrder::default(),
            known: Known::default(),
            any_reference: Tables::accepting_any_reference(),
            max_record_bytes: DEFAULT_MAX_RECORD_BYTES,
            state: State::Start,
            summary: Summary::default(),
        }
    }

    /// Treats records of more than `bytes` bytes as damaged; the default is
    /// [`DEFAULT_MAX_RECORD_BYTES`]. This bounds the memory that a compressed
    /// stream can make the reader use.
    #[must_use]
    pub fn max_record_bytes(mut self, bytes: usize) -> Self {
        self.max_record_bytes = bytes;
        self
    }

    /// Limits the memory for definitions that later records depend on (strings, threads and
    /// providers) to `bytes` bytes. The default is no limit; one provider alone can define 1 GB. The
    /// limit applies to each [`decoder`](Self::decoder) of this reader, too.
    ///
    /// A string beyond the limit is returned as `?`, and a thread with the koids `u64::MAX`. [`Summary::left_out`] counts them.
    #[must_use]
    pub fn max_table_bytes(mut self, bytes: usize) -> Self {
        self.known.limit(bytes);
        self
    }

    /// Totals of what has been read so far; final once [`next`](Self::next) has
    /// returned `None`.
    #[must_use]
    pub fn summary(&self) -> Summary {
        Summary { left_out: self.known.left_out(), ..self.summary }
    }

    /// A decoder for records from here on, which needs only their bytes and can be used on another thread.
    #[must_use]
    pub fn decoder(&self) -> Decoder {
        Decoder::new(self.known.clone(), self.order)
    }

    /// The next record; `None` at the end of the trace.
    ///
    /// An incomplete last record ends the trace, and so does a truncated
    /// compressed stream; see [`summary`](Self::summary).
    ///
    /// # Errors
    ///
    /// Returns [`Error::Damaged`] for each damaged record: the next call continues after it, or at the next position where valid records
    /// begin, and the summary counts the skipped bytes. After any other error, the next call returns `None`.
    #[expect(
        clippy::should_implement_trait,
        reason = "the record is lent from the reader's buffer, which Iterator has no way to say"
    )]
    #[inline]
    pub fn next(&mut self) -> Result<Option<Item<'_>>, Error> {
        let length = match self.usual() {
            Some(length) => length,
            None => match self.find_any()? {
                Some(length) => length,
                None => return Ok(None),
            },
        };
        let mut place = self.place(length);
        match Record::parse(&mut place.cursor, place.tables) {
            Ok(record) => Ok(Some(place.accept(record))),
            Err(reason) => Err(place.refuse(reason)),
        }
    }

    /// The record of `length` bytes at the position.
    #[inline(always)]
    fn place(&mut self, length: usize) -> Place<'_> {
        let bytes = self.input.window().get(..length).unwrap_or_default();
        Place {
            offset: self.input.offset(),
            provider: self.known.provider(),
            tables: self.known.tables(),
            raw: RawRecord::new(bytes, self.order),
            cursor: Cursor::new(bytes, self.order),
            state: &mut self.state,
            summary: &mut self.summary,
        }
    }

    /// Continues with the next record; returns its size if it is a scheduling record and completely in the window.
    #[inline(always)]
    fn usual(&mut self) -> Option<usize> {
        let State::After(length) = self.state else { return None };
        self.input.consume(length);
        self.state = State::After(0);
        let window = self.input.window();
        let header_word = self.order.word(*window.first_chunk()?);
        if header::TYPE.get(header_word) != record_type::SCHEDULING
            || Unknown::of(header_word).is_some()
        {
            return None;
        }
        record_bytes(header_word)
            .filter(|&length| length <= window.len().min(self.max_record_bytes))
    }

    /// Frames the next record and keeps its definition; returns its size, or `None` at the end.
    #[cold]
    fn find_any(&mut self) -> Result<Option<usize>, Error> {
        if !self.prepare()? {
            return Ok(None);
        }
        let Some(length) = self.frame()? else {
            self.end()?;
            return Ok(None);
        };
        self.define(length);
        Ok(Some(length))
    }

    /// Prepares to frame a record; false at the end.
    fn prepare(&mut self) -> Result<bool, Error> {
        match self.state {
            State::Start => self.start()?,
            State::Damaged(length) => self.recover(length),
            State::After(length) => self.input.consume(length),
            State::Ended => return Ok(false),
        }
        self.state = State::After(0);
        Ok(true)
    }

    /// The size of the record at the position, which is then entirely in the window; `None` if the input ends before the end of the record.
    #[inline]
    fn frame(&mut self) -> Result<Option<usize>, Damage> {
        if !self.input.ensure(WORD_BYTES) {
            return Ok(None);
        }
        let Some(words) = record_words(self.header()) else {
            return Err(self.damage(Reason::ZeroSize, None));
        };
        let bytes = words as u64 * WORD_BYTES as u64;
        match usize::try_from(bytes) {
            Ok(length) if length <= self.max_record_bytes => {
                if self.input.ensure(length) {
                    if Unknown::of(self.header()).is_some() && !self.is_likely(length) {
                        return Err(self.damage(Reason::Unconfirmed, None));
                    }
                    Ok(Some(length))
                } else if self.is_overrun() {
                    Err(self.damage(Reason::Overrun { bytes }, None))
                } else {
                    Ok(None)
                }
            }
            _ => {
                let limit = self.max_record_bytes as u64;
                Err(self.damage(Reason::TooLarge { bytes, limit }, None))
            }
        }
    }

    /// The header word at the position; the window must have a whole word.
    #[inline]
    fn header(&self) -> u64 {
        self.input.window().first_chunk().map_or(0, |&word| self.order.word(word))
    }

    /// Keeps the definition in a record that later ones depend on.
    #[inline]
    fn define(&mut self, length: usize) {
        let header_word = self.header();
        let bytes = self.input.window().get(..length).unwrap_or_default();
        self.known.define(header_word, bytes, self.order);
    }

    /// Ends the trace; returns the input's error if it failed.
    #[cold]
    fn end(&mut self) -> Result<(), Error> {
        self.state = State::Ended;
        let left = self.input.window().len();
        self.summary.truncated_tail = left as u64;
        let offset = self.input.offset() + left as u64;
        let Some(source) = self.input.take_error() else { return Ok(()) };
        let container = self.summary.container;
        if container == Container::Plain || source.raw_os_error().is_some() {
            return Err(Error::Read { offset, source });
        }
        if source.kind() == std::io::ErrorKind::UnexpectedEof {
            self.summary.container_truncated = true;
            return Ok(());
        }
        Err(Error::Decompress { container, offset, source })
    }
}

/// A record that will be read next.
struct Place<'a> {
    offset: u64,
    provider: Option<ProviderId>,
    tables: &'a Tables,
    raw: RawRecord<'a>,
    cursor: Cursor<'a>,
    state: &'a mut State,
    summary: &'a mut Summary,
}

impl<'a> Place<'a> {
    /// The record was read.
    #[inline(always)]
    fn accept(self, record: Record<'a>) -> Item<'a> {
        let Place { offset, provider, raw, cursor, state, summary, .. } = self;
        let length = raw.bytes().len();
        *state = State::After(length);
        summary.records += 1;
        summary.record_bytes += length as u64;
        summary.unknown_records += u64::from(matches!(record, Record::Unknown(_)));
        summary.unknown_arguments += u64::from(cursor.oddities.unknown_arguments());
        Item { offset, provider, record, raw, oddities: cursor.oddities }
    }

    /// The record is damaged.
    #[cold]
    fn refuse(self, reason: Reason) -> Error {
        *self.state = State::Damaged(Some(self.raw.bytes().len()));
        self.summary.damaged_regions += 1;
        Damage { offset: self.offset, record_type: self.raw.record_type(), reason }.into()
    }
}

impl fmt::Debug for Reader<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reader")
            .field("offset", &self.input.offset())
            .field("state", &self.state)
            .field("summary", &self.summary)
            .finish_non_exhaustive()
    }
}
