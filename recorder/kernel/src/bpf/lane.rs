//! A ring of records that one CPU fills and one reader empties, in memory that both map.
//!
//! ```text
//!   0        what the programs write: head, busy, lost, told, shown, nested, counts of events
//!   128      what the reader writes: tail, bell
//!   4096     the last name that the programs told, by the lower bits of the thread's id
//!   36864    records, a power of two of them
//! ```
//!
//! Head and tail count records and never go back. The tracepoints fire with
//! preemption off, so one CPU is never in two programs at once, with one
//! exception: a thread that wakes itself does so with interrupts on, and an
//! interrupt may wake somebody meanwhile. `busy` tells the second program,
//! which then leaves the ring alone and adds to `nested`. So nothing needs a
//! lock, nor an atomic operation but for publishing the head where the machine
//! reorders stores.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};

use super::record::{RECORD_BYTES, Record};
use super::sys::{BpfSys, MapKind, MapSpec};
use crate::sys::Mapping;

/// The places of a lane's parts, in bytes from its beginning.
pub mod at {
    #![allow(missing_docs, reason = "the fields of the accessors below say what they are")]
    pub const HEAD: i16 = 0;
    pub const BUSY: i16 = 8;
    pub const LOST: i16 = 16;
    pub const TOLD: i16 = 24;
    pub const SHOWN: i16 = 32;
    pub const NESTED: i16 = 40;
    /// One count for each of the four kinds of events.
    pub const FIRED: i16 = 64;
    pub const TAIL: i16 = 128;
    pub const BELL: i16 = 136;
    pub const NAMES: i16 = 4096;
    pub const RECORDS: usize = 36864;
}

/// How many names a lane remembers; a power of two.
pub const NAMES: usize = 1024;

/// Bytes of a remembered name: tid in eight bytes, name in sixteen, eight unused.
pub const NAME_BYTES: usize = 32;

/// Room that is kept: an event may bring two more records along, a name and a loss.
pub const SPARE: usize = 4;

/// The tracepoints whose events are counted, in the order of the counts.
pub const COUNTED: usize = 4;

/// How a lane is laid out, which all of a recording share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaneShape {
    /// How many records it has room for: a power of two.
    pub records: usize,
}

/// The bell is rung when this part of a lane is full ...
const BELL_PART: usize = 4;

/// ... or there are this many records, which still fit into the CPU's cache.
const BELL_RECORDS: usize = 16 * 1024;

impl LaneShape {
    /// The largest lane that takes not more than `bytes`, a power of two of at least 64 KiB.
    pub fn within(bytes: usize) -> LaneShape {
        // 24 bytes for each 32 leaves a quarter for what comes before the records.
        const LEAST: usize = 512;
        let room = bytes.saturating_sub(at::RECORDS) / RECORD_BYTES;
        LaneShape { records: 1 << room.max(LEAST).ilog2() }
    }

    /// How many bytes it takes.
    pub fn bytes(self) -> usize {
        at::RECORDS + self.records * RECORD_BYTES
    }

    /// After how many records the reader wants to be woken.
    pub fn bell_records(self) -> usize {
        (self.records / BELL_PART).min(BELL_RECORDS)
    }

    /// The map that holds one.
    pub fn map(self) -> MapSpec<'static> {
        MapSpec {
            kind: MapKind::Array,
            value_bytes: u32::try_from(self.bytes()).unwrap_or(u32::MAX),
            entries: 1,
            mapped: true,
            inner: None,
        }
    }
}

/// One CPU's lane, as its reader sees it.
#[derive(Debug)]
pub struct Lane {
    map: OwnedFd,
    mapping: Mapping,
    shape: LaneShape,
    tail: u64,
    head: u64,
}

/// Figures that the programs keep in a lane.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LaneCounts {
    /// Events by kind: switches, wake-ups, first wake-ups, wakings.
    pub fired: [u64; COUNTED],
    /// Those of them that found no room.
    pub lost: u64,
    /// The part of the lost that a record has told about.
    pub told: u64,
    /// Those that came while another was being written.
    pub nested: u64,
}

impl Lane {
    /// Makes a lane.
    ///
    /// # Errors
    /// What bpf(2) or mmap(2) returns.
    pub fn new(sys: &dyn BpfSys, shape: LaneShape) -> io::Result<Lane> {
        let map = sys.map_create(&shape.map())?;
        let mapping = Mapping::new(Some(map.as_fd()), shape.bytes())?;
        let lane = Lane { map, mapping, shape, tail: 0, head: 0 };
        lane.word(at::BELL).store(shape.bell_records() as u64, Ordering::Relaxed);
        Ok(lane)
    }

    /// The map, to be given to the programs.
    pub fn map(&self) -> BorrowedFd<'_> {
        self.map.as_fd()
    }

    fn word(&self, at: i16) -> &AtomicU64 {
        let at = at as usize;
        assert!(at.is_multiple_of(8) && at + 8 <= self.mapping.len());
        // SAFETY: the assertion keeps the aligned word inside the mapping, which lives as long as self. Programs and
        // reader access these words only whole, and one of the two only reads each of them but BELL, where it does not
        // matter who wins.
        unsafe { AtomicU64::from_ptr(self.mapping.base().add(at).cast()) }
    }

    /// Looks for what the programs have added; how many records wait to be read.
    pub fn refresh(&mut self) -> u64 {
        // Acquire: the records below the head were written before it was.
        self.head = self.word(at::HEAD).load(Ordering::Acquire);
        self.head.wrapping_sub(self.tail)
    }

    /// The next record below the head that [`Lane::refresh`] saw: `None` when there is none, `Some(None)` for one that
    /// cannot be true.
    #[inline]
    pub fn next_record(&mut self) -> Option<Option<Record>> {
        if self.tail == self.head {
            return None;
        }
        let slot = self.tail as usize & (self.shape.records - 1);
        let at = at::RECORDS + slot * RECORD_BYTES;
        // SAFETY: `slot` is below the number of records, so the range is inside of the mapping, whose length is that of
        // the shape. The programs do not write to records between tail and head, and the tail that they see moves on
        // only in `release`.
        let bytes = unsafe { &*self.mapping.base().add(at).cast::<[u8; RECORD_BYTES]>() };
        let record = Record::parse(bytes);
        self.tail += 1;
        Some(record)
    }

    /// Gives the room of everything read so far back to the programs.
    pub fn release(&mut self) {
        // Release: the records have been read before the programs may write there again.
        self.word(at::TAIL).store(self.tail, Ordering::Release);
        let bell = self.tail + self.shape.bell_records() as u64;
        self.word(at::BELL).store(bell, Ordering::Relaxed);
    }

    /// Bytes of the lane.
    pub fn bytes(&self) -> usize {
        self.shape.bytes()
    }

    /// The figures so far. They are exact when the programs no longer run.
    pub fn counts(&self) -> LaneCounts {
        let word = |at| self.word(at).load(Ordering::Relaxed);
        let mut fired = [0; COUNTED];
        for (fired, at) in fired.iter_mut().zip((at::FIRED..).step_by(8)) {
            *fired = word(at);
        }
        LaneCounts { fired, lost: word(at::LOST), told: word(at::TOLD), nested: word(at::NESTED) }
    }
}
