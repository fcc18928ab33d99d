//! Log record: a message at a time ("Log record").

use super::{Record, checked_size};
use crate::error::EncodeError;
use crate::ids::{ThreadName, Ticks};
use crate::layout::{limits, log, record_type};
use crate::space::{Slot, stream_words};
use crate::text;

/// A message written to the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Log<'a> {
    /// When it was written.
    pub time: Ticks,
    /// The thread that wrote it.
    pub thread: ThreadName,
    /// The message: without a NUL, and at most 32 744 bytes, 16 less when the
    /// thread is inline.
    pub message: &'a str,
}

impl Record for Log<'_> {
    fn words(&self) -> Result<usize, EncodeError> {
        let bytes = self.message.len();
        if bytes > limits::MAX_LOG_MESSAGE_BYTES {
            return Err(EncodeError::LogMessageTooLong { bytes });
        }
        text::check_no_nul(self.message)?;
        checked_size(2 + self.thread.inline_words() + stream_words(bytes))
    }

    fn header(&self, words: usize) -> u64 {
        log::TYPE.put(record_type::LOG)
            | log::SIZE.put(words as u64)
            | log::LENGTH.put(self.message.len() as u64)
            | log::THREAD.put(self.thread.encoded())
    }

    fn body(&self, slot: &mut impl Slot) {
        slot.put(self.time.0);
        if let ThreadName::Inline { process, thread } = self.thread {
            slot.put(process.0);
            slot.put(thread.0);
        }
        slot.put_stream(self.message.as_bytes());
    }
}
