//! Record boundaries, and the parts that all records share.
//!
//! The input is not trusted: sizes are checked against the available words, and an invalid first word ends the walk.

use crate::limits::WORD_BYTES;
use crate::string_ref;

pub use crate::word::{has_size, record_bytes, record_words};

/// The whole records at the start of `words`, up to the first one that is truncated or invalid.
#[must_use]
pub fn records(words: &[u64]) -> Records<'_> {
    Records { rest: words }
}

/// The iterator that [`records`] returns.
#[derive(Clone, Debug)]
pub struct Records<'w> {
    rest: &'w [u64],
}

impl<'w> Records<'w> {
    /// The words after the last record returned.
    #[must_use]
    pub fn rest(&self) -> &'w [u64] {
        self.rest
    }
}

impl<'w> Iterator for Records<'w> {
    type Item = &'w [u64];

    fn next(&mut self) -> Option<&'w [u64]> {
        let (record, rest) = self.rest.split_at_checked(record_words(*self.rest.first()?)?)?;
        self.rest = rest;
        Some(record)
    }
}

/// The whole records at the start of `bytes`, which are little-endian words; the walk ends as that of [`records`] does.
pub fn records_in_bytes(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = bytes;
    std::iter::from_fn(move || {
        let size = record_bytes(u64::from_le_bytes(*rest.first_chunk()?))?;
        let (record, behind) = rest.split_at_checked(size)?;
        rest = behind;
        Some(record)
    })
}

/// The end position of each whole record at the start of `bytes`.
pub fn record_ends(bytes: &[u8]) -> impl Iterator<Item = usize> {
    records_in_bytes(bytes).scan(0, |end, record| {
        *end += record.len();
        Some(*end)
    })
}

/// The length of the whole records within the first `limit` bytes.
#[must_use]
pub fn whole_records(bytes: &[u8], limit: usize) -> usize {
    record_ends(&bytes[..limit.min(bytes.len())]).last().unwrap_or(0)
}

/// The number of whole records at the start of `bytes`.
#[must_use]
pub fn count_records(bytes: &[u8]) -> u64 {
    records_in_bytes(bytes).count() as u64
}

/// The number of words of a string ref's text in the record: 0 unless it is inline.
#[must_use]
#[inline]
pub const fn inline_words(reference: u64) -> usize {
    if string_ref::INLINE.get(reference) == 0 {
        return 0;
    }
    // At most 15 bits.
    (string_ref::VALUE.get(reference) as usize).div_ceil(WORD_BYTES)
}

/// The words of a record that have not been consumed yet.
#[derive(Clone, Copy, Debug)]
pub struct Body<'r>(&'r [u64]);

impl<'r> Body<'r> {
    /// The header word of a record, and the words after it; `None` for an empty slice.
    #[must_use]
    #[inline]
    pub fn of(record: &'r [u64]) -> Option<(u64, Self)> {
        record.split_first().map(|(&first, rest)| (first, Self(rest)))
    }

    /// The words that have not been consumed.
    #[must_use]
    #[inline]
    pub fn rest(&self) -> &'r [u64] {
        self.0
    }

    /// Consumes the next word; `None` when the record is truncated.
    #[inline]
    pub fn word(&mut self) -> Option<u64> {
        let (&word, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(word)
    }

    /// Consumes the next `words`; `None` when the record is truncated.
    #[inline]
    pub fn words(&mut self, words: usize) -> Option<&'r [u64]> {
        let (taken, rest) = self.0.split_at_checked(words)?;
        self.0 = rest;
        Some(taken)
    }

    /// Consumes the next argument, its header word first; `None` when the record is truncated or the argument is invalid.
    pub fn argument(&mut self) -> Option<&'r [u64]> {
        match crate::argument::SIZE.get(*self.0.first()?) {
            0 => None,
            words => self.words(words as usize),
        }
    }
}

