//! The only place that converts trace bytes to words.
//!
//! A [`Cursor`] walks over the bytes of one record (or one argument) and hands
//! out words in the file's byte order and streams in byte order. Running out of
//! bytes is an error of the record, never a panic.

use fxt_format::Word;
use fxt_format::limits::WORD_BYTES;

use crate::error::Reason;
use crate::oddities::Oddities;
use crate::types::ByteOrder;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Cursor<'a> {
    rest: &'a [u8],
    order: ByteOrder,
    pub(crate) oddities: Oddities,
}

impl<'a> Cursor<'a> {
    #[inline(always)]
    pub(crate) fn new(bytes: &'a [u8], order: ByteOrder) -> Self {
        Self { rest: bytes, order, oddities: Oddities::default() }
    }

    pub(crate) fn order(&self) -> ByteOrder {
        self.order
    }

    /// What has not been read yet.
    pub(crate) fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// Moves past the rest.
    pub(crate) fn skip_rest(&mut self) {
        self.rest = &[];
    }

    /// The next word.
    #[inline(always)]
    pub(crate) fn word(&mut self) -> Result<u64, Reason> {
        let (word, rest) = self.rest.split_first_chunk().ok_or(Reason::TooShort)?;
        self.rest = rest;
        Ok(self.order.word(*word))
    }

    /// The next word without moving on.
    #[inline(always)]
    pub(crate) fn peek(&self) -> Result<u64, Reason> {
        let word = self.rest.first_chunk().ok_or(Reason::TooShort)?;
        Ok(self.order.word(*word))
    }

    /// Records an oddity when `word` has a bit set that `table` does not name.
    #[inline(always)]
    pub(crate) fn inspect(&mut self, word: u64, table: Word) {
        self.oddities.note(Oddities::RESERVED_BITS, word & table.reserved() != 0);
    }

    /// The next `length` bytes; moves past their padding, too.
    pub(crate) fn stream(&mut self, length: u64) -> Result<&'a [u8], Reason> {
        let length = usize::try_from(length).map_err(|_| Reason::TooShort)?;
        let padded = length.checked_next_multiple_of(WORD_BYTES).ok_or(Reason::TooShort)?;
        let (stream, rest) = self.rest.split_at_checked(padded).ok_or(Reason::TooShort)?;
        let (content, padding) = stream.split_at_checked(length).ok_or(Reason::TooShort)?;
        self.oddities.note(Oddities::PADDING, padding.iter().any(|&byte| byte != 0));
        self.rest = rest;
        Ok(content)
    }

    /// A cursor over only the next `words` words; this one moves past them.
    #[inline(always)]
    pub(crate) fn part(&mut self, words: u64) -> Result<Cursor<'a>, Reason> {
        let bytes = usize::try_from(words)
            .ok()
            .and_then(|words| words.checked_mul(WORD_BYTES))
            .ok_or(Reason::TooShort)?;
        let (part, rest) = self.rest.split_at_checked(bytes).ok_or(Reason::TooShort)?;
        self.rest = rest;
        Ok(Cursor::new(part, self.order))
    }

    /// Records an oddity when words are left unread.
    #[inline(always)]
    pub(crate) fn finish(&mut self) {
        self.oddities.note(Oddities::TRAILING_WORDS, !self.rest.is_empty());
    }

    /// Adds the oddities of a cursor made by [`part`](Self::part), and records another if some of its words are left unread.
    #[inline(always)]
    pub(crate) fn finish_part(&mut self, part: &Cursor<'_>) {
        self.oddities.add(part.oddities);
        self.oddities.note(Oddities::TRAILING_WORDS, !part.rest.is_empty());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_follow_the_byte_order_and_streams_do_not() {
        let bytes = *b"\x01\0\0\0\0\0\0\x02abc\0\0\0\0\0";
        let mut little = Cursor::new(&bytes, ByteOrder::Little);
        assert_eq!(little.word(), Ok(0x0200_0000_0000_0001));
        assert_eq!(little.stream(3), Ok(&b"abc"[..]));
        let mut big = Cursor::new(&bytes, ByteOrder::Big);
        assert_eq!(big.word(), Ok(0x0100_0000_0000_0002));
        assert_eq!(big.stream(3), Ok(&b"abc"[..]));
    }

    #[test]
    fn a_stream_that_does_not_fit_is_too_short_however_long_it_claims_to_be() {
        let bytes = [0; 16];
        for length in [17, u64::from(u32::MAX), u64::MAX - 7, u64::MAX] {
            assert_eq!(
                Cursor::new(&bytes, ByteOrder::Little).stream(length),
                Err(Reason::TooShort)
            );
        }
    }

    #[test]
    fn padding_that_is_not_zero_is_remarked_and_the_content_still_read() {
        let mut cursor = Cursor::new(b"abc\0\0\0\0\x01", ByteOrder::Little);
        assert_eq!(cursor.stream(3), Ok(&b"abc"[..]));
        assert!(cursor.oddities.padding());
    }

    #[test]
    fn a_part_that_is_not_read_to_its_end_has_trailing_words() {
        let bytes = [0; 24];
        let mut cursor = Cursor::new(&bytes, ByteOrder::Little);
        let mut part = cursor.part(2).expect("two of three words");
        part.word().expect("the first of two words");
        cursor.finish_part(&part);
        assert!(cursor.oddities.trailing_words());
        assert_eq!(cursor.rest().len(), 8);
    }
}
