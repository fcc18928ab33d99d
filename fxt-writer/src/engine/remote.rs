//! Saves the records of an engine that another process runs, from memory shared with it.
//!
//! A provider may write to the shared memory at any time, so its saver must not
//! trust the content. A [`Remote`] divides the memory by the sizes that the saver
//! itself chose, reads each word once, checks each value before using it, and
//! copies records out before looking at them. It counts for itself what has been saved.
//!
//! ```text
//!  SAVE_BUFFER(wrapped 7, durable 320)
//!
//!  durable part   [ saved | 192 .. 320 | ... ]   -> copied, after the part saved before
//!  rolling 1      [ start .. end         | 0 ]   -> copied; 7 & 1 = 1
//!
//!  each copy:     record by record: claims and gaps left out and counted (as in `recover`),
//!                 metadata left out (it is not for providers to write), then `admit`
//! ```
//!
//! If the other process has exited, or does not answer, [`Remote::rest`] returns the records that are committed but not yet saved.
//! [`Remote::view`] does the same without taking it, for a snapshot of a running recording. [`live`] describes how both read memory that is
//! being written to.

mod follow;
mod live;

use std::ops::Range;

pub use follow::Cursor;

use super::config::{Config, ConfigError, Division, HEADER_WORDS, Mode};
use super::header::Header;
use super::position::part_of;
use super::walk::finished_records;
use crate::layout::limits::WORD_BYTES;
use crate::layout::{header, record_type};
use crate::packet::Packet;

/// Words that another process may change at any time.
pub trait SharedWords {
    /// The number of words.
    fn words(&self) -> usize;

    /// The word at `index`, read from memory exactly once, and before all later
    /// loads (acquire).
    ///
    /// # Panics
    ///
    /// When `index` is not less than [`words`](Self::words).
    fn load(&self, index: usize) -> u64;

    /// Stores the header word for readers, which holds the other process's writers or releases them. Must be an atomic exchange (acquire
    /// and release), so that the caller sees what they did before they last read the word. The default stores nothing, for read-only
    /// memory: a view then omits and counts buffers that are reused continuously.
    fn exchange(&self, index: usize, value: u64) {
        let _ = (index, value);
    }

    /// Called when everything has been copied: this process no longer needs the pages in memory. Their content must stay.
    /// The default does nothing.
    fn let_go(&self) {}
}

/// The reason why nothing can be saved: the other side violates the protocol, or its memory is inconsistent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RemoteError {
    /// A request to save a buffer in a mode other than streaming.
    #[error("buffers are saved during recording only in streaming mode")]
    NotStreaming,
    /// A request for a buffer other than the next one.
    #[error("buffer {asked} was to be saved, but {expected} is next")]
    OutOfOrder {
        /// The wrapped count of the request.
        asked: u32,
        /// The buffer that is next.
        expected: u32,
    },
    /// An impossible durable end.
    #[error(
        "the reported end of durable data, byte {end}, is impossible: {saved} bytes are saved, and {capacity} more fit"
    )]
    DurableEnd {
        /// The end, in bytes since the engine was started.
        end: u64,
        /// The end of the saved data, in bytes since then.
        saved: u64,
        /// Size of the durable part, in bytes.
        capacity: u64,
    },
    /// The data of a rolling buffer does not lie within it.
    #[error(
        "the reported data of a rolling buffer, from byte {start} to {end}, does not fit its {capacity} bytes"
    )]
    RollingData {
        /// Its start according to the header, in bytes.
        start: u64,
        /// Its reported end, in bytes.
        end: u64,
        /// Size of the buffer, in bytes.
        capacity: u64,
    },
    /// There is no header of an engine of this mode and size.
    #[error("the memory does not begin with the header of a trace engine of this mode and size")]
    NoHeader,
}

/// Counts of the records that were found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Records that are in the pieces.
    pub records: u64,
    /// The least number of records that were reserved but never finished.
    pub unfinished: u64,
    /// Records that were left out because a provider must not write them.
    pub refused: u64,
    /// Bytes that were left out because they follow an invalid first word.
    pub cut_bytes: u64,
    /// Rolling buffers that were left out because they were reused again and
    /// again while being read, though their writers were asked to wait.
    pub torn: u64,
}

impl std::ops::AddAssign for Tally {
    fn add_assign(&mut self, other: Self) {
        self.records = self.records.saturating_add(other.records);
        self.unfinished = self.unfinished.saturating_add(other.unfinished);
        self.refused = self.refused.saturating_add(other.refused);
        self.cut_bytes = self.cut_bytes.saturating_add(other.cut_bytes);
        self.torn = self.torn.saturating_add(other.torn);
    }
}

