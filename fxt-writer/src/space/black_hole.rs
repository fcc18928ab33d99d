//! A space that discards records, for measuring the cost of encoding alone.

use std::convert::Infallible;
use std::hint::black_box;

use super::{Slot, Space};

/// Discards every record, counting records and words.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BlackHole {
    records: u64,
    words: u64,
}

impl BlackHole {
    /// Records that were finished.
    #[must_use]
    pub const fn records(&self) -> u64 {
        self.records
    }

    /// Words of the records that were finished.
    #[must_use]
    pub const fn words(&self) -> u64 {
        self.words
    }
}

impl Space for BlackHole {
    type Full = Infallible;
    type Slot<'a> = BlackHoleSlot<'a>;

    #[inline]
    fn reserve(&mut self, words: usize) -> Result<BlackHoleSlot<'_>, Infallible> {
        Ok(BlackHoleSlot { hole: self, reserved: words, put: 1 })
    }
}

/// Room for a record that will be discarded.
#[derive(Debug)]
pub struct BlackHoleSlot<'a> {
    hole: &'a mut BlackHole,
    reserved: usize,
    put: usize,
}

impl Slot for BlackHoleSlot<'_> {
    #[inline]
    fn put(&mut self, word: u64) {
        black_box(word);
        self.put += 1;
    }

    #[inline]
    fn finish(self, header: u64) {
        black_box(header);
        if self.put == self.reserved {
            self.hole.records += 1;
            self.hole.words += self.reserved as u64;
        }
    }
}
