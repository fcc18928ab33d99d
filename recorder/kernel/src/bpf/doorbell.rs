//! What the programs wake the reader with, when a lane fills faster than it is read.
//!
//! Array maps cannot be waited for, so the smallest of BPF's own ring buffers
//! stands beside them: a program adds eight bytes and has the kernel wake
//! whoever polls. What is in it does not matter.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use super::ring_buffer::RingBuffer;
use super::sys::BpfSys;
use crate::bell::Bell;
use crate::perf::page_size;

/// What the programs ring.
#[derive(Debug)]
pub enum Doorbell {
    Ring(RingBuffer),
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
        RingBuffer::new(sys, bytes).map(Doorbell::Ring)
    }

    /// The map, for the programs, and the descriptor that poll(2) reports readable when the bell has been rung.
    pub fn fd(&self) -> BorrowedFd<'_> {
        match self {
            Doorbell::Ring(ring) => ring.fd(),
            Doorbell::Played(bell) => bell.as_fd(),
        }
    }

    /// Makes it silent until it is rung again.
    pub fn answer(&self) {
        match self {
            Doorbell::Ring(ring) => ring.skip(),
            Doorbell::Played(bell) => bell.answer(),
        }
    }
}
