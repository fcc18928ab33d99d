//! Initialization record: how long a tick is ("Initialization record").

use super::Record;
use crate::error::EncodeError;
use crate::layout::{initialization, record_type};
use crate::space::Slot;

/// Tells readers the unit of the timestamps that follow.
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
