//! The words at the start of the engine's memory, which describe its layout to
//! another process or to recovery after a crash.
//!
//! ```text
//! word  0  magic
//!       1  version [0 .. 15], mode [16 .. 23], wrapped count [32 .. 63]
//!       2  total size, bytes
//!       3  durable part, bytes
//!       4  one rolling buffer, bytes
//!       5  durable data end, bytes since the start (monotonic)
//!       6  rolling data end of buffer 0, bytes; zero while it is open or empty
//!       7  rolling data end of buffer 1
//!       8  records dropped
//!       9  durable data saved, bytes since the start (monotonic)
//!      10  rolling data start of buffer 0, bytes
//!      11  rolling data start of buffer 1
//!      12  not zero while the reader of another process holds writers (circular mode)
//!   13-15  zero
//! ```
//!
//! A rolling buffer whose data starts at its very end has no data, whatever the
//! memory holds: it is being cleared.
//!
//! Word 12 is the only word that another process may write. While it is not zero, writers fill the open buffer to its end and reuse no
//! buffer after that.
//!
//! Words 0 to 8 follow Fuchsia's trace engine; words 9 to 12 are additions, hence the different version.

use super::config::{HEADER_WORDS, Mode};
use super::memory::Memory;
use super::sync::{Ordering, fence};
use crate::layout::Field;
use crate::layout::limits::WORD_BYTES;

/// The first word of the memory: the bytes "FxTrBuf1" in machine order.
pub const MAGIC: u64 = u64::from_ne_bytes(*b"FxTrBuf1");
/// Version of the header's layout.
pub const VERSION: u16 = 1;

const VERSION_FIELD: Field = Field::new(0, 15);
const MODE: Field = Field::new(16, 23);
const WRAPPED: Field = Field::new(32, 63);

const IDENTITY: usize = 1;
const DURABLE_END: usize = 5;
const ROLLING_END: [usize; 2] = [6, 7];
const DROPPED: usize = 8;
const DURABLE_SAVED: usize = 9;
const ROLLING_START: [usize; 2] = [10, 11];
/// The word with which another process [holds](super::SharedWords::exchange) writers.
pub(super) const HELD: usize = 12;

/// The content of the header at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Version of the header's layout, [`VERSION`].
    pub version: u16,
    /// The buffering mode: 0 oneshot, 1 circular, 2 streaming.
    pub mode: u8,
    /// How many times writing switched from one rolling buffer to the other.
    pub wrapped_count: u32,
    /// The whole memory, in bytes.
    pub total_bytes: u64,
    /// The durable part, in bytes.
    pub durable_bytes: u64,
    /// One rolling buffer, in bytes.
    pub rolling_bytes: u64,
    /// End of the durable data, in bytes since the start; modulo `durable_bytes` it is an offset in the durable part.
    pub durable_end: u64,
    /// End of the saved durable data, in bytes since the start.
    pub durable_saved: u64,
    /// Start of the data in each rolling buffer, in bytes.
    pub rolling_start: [u64; 2],
    /// End of the data in each rolling buffer, in bytes; zero while the buffer
    /// is open or empty.
    pub rolling_end: [u64; 2],
    /// Records dropped.
    pub dropped: u64,
}

impl Header {
    /// The header at the start of an engine's memory, or `None` if there is no
    /// header of this version.
    #[must_use]
    pub fn read(words: &[u64; HEADER_WORDS]) -> Option<Self> {
        let identity = words[IDENTITY];
        let version = u16::try_from(VERSION_FIELD.get(identity)).ok()?;
        if words[0] != MAGIC || version != VERSION {
            return None;
        }
        Some(Self {
            version,
            mode: u8::try_from(MODE.get(identity)).ok()?,
            wrapped_count: u32::try_from(WRAPPED.get(identity)).ok()?,
            total_bytes: words[2],
            durable_bytes: words[3],
            rolling_bytes: words[4],
            durable_end: words[DURABLE_END],
            durable_saved: words[DURABLE_SAVED],
            rolling_start: ROLLING_START.map(|index| words[index]),
            rolling_end: ROLLING_END.map(|index| words[index]),
            dropped: words[DROPPED],
        })
    }
}

/// Writes the engine's own header; all stores but the last are made under the
/// engine's lock.
#[derive(Clone, Copy, Debug)]
pub(super) struct HeaderWords<'a>(pub(super) &'a Memory);

impl HeaderWords<'_> {
    fn store(self, index: usize, value: u64) {
        // Release: the data is visible before the header that describes it.
        self.0.cell(index).store(value, Ordering::Release);
    }

    pub(super) fn describe(self, mode: Mode, total: usize, durable: usize, rolling: usize) {
        self.store(2, bytes(total));
        self.store(3, bytes(durable));
        self.store(4, bytes(rolling));
        self.wrapped(mode, 0);
        self.store(0, MAGIC);
    }

    pub(super) fn wrapped(self, mode: Mode, count: u32) {
        self.store(
            IDENTITY,
            VERSION_FIELD.put(u64::from(VERSION))
                | MODE.put(mode.encoded())
                | WRAPPED.put(u64::from(count)),
        );
    }

    pub(super) fn rolling_data(self, part: usize, start: usize, end: usize) {
        // In this order, no reader sees an end that precedes its start.
        self.store(ROLLING_END[part], bytes(end));
        self.store(ROLLING_START[part], bytes(start));
    }

    /// Marks a rolling buffer of `words` words as without data, though its memory
    /// has some: otherwise a reader in the middle of the clearing could take the
    /// rest of a record for a record.
    pub(super) fn rolling_cleared(self, part: usize, words: usize) {
        self.rolling_data(part, words, words);
        // This comes before the clearing itself, for concurrent readers.
        fence(Ordering::Release);
    }

    pub(super) fn durable_data(self, saved: u64, end: u64) {
        self.store(DURABLE_SAVED, saved * WORD_BYTES as u64);
        self.store(DURABLE_END, end * WORD_BYTES as u64);
    }

    /// Counts dropped records; also called without the lock.
    pub(super) fn drop_records(self, count: u64) {
        // Relaxed: a counter, which orders nothing. Saturating, since a total that
        // wraps to zero would hide a loss.
        let cell = self.0.cell(DROPPED);
        let mut dropped = cell.load(Ordering::Relaxed);
        while let Err(now) = cell.compare_exchange_weak(
            dropped,
            dropped.saturating_add(count),
            Ordering::Relaxed,
            Ordering::Relaxed,
        ) {
            dropped = now;
        }
    }

    pub(super) fn dropped(self) -> u64 {
        self.0.cell(DROPPED).load(Ordering::Relaxed)
    }

    /// Whether another process is copying the buffers, so that writers must not reuse any.
    pub(super) fn is_held(self) -> bool {
        // AcqRel: writers overwrite the data that the other process has read only after that process has released them. An addition of 0
        // instead of a load: if the other process holds writers after this, it sees what they did before.
        self.0.cell(HELD).fetch_add(0, Ordering::AcqRel) != 0
    }

    pub(super) fn snapshot(self) -> Option<Header> {
        let words = std::array::from_fn(|index| self.0.cell(index).load(Ordering::Acquire));
        Header::read(&words)
    }
}

fn bytes(words: usize) -> u64 {
    words as u64 * WORD_BYTES as u64
}
