//! Source lines from DWARF, with inlined functions, or from the table of a Go program.

use std::fmt;
use std::rc::Rc;

use addr2line::Context;
use gimli::{Dwarf, SectionId};
use object::ReadRef;

use super::Elf;
use super::go::GoTable;
use super::guarded::{Allowance, Guarded};

/// Maximum number of bytes read from one file. A browser's debug information is larger.
const MOST_BYTES: usize = 256 << 20;

/// How many times all of a file's debug information may be read, in addition to this many bytes, to find functions and lines.
const READS: usize = 4;
const READS_BESIDES: usize = 4 << 20;

/// The maximum number of bytes to read for one address.
const READS_OF_ONE: usize = 1 << 20;

/// The maximum length of an attribute list in the abbreviation table, in bytes, before less of the file is read. Attributes may take no
/// bytes in the data that they describe, so each byte there can cost as much as the longest list. Compilers write about 40.
const LIST_BYTES: usize = 128;

/// The maximum size of the names for one address, in bytes: all functions inlined there may share one long name.
const TEXT_OF_ONE: usize = 32 << 10;

/// A location in source code, with the readable name of its function.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Line {
    pub function: Option<String>,
    /// The path that the compiler was given.
    pub file: Option<String>,
    pub line: Option<u32>,
}

/// The lines of a file.
pub struct Lines(Origin);

enum Origin {
    Dwarf(Units),
    Go(GoTable<'static>),
}

/// The content of DWARF.
struct Units {
    context: Context<Guarded>,
    left: Rc<Allowance>,
    /// The data read for one address.
    of_one: usize,
}

impl fmt::Debug for Lines {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lines").finish_non_exhaustive()
    }
}

impl Lines {
    /// The lines of a Go program, which needs no debug information for that; DWARF contains more.
    pub fn of_go<'d, R: ReadRef<'d>>(elf: &Elf<'d, R>) -> Option<Lines> {
        elf.go_table()?.into_owned().map(|table| Lines(Origin::Go(table)))
    }

    /// `None` if the file has no debug information, too much of it, or compressed debug information.
    pub fn of<'d, R: ReadRef<'d>>(elf: &Elf<'d, R>) -> Option<Lines> {
        elf.section_within(".debug_line", MOST_BYTES as u64)
            .filter(|_| !elf.is_compressed(".debug_line"))?;
        let allowance = Rc::new(Allowance::default());
        let (mut left, mut cost) = (MOST_BYTES, 1);
        let load = |id: SectionId| -> Result<Guarded, ()> {
            let section = elf.section_within(id.name(), left as u64);
            let bytes = section.map_or(&[][..], |(bytes, _)| bytes);
            left = left.checked_sub(bytes.len()).ok_or(())?;
            if id == SectionId::DebugAbbrev {
                cost = longest_list(bytes).div_ceil(LIST_BYTES).max(1);
            }
            Ok(Guarded::new(bytes, allowance.clone()))
        };
        let dwarf = Dwarf::load(load).ok()?;
        allowance.bytes.set(((MOST_BYTES - left) * READS + READS_BESIDES) / cost);
        allowance.starts_here();
        let context = Context::from_dwarf(dwarf).ok()?;
        let of_one = READS_OF_ONE / cost;
        Some(Lines(Origin::Dwarf(Units { context, left: allowance, of_one })))
    }

    /// The source of the instruction at an address: an inlined function precedes the one that contains it.
    pub fn at(&self, address: u64) -> Vec<Line> {
        match &self.0 {
            Origin::Dwarf(units) => units.at(address),
            Origin::Go(table) => table.line(address).into_iter().collect(),
        }
    }
}

