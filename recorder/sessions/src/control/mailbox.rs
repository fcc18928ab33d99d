//! A queue for a client that watches alerts or changes of the state.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Mutex, PoisonError};

use fxtrec_kernel::bell::Bell;

/// The capacity of the queue; a client that does not read gets no more than this.
const CAPACITY: usize = 4096;

/// A queue with a descriptor that becomes readable when the queue may contain something.
#[derive(Debug)]
pub(super) struct Mailbox<T> {
    letters: Mutex<VecDeque<T>>,
    bell: Bell,
}

impl<T> Mailbox<T> {
    /// An empty one.
    ///
    /// # Errors
    /// Errors of eventfd(2).
    pub(super) fn new() -> io::Result<Mailbox<T>> {
        Ok(Mailbox { letters: Mutex::new(VecDeque::new()), bell: Bell::new()? })
    }

    /// Appends an item; drops it if the queue is full.
    pub(super) fn put(&self, letter: T) {
        let mut letters = self.letters.lock().unwrap_or_else(PoisonError::into_inner);
        if letters.len() < CAPACITY {
            letters.push_back(letter);
        }
        self.bell.ring();
    }

    /// Takes the oldest item.
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
