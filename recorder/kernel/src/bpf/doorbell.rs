//! The doorbell with which the programs wake the reader when a lane fills faster than it is read.
//!
//! Array maps cannot be polled, so there is also the smallest possible BPF ring buffer: a program adds eight bytes and lets the kernel wake
//! the polling thread. The contents are irrelevant.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use super::ring_buffer::RingBuffer;
use super::sys::BpfSys;
use crate::bell::Bell;
use crate::perf::page_size;

/// The doorbell of the programs.
#[derive(Debug)]
pub enum Doorbell {
    Ring(RingBuffer),
    /// From [`BpfSys::bell`].
    Played(Bell),
}

impl Doorbell {
    /// Creates a doorbell that may be rung several hundred times before it is answered.
    ///
    /// # Errors
    /// Errors of bpf(2) or mmap(2).
    pub fn new(sys: &dyn BpfSys) -> io::Result<Doorbell> {
        if let Some(bell) = sys.bell() {
            return Ok(Doorbell::Played(bell));
        }
        Doorbell::of_bytes(sys, page_size())
    }

    /// Creates a doorbell of this size, a power of two of at least a page. Each ring takes 16 of them.
    ///
    /// # Errors
    /// Errors of bpf(2) or mmap(2).
    pub fn of_bytes(sys: &dyn BpfSys, bytes: usize) -> io::Result<Doorbell> {
        RingBuffer::new(sys, bytes).map(Doorbell::Ring)
    }

    /// The map, for the programs; its descriptor becomes readable for poll(2) when the bell was rung.
    pub fn fd(&self) -> BorrowedFd<'_> {
        match self {
            Doorbell::Ring(ring) => ring.fd(),
            Doorbell::Played(bell) => bell.as_fd(),
        }
    }

    /// Silences it until the next ring.
    pub fn answer(&self) {
        match self {
            Doorbell::Ring(ring) => ring.skip(),
            Doorbell::Played(bell) => bell.answer(),
        }
    }
}
