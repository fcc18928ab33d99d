//! Records in a growing vector, as words or as bytes.

use std::convert::Infallible;

use super::{Slot, Space};
use crate::layout::limits::WORD_BYTES;

impl Space for Vec<u64> {
    type Full = Infallible;
    type Slot<'a> = WordsSlot<'a>;

    #[inline]
    fn reserve(&mut self, words: usize) -> Result<WordsSlot<'_>, Infallible> {
        let start = self.len();
        self.reserve(words);
        self.push(0);
        Ok(WordsSlot { words: self, start, end: start + words, finished: false })
    }
}

/// Room for a record at the end of a `Vec<u64>`.
#[derive(Debug)]
pub struct WordsSlot<'a> {
    words: &'a mut Vec<u64>,
    start: usize,
    end: usize,
    finished: bool,
}

impl Slot for WordsSlot<'_> {
    #[inline]
    fn put(&mut self, word: u64) {
        self.words.push(word);
    }

    #[inline]
    fn finish(mut self, header: u64) {
        if self.words.len() == self.end {
            self.words[self.start] = header;
            self.finished = true;
        }
    }
}

impl Drop for WordsSlot<'_> {
    #[inline]
    fn drop(&mut self) {
        if !self.finished {
            self.words.truncate(self.start);
        }
    }
}

impl Space for Vec<u8> {
    type Full = Infallible;
    type Slot<'a> = BytesSlot<'a>;

    #[inline]
    fn reserve(&mut self, words: usize) -> Result<BytesSlot<'_>, Infallible> {
        let start = self.len();
        self.reserve(words * WORD_BYTES);
        self.extend_from_slice(&[0; WORD_BYTES]);
        Ok(BytesSlot { bytes: self, start, end: start + words * WORD_BYTES, finished: false })
    }
}

/// Room for a record at the end of a `Vec<u8>`; words are stored in machine
/// order.
#[derive(Debug)]
pub struct BytesSlot<'a> {
    bytes: &'a mut Vec<u8>,
    start: usize,
    end: usize,
    finished: bool,
}

impl Slot for BytesSlot<'_> {
    #[inline]
    fn put(&mut self, word: u64) {
        self.bytes.extend_from_slice(&word.to_ne_bytes());
    }

    #[inline]
    fn finish(mut self, header: u64) {
        if self.bytes.len() == self.end {
            self.bytes[self.start..self.start + WORD_BYTES].copy_from_slice(&header.to_ne_bytes());
            self.finished = true;
        }
    }
}

impl Drop for BytesSlot<'_> {
    #[inline]
    fn drop(&mut self) {
        if !self.finished {
            self.bytes.truncate(self.start);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dropped_slot_leaves_nothing_behind() {
        let mut words: Vec<u64> = vec![1];
        {
            let Ok(mut slot) = Space::reserve(&mut words, 3);
            slot.put(7);
        }
        assert_eq!(words, [1]);
    }

    #[test]
    fn a_record_finished_short_or_long_is_withdrawn() {
        let mut words: Vec<u64> = Vec::new();
        let Ok(slot) = Space::reserve(&mut words, 2);
        slot.finish(1);
        assert_eq!(words, [0; 0]);
        let mut bytes: Vec<u8> = Vec::new();
        let Ok(mut slot) = Space::reserve(&mut bytes, 2);
        slot.put(1);
        slot.put(2);
        slot.finish(3);
        assert_eq!(bytes, [0; 0]);
    }

    #[test]
    fn bytes_are_the_words_in_machine_order() {
        let mut bytes: Vec<u8> = Vec::new();
        let Ok(mut slot) = Space::reserve(&mut bytes, 3);
        slot.put_stream(b"ninebytes");
        slot.finish(0x0102);
        assert_eq!(bytes[..8], 0x0102_u64.to_ne_bytes());
        assert_eq!(&bytes[8..], b"ninebytes\0\0\0\0\0\0\0");
    }
}
