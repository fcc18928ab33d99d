//! Reads code objects from the memory of a process, in the helper process that may block: see [`super::super::files`].
//!
//! The memory belongs to the program and may contain anything: each part is bounded, and implausible data is ignored.

use std::fs::File;
use std::hash::Hasher;
use std::os::unix::fs::FileExt;

use rustc_hash::FxHasher;

use super::super::wire::{Packed, Words};
use super::layout::CodeLayout;

/// The maximum number of characters of a function's name, and of the end of a file's name, that are read.
const MOST_NAME: u64 = 200;
const MOST_FILE: u64 = 300;

/// The maximum number of bytes of a table of lines. Functions with longer tables have no lines.
const MOST_LINES: u64 = 32 << 10;

/// The maximum number of bytes of a code object before its instructions.
const MOST_HEAD: u64 = 512;

/// The data of a function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in super::super) struct Function {
    pub(in super::super) name: String,
    pub(in super::super) file: String,
    pub(in super::super) first_line: u32,
    /// The table of the lines of its instructions; empty if it is too long.
    pub(in super::super) lines: Vec<u8>,
}

impl Function {
    pub(in super::super) fn bytes(&self) -> usize {
        size_of::<Function>() + self.name.len() + self.file.len() + self.lines.len()
    }
}

/// The outcome for a code object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in super::super) enum Found {
    /// There is no code object.
    Nothing,
    /// It is the object with this mark.
    Same,
    /// The process has ended, or executed another program.
    Gone,
    /// It is another object, with this mark.
    New(u64, Function),
}

/// Answers a query about code objects, each with the mark of the function that was found there before.
pub(in super::super) fn answer(from: &mut Words<'_>, memory: &File) -> Option<Packed> {
    let (code_type, layout) = (from.number()?, CodeLayout::read(from)?);
    let codes = from.numbers()?;
    let mut to = Packed::default();
    for [address, mark] in codes.as_chunks().0 {
        match read(memory, (code_type, &layout), *address, *mark).unwrap_or(Found::Nothing) {
            Found::Nothing if memory.read_at(&mut [0], code_type).is_ok_and(|read| read == 0) => {
                to.number(2);
            }
            Found::Nothing | Found::Gone => {
                to.number(0);
            }
            Found::Same => {
                to.number(1);
            }
            Found::New(mark, function) => {
                to.number(3).number(mark).number(function.first_line.into());
                to.text(function.name.as_bytes()).text(function.file.as_bytes());
                to.text(&function.lines);
            }
        }
    }
    Some(to)
}

/// Reads such an answer, with one entry for each code object.
pub(in super::super) fn each_found(answer: &[u8]) -> impl Iterator<Item = Found> {
    let mut from = Words::of(answer);
    std::iter::from_fn(move || {
        Some(match from.number()? {
            0 => Found::Nothing,
            1 => Found::Same,
            2 => Found::Gone,
            _ => {
                let (mark, first_line) = (from.number()?, from.small()?);
                let (name, file) = (from.name()?, from.name()?);
                Found::New(mark, Function { name, file, first_line, lines: from.text()?.to_vec() })
            }
        })
    })
}

/// `known` is the mark of the object that was found there before, or 0.
fn read(
    memory: &File,
    (code_type, layout): (u64, &CodeLayout),
    address: u64,
    known: u64,
) -> Option<Found> {
    let CodeLayout { name, file, first_line, lines, .. } = *layout;
    let length = name.max(file).max(first_line).max(lines).checked_add(8)?;
    let head = bytes(memory, address, length.min(MOST_HEAD))?;
    if word(&head, 8)? != code_type {
        return None;
    }
    let (name, file, lines) = (word(&head, name)?, word(&head, file)?, word(&head, lines)?);
    let first_line = word(&head, first_line)? as u32;
    let mut mark = FxHasher::default();
    for part in [name, file, lines, first_line.into()] {
        mark.write_u64(part);
    }
    // No mark is ever 0.
    let mark = mark.finish().max(1);
    if mark == known {
        return Some(Found::Same);
    }
    Some(Found::New(
        mark,
        Function {
            name: text(memory, layout, name, (MOST_NAME, false))?,
            file: text(memory, layout, file, (MOST_FILE, true))?,
            first_line,
            lines: table(memory, lines)?,
        },
    ))
}

fn bytes(memory: &File, address: u64, length: u64) -> Option<Vec<u8>> {
    let mut bytes = vec![0; usize::try_from(length).ok()?];
    memory.read_exact_at(&mut bytes, address).ok()?;
    Some(bytes)
}

fn word(bytes: &[u8], at: u64) -> Option<u64> {
    Some(u64::from_ne_bytes(*bytes.get(usize::try_from(at).ok()?..)?.first_chunk()?))
}

/// The contents of an object `bytes`.
fn table(memory: &File, address: u64) -> Option<Vec<u8>> {
    const HEAD: u64 = 32;
    let length = word(&bytes(memory, address, HEAD)?, 16)?;
    if length > MOST_LINES {
        return Some(Vec::new());
    }
    bytes(memory, address.checked_add(HEAD)?, length)
}

