//! Lanes that a test writes, without BPF: a kernel whose maps are memory, and the program's part of a lane.

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};

use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::unistd::ftruncate;

use super::lane::{CLOSED, Lane, LaneShape, RECORD_BYTES, RawRecord, at};
use super::sys::{BpfSys, MapSpec, ProgramSpec};
use crate::sys::Mapping;

/// A file in memory that replaces a map.
///
/// # Errors
/// Errors of memfd_create(2) or ftruncate(2).
pub fn map(spec: &MapSpec<'_>) -> io::Result<OwnedFd> {
    let map = memfd_create(c"map", MFdFlags::MFD_CLOEXEC)?;
    let bytes = u64::from(spec.value_bytes) * u64::from(spec.entries);
    ftruncate(&map, i64::try_from(bytes).map_err(io::Error::other)?)?;
    Ok(map)
}

/// Grants every map, but has no programs.
#[derive(Debug)]
struct Maps;

impl BpfSys for Maps {
    fn map_create(&self, spec: &MapSpec<'_>) -> io::Result<OwnedFd> {
        map(spec)
    }

    fn map_set_maps(&self, _: BorrowedFd<'_>, _: &[(u32, BorrowedFd<'_>)]) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn program_load(&self, _: &ProgramSpec<'_>, _: Option<&mut [u8]>) -> io::Result<OwnedFd> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn attach(&self, _: BorrowedFd<'_>) -> io::Result<OwnedFd> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn missed(&self, _: BorrowedFd<'_>) -> io::Result<u64> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

/// A closed lane of this many records, a power of two, and its other end.
///
/// # Errors
/// Errors of memfd_create(2), ftruncate(2) or mmap(2).
pub fn lane(records: usize) -> io::Result<(Lane, LaneEnd)> {
    let lane = Lane::new(&Maps, LaneShape { records })?;
    let mapping = Mapping::new(Some(lane.map()), lane.bytes())?;
    Ok((lane, LaneEnd { mapping, records }))
}

/// The end of a lane that programs write to.
#[derive(Debug)]
pub struct LaneEnd {
    mapping: Mapping,
    records: usize,
}

impl LaneEnd {
    fn word(&self, at: i16) -> &AtomicU64 {
        let at = at as usize;
        assert!(at.is_multiple_of(8) && at + 8 <= self.mapping.len());
        // SAFETY: the assertion ensures that the aligned word is inside the mapping, which lives as long as self. Both ends access these
        // words only as a whole.
        unsafe { AtomicU64::from_ptr(self.mapping.base().add(at).cast()) }
    }

    /// Writes records until the lane is full, and counts the rest as lost. Does nothing if the lane is closed. Returns how many were
    /// written.
    pub fn write(&self, records: impl IntoIterator<Item = RawRecord>) -> usize {
        if self.word(at::BUSY).load(Ordering::Relaxed) == u64::from(CLOSED.unsigned_abs()) {
            return 0;
        }
        let first = self.word(at::HEAD).load(Ordering::Relaxed);
        // Acquire: the reader has read the old records.
        let tail = self.word(at::TAIL).load(Ordering::Acquire);
        let (mut head, mut lost) = (first, self.word(at::LOST).load(Ordering::Relaxed));
        for record in records {
            if head - tail >= self.records as u64 {
                lost += 1;
                continue;
            }
            let slot = head as usize & (self.records - 1);
            let at = at::RECORDS + slot * RECORD_BYTES;
            // SAFETY: the slot is below the number of records, all of which are in the mapping. The reader does not read records from the
            // head on.
            unsafe {
                self.mapping.base().add(at).copy_from_nonoverlapping(record.as_ptr(), RECORD_BYTES);
            };
            head += 1;
        }
        self.word(at::LOST).store(lost, Ordering::Relaxed);
        // Release: the records precede the head.
        self.word(at::HEAD).store(head, Ordering::Release);
        (head - first) as usize
    }

    /// Makes the reader see that an event is being written, or not.
    pub fn set_busy(&self, busy: bool) {
        self.word(at::BUSY).store(u64::from(busy), Ordering::Release);
    }
}
