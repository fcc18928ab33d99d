//! A named span of bits in a 64-bit word, and a word as a table of such spans.

/// Declares one word: a constant [`Field`] per named field, and a
/// [`Word`] that lists them. Bit positions are inclusive, as in the
/// format specification.
macro_rules! word {
    (
        $(#[$word_doc:meta])*
        $word:ident {
            $( $(#[$field_doc:meta])* $field:ident [$first:literal .. $last:literal] )+
        }
    ) => {
        $(
            $(#[$field_doc])*
            #[doc = concat!("\n\nBits `[", $first, " .. ", $last, "]`.")]
            pub const $field: $crate::Field = $crate::Field::new($first, $last);
        )+

        $(#[$word_doc])*
        pub const $word: $crate::Word = $crate::Word::new(&[
            $( (stringify!($field), $field) ),+
        ]);
    };
}

/// A span of bits `[first .. last]` of a 64-bit word, both ends inclusive, as
/// the format specification writes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field {
    first: u32,
    last: u32,
}

impl Field {
    /// The field `[first .. last]`.
    ///
    /// # Panics
    ///
    /// When the span is empty or leaves the word. Tables are constants, so this
    /// is a compile error there.
    #[must_use]
    pub const fn new(first: u32, last: u32) -> Self {
        assert!(first <= last && last <= 63, "a field lies within one 64-bit word");
        Self { first, last }
    }

    /// Position of the least significant bit.
    #[must_use]
    pub const fn first(self) -> u32 {
        self.first
    }

    /// Position of the most significant bit.
    #[must_use]
    pub const fn last(self) -> u32 {
        self.last
    }

    /// Width in bits, 1 to 64.
    #[must_use]
    pub const fn bits(self) -> u32 {
        self.last - self.first + 1
    }

    /// The largest value that fits.
    #[must_use]
    pub const fn max(self) -> u64 {
        u64::MAX >> (64 - self.bits())
    }

    /// The word whose bits are one in this field and zero elsewhere.
    #[must_use]
    pub const fn mask(self) -> u64 {
        self.max() << self.first
    }

    /// Whether `value` can be stored without loss.
    #[must_use]
    pub const fn fits(self, value: u64) -> bool {
        value <= self.max()
    }

    /// The field's value in `word`.
    #[must_use]
    #[inline(always)]
    pub const fn get(self, word: u64) -> u64 {
        (word & self.mask()) >> self.first
    }

    /// A word that holds `value` in this field and zero elsewhere; such words
    /// are combined with `|`.
    ///
    /// A value too wide for the field is cut to its low bits, which keeps the
    /// neighbouring fields intact, and is a panic in debug builds: callers check
    /// with [`fits`](Self::fits) where the value is not known to be small.
    #[must_use]
    #[inline(always)]
    pub const fn put(self, value: u64) -> u64 {
        debug_assert!(self.fits(value), "value too wide for its field");
        (value << self.first) & self.mask()
    }

    /// `word` with this field replaced by `value`; see [`put`](Self::put) for
    /// values that are too wide.
    #[must_use]
    #[inline(always)]
    pub const fn set(self, word: u64, value: u64) -> u64 {
        (word & !self.mask()) | self.put(value)
    }
}

/// The table of one word: its fields with their names, lowest bits first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Word {
    fields: &'static [(&'static str, Field)],
    used: u64,
}

impl Word {
    /// A word made of `fields`.
    ///
    /// # Panics
    ///
    /// When two fields overlap. Tables are constants, so this is a compile
    /// error there.
    #[must_use]
    pub const fn new(fields: &'static [(&'static str, Field)]) -> Self {
        let mut used = 0;
        let mut at = 0;
        while at < fields.len() {
            let mask = fields[at].1.mask();
            assert!(used & mask == 0, "two fields of a word overlap");
            used |= mask;
            at += 1;
        }
        Self { fields, used }
    }

    /// The fields with the names of their constants, lowest bits first.
    #[must_use]
    pub const fn fields(self) -> &'static [(&'static str, Field)] {
        self.fields
    }

    /// The bits that belong to no field: a writer leaves them zero, a reader
    /// ignores them.
    #[must_use]
    pub const fn reserved(self) -> u64 {
        !self.used
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_keeps_its_neighbours() {
        let middle = Field::new(4, 15);
        assert_eq!(middle.put(0xabc), 0xabc0);
        assert_eq!(middle.set(u64::MAX, 0), 0xffff_ffff_ffff_000f);
        assert_eq!(middle.get(0xffff_ffff_ffff_123f), 0x123);
    }

    #[test]
    fn a_field_may_be_the_whole_word_or_a_single_bit() {
        let whole = Field::new(0, 63);
        assert_eq!(whole.put(u64::MAX), u64::MAX);
        assert_eq!(whole.get(u64::MAX), u64::MAX);
        let top = Field::new(63, 63);
        assert_eq!(top.put(1), 1 << 63);
        assert_eq!(top.max(), 1);
    }

    #[test]
    fn the_largest_value_fits_and_the_next_does_not() {
        let nibble = Field::new(60, 63);
        assert!(nibble.fits(15));
        assert!(!nibble.fits(16));
    }

    #[test]
    fn bits_outside_all_fields_are_reserved() {
        const WORD: Word = Word::new(&[("low", Field::new(0, 7)), ("top", Field::new(63, 63))]);
        assert_eq!(WORD.reserved(), 0x7fff_ffff_ffff_ff00);
    }

    #[test]
    #[should_panic(expected = "overlap")]
    fn overlapping_fields_are_refused() {
        static OVERLAPPING: [(&str, Field); 2] = [("a", Field::new(0, 7)), ("b", Field::new(7, 8))];
        let _ = Word::new(&OVERLAPPING);
    }
}