impl Units {
    /// Names beyond [`TEXT_OF_ONE`] are cut off.
    fn at(&self, address: u64) -> Vec<Line> {
        self.left.starts_here();
        let Ok(mut frames) = self.context.find_frames(address).skip_all_loads() else {
            return Vec::new();
        };
        // Everything that was read is cached, but this is read again for each address.
        let left = self.left.bytes.replace(self.of_one);
        let (mut lines, mut room) = (Vec::new(), TEXT_OF_ONE);
        while let Ok(Some(frame)) = frames.next() {
            let name = frame.function.as_ref().and_then(|it| it.raw_name().ok());
            let location = frame.location.as_ref();
            let file = location.and_then(|it| it.file);
            // Names are demangled only when they are known to fit.
            let raw = name.as_deref().map_or(0, str::len) + file.map_or(0, str::len);
            let Some(_) = room.checked_sub(raw) else { break };
            let function = name.map(|name| super::Names::of(&name).short.into_owned());
            let shown = function.as_deref().map_or(0, str::len) + file.map_or(0, str::len);
            let Some(left) = room.checked_sub(shown.max(raw).max(1)) else { break };
            room = left;
            let line = location.and_then(|it| it.line);
            lines.push(Line { function, file: file.map(str::to_owned), line });
        }
        self.left.bytes.set(left);
        lines
    }
}

