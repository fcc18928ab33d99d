//! A BPF ring buffer, as the kernel lays it out for mapping.
//!
//! ```text
//!   page 0     position of the reader, which writes it
//!   page 1     position of the programs
//!   then       the data, mapped twice in a row, so that every record is in one piece
//! ```
//!
//! A record begins with its length in four bytes, whose upper two bits mark it as being written or as discarded, and four more bytes for
//! the kernel. Its end is padded to eight bytes.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

use super::sys::{BpfSys, MapSpec};
use crate::perf::page_size;
use crate::sys::Mapping;

const BUSY: u32 = 1 << 31;
const DISCARDED: u32 = 1 << 30;
const HEADER_BYTES: usize = 8;

#[derive(Debug)]
pub struct RingBuffer {
    map: OwnedFd,
    consumer: Mapping,
    /// The programs' position, followed by the data twice; read-only.
    producer: Mapping,
    bytes: usize,
    page: usize,
}

impl RingBuffer {
    /// A ring of `bytes`, a power of two of at least a page.
    ///
    /// # Errors
    /// Errors of bpf(2) or mmap(2).
    pub(super) fn new(sys: &dyn BpfSys, bytes: usize) -> io::Result<RingBuffer> {
        let page = page_size();
        let bytes = bytes.next_power_of_two().max(page);
        let map = sys.map_create(&MapSpec::ring(bytes))?;
        let consumer = Mapping::new(Some(map.as_fd()), page)?;
        let producer = Mapping::of_part(map.as_fd(), page, page + 2 * bytes)?;
        Ok(RingBuffer { map, consumer, producer, bytes, page })
    }

    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.map.as_fd()
    }

    /// The positions of the programs and of the reader.
    fn positions(&self) -> (u64, &AtomicU64) {
        // SAFETY: the second page begins with the programs' position, an aligned u64 that the kernel writes atomically;
        // the mapping lives as long as self and is only read.
        let end = unsafe { AtomicU64::from_ptr(self.producer.base().cast()) };
        // SAFETY: the first page begins with the reader's position, which only this reader writes.
        let position = unsafe { AtomicU64::from_ptr(self.consumer.base().cast()) };
        // On read-only memory std permits relaxed loads only; the fence makes this one an acquire.
        let end = end.load(Ordering::Relaxed);
        fence(Ordering::Acquire);
        (end, position)
    }

    /// Frees space without reading the contents.
    pub(super) fn skip(&self) {
        let (end, position) = self.positions();
        position.store(end, Ordering::Release);
    }

    /// Passes the records to `take`, the oldest first, and frees their space.
    pub(super) fn read(&mut self, mut take: impl FnMut(&[u8])) {
        let (end, position) = self.positions();
        let mut at = position.load(Ordering::Relaxed);
        while at < end {
            // The size is a power of two, so this is less than it.
            let offset = (at as usize) & (self.bytes - 1);
            // SAFETY: `offset` is below `bytes` and a multiple of eight, since the reader moves on by multiples of eight;
            // so the header is within the first of the two mappings of the data, after the page of the position.
            let header = unsafe { self.producer.base().add(self.page + offset) };
            // SAFETY: as above; the length is an aligned u32 that the kernel writes atomically.
            let length = unsafe { AtomicU32::from_ptr(header.cast()) }.load(Ordering::Relaxed);
            fence(Ordering::Acquire);
            if length & BUSY != 0 {
                break;
            }
            let size = (length & !DISCARDED) as usize;
            // The kernel does not write longer records; a wrong length would shift everything after it.
            if size > self.bytes - HEADER_BYTES {
                at = end;
                break;
            }
            if length & DISCARDED == 0 {
                // SAFETY: header and sample are at most `bytes` long, and begin below `bytes`, so they end within the
                // second mapping of the data. The kernel does not write there until the reader's position is past it.
                let sample = unsafe { std::slice::from_raw_parts(header.add(HEADER_BYTES), size) };
                take(sample);
            }
            at += (HEADER_BYTES + size).next_multiple_of(8) as u64;
        }
        position.store(at, Ordering::Release);
    }
}
