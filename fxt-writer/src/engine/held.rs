//! The state of a [`Lease`](super::Lease) that its thread and the engine share. [`lease`](super::lease) describes how the
//! two synchronize.

use super::sync::{AtomicBool, AtomicUsize, Ordering};

/// The state of a lease that its thread and the engine share. Only the thread
/// that holds it stores to the first two fields.
#[derive(Debug)]
#[repr(align(128))]
pub(super) struct Held {
    /// Whether the thread is writing a record.
    pub(super) busy: AtomicBool,
    /// The first vacant word in the engine's memory.
    pub(super) at: AtomicUsize,
    /// Whether there is no space to write to, or the engine is reclaiming it. Stored under the lock, as are the fields below.
    pub(super) wanted: AtomicBool,
    /// Whether it was reclaimed.
    pub(super) closed: AtomicBool,
    /// First word in the engine's memory, and the word after the last.
    pub(super) start: AtomicUsize,
    pub(super) end: AtomicUsize,
    pub(super) counter: AtomicUsize,
    /// The word from which on records were abandoned without being counted.
    pub(super) missed: AtomicUsize,
}

impl Held {
    pub(super) fn new() -> Self {
        Self {
            busy: AtomicBool::new(false),
            at: AtomicUsize::new(0),
            wanted: AtomicBool::new(true),
            closed: AtomicBool::new(true),
            start: AtomicUsize::new(0),
            end: AtomicUsize::new(0),
            counter: AtomicUsize::new(0),
            missed: AtomicUsize::new(usize::MAX),
        }
    }

    /// Abandons the records that are being written from word `at` on. Its thread counts it,
    /// since only the thread knows whether it is a record.
    pub(super) fn miss_from(&self, at: usize) {
        self.missed.store(at, Ordering::Relaxed);
    }

    pub(super) fn is_open(&self) -> bool {
        !self.closed.load(Ordering::Relaxed)
    }
}