/// Records to save, durable ones first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Piece {
    /// Durable records that had not been saved.
    pub durable: Vec<u64>,
    /// Rolling records, older ones first.
    pub rolling: Vec<u64>,
    /// Problems that were found.
    pub tally: Tally,
    /// Whether writers were held during the copy; they may have dropped records, which the header counts.
    pub held: bool,
}

impl Piece {
    /// Whether there is nothing to save.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.durable.is_empty() && self.rolling.is_empty()
    }
}

/// The memory of another process's engine; see the [module](self).
#[derive(Debug)]
pub struct Remote<W> {
    words: W,
    mode: Mode,
    division: Division,
    /// Durable words saved, since the engine was started.
    durable_saved: u64,
    /// The largest number of durable words that waited to be saved at a time.
    durable_peak: u64,
    /// The wrapped count of the next lap to save.
    next: u32,
}

/// Copies that have not been checked yet.
struct Copies {
    wrapped: u32,
    durable_end: u64,
    durable: Vec<u64>,
    laps: Vec<Vec<u64>>,
    /// The counts that were determined during copying.
    tally: Tally,
    /// Whether writers were held.
    held: bool,
}

impl<W: SharedWords> Remote<W> {
    /// The saver's side of an engine of this mode that uses all of `words`.
    ///
    /// # Errors
    ///
    /// Returns an error when an engine cannot have that many words.
    pub fn new(words: W, mode: Mode) -> Result<Self, ConfigError> {
        let bytes = words.words().saturating_mul(WORD_BYTES);
        let division = Division::new(&Config { mode, bytes, ..Config::default() })?;
        Ok(Self { words, mode, division, durable_saved: 0, durable_peak: 0, next: 0 })
    }

    /// The header, if it is that of an engine with the expected mode and sizes;
    /// all its other fields are unchecked.
    #[must_use]
    pub fn header(&self) -> Option<Header> {
        let words: [u64; HEADER_WORDS] = std::array::from_fn(|index| self.words.load(index));
        let bytes = |words: usize| words as u64 * WORD_BYTES as u64;
        Header::read(&words).filter(|header| {
            u64::from(header.mode) == self.mode.encoded()
                && header.total_bytes == bytes(self.division.total)
                && header.durable_bytes == bytes(self.division.durable)
                && header.rolling_bytes == bytes(self.division.rolling)
        })
    }

    /// The largest share of the durable part in use at any save, from 0 to 1.
    #[must_use]
    pub fn durable_used(&self) -> f64 {
        self.durable_peak as f64 / self.division.durable.max(1) as f64
    }

    /// Copies the records that `request` requests to be saved. `admit` gets each record,
    /// may change its words, and returns whether to keep it.
    ///
    /// # Errors
    ///
    /// Returns an error when the request or the header is impossible: the other side violates the protocol. In that case, nothing counts as
    /// saved.
    pub fn save(
        &mut self,
        request: Packet,
        admit: &mut dyn FnMut(&mut [u64]) -> bool,
    ) -> Result<Piece, RemoteError> {
        if self.mode != Mode::Streaming {
            return Err(RemoteError::NotStreaming);
        }
        if request.data32 != self.next {
            return Err(RemoteError::OutOfOrder { asked: request.data32, expected: self.next });
        }
        let durable_end = self.durable_end(request.data64)?;
        let header = self.header().ok_or(RemoteError::NoHeader)?;
        // The buffer is final: an end of zero means that it is empty.
        let part = part_of(request.data32);
        let lap = match header.rolling_end[part] {
            0 => Vec::new(),
            _ => self.copy(self.lap(&header, part)?),
        };
        let durable = self.copy_durable(self.durable_saved..durable_end);
        self.words.let_go();
        let (wrapped, laps, tally) = (request.data32, vec![lap], Tally::default());
        let copies = Copies { wrapped, durable_end, durable, laps, tally, held: false };
        Ok(self.take(&copies, admit))
    }

    /// Copies records that are committed but not saved, when no request for them will come: the other process has declared its buffer
    /// final, or has exited.
    ///
    /// # Errors
    ///
    /// Returns an error when the header is impossible.
    pub fn rest(
        &mut self,
        admit: &mut dyn FnMut(&mut [u64]) -> bool,
    ) -> Result<Piece, RemoteError> {
        let copies = self.present()?;
        self.words.let_go();
        Ok(self.take(&copies, admit))
    }

    /// Copies records that are committed but not saved, without marking them as saved: for a snapshot of a running recording. A view always
    /// includes circular buffers, however fast they are reused: after a few attempts, writers are held until the buffers are copied;
    /// meanwhile they drop and count records without room ([`Piece::held`]).
    ///
    /// # Errors
    ///
    /// Returns an error when the header is impossible.
    pub fn view(&self, admit: &mut dyn FnMut(&mut [u64]) -> bool) -> Result<Piece, RemoteError> {
        let copies = self.present()?;
        self.words.let_go();
        Ok(copies_admitted(&copies, admit))
    }

