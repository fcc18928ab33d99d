//! What a thread that holds a [`Lease`](super::Lease) and the engine share of it. How the two keep out of each other's
//! way is told in [`lease`](super::lease).

use super::sync::{AtomicBool, AtomicUsize, Ordering};

/// What the thread and the engine share of a lease. Only the thread that holds it
/// stores to the first two.
#[derive(Debug)]
#[repr(align(128))]
pub(super) struct Held {
    /// Whether the thread is at a record.
    pub(super) busy: AtomicBool,
    /// The first vacant word in the engine's memory.
    pub(super) at: AtomicUsize,
    /// Whether there is nothing to write to, or shall not be. Stored under the lock,
    /// as are those below.
    pub(super) wanted: AtomicBool,
    /// Whether it was taken back.
    pub(super) closed: AtomicBool,
    /// First word in the engine's memory, and the one after the last.
    pub(super) start: AtomicUsize,
    pub(super) end: AtomicUsize,
    pub(super) counter: AtomicUsize,
    /// From which word on records were given up without being counted.
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

    /// Gives up what is being written from word `at` on, without counting it: that
    /// is left to its thread, which knows whether it is anything.
    pub(super) fn miss_from(&self, at: usize) {
        self.missed.store(at, Ordering::Relaxed);
    }

    pub(super) fn is_open(&self) -> bool {
        !self.closed.load(Ordering::Relaxed)
    }
}
