//! A buffer for several writers, each with its own tables.

use std::cell::{RefCell, RefMut};
use std::convert::Infallible;
use std::rc::Rc;

use fxt_format::limits::WORD_BYTES;
use fxt_writer::space::{Slot, Space};

/// Encoded records that are not written out yet.
#[derive(Clone, Debug, Default)]
pub(super) struct Shared(Rc<RefCell<Vec<u8>>>);

impl Shared {
    /// Removes and returns the written bytes.
    pub(super) fn take(&self) -> Vec<u8> {
        self.0.take()
    }
}

impl Space for Shared {
    type Full = Infallible;
    type Slot<'a> = SharedSlot<'a>;

    fn reserve(&mut self, words: usize) -> Result<SharedSlot<'_>, Infallible> {
        let mut bytes = self.0.borrow_mut();
        let start = bytes.len();
        bytes.extend_from_slice(&[0; WORD_BYTES]);
        Ok(SharedSlot { bytes, start, words, finished: false })
    }
}

#[derive(Debug)]
pub(super) struct SharedSlot<'a> {
    bytes: RefMut<'a, Vec<u8>>,
    start: usize,
    words: usize,
    finished: bool,
}

impl Slot for SharedSlot<'_> {
    fn put(&mut self, word: u64) {
        self.bytes.extend_from_slice(&word.to_ne_bytes());
    }

    fn finish(mut self, header: u64) {
        let start = self.start;
        if self.bytes.len() == start + self.words * WORD_BYTES {
            self.bytes[start..start + WORD_BYTES].copy_from_slice(&header.to_ne_bytes());
            self.finished = true;
        }
    }
}

impl Drop for SharedSlot<'_> {
    fn drop(&mut self) {
        if !self.finished {
            let start = self.start;
            self.bytes.truncate(start);
        }
    }
}
