//! Deviations from the specification that do not prevent a record from being read.

use std::fmt;

/// Deviations of a record from the specification that do not prevent it from being read.
///
/// Bits in one word, because this value is passed along with every word that is read.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct Oddities(u32);

impl Oddities {
    pub(crate) const RESERVED_BITS: Self = Self(1 << 0);
    pub(crate) const PADDING: Self = Self(1 << 1);
    pub(crate) const TRAILING_WORDS: Self = Self(1 << 2);
    /// The lowest bit of the count of unknown arguments; a record has at most 15 arguments.
    pub(crate) const UNKNOWN_ARGUMENT: Self = Self(1 << 3);

    /// Whether the record follows the specification.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// A reserved bit is set.
    #[must_use]
    pub const fn reserved_bits(self) -> bool {
        self.has(Self::RESERVED_BITS)
    }

    /// The padding of a stream is not zero.
    #[must_use]
    pub const fn padding(self) -> bool {
        self.has(Self::PADDING)
    }

    /// The record, or one of its arguments, is longer than its content. A later
    /// version of the format may have put something there.
    #[must_use]
    pub const fn trailing_words(self) -> bool {
        self.has(Self::TRAILING_WORDS)
    }

    /// The number of arguments of a type that this crate does not know.
    #[must_use]
    pub const fn unknown_arguments(self) -> u32 {
        self.0 / Self::UNKNOWN_ARGUMENT.0
    }

    const fn has(self, one: Self) -> bool {
        self.0 & one.0 != 0
    }

    /// Adds `one` if `found` is true.
    #[inline(always)]
    pub(crate) fn note(&mut self, one: Self, found: bool) {
        self.0 |= one.0 * u32::from(found);
    }

    /// Adds the oddities and counts of `part`.
    #[inline(always)]
    pub(crate) fn add(&mut self, part: Self) {
        let counts = (self.0 & !Self::FLAGS) + (part.0 & !Self::FLAGS);
        self.0 = ((self.0 | part.0) & Self::FLAGS) | counts;
    }

    const FLAGS: u32 = Self::UNKNOWN_ARGUMENT.0 - 1;
}

impl fmt::Debug for Oddities {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Oddities")
            .field("reserved_bits", &self.reserved_bits())
            .field("padding", &self.padding())
            .field("trailing_words", &self.trailing_words())
            .field("unknown_arguments", &self.unknown_arguments())
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_add_up_and_the_rest_is_remarked_once() {
        let mut all = Oddities::default();
        assert!(all.is_empty());
        for _ in 0..15 {
            let mut part = Oddities::default();
            part.note(Oddities::UNKNOWN_ARGUMENT, true);
            part.note(Oddities::PADDING, true);
            part.note(Oddities::RESERVED_BITS, false);
            all.add(part);
        }
        assert_eq!(all.unknown_arguments(), 15);
        assert!(all.padding());
        assert!(!all.reserved_bits() && !all.trailing_words());
    }
}
