//! Functions and lines of Go programs, from the table that the Go runtime needs itself (`.gopclntab`). It survives stripping.
//!
//! ```text
//!   header      magic, sizes, where the other parts are; where the text begins (Go 1.18 to 1.25)
//!   names       the names of functions                  units     per package: where the names of its files are
//!   files       the names of files                      values    numbers by address: file, line, size of the frame
//!   functions   by address: where a function begins, where its description is; then the descriptions
//! ```
//!
//! Go 1.2 has one part, and offsets from its beginning. Go 1.16 has parts, Go 1.18 addresses relative to the text, and Go 1.20 one field
//! more. Since Go 1.26 the beginning of the text is only in the runtime's description of the program (`.go.module`).
//!
//! The whole table is read, and a lookup is a search in a sorted list. A list of values has no index: it is followed for
//! a limited number of steps.

#[cfg(test)]
mod tests;
mod unwind;

use std::borrow::Cow;
use std::ops::ControlFlow;

use object::ReadRef;
use object::read::elf::SectionHeader;

use super::functions::{Function, LONGEST_NAME, most_name_bytes};
use super::{Elf, Line};

pub use unwind::{Frames, go_frames};

/// The section that contains the table: in position-independent programs it used to be among the data that the loader changes.
const SECTIONS: [&str; 2] = [".gopclntab", ".data.rel.ro.gopclntab"];

/// The maximum number of bytes of a table. Kubernetes' programs have 30 MB.
const MOST_TABLE: u64 = 96 << 20;

/// The maximum number of bytes in which a table is searched for if it is not a section.
const MOST_SEARCHED: u64 = 96 << 20;

/// How many steps a list of values is followed.
const MOST_STEPS: usize = 256 << 10;

/// The sizes of pointers of all supported processors, in bytes.
const POINTER: usize = 8;

/// Where in the description of a program the address of its text is, in bytes: since Go 1.18.
const TEXT_IN_MODULE: usize = 22 * POINTER;

/// The longest Go build ID, and the size of its last part, the hash of the content, in bytes.
const LONGEST_ID: usize = 128;
const CONTENT_ID: usize = 20;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Version {
    Go2,
    Go16,
    Go18,
    Go20,
}

/// How an unwinder treats a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Flags {
    /// It has no caller.
    is_top: bool,
    /// It moves the stack pointer elsewhere.
    switches_stacks: bool,
}

/// The table of a program.
#[derive(Clone, Debug)]
pub(super) struct GoTable<'d> {
    bytes: Cow<'d, [u8]>,
    version: Version,
    /// The size of the smallest instruction, in bytes.
    quantum: u32,
    text: u64,
    /// How many functions there are.
    count: usize,
    /// Where parts begin.
    names: usize,
    units: usize,
    files: usize,
    values: usize,
    functions: usize,
    /// Where the list of functions begins.
    list: usize,
}