/// The contents of an object `str`: the requested number of characters, from its beginning or its end.
fn text(
    memory: &File,
    layout: &CodeLayout,
    address: u64,
    (most, of_end): (u64, bool),
) -> Option<String> {
    const HEAD: u64 = 40;
    const LONGEST: u64 = 1 << 24;
    let head = bytes(memory, address, HEAD)?;
    let (length, state) = (word(&head, 16)?, word(&head, 32)? as u32);
    // The character encoding follows the `interned` field, which has three different widths.
    let states = [state >> 2, state >> 16, state >> 8];
    let is_state = |state: &&u32| matches!(**state & 7, 1 | 2 | 4) && **state & 8 != 0;
    let state = states.iter().find(is_state)?;
    let (size, is_ascii) = (u64::from(state & 7), state & 16 != 0);
    if length > LONGEST {
        return None;
    }
    let taken = length.min(most);
    let skipped = if of_end { length - taken } else { 0 };
    let begin = if is_ascii { layout.ascii } else { layout.compact };
    let begin = address.checked_add(begin)?.checked_add(skipped * size)?;
    let raw = bytes(memory, begin, taken * size)?;
    let number = |bytes: &[u8]| bytes.iter().rev().fold(0_u32, |all, it| all << 8 | u32::from(*it));
    let characters = raw.chunks_exact(size as usize).map(number);
    Some(characters.map(|it| char::from_u32(it).unwrap_or('\u{fffd}')).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    const LAYOUT: CodeLayout = CodeLayout {
        name: 24,
        file: 32,
        first_line: 16,
        lines: 40,
        instructions: 48,
        ascii: 40,
        compact: 56,
    };
    const TYPE: u64 = 0x7777;

    fn words(words: &[u64]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_ne_bytes()).collect()
    }

    /// A string whose state is `state`.
    fn string(length: u64, state: u64, head: usize, characters: &[u8]) -> Vec<u8> {
        let mut bytes = words(&[1, 2, length, 3, state]);
        bytes.resize(head, 0);
        [bytes, characters.to_vec()].concat()
    }

    fn at(bytes: &[u8]) -> u64 {
        bytes.as_ptr().addr() as u64
    }

    fn own() -> File {
        File::open("/proc/self/mem").expect("its own")
    }

    fn ask(codes: &[u64]) -> Vec<Found> {
        let mut question = Packed::default();
        question.number(TYPE);
        LAYOUT.pack(&mut question);
        question.numbers(codes);
        let answer = answer(&mut Words::of(question.bytes()), &own()).expect("it is a question");
        each_found(answer.bytes()).collect()
    }

    const ASCII: u64 = (1 << 5 | 1 << 6) | 1 << 2;

    #[test]
    fn a_function_is_read_once_and_reported_again_only_if_it_is_another() {
        let name = string(4, ASCII, 40, b"work");
        // Interned in a field of sixteen bits, as in some builds.
        let file = string(5, (1 | 1 << 3) << 16, 56, b"/\xe9.py");
        let lines = [words(&[1, 2, 3, 4]), vec![1, 2, 3]].concat();
        let code = words(&[1, TYPE, 70, at(&name), at(&file), at(&lines)]);
        let [Found::New(mark, function)] = &ask(&[at(&code), 0])[..] else { panic!("a function") };
        let expected = Function {
            name: "work".to_owned(),
            file: "/é.py".to_owned(),
            first_line: 70,
            lines: vec![1, 2, 3],
        };
        assert_eq!(*function, expected);
        assert_eq!(ask(&[at(&code), *mark]), [Found::Same]);
        let other = words(&[1, TYPE, 71, at(&name), at(&file), at(&lines)]);
        assert!(matches!(&ask(&[at(&other), *mark])[..], [Found::New(..)]));
    }

    #[test]
    fn what_is_no_function_is_none_and_lengths_are_bounded() {
        let name = string(u64::MAX, ASCII, 40, b"");
        let bytes = words(&[1, 2, u64::MAX]);
        let odd = string(1, 7 << 2 | 1 << 5, 40, b"x");
        let of = |name: &[u8]| words(&[1, TYPE, 1, at(name), at(name), at(&bytes)]);
        let (endless, no_string) = (of(&name), of(&odd));
        let other_type = words(&[1, TYPE + 1, 1, at(&odd), at(&odd), at(&bytes)]);
        let codes = [at(&endless), 0, at(&no_string), 0, at(&other_type), 0, 8, 0, u64::MAX, 0];
        assert_eq!(ask(&codes), [const { Found::Nothing }; 5]);
        let long = string(5000, ASCII, 40, &[b'a'; 5000]);
        let code = words(&[1, TYPE, 1, at(&long), at(&long), at(&bytes)]);
        let [Found::New(_, function)] = &ask(&[at(&code), 0])[..] else { panic!("a function") };
        let lengths = (function.name.len() as u64, function.file.len() as u64);
        assert_eq!((lengths, function.lines.len()), ((MOST_NAME, MOST_FILE), 0));
    }

    #[test]
    fn the_memory_of_a_process_that_has_ended_is_distinguished_from_one_without_a_function() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().expect("it is there");
        let memory = File::open(format!("/proc/{}/mem", child.id())).expect("our child's");
        child.kill().expect("it runs");
        child.wait().expect("it is ours");
        let mut question = Packed::default();
        question.number(TYPE);
        LAYOUT.pack(&mut question);
        question.numbers(&[0x1000, 0]);
        let answer = answer(&mut Words::of(question.bytes()), &memory).expect("a question");
        assert_eq!(each_found(answer.bytes()).collect::<Vec<_>>(), [Found::Gone]);
    }
}
