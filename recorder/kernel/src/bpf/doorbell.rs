//! What the programs wake the reader with, when a lane fills faster than it is read.
//!
//! Array maps cannot be waited for, so the smallest of BPF's own ring buffers
//! stands beside them: a program adds eight bytes and has the kernel wake
//! whoever polls. What is in it does not matter.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering, fence};

use super::sys::{BpfSys, MapKind, MapSpec};
use crate::bell::Bell;
use crate::perf::page_size;
use crate::sys::Mapping;

/// What the programs ring.
#[derive(Debug)]
pub enum Doorbell {
    /// A ring buffer and its two positions.
    Ring {
        map: OwnedFd,
        consumer: Mapping,
        /// The programs' position, which may only be read.
        producer: Mapping,
    },
    /// What [`BpfSys::bell`] gave.
    Played(Bell),
}

impl Doorbell {
    /// Makes one that may be rung some hundred times before it is answered.
    ///
    /// # Errors
    /// What bpf(2) or mmap(2) returns.
    pub fn new(sys: &dyn BpfSys) -> io::Result<Doorbell> {
        if let Some(bell) = sys.bell() {
            return Ok(Doorbell::Played(bell));
        }
        Doorbell::of_bytes(sys, page_size())
    }

    /// Makes one with so many bytes, a power of two of at least a page, of which ringing it takes 16.
    ///
    /// # Errors
    /// What bpf(2) or mmap(2) returns.
    pub fn of_bytes(sys: &dyn BpfSys, bytes: usize) -> io::Result<Doorbell> {
        let page = page_size();
        let map = sys.map_create(&MapSpec {
            kind: MapKind::RingBuffer,
            value_bytes: 0,
            entries: u32::try_from(bytes.max(page)).map_err(io::Error::other)?,
            mapped: false,
            inner: None,
        })?;
        let consumer = Mapping::new(Some(map.as_fd()), page)?;
        let producer = Mapping::of_part(map.as_fd(), page, page)?;
        Ok(Doorbell::Ring { map, consumer, producer })
    }

    /// The map, for the programs, and the descriptor that poll(2) reports readable when the bell has been rung.
    pub fn fd(&self) -> BorrowedFd<'_> {
        match self {
            Doorbell::Ring { map, .. } => map.as_fd(),
            Doorbell::Played(bell) => bell.as_fd(),
        }
    }

    /// Makes it silent until it is rung again.
    pub fn answer(&self) {
        let (consumer, producer) = match self {
            Doorbell::Ring { consumer, producer, .. } => (consumer, producer),
            Doorbell::Played(bell) => return bell.answer(),
        };
        // SAFETY: a ring buffer's second page begins with the producer's position, an aligned u64 that the kernel
        // writes atomically; the mapping lives as long as self and is only read.
        let producer = unsafe { AtomicU64::from_ptr(producer.base().cast()) };
        // SAFETY: its first page begins with the consumer's position, which only this reader writes.
        let consumer = unsafe { AtomicU64::from_ptr(consumer.base().cast()) };
        // On read-only memory std permits relaxed loads only; the fence makes this one an acquire.
        let rung = producer.load(Ordering::Relaxed);
        fence(Ordering::Acquire);
        consumer.store(rung, Ordering::Release);
    }
}
