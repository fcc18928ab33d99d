//! Every record and every argument type is compared with words that were built by hand.
//!
//! The words here come from the tables of the format specification: each is
//! written as shifts of its named fields, `value << first bit`, independent of
//! the encoder and of the crate's layout module, so that an error in either
//! shows.
#![cfg(not(loom))]

mod arguments;
mod events;
mod limits;
mod objects;
mod profiler;
mod scheduling;
mod tables;

use fxt_writer::record::Record;
use fxt_writer::{Koid, StringRef, Text, ThreadName, ThreadRef};

/// One field of a word: its name, its first and last bit as the specification
/// writes them, and its value.
type Field<'a> = (&'a str, u32, u32, u64);

/// A word made of fields, which must not overlap and must fit.
fn word(fields: &[Field<'_>]) -> u64 {
    let mut used = 0_u64;
    let mut word = 0_u64;
    for &(name, first, last, value) in fields {
        let width = last - first + 1;
        assert!(width == 64 || value >> width == 0, "{name} does not fit");
        let mask = (u64::MAX >> (64 - width)) << first;
        assert_eq!(used & mask, 0, "{name} overlaps");
        used |= mask;
        word |= value << first;
    }
    word
}

/// A stream: bytes padded with zeros, in words.
fn stream(bytes: &[u8]) -> Vec<u64> {
    let padded = bytes.chunks(8).map(|chunk| {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        u64::from_ne_bytes(word)
    });
    padded.collect()
}

/// Checks that the record is encoded as these words, in words and in bytes.
#[track_caller]
fn assert_words(record: &impl Record, expected: &[&[u64]]) {
    let expected = expected.concat();
    let mut words: Vec<u64> = Vec::new();
    record.write(&mut words).expect("a record that the format can express");
    assert_eq!(words, expected, "\n got {words:#018x?}\nwant {expected:#018x?}");
    assert_eq!(record.words(), Ok(expected.len()));
    let mut bytes: Vec<u8> = Vec::new();
    record.write(&mut bytes).expect("a record that the format can express");
    assert_eq!(bytes, expected.iter().flat_map(|word| word.to_ne_bytes()).collect::<Vec<_>>());
}

fn indexed(index: u16) -> Text<'static> {
    Text::Indexed(StringRef::indexed(index).expect("an index in range"))
}

fn thread(index: u8) -> ThreadName {
    ThreadName::Indexed(ThreadRef::indexed(index).expect("an index in range"))
}

/// A thread by its koids.
fn inline_thread(process: u64, thread: u64) -> ThreadName {
    ThreadName::Inline { process: Koid(process), thread: Koid(thread) }
}

/// The string ref of an inline string: the top bit and the length.
const fn inline_ref(bytes: u64) -> u64 {
    0x8000 | bytes
}
