//! Records that later ones rely on: the length of a tick, strings and threads
//! ("Initialization record", "String record", "Thread record").

use super::{Record, checked_size};
use crate::arg::StringRef;
use crate::error::EncodeError;
use crate::ids::{Koid, ThreadRef};
use crate::layout::{initialization, record_type, string, thread};
use crate::space::{Slot, stream_words};
use crate::text;

/// Sets the unit of the timestamps that follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Initialization {
    /// Ticks per second of the trace's clock; 1 000 000 000 for nanoseconds.
    pub ticks_per_second: u64,
}

impl Record for Initialization {
    fn words(&self) -> Result<usize, EncodeError> {
        if self.ticks_per_second == 0 {
            return Err(EncodeError::ZeroTicksPerSecond);
        }
        Ok(initialization::WORDS)
    }

    fn header(&self, words: usize) -> u64 {
        initialization::TYPE.put(record_type::INITIALIZATION)
            | initialization::SIZE.put(words as u64)
    }

    fn body(&self, slot: &mut impl Slot) {
        slot.put(self.ticks_per_second);
    }
}

/// Gives a string an index, which replaces the string that had the index before.
///
/// Empty content is accepted, since readers must accept it, though the empty
/// string ref makes it pointless.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StringRecord<'a> {
    /// The index, as the ref that other records will use.
    pub index: StringRef,
    /// The string: at most 32 000 bytes, without a NUL.
    pub content: &'a str,
}

impl Record for StringRecord<'_> {
    fn words(&self) -> Result<usize, EncodeError> {
        if self.index.index().is_none() {
            return Err(EncodeError::StringIndex { index: 0 });
        }
        text::check(self.content)?;
        checked_size(1 + stream_words(self.content.len()))
    }

    fn header(&self, words: usize) -> u64 {
        string::TYPE.put(record_type::STRING)
            | string::SIZE.put(words as u64)
            | string::INDEX.put(self.index.encoded())
            | string::LENGTH.put(self.content.len() as u64)
    }

    fn body(&self, slot: &mut impl Slot) {
        slot.put_stream(self.content.as_bytes());
    }
}

/// Gives a thread an index, which replaces the thread that had the index before.
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
