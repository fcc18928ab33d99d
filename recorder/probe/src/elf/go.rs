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
//! A lookup is a search in a sorted list, so of a table in a file only a few pages are kept: see [`Elf::backed_by`]. A list of values has no
//! index: it is followed for a limited number of steps.

mod content;
#[cfg(test)]
mod tests;
mod unwind;

use std::ops::ControlFlow;

use object::ReadRef;
use object::read::elf::SectionHeader;

use super::functions::{Function, LONGEST_NAME, most_name_bytes};
use super::{Elf, Line, Segment};
use content::{Content, Cursor, Pages};

pub use unwind::{Frames, go_frames};

/// The section that contains the table: in position-independent programs it used to be among the data that the loader changes.
const SECTIONS: [&str; 2] = [".gopclntab", ".data.rel.ro.gopclntab"];

/// The maximum number of bytes of a table. Kubernetes' programs have 30 MB.
const MOST_TABLE: u64 = 96 << 20;

/// The maximum number of bytes in which a table is searched for if it is not a section.
const MOST_SEARCHED: u64 = 96 << 20;

/// How many bytes are searched at a time.
const SEARCHED: usize = 64 << 10;

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
    bytes: Content<'d>,
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
    fn parse(bytes: Content<'d>, text: impl FnOnce() -> Option<u64>) -> Option<GoTable<'d>> {
        let (version, quantum) = magic(&bytes.number(0, POINTER)?.to_le_bytes())?;
        let word = |number: usize| -> Option<usize> {
            usize::try_from(bytes.number(POINTER * (number + 1), POINTER)?).ok()
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
            files = usize::try_from(bytes.number(end, 4)?).ok()?;
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
    pub(super) fn into_owned(self) -> Option<GoTable<'static>> {
        Some(GoTable { bytes: self.bytes.into_owned()?, ..self })
    }

    fn number(&self, at: usize, size: usize) -> Option<u64> {
        self.bytes.number(at, size)
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

    fn text_at(&self, part: usize, offset: u32) -> Option<String> {
        self.bytes.text(part.checked_add(offset as usize)?, LONGEST_NAME)
    }

    fn name(&self, function: usize) -> Option<String> {
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
    pub(super) fn function(&self, address: u64) -> Option<String> {
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
            Some(Function { address, rank: 0, raw: name, size, chooses: false })
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
        Some(Line { function: self.name(number), file: Some(file), line: Some(line) })
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
        if offset == 0 {
            return ControlFlow::Continue(());
        }
        let mut rest = self.bytes.cursor(begin);
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
fn varint(from: &mut Cursor<'_, '_>) -> Option<u32> {
    let mut number = 0_u32;
    for shift in (0..32).step_by(7) {
        let byte = from.next()?;
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
        let section = SECTIONS.into_iter().find_map(|name| self.content_of(name, MOST_TABLE));
        match section {
            Some((content, address)) => self.go_table_in(content, address),
            None if self.may_have_go_table() => self.in_data(|bytes, rest, address| {
                magic(bytes.get(..POINTER)?)?;
                self.go_table_in(rest()?, address)
            }),
            None => None,
        }
    }

    /// A section of at most `most` bytes, and its address.
    fn content_of(&self, name: &str, most: u64) -> Option<(Content<'d>, u64)> {
        let Some(file) = self.file else {
            let (bytes, address) = self.section_within(name, most)?;
            return Some((Content::Memory(bytes.into()), address));
        };
        let (_, header) = self.sections.section_by_name(self.endian, name.as_bytes())?;
        // Such a section is loaded, and therefore not compressed.
        let (begin, size) = header.file_range(self.endian)?;
        let pages = Pages::new(file, begin, size).filter(|_| size <= most)?;
        Some((Content::File(pages), header.sh_addr(self.endian)))
    }

    /// The first bytes of a segment.
    fn content_of_segment(&self, segment: &Segment, most: u64) -> Option<Content<'d>> {
        let size = segment.size.min(most);
        Some(match self.file {
            Some(file) => Content::File(Pages::new(file, segment.offset, size)?),
            None => Content::Memory(self.mapped(segment.address, size)?.into()),
        })
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

    fn go_table_in(&self, bytes: Content<'d>, address: u64) -> Option<GoTable<'d>> {
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
        match self.content_of(".go.module", MOST_TABLE) {
            Some((content, _)) => {
                let mut bytes = [0; TEXT_IN_MODULE + POINTER];
                let count = content.read(0, &mut bytes);
                text(&bytes[..count])
            }
            None => self.in_data(|bytes, _, _| text(bytes)),
        }
    }

    /// The first match of `find` in the data of the program, at a multiple of eight bytes. It gets the next bytes, which are as many as it
    /// needs except at the end of a segment, all that follow, and their address.
    fn in_data<T>(
        &self,
        mut find: impl FnMut(&[u8], &dyn Fn() -> Option<Content<'d>>, u64) -> Option<T>,
    ) -> Option<T> {
        const NEEDED: usize = TEXT_IN_MODULE + POINTER;
        let mut left = MOST_SEARCHED;
        let mut piece = vec![0; SEARCHED + NEEDED];
        for segment in self.segments().iter().filter(|it| !it.executable && it.size > 0) {
            let Some(content) = self.content_of_segment(segment, left) else { continue };
            left -= content.len() as u64;
            for begin in (0..content.len()).step_by(SEARCHED) {
                let count = content.read(begin, &mut piece);
                for at in (0..count.min(SEARCHED)).step_by(POINTER) {
                    let address = segment.address.wrapping_add((begin + at) as u64);
                    let rest = || content.from(begin + at);
                    if let Some(found) = find(&piece[at..count], &rest, address) {
                        return Some(found);
                    }
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
