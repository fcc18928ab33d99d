//! Where the next record goes: the count of buffer switches and the offset in
//! the current rolling buffer, in one word so that both change at once.

use crate::layout::Field;

/// Offset in the current rolling buffer, in words.
const OFFSET: Field = Field::new(0, 30);
/// Set while no records are accepted.
const CLOSED: Field = Field::new(31, 31);
/// How many times writing switched from one rolling buffer to the other.
const WRAPPED: Field = Field::new(32, 63);

/// The maximum number of words a rolling buffer can have.
pub(super) const MAX_ROLLING_WORDS: usize = 1 << 30;

/// The position word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Position(pub(super) u64);

impl Position {
    /// A position that writing never reaches: closed, and beyond every buffer.
    pub(super) const NOWHERE: Self = Self(u64::MAX);

    pub(super) fn new(wrapped: u32, offset: usize) -> Self {
        Self(WRAPPED.put(u64::from(wrapped)) | OFFSET.put(offset as u64))
    }

    #[inline]
    pub(super) fn wrapped(self) -> u32 {
        (WRAPPED.get(self.0) & u64::from(u32::MAX)) as u32
    }

    /// Which of the two rolling buffers is written.
    #[inline]
    pub(super) fn part(self) -> usize {
        part_of(self.wrapped())
    }

    #[inline]
    pub(super) fn offset(self) -> usize {
        OFFSET.get(self.0) as usize
    }

    pub(super) fn closed(self) -> Self {
        Self(CLOSED.set(self.0, 1))
    }

    /// The offset; while closed, a number beyond every buffer.
    #[inline]
    pub(super) fn open_offset(self) -> usize {
        (OFFSET.get(self.0) | CLOSED.mask() & self.0) as usize
    }

    /// The position after `words` more words.
    #[inline]
    pub(super) fn advanced(self, words: usize) -> Self {
        Self(self.0 + OFFSET.put(words as u64))
    }

    /// The position before the last `words` words, which must not reach back
    /// before the buffer's start.
    pub(super) fn retreated(self, words: usize) -> Self {
        Self(self.0 - OFFSET.put(words as u64))
    }
}

/// The rolling buffer that is written at this wrapped count.
#[inline]
pub(super) fn part_of(wrapped: u32) -> usize {
    usize::from(wrapped % 2 == 1)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_closed_position_is_out_of_reach_and_keeps_its_offset() {
        let position = Position::new(3, 17).closed();
        assert_eq!(position.offset(), 17);
        assert!(position.open_offset() > MAX_ROLLING_WORDS);
    }

    #[test]
    fn the_wrapped_count_alternates_between_the_buffers() {
        assert_eq!(Position::new(u32::MAX, 0).part(), 1);
        assert_eq!(Position::new(u32::MAX.wrapping_add(1), 0).part(), 0);
    }
}
