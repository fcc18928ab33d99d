//! Thread record: registers a thread in the thread table ("Thread record").

use super::Record;
use crate::error::EncodeError;
use crate::ids::{Koid, ThreadRef};
use crate::layout::{record_type, thread};
use crate::space::Slot;

/// Gives a thread an index, in place of whatever had that index before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ThreadRecord {
    /// The index, as the ref that other records will use.
    pub index: ThreadRef,
    /// The thread's process.
    pub process: Koid,
    /// The thread.
    pub thread: Koid,
}

impl Record for ThreadRecord {
    fn words(&self) -> Result<usize, EncodeError> {
        Ok(thread::WORDS)
    }

    fn header(&self, words: usize) -> u64 {
        thread::TYPE.put(record_type::THREAD)
            | thread::SIZE.put(words as u64)
            | thread::INDEX.put(u64::from(self.index.index()))
    }

    fn body(&self, slot: &mut impl Slot) {
        slot.put(self.process.0);
        slot.put(self.thread.0);
    }
}