/// The first `length` bytes of a stream of words ("Atoms"); fewer if the words hold fewer.
#[must_use]
pub fn stream(words: &[u64], length: usize) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).take(length).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::argument;
    use crate::{header, large_header, record_type};

    fn first_word(record_type: u64, words: u64) -> u64 {
        match record_type {
            record_type::LARGE => {
                large_header::TYPE.put(record_type) | large_header::SIZE.put(words)
            }
            _ => header::TYPE.put(record_type) | header::SIZE.put(words),
        }
    }

    fn record(record_type: u64, words: u64) -> Vec<u8> {
        let mut bytes = first_word(record_type, words).to_le_bytes().to_vec();
        bytes.resize(words as usize * WORD_BYTES, 0xaa);
        bytes
    }

    #[test]
    fn the_end_is_that_of_the_last_record_that_fits() {
        let bytes = [
            record(record_type::STRING, 3),
            record(record_type::SCHEDULING, 1),
            record(record_type::LARGE, 5000),
            record(record_type::EVENT, 4095),
        ]
        .concat();
        let ends = [0, 24, 32, 32 + 40_000, 32 + 40_000 + 32_760];
        for limit in 0..=bytes.len() + 1 {
            let expected = ends.iter().rev().find(|end| **end <= limit).unwrap();
            assert_eq!(whole_records(&bytes, limit), *expected, "limit {limit}");
        }
    }

    #[test]
    fn a_record_without_a_size_ends_the_walk() {
        let mut bytes = record(record_type::STRING, 2);
        bytes.extend([0; 64]);
        assert_eq!(whole_records(&bytes, bytes.len()), 16);
        let words = [first_word(record_type::EVENT, 2), 7, 0, first_word(record_type::EVENT, 1)];
        let mut records = records(&words);
        assert_eq!(records.next(), Some(&words[..2]));
        assert_eq!(records.next(), None);
        assert_eq!(records.rest(), &words[2..]);
    }

    #[test]
    fn a_record_that_is_cut_short_is_not_walked_over() {
        let words = [first_word(record_type::EVENT, 3), 1];
        assert_eq!(records(&words).next(), None);
    }

    #[test]
    fn a_large_record_is_as_long_as_its_wider_field_says() {
        assert_eq!(record_words(first_word(record_type::LARGE, 0x1_0002)), Some(0x1_0002));
        assert!(has_size(first_word(record_type::LARGE, 0x1_0002), 0x1_0002));
        assert!(!has_size(first_word(record_type::LARGE, 0x1_0002), 2));
        assert_eq!(record_words(first_word(record_type::LARGE, 0)), None);
        assert!(!has_size(first_word(record_type::LARGE, 0), 0));
        assert_eq!(record_bytes(u64::MAX), Some(u32::MAX as usize * WORD_BYTES));
    }

    #[test]
    fn arguments_are_taken_whole_or_not_at_all() {
        let argument = |words| argument::TYPE.put(argument::KOID) | argument::SIZE.put(words);
        let record = [first_word(record_type::KERNEL_OBJECT, 6), 5, argument(2), 9, argument(3), 1];
        let (first, mut body) = Body::of(&record).expect("a header word");
        assert_eq!(first, record[0]);
        assert_eq!(body.word(), Some(5));
        assert_eq!(body.argument(), Some(&record[2..4]));
        assert_eq!(body.argument(), None, "one that is cut short");
        assert_eq!(body.rest(), &record[4..]);
        let sizeless = [0, argument(0), 0];
        let (_, mut body) = Body::of(&sizeless).expect("a header word");
        assert_eq!(body.argument(), None, "one without a size");
    }

    #[test]
    fn only_inline_strings_take_words() {
        let inline = |bytes| string_ref::INLINE.put(1) | string_ref::VALUE.put(bytes);
        assert_eq!(inline_words(string_ref::VALUE.put(9)), 0);
        assert_eq!(
            [0, 1, 8, 9, 0x7fff].map(|bytes| inline_words(inline(bytes))),
            [0, 1, 1, 2, 4096]
        );
    }

    #[test]
    fn a_stream_ends_with_its_words_however_long_it_claims_to_be() {
        let words = [u64::from_le_bytes(*b"abcdefgh")];
        assert_eq!(stream(&words, 3), b"abc");
        assert_eq!(stream(&words, usize::MAX), b"abcdefgh");
    }
}
