//! Reads one CPU's perf ring in place.
//!
//! The kernel appends records at `data_head`; the reader owns everything from `data_tail` up to the head it last saw, until it advances the
//! tail.
//!
//! ```text
//!   data      ................####################..........
//!                             ^tail      ^cursor  ^head
//!             free: the kernel  | read,   | to read | free
//!             may write here      held      yet
//! ```
//!
//! [`Ring::refresh`] looks for a new head, [`Ring::next_record`] lends one record after the other, [`Ring::release`] returns the space of
//! everything read to the kernel, and [`Ring::rewind`] instead starts over at the first unreleased record.

use std::sync::atomic::{AtomicU64, Ordering};

use perf_event_open_sys::bindings::perf_event_mmap_page;

use super::sys::Mapping;

/// Bytes of `struct perf_event_header`: type, misc, size.
const HEADER_BYTES: usize = 8;

/// One record of a ring, borrowed from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RawRecord<'a> {
    /// `PERF_RECORD_*`.
    pub kind: u32,
    /// `PERF_RECORD_MISC_*` bits.
    pub misc: u16,
    pub body: &'a [u8],
}

#[derive(Debug)]
pub struct Ring {
    mapping: Mapping,
    data_offset: usize,
    /// Bytes in the data area, a power of two.
    size: usize,
    head: u64,
    cursor: u64,
    tail: u64,
    wrapped: Vec<u8>,
    garbled: u64,
}

/// The mapping is not a perf ring: its data area does not fit, or its size is not a power of two.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the perf ring's data area (offset {offset}, {size} bytes) is outside its mapping")]
pub struct BadRing {
    offset: u64,
    size: u64,
}

impl Ring {
    /// Takes ownership of the mapping of a perf event's ring: one page of control data, then the data area.
    ///
    /// # Errors
    /// Returns [`BadRing`] when the control page describes no data area inside the mapping.
    pub fn new(mapping: Mapping) -> Result<Ring, BadRing> {
        let page = mapping.base().cast::<perf_event_mmap_page>();
        // SAFETY: a perf mapping begins with the control page, which is larger than this structure and page aligned;
        // the kernel sets the two fields before mmap returns and never changes them.
        let (offset, size) = unsafe { ((*page).data_offset, (*page).data_size) };
        let end = offset.checked_add(size).filter(|&end| end <= mapping.len() as u64);
        if end.is_none() || !size.is_power_of_two() || size < HEADER_BYTES as u64 {
            return Err(BadRing { offset, size });
        }
        let mut ring = Ring {
            data_offset: offset as usize,
            size: size as usize,
            mapping,
            head: 0,
            cursor: 0,
            tail: 0,
            wrapped: Vec::with_capacity(usize::from(u16::MAX)),
            garbled: 0,
        };
        ring.tail = ring.shared_tail().load(Ordering::Relaxed);
        ring.cursor = ring.tail;
        ring.head = ring.tail;
        Ok(ring)
    }

    fn shared_head(&self) -> &AtomicU64 {
        let page = self.mapping.base().cast::<perf_event_mmap_page>();
        // SAFETY: the field is an aligned u64 inside the mapping, which lives as long as self; kernel and reader only
        // access it atomically.
        unsafe { AtomicU64::from_ptr(&raw mut (*page).data_head) }
    }

    fn shared_tail(&self) -> &AtomicU64 {
        let page = self.mapping.base().cast::<perf_event_mmap_page>();
        // SAFETY: as for data_head.
        unsafe { AtomicU64::from_ptr(&raw mut (*page).data_tail) }
    }

    /// Checks for new data from the kernel and returns the number of bytes that wait to be read.
    pub fn refresh(&mut self) -> u64 {
        // Acquire: the bytes below the head were written before the kernel published it.
        self.head = self.shared_head().load(Ordering::Acquire);
        self.head.wrapping_sub(self.cursor)
    }