impl<'d> GoTable<'d> {
    /// `None` if it is not such a table. `text` is the beginning of the text if the table does not contain it.
    fn parse(
        bytes: impl Into<Cow<'d, [u8]>>,
        text: impl FnOnce() -> Option<u64>,
    ) -> Option<GoTable<'d>> {
        let bytes = bytes.into();
        let (version, quantum) = magic(bytes.get(..POINTER)?)?;
        let word = |number: usize| -> Option<usize> {
            let at = POINTER * (number + 1);
            let word = u64::from_le_bytes(*bytes.get(at..)?.first_chunk()?);
            usize::try_from(word).ok()
        };
        let part = |number: usize| word(number).filter(|at| *at <= bytes.len());
        let (count, mut begin) = (word(0)?, 0);
        // The locations of names, units, files, values and functions.
        let mut parts = [0; 5];
        match version {
            Version::Go2 => {}
            Version::Go16 => {
                for (at, part_at) in parts.iter_mut().enumerate() {
                    *part_at = part(2 + at)?;
                }
            }
            Version::Go18 | Version::Go20 => {
                for (at, part_at) in parts.iter_mut().enumerate() {
                    *part_at = part(3 + at)?;
                }
                begin = match word(2)? {
                    0 => text()?,
                    begin => begin as u64,
                };
            }
        }
        let [names, units, mut files, values, functions] = parts;
        let list = if version == Version::Go2 { 2 * POINTER } else { functions };
        let width = 2 * field(version);
        let end = count.checked_mul(width)?.checked_add(list)?.checked_add(field(version))?;
        if count == 0 || end > bytes.len() {
            return None;
        }
        if version == Version::Go2 {
            files = usize::try_from(number(&bytes, end, 4)?).ok()?;
        }
        Some(GoTable {
            version,
            quantum,
            text: begin,
            count,
            names,
            units,
            files,
            values,
            functions,
            list,
            bytes,
        })
    }

    /// In bytes; including the following data if it is not a section.
    fn len(&self) -> usize {
        self.bytes.len()
    }

    /// The table with owned bytes.
    pub(super) fn into_owned(self) -> GoTable<'static> {
        GoTable { bytes: Cow::Owned(self.bytes.into_owned()), ..self }
    }

    fn number(&self, at: usize, size: usize) -> Option<u64> {
        number(&self.bytes, at, size)
    }

    /// Where a function begins; for [`GoTable::count`], where the last function ends.
    fn start(&self, function: usize) -> Option<u64> {
        let size = field(self.version);
        let start = self.number(self.list + function * 2 * size, size)?;
        self.text.checked_add(start)
    }

    /// Where the description of a function is.
    fn description(&self, function: usize) -> Option<usize> {
        let size = field(self.version);
        let at = self.number(self.list + function * 2 * size + size, size)?;
        self.functions.checked_add(usize::try_from(at).ok()?)
    }

    /// The field of a description this number of fields after the function's address.
    fn field(&self, description: usize, number: usize) -> Option<u32> {
        let at = description.checked_add(field(self.version) + number * 4)?;
        u32::try_from(self.number(at, 4)?).ok()
    }

    fn text_at(&self, part: usize, offset: u32) -> Option<&str> {
        let rest = self.bytes.get(part.checked_add(offset as usize)?..)?;
        let end = rest.iter().take(LONGEST_NAME).position(|byte| *byte == 0)?;
        std::str::from_utf8(&rest[..end]).ok().filter(|text| !text.is_empty())
    }

    fn name(&self, function: usize) -> Option<&str> {
        self.text_at(self.names, self.field(self.description(function)?, 0)?)
    }

    /// The number of the function that contains an address.
    fn at(&self, address: u64) -> Option<usize> {
        let (mut first, mut end) = (0, self.count);
        while first < end {
            let middle = first + (end - first) / 2;
            match self.start(middle)? <= address {
                true => first = middle + 1,
                false => end = middle,
            }
        }
        let found = first.checked_sub(1)?;
        (address < self.start(found + 1)?).then_some(found)
    }

    /// The name of the function that contains an address.
    pub(super) fn function(&self, address: u64) -> Option<&str> {
        self.name(self.at(address)?)
    }

    /// All functions whose names are no longer than names in a valid table.
    pub(super) fn functions(&self) -> Vec<Function> {
        let mut left = most_name_bytes(self.len() as u64);
        let function = |number: usize| {
            let (address, end) = (self.start(number)?, self.start(number + 1)?);
            let name = self.name(number)?;
            left = left.checked_sub(name.len() as u64)?;
            let size = end.checked_sub(address).filter(|size| *size > 0);
            Some(Function { address, rank: 0, raw: name.to_owned(), size, chooses: false })
        };
        (0..self.count).filter_map(function).collect()
    }

    /// The file and the line of an instruction. If the instruction belongs to an inlined function, both are those of the inlined function,
    /// which is not named.
    pub(super) fn line(&self, address: u64) -> Option<Line> {
        let number = self.at(address)?;
        let (start, at) = (self.start(number)?, self.description(number)?);
        let file = u32::try_from(self.value(self.field(at, 4)?, start, address)?).ok()?;
        let line = u32::try_from(self.value(self.field(at, 5)?, start, address)?).ok()?;
        let file = match self.version {
            Version::Go2 => {
                let at = self.files.checked_add(file as usize * 4)?;
                self.text_at(0, u32::try_from(self.number(at, 4)?).ok()?)?
            }
            _ => {
                let place = self.field(at, 7)?.checked_add(file)?;
                let at = self.units.checked_add(place as usize * 4)?;
                self.text_at(self.files, u32::try_from(self.number(at, 4)?).ok()?)?
            }
        };
        let function = self.name(number).map(str::to_owned);
        Some(Line { function, file: Some(file.to_owned()), line: Some(line) })
    }

    /// The value at an address in the list at `offset`, of the function that begins at `start`.
    fn value(&self, offset: u32, start: u64, address: u64) -> Option<i32> {
        let found = self.each_value(offset, start, |value, end| match address < end {
            true => ControlFlow::Break(value),
            false => ControlFlow::Continue(()),
        });
        found.break_value()
    }

    /// Passes each value of a list to `take`, with the address that it is valid up to.
    fn each_value<B>(
        &self,
        offset: u32,
        start: u64,
        mut take: impl FnMut(i32, u64) -> ControlFlow<B>,
    ) -> ControlFlow<B> {
        let begin = self.values.saturating_add(offset as usize);
        let Some(mut rest) = self.bytes.get(begin..).filter(|_| offset != 0) else {
            return ControlFlow::Continue(());
        };
        let (mut value, mut at) = (-1_i32, start);
        for step in 0..MOST_STEPS {
            let Some(change) = varint(&mut rest) else { break };
            if change == 0 && step > 0 {
                break;
            }
            // The lowest bit is the sign.
            let change = (change >> 1).cast_signed() ^ -((change & 1).cast_signed());
            value = value.wrapping_add(change);
            let Some(length) = varint(&mut rest) else { break };
            let Some(end) = at.checked_add(u64::from(length) * u64::from(self.quantum)) else {
                break;
            };
            at = end;
            take(value, at)?;
        }
        ControlFlow::Continue(())
    }

    /// `None` before Go 1.18.
    fn flags(&self, description: usize) -> Option<Flags> {
        let field = match self.version {
            Version::Go2 | Version::Go16 => return None,
            Version::Go18 => 8,
            Version::Go20 => 9,
        };
        let flags = self.field(description, field)? >> 8;
        Some(Flags { is_top: flags & 1 != 0, switches_stacks: flags & 2 != 0 })
    }
}

