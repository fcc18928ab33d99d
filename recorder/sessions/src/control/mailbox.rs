//! What waits for a client that watches: alerts, or changes of the state.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Mutex, PoisonError};

use fxtrec_kernel::bell::Bell;

/// What may wait; a client that does not take it gets no more than this.
const CAPACITY: usize = 4096;

/// A queue with a bell: its descriptor is readable when there may be something in it.
#[derive(Debug)]
pub(super) struct Mailbox<T> {
    letters: Mutex<VecDeque<T>>,
    bell: Bell,
}

impl<T> Mailbox<T> {
    /// An empty one.
    ///
    /// # Errors
    /// What eventfd(2) returns.
    pub(super) fn new() -> io::Result<Mailbox<T>> {
        Ok(Mailbox { letters: Mutex::new(VecDeque::new()), bell: Bell::new()? })
    }

    /// Appends something; drops it where too much waits already.
    pub(super) fn put(&self, letter: T) {
        let mut letters = self.letters.lock().unwrap_or_else(PoisonError::into_inner);
        if letters.len() < CAPACITY {
            letters.push_back(letter);
        }
        self.bell.ring();
    }

    /// The oldest.
    pub(super) fn take(&self) -> Option<T> {
        let mut letters = self.letters.lock().unwrap_or_else(PoisonError::into_inner);
        if letters.len() <= 1 {
            self.bell.answer();
        }
        letters.pop_front()
    }
}

impl<T> AsFd for Mailbox<T> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.bell.as_fd()
    }
}