    /// The next record below the head that [`Ring::refresh`] saw.
    ///
    /// An invalid header makes the rest up to the head unreadable; the rest is skipped and counted in [`Ring::garbled`].
    #[inline(always)]
    pub fn next_record(&mut self) -> Option<RawRecord<'_>> {
        let waiting = self.head.wrapping_sub(self.cursor) as usize;
        if waiting < HEADER_BYTES {
            return None;
        }
        let at = self.cursor as usize & (self.size - 1);
        // Records are multiples of eight bytes and so is the area: a header never wraps.
        let header = self.bytes(at, HEADER_BYTES);
        let kind = u32::from_ne_bytes([header[0], header[1], header[2], header[3]]);
        let misc = u16::from_ne_bytes([header[4], header[5]]);
        let len = usize::from(u16::from_ne_bytes([header[6], header[7]]));
        if len < HEADER_BYTES || len > waiting || !len.is_multiple_of(8) {
            self.garbled += 1;
            self.cursor = self.head;
            return None;
        }
        self.cursor += len as u64;
        let body = if at + len <= self.size {
            self.bytes(at + HEADER_BYTES, len - HEADER_BYTES)
        } else {
            self.unwrap_record(at, len)
        };
        Some(RawRecord { kind, misc, body })
    }

    /// Copies a record that crosses the end of the area into one piece.
    #[cold]
    fn unwrap_record(&mut self, at: usize, len: usize) -> &[u8] {
        let mut wrapped = std::mem::take(&mut self.wrapped);
        wrapped.clear();
        let first = self.size - at;
        wrapped.extend_from_slice(self.bytes(at, first));
        wrapped.extend_from_slice(self.bytes(0, len - first));
        self.wrapped = wrapped;
        &self.wrapped[HEADER_BYTES..]
    }

    #[inline(always)]
    fn bytes(&self, at: usize, len: usize) -> &[u8] {
        assert!(at + len <= self.size);
        // SAFETY: the assertion keeps the range inside the data area, which is inside the mapping (checked in `new`). Callers request only
        // bytes between tail and head, which the kernel does not write until `release` moves the tail, and that needs `&mut self`, so no
        // slice is alive then.
        unsafe { std::slice::from_raw_parts(self.mapping.base().add(self.data_offset + at), len) }
    }

    /// Returns the space of everything read so far to the kernel.
    pub fn release(&mut self) {
        if self.tail != self.cursor {
            self.tail = self.cursor;
            // Release: our reads of the bytes are done before the kernel may write there again.
            self.shared_tail().store(self.tail, Ordering::Release);
        }
    }

    /// Goes back to the first record that was not released.
    pub fn rewind(&mut self) {
        self.cursor = self.tail;
    }

    /// Bytes of the data area.
    pub fn size(&self) -> usize {
        self.size
    }

    /// How often a header was invalid, so that the data after it was skipped.
    pub fn garbled(&self) -> u64 {
        self.garbled
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A ring over plain memory, which the test fills instead of the kernel.
    struct FakeKernel {
        ring: Ring,
        head: u64,
    }

    const SIZE: usize = 4096;

    impl FakeKernel {
        fn new() -> FakeKernel {
            let mapping = Mapping::new(None, 4096 + SIZE).expect("anonymous memory");
            let page = mapping.base().cast::<perf_event_mmap_page>();
            // SAFETY: the mapping is zeroed, writable and as large as the structure.
            unsafe {
                (*page).data_offset = 4096;
                (*page).data_size = SIZE as u64;
            }
            FakeKernel { ring: Ring::new(mapping).expect("a valid ring"), head: 0 }
        }

        fn put(&mut self, bytes: &[u8]) {
            for byte in bytes {
                let at = 4096 + (self.head as usize & (SIZE - 1));
                // SAFETY: `at` is below the mapping's length and no slice of the ring is alive.
                unsafe { self.ring.mapping.base().add(at).write(*byte) };
                self.head += 1;
            }
            self.ring.shared_head().store(self.head, Ordering::Release);
        }

        fn put_record(&mut self, kind: u32, body: &[u8]) {
            let mut bytes = kind.to_ne_bytes().to_vec();
            bytes.extend(0u16.to_ne_bytes());
            bytes.extend(((body.len() + HEADER_BYTES) as u16).to_ne_bytes());
            bytes.extend(body);
            self.put(&bytes);
        }

        fn bodies(&mut self) -> Vec<Vec<u8>> {
            self.ring.refresh();
            let mut found = Vec::new();
            while let Some(record) = self.ring.next_record() {
                found.push(record.body.to_vec());
            }
            found
        }
    }

    #[test]
    fn records_come_out_as_they_went_in_across_many_wraps() {
        let mut kernel = FakeKernel::new();
        for round in 0..1000u64 {
            let body: Vec<u8> = (0..(round % 13) * 8).map(|i| (round + i) as u8).collect();
            kernel.put_record(9, &body);
            assert_eq!(kernel.bodies(), vec![body], "round {round}");
            kernel.ring.release();
            assert_eq!(kernel.ring.shared_tail().load(Ordering::Relaxed), kernel.head);
        }
        assert!(kernel.head > 10 * SIZE as u64);
        assert_eq!(kernel.ring.garbled(), 0);
    }

    #[test]
    fn what_was_read_but_not_released_can_be_read_again() {
        let mut kernel = FakeKernel::new();
        kernel.put_record(1, b"aaaaaaaa");
        kernel.put_record(2, b"bbbbbbbb");
        assert_eq!(kernel.bodies().len(), 2);
        assert_eq!(kernel.ring.shared_tail().load(Ordering::Relaxed), 0);
        kernel.ring.rewind();
        assert_eq!(kernel.bodies(), [b"aaaaaaaa".to_vec(), b"bbbbbbbb".to_vec()]);
    }

    #[test]
    fn a_header_that_cannot_be_true_is_skipped_and_counted() {
        for len in [0u16, 7, 12, 4096] {
            let mut kernel = FakeKernel::new();
            let mut bytes = vec![0; 6];
            bytes.extend(len.to_ne_bytes());
            kernel.put(&bytes);
            assert!(kernel.bodies().is_empty());
            assert_eq!(kernel.ring.garbled(), 1, "length {len}");
            kernel.put_record(3, b"cccccccc");
            assert_eq!(kernel.bodies(), [b"cccccccc".to_vec()], "what comes after is read again");
        }
    }

    #[test]
    fn a_data_area_outside_the_mapping_is_refused() {
        let mapping = Mapping::new(None, 8192).expect("anonymous memory");
        let page = mapping.base().cast::<perf_event_mmap_page>();
        // SAFETY: the mapping is zeroed, writable and as large as the structure.
        unsafe {
            (*page).data_offset = 4096;
            (*page).data_size = 8192;
        }
        assert_eq!(Ring::new(mapping).unwrap_err(), BadRing { offset: 4096, size: 8192 });
    }
}