/// The maximum size of an attribute list in bytes, wherever tables begin in the section: each list ends with two zeros, and none contains
/// two zeros.
fn longest_list(abbreviations: &[u8]) -> usize {
    let (mut longest, mut begin) = (0, 0);
    for (at, pair) in abbreviations.windows(2).enumerate() {
        if pair == [0, 0] {
            longest = longest.max(at - begin);
            begin = at;
        }
    }
    longest.max(abbreviations.len() - begin)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The program from which damaged programs are derived.
    const ALONE: &[u8] =
        include_bytes!(concat!(env!("CARGO_MANIFEST_DIR"), "/fuzz/corpus/elf/alone"));

    /// The program with other bytes in a section.
    fn with(name: &[u8], bytes: &[u8]) -> Vec<u8> {
        let mut file = ALONE.to_vec();
        let at = file.len() as u64;
        file.extend(bytes);
        for (field, value) in [(24, at), (32, bytes.len() as u64)] {
            crate::elf::tests::section_header(&mut file, name, field, value);
        }
        file
    }

    fn lines_of(file: &[u8]) -> Option<Vec<Line>> {
        let elf = Elf::parse(file).expect("its head is sound");
        let functions = elf.functions().expect("sound");
        let waits = functions.all.iter().find(|it| it.raw == "waits").expect("it has that");
        // The address of the call in the inlined function.
        Lines::of(&elf).map(|lines| lines.at(waits.address + 10))
    }

    #[test]
    fn functions_that_were_inlined_are_reported_with_their_lines() {
        let lines = lines_of(ALONE).expect("it has lines");
        let functions: Vec<&str> = lines.iter().flat_map(|it| it.function.as_deref()).collect();
        assert_eq!(functions.last(), Some(&"waits"), "{lines:?}");
        assert!(
            lines.iter().all(|it| it.file.as_deref().is_some_and(|it| it.ends_with("sleeps.c")))
        );
    }

    /// The program with other debug information, and no index that leads into it.
    fn described(abbreviations: &[u8], unit: &[u8]) -> Vec<u8> {
        let info = [&(unit.len() as u32).to_le_bytes()[..], unit].concat();
        let mut file = with(b".debug_info", &info);
        let at = file.len() as u64;
        file.extend(abbreviations);
        for (field, value) in [(24, at), (32, abbreviations.len() as u64)] {
            crate::elf::tests::section_header(&mut file, b".debug_abbrev", field, value);
        }
        crate::elf::tests::section_header(&mut file, b".debug_aranges", 32, 0);
        file
    }

    #[test]
    fn a_million_functions_each_inlined_into_the_next_do_not_use_up_the_stack() {
        // A unit that covers everything, a function that covers everything, and a million functions inlined into it without an end.
        let abbreviations = [
            1, 0x11, 1, 0x11, 0x01, 0x12, 0x06, 0,
            0, // compile_unit: low_pc address, high_pc data4
            2, 0x2E, 1, 0x11, 0x01, 0x12, 0x06, 0, 0, // subprogram, the same
            3, 0x1D, 1, 0, 0, // inlined_subroutine
            0,
        ];
        let mut unit = vec![5, 0, 1, 8, 0, 0, 0, 0];
        for code in [1_u8, 2] {
            unit.push(code);
            unit.extend(0_u64.to_le_bytes());
            unit.extend(u32::MAX.to_le_bytes());
        }
        unit.extend(vec![3; 1_000_000]);
        assert_eq!(lines_of(&described(&abbreviations, &unit)), Some(Vec::new()));
    }

    #[test]
    fn names_that_all_which_is_inlined_shares_do_not_make_a_small_file_take_gigabytes() {
        // A unit that covers everything, a function that covers everything, and a hundred functions inlined into it, which refer to one
        // name.
        let reported = |name: usize| {
            let abbreviations = [
                &[1, 0x11, 1, 0x11, 0x01, 0x12, 0x06, 0, 0][..], // compile_unit: low_pc address, high_pc data4
                &[2, 0x2E, 1, 0x03, 0x0E, 0x11, 0x01, 0x12, 0x06, 0, 0], // subprogram: name strp, the same
                &[3, 0x1D, 1, 0x03, 0x0E, 0x11, 0x01, 0x12, 0x06, 0, 0, 0], // inlined_subroutine, the same
            ]
            .concat();
            let range = [&0_u64.to_le_bytes()[..], &u32::MAX.to_le_bytes()].concat();
            let mut unit = vec![5, 0, 1, 8, 0, 0, 0, 0, 1];
            unit.extend(&range);
            for code in std::iter::once(2).chain([3; 100]) {
                unit.extend([code, 0, 0, 0, 0]);
                unit.extend(&range);
            }
            unit.extend([0; 103]);
            let mut file = described(&abbreviations, &unit);
            let at = file.len() as u64;
            file.extend(vec![b'n'; name]);
            file.push(0);
            for (field, value) in [(24, at), (32, name as u64 + 1)] {
                crate::elf::tests::section_header(&mut file, b".debug_str", field, value);
            }
            lines_of(&file).expect("it has lines")
        };
        let long = TEXT_OF_ONE + 1;
        for (name, most) in [(long, 0), (TEXT_OF_ONE / 4, 4), (8, 101)] {
            assert_eq!(reported(name).len(), most, "{name}");
        }
        // It takes more reading than is allowed for one address.
        let lines = reported(READS_OF_ONE);
        assert!(lines.len() <= 101 && lines.iter().all(|line| line.function.is_none()));
    }

    #[test]
    fn attributes_without_bytes_do_not_make_a_small_file_take_minutes() {
        // A million functions of one byte, each with two hundred thousand flags without content.
        let (unit_of_all, flag) = ([1, 0x11, 1, 0x11, 0x01, 0x12, 0x06, 0, 0], [0x3F, 0x19]);
        let mut abbreviations = [&unit_of_all[..], &[2, 0x2E, 0]].concat();
        abbreviations.extend(flag.repeat(200_000));
        abbreviations.extend([0, 0, 0]);
        let mut unit = vec![5, 0, 1, 8, 0, 0, 0, 0, 1];
        unit.extend(0_u64.to_le_bytes());
        unit.extend(u32::MAX.to_le_bytes());
        unit.extend(vec![2; 1_000_000]);
        assert_eq!(lines_of(&described(&abbreviations, &unit)), Some(Vec::new()));
    }

    #[test]
    fn a_list_of_attributes_ends_at_two_zeros_wherever_it_begins() {
        assert_eq!(longest_list(&[]), 0);
        assert_eq!(longest_list(&[1, 0x11, 1, 3, 8, 0, 0, 0]), 5);
        // A constant that is part of the list may be zero.
        assert_eq!(longest_list(&[0, 0, 0, 1, 0x11, 1, 3, 0x21, 0, 3, 8, 0, 0, 0]), 10);
        assert_eq!(longest_list(&[0, 0, 7, 7, 7, 7]), 6);
        let elf = Elf::parse(ALONE).expect("sound");
        let (compiled, _) = elf.section_within(".debug_abbrev", 1 << 20).expect("it has some");
        assert!(longest_list(compiled) < LIST_BYTES);
    }
}