    /// Whether the lap with this wrapped count comes after all saved ones.
    /// Counts wrap around, so half of all values precede any given count.
    fn is_unsaved(&self, wrapped: u32) -> bool {
        wrapped.wrapping_sub(self.next) <= u32::MAX / 2
    }

    /// The durable end in words, if it is possible.
    fn durable_end(&self, bytes: u64) -> Result<u64, RemoteError> {
        let word = WORD_BYTES as u64;
        let capacity = self.division.durable as u64;
        let waiting = (bytes / word).checked_sub(self.durable_saved);
        match waiting {
            Some(waiting) if waiting <= capacity && bytes.is_multiple_of(word) => Ok(bytes / word),
            _ => Err(RemoteError::DurableEnd {
                end: bytes,
                saved: self.durable_saved * word,
                capacity: capacity * word,
            }),
        }
    }

    /// The span of a rolling buffer's data in memory: to the end in the header,
    /// or to the buffer's end while it is open.
    fn lap(&self, header: &Header, part: usize) -> Result<Range<usize>, RemoteError> {
        let capacity = self.division.rolling * WORD_BYTES;
        let (start, end) = (header.rolling_start[part], header.rolling_end[part]);
        let within = |bytes: u64| {
            let bytes = usize::try_from(bytes).ok()?;
            (bytes <= capacity && bytes.is_multiple_of(WORD_BYTES)).then_some(bytes / WORD_BYTES)
        };
        let end_word = if end == 0 { Some(self.division.rolling) } else { within(end) };
        match (within(start), end_word) {
            (Some(from), Some(to)) if from <= to => {
                let base = self.division.rolling_base(part);
                Ok(base + from..base + to)
            }
            _ => Err(RemoteError::RollingData { start, end, capacity: capacity as u64 }),
        }
    }

    fn copy(&self, indices: impl Iterator<Item = usize>) -> Vec<u64> {
        indices.map(|index| self.words.load(index)).collect()
    }

    /// These durable words, joined if they wrap around the ring's end.
    fn copy_durable(&self, words: Range<u64>) -> Vec<u64> {
        let base = self.division.durable_base();
        let size = self.division.durable as u64;
        // If the part has no words, the range is empty. It is less than the part's size, so it fits a usize.
        words.map(|count| self.words.load(base + (count % size) as usize)).collect()
    }

    /// Takes the records out of copies and counts them as saved.
    fn take(&mut self, copies: &Copies, admit: &mut dyn FnMut(&mut [u64]) -> bool) -> Piece {
        self.durable_peak = self.durable_peak.max(copies.durable_end - self.durable_saved);
        self.durable_saved = copies.durable_end;
        self.next = copies.wrapped.wrapping_add(1);
        copies_admitted(copies, admit)
    }
}

/// The records of copies that are finished and selected.
fn copies_admitted(copies: &Copies, admit: &mut dyn FnMut(&mut [u64]) -> bool) -> Piece {
    let mut piece = Piece { tally: copies.tally, held: copies.held, ..Piece::default() };
    admitted(&copies.durable, &mut piece.durable, &mut piece.tally, admit);
    for lap in &copies.laps {
        admitted(lap, &mut piece.rolling, &mut piece.tally, admit);
    }
    piece
}

/// Appends the records of a copy that are finished and selected.
fn admitted(
    copy: &[u64],
    into: &mut Vec<u64>,
    tally: &mut Tally,
    admit: &mut dyn FnMut(&mut [u64]) -> bool,
) {
    let mut found = Tally::default();
    let walked = finished_records(copy, |_, record| {
        let start = into.len();
        into.extend_from_slice(record);
        let metadata = header::TYPE.get(record[0]) == record_type::METADATA;
        if metadata || !admit(&mut into[start..]) {
            into.truncate(start);
            found.refused += 1;
        } else {
            found.records += 1;
        }
    });
    found.unfinished = walked.unfinished;
    found.cut_bytes = (walked.cut * WORD_BYTES) as u64;
    *tally += found;
}

/// The engine's own memory, as another process maps it.
#[cfg(any(loom, test))]
impl SharedWords for std::sync::Arc<super::Engine> {
    fn words(&self) -> usize {
        self.division.total
    }

    fn load(&self, index: usize) -> u64 {
        self.memory.cell(index).load(super::sync::Ordering::Acquire)
    }

    fn exchange(&self, index: usize, value: u64) {
        self.memory.cell(index).swap(value, super::sync::Ordering::AcqRel);
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