/// The size of an address or an offset in the list of functions, in bytes.
fn field(version: Version) -> usize {
    if version < Version::Go18 { POINTER } else { 4 }
}

fn number(bytes: &[u8], at: usize, size: usize) -> Option<u64> {
    let mut word = [0; 8];
    word[..size].copy_from_slice(bytes.get(at..at.checked_add(size)?)?);
    Some(u64::from_le_bytes(word))
}

/// A number of seven bits a byte, the lowest first.
fn varint(from: &mut &[u8]) -> Option<u32> {
    let mut number = 0_u32;
    for shift in (0..32).step_by(7) {
        let (&byte, rest) = from.split_first()?;
        *from = rest;
        number |= u32::from(byte & 0x7F) << shift;
        if byte & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}

/// The first bytes of a table: the version, and the size of the smallest instruction.
fn magic(bytes: &[u8]) -> Option<(Version, u32)> {
    let &[a, b, c, d, 0, 0, quantum @ (1 | 2 | 4), 8] = bytes else { return None };
    let version = match u32::from_le_bytes([a, b, c, d]) {
        0xFFFF_FFFB => Version::Go2,
        0xFFFF_FFFA => Version::Go16,
        0xFFFF_FFF0 => Version::Go18,
        0xFFFF_FFF1 => Version::Go20,
        _ => return None,
    };
    Some((version, quantum.into()))
}

impl<'d, R: ReadRef<'d>> Elf<'d, R> {
    /// The table of a Go program: a section, or anywhere in its data if the file has no sections, or the C linker has joined them.
    pub(super) fn go_table(&self) -> Option<GoTable<'d>> {
        let section = SECTIONS.into_iter().find_map(|name| self.section_within(name, MOST_TABLE));
        match section {
            Some((bytes, address)) => self.go_table_in(bytes, address),
            None if self.may_have_go_table() => self.in_data(|bytes, address| {
                magic(bytes.get(..POINTER)?)?;
                self.go_table_in(bytes, address)
            }),
            None => None,
        }
    }

    /// How many bytes the table has.
    pub(super) fn go_table_bytes(&self) -> u64 {
        let section = |name: &str| self.sections.section_by_name(self.endian, name.as_bytes());
        match SECTIONS.into_iter().find_map(section) {
            Some((_, header)) => header.sh_size(self.endian),
            None => self.go_table().map_or(0, |table| table.len() as u64),
        }
    }

    /// Whether the table may be where no section begins.
    fn may_have_go_table(&self) -> bool {
        self.sections.is_empty()
            || self.sections.section_by_name(self.endian, b".go.buildinfo").is_some()
    }

    fn go_table_in(&self, bytes: &'d [u8], address: u64) -> Option<GoTable<'d>> {
        let table = GoTable::parse(bytes, || self.go_text(address))?;
        let (start, end) = (table.start(0)?, table.start(table.count)?);
        let is_code = start < end && self.is_executable(start) && self.is_executable(end - 1);
        is_code.then_some(table)
    }

    /// Where the text begins, by the description of the program that refers to the table at this address.
    fn go_text(&self, table: u64) -> Option<u64> {
        let text = |bytes: &[u8]| {
            let is_it = number(bytes, 0, POINTER)? == table;
            is_it.then(|| number(bytes, TEXT_IN_MODULE, POINTER))?
        };
        match self.section_within(".go.module", MOST_TABLE) {
            Some((bytes, _)) => text(bytes),
            None => self.in_data(|bytes, _| text(bytes)),
        }
    }

    /// The first match of `find` in the data of the program, at a multiple of eight bytes; it gets the bytes and their address.
    fn in_data<T>(&self, mut find: impl FnMut(&'d [u8], u64) -> Option<T>) -> Option<T> {
        let mut left = MOST_SEARCHED;
        for segment in self.segments().iter().filter(|it| !it.executable && it.size > 0) {
            let Some(bytes) = self.mapped(segment.address, segment.size.min(left)) else {
                continue;
            };
            left -= bytes.len() as u64;
            for at in (0..bytes.len()).step_by(POINTER) {
                if let Some(found) = find(&bytes[at..], segment.address.wrapping_add(at as u64)) {
                    return Some(found);
                }
            }
        }
        None
    }

    /// The hash of the content that is in the build ID of a Go program; linkers may write another text there.
    pub(super) fn go_build_id(&self) -> Option<&'d [u8]> {
        let (note, _) = self.section_within(".note.go.buildid", LONGEST_ID as u64)?;
        let size = usize::try_from(number(note, 4, 4)?).ok()?;
        let is_it = note.get(12..16)? == b"Go\0\0";
        let id = note.get(16..)?.get(..size).filter(|_| is_it)?;
        let (_, content) = id.split_at_checked(id.iter().rposition(|byte| *byte == b'/')? + 1)?;
        let is_hash = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_".contains(byte);
        (content.len() == CONTENT_ID && content.iter().all(is_hash)).then_some(content)
    }
}
