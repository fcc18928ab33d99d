//! Whether stacks can be unwound by a file's tables (`.eh_frame`) in a time that has a limit.
//!
//! A rule of these tables can be an expression, which is a small program, with jumps. What evaluates it for us sets no limit, so a file
//! of anybody could keep a recorder busy for ever. No compiler writes jumps there: a file that has one is unwound without its tables.
//!
//! An entry's length and what it refers to are whatever the file says, too: entries within others, and a description that all others
//! refer to, and that is as long as the file. So what is read has a limit, and an index (`.eh_frame_hdr`) is only taken if it leads to
//! entries that were looked at.

use std::collections::HashMap;

use gimli::{
    BaseAddresses, CallFrameInstruction as Instruction, CieOrFde, CommonInformationEntry, EhFrame,
    EhFrameHdr, EhFrameOffset, Encoding, EndianSlice, LittleEndian, Operation, UnwindExpression,
    UnwindSection,
};

/// The longest entry, in bytes: all of its instructions are followed for one step.
const LONGEST: usize = 64 << 10;

/// How often what is as long as the whole table is read.
const READS: usize = 4;

/// Pointers of all processors that are known, in bytes.
const POINTER: u8 = 8;

type Slice<'b> = EndianSlice<'b, LittleEndian>;
type Section<'b> = EhFrame<Slice<'b>>;

/// What [`usable`] found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Usable {
    /// The tables and the index.
    All,
    /// The tables only.
    Tables,
    Nothing,
}

/// Whether `frames` and `index` can be used, each the bytes of a section and its address.
pub fn usable(frames: (&[u8], u64), index: Option<(&[u8], u64)>) -> Usable {
    let mut check = Check::new(frames);
    let Some(entries) = check.entries() else { return Usable::Nothing };
    let places: Vec<usize> = entries.iter().map(|(at, _)| *at).collect();
    match index {
        Some(index) if leads_to(index, frames, &places) => Usable::All,
        _ => Usable::Tables,
    }
}

/// An index of tables that can be used and have none, as a linker would write it where the tables are: by what is at the address of `frames`.
/// `None` if that is too far from the functions.
pub fn index_of(frames: (&[u8], u64)) -> Option<Vec<u8>> {
    let mut entries = Check::new(frames).entries()?;
    entries.sort_unstable_by_key(|(at, start)| (*start, *at));
    // Its place is that of the tables, 4 bytes before where their address is told.
    let mut bytes = vec![1, 0x1B, 0x03, 0x3B];
    bytes.extend((-4_i32).to_le_bytes());
    bytes.extend(u32::try_from(entries.len()).ok()?.to_le_bytes());
    for (at, start) in entries {
        let from_here = i32::try_from(start.wrapping_sub(frames.1).cast_signed()).ok()?;
        bytes.extend(from_here.to_le_bytes());
        bytes.extend(i32::try_from(at).ok()?.to_le_bytes());
    }
    Some(bytes)
}

struct Check<'b> {
    section: Section<'b>,
    bases: BaseAddresses,
    /// The common parts of entries that were looked at.
    common: HashMap<usize, CommonInformationEntry<Slice<'b>>>,
    /// How much more is read, in bytes.
    left: usize,
}

impl<'b> Check<'b> {
    fn new((bytes, address): (&'b [u8], u64)) -> Check<'b> {
        let mut section = EhFrame::new(bytes, LittleEndian);
        section.set_address_size(POINTER);
        let bases = BaseAddresses::default().set_eh_frame(address);
        let left = bytes.len().saturating_mul(READS);
        Check { section, bases, common: HashMap::new(), left }
    }

    /// Where the entries of functions are, in ascending order, with where the functions begin; `None` if one of them cannot be used.
    fn entries(&mut self) -> Option<Vec<(usize, u64)>> {
        let mut found = Vec::new();
        let (section, bases) = (self.section, self.bases.clone());
        let mut entries = section.entries(&bases);
        // What is behind an entry that cannot be read is found by nobody.
        while let Ok(Some(entry)) = entries.next() {
            let CieOrFde::Fde(partial) = entry else { continue };
            self.pays(partial.entry_len())?;
            let common = self.common(partial.cie_offset())?;
            let Ok(entry) = partial.parse(|_, _, _| Ok(common.clone())) else { continue };
            let mut instructions = entry.instructions(&section, &bases);
            self.follow(common.encoding(), || instructions.next())?;
            found.push((entry.offset(), entry.initial_address()));
        }
        Some(found)
    }

    /// The common part at an offset.
    fn common(&mut self, at: EhFrameOffset) -> Option<CommonInformationEntry<Slice<'b>>> {
        if let Some(known) = self.common.get(&at.0) {
            return Some(known.clone());
        }
        let (section, bases) = (self.section, self.bases.clone());
        let common = section.cie_from_offset(&bases, at).ok()?;
        self.pays(common.entry_len())?;
        let mut instructions = common.instructions(&section, &bases);
        self.follow(common.encoding(), || instructions.next())?;
        self.common.insert(at.0, common.clone());
        Some(common)
    }

    fn pays(&mut self, length: usize) -> Option<()> {
        self.left = self.left.checked_sub(length).filter(|_| length <= LONGEST)?;
        Some(())
    }

    /// `None` if an expression among the instructions jumps. What comes behind one that cannot be read is run by nobody.
    fn follow(
        &self,
        encoding: Encoding,
        mut next: impl FnMut() -> gimli::Result<Option<Instruction<usize>>>,
    ) -> Option<()> {
        while let Ok(Some(instruction)) = next() {
            let expression = match instruction {
                Instruction::DefCfaExpression { expression }
                | Instruction::Expression { expression, .. }
                | Instruction::ValExpression { expression, .. } => expression,
                _ => continue,
            };
            if self.jumps(&expression, encoding) {
                return None;
            }
        }
        Some(())
    }

    fn jumps(&self, expression: &UnwindExpression<usize>, encoding: Encoding) -> bool {
        let Ok(expression) = expression.get(&self.section) else { return false };
        let mut operations = expression.operations(encoding);
        while let Ok(Some(operation)) = operations.next() {
            if matches!(operation, Operation::Bra { .. } | Operation::Skip { .. }) {
                return true;
            }
        }
        false
    }
}

/// Whether all that an index has are `entries`.
fn leads_to(index: (&[u8], u64), frames: (&[u8], u64), entries: &[usize]) -> bool {
    let bases = BaseAddresses::default().set_eh_frame(frames.1).set_eh_frame_hdr(index.1);
    let Ok(parsed) = EhFrameHdr::new(index.0, LittleEndian).parse(&bases, POINTER) else {
        return false;
    };
    let Some(table) = parsed.table() else { return false };
    let mut rows = table.iter(&bases);
    loop {
        match rows.next() {
            Ok(None) => return true,
            Ok(Some((_, pointer))) => {
                // What is before the first entry is not told from what is far behind it.
                let (Ok(at), Ok(first)) = (pointer.direct(), parsed.eh_frame_ptr().direct()) else {
                    return false;
                };
                let Some(at) = at.checked_sub(first).and_then(|at| usize::try_from(at).ok()) else {
                    return false;
                };
                if entries.binary_search(&at).is_err() {
                    return false;
                }
            }
            Err(_) => return false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Where the tables are.
    const ADDRESS: u64 = 0x3000;

    /// An entry: its length, and what it has.
    fn entry(content: &[u8]) -> Vec<u8> {
        let mut bytes = (content.len() as u32).to_le_bytes().to_vec();
        bytes.extend(content);
        bytes
    }

    /// A common part, and the entry of a function with these instructions behind it.
    fn frames(instructions: &[u8]) -> Vec<u8> {
        // Version 1, augmentation "zR" of one byte, code by 1, data by -8, returns by register 16; pointers are of 4 bytes, relative.
        let mut bytes = entry(&[0, 0, 0, 0, 1, b'z', b'R', 0, 1, 0x78, 16, 1, 0x1B]);
        let mut own = (bytes.len() as u32 + 4).to_le_bytes().to_vec();
        own.extend([0, 0x10, 0, 0, 0x40, 0, 0, 0, 0]);
        own.extend(instructions);
        bytes.extend(entry(&own));
        bytes
    }

    /// An index that leads to one entry.
    fn index(to: u32) -> Vec<u8> {
        // At 0x2000, with the tables 0x1000 behind it: the first pointer is counted from itself.
        let mut bytes = vec![1, 0x1B, 0x03, 0x3B];
        bytes.extend((0x1000_u32 - 4).to_le_bytes());
        bytes.extend(1_u32.to_le_bytes());
        bytes.extend(0x1000_u32.to_le_bytes());
        bytes.extend((0x1000 + to).to_le_bytes());
        bytes
    }

    /// DW_CFA_def_cfa_expression of these operations.
    fn expression(operations: &[u8]) -> Vec<u8> {
        [&[0x0F, operations.len() as u8], operations].concat()
    }

    #[test]
    fn tables_with_an_expression_that_jumps_are_not_used() {
        // DW_OP_breg7 8; DW_OP_skip -3; DW_OP_lit0, DW_OP_bra -4.
        let plain = frames(&expression(&[0x77, 8]));
        assert_eq!(usable((&plain, ADDRESS), None), Usable::Tables);
        for jumping in [&[0x2F, 0xFD, 0xFF][..], &[0x30, 0x28, 0xFC, 0xFF]] {
            let endless = frames(&expression(jumping));
            assert_eq!(usable((&endless, ADDRESS), None), Usable::Nothing, "{jumping:x?}");
            // For a register's rule, and for the value of one.
            for rule in [0x10, 0x16] {
                let of_register = [&[rule, 6][..], &expression(jumping)[1..]].concat();
                assert_eq!(usable((&frames(&of_register), ADDRESS), None), Usable::Nothing);
            }
        }
    }

    #[test]
    fn an_index_is_used_if_it_leads_to_entries() {
        let frames = frames(&[0x0C, 7, 8]);
        let with = |to| usable((&frames, ADDRESS), Some((&index(to), 0x2000)));
        assert_eq!((with(17), with(18), with(0)), (Usable::All, Usable::Tables, Usable::Tables));
    }

    #[test]
    fn an_index_is_made_for_tables_that_have_none() {
        // Two functions of one common part, the second one's entry first.
        let mut bytes = frames(&[]);
        let second = bytes.len() as u32;
        let own = [second + 4, 0x0800, 0x40, 0].map(u32::to_le_bytes);
        bytes.extend(entry(&own.concat()));
        let made = index_of((&bytes, ADDRESS)).expect("they are near");
        assert_eq!(usable((&bytes, ADDRESS), Some((&made, ADDRESS))), Usable::All);
        let word = |at: usize| u32::from_le_bytes(made[at..at + 4].try_into().expect("4 bytes"));
        assert_eq!((word(8), word(16), word(24)), (2, second, 17));
        assert_eq!(index_of((&bytes, 1 << 40)).map(|made| made.len()), Some(28));
    }

    #[test]
    fn entries_that_would_be_read_again_and_again_are_not_used() {
        // Common parts of 20 bytes that reach as far as `reach` says of each, and an entry for each of them.
        let count = 3000_u32;
        let of = |reach: &dyn Fn(u32) -> u32| {
            let mut bytes = Vec::new();
            for at in (0..count).map(|at| at * 20) {
                let head = [reach(at).to_le_bytes(), [0; 4], *b"\x01zR\0", [1, 0x78, 16, 1]];
                bytes.extend([&head.concat()[..], &[0x1B, 0, 0, 0]].concat());
            }
            for at in 0..count {
                let place = bytes.len() as u32 + 4;
                let own = [place - at * 20, 0x1000, 0x40, 0].map(u32::to_le_bytes);
                bytes.extend(entry(&own.concat()));
            }
            usable((&bytes, ADDRESS), None)
        };
        assert_eq!(of(&|_| 16), Usable::Tables);
        assert_eq!(of(&|at| count * 20 - at - 4), Usable::Nothing);
    }

    proptest::proptest! {
        #[test]
        fn no_bytes_make_it_panic(
            lies in proptest::collection::vec((0_usize..60, proptest::num::u8::ANY), 1..8),
        ) {
            let (mut frames, mut index) = (frames(&expression(&[0x77, 8, 0x2F, 0, 0])), index(17));
            for (at, byte) in lies {
                let length = frames.len();
                match at.checked_sub(length) {
                    None => frames[at] = byte,
                    Some(at) => index[at % 20] = byte,
                }
            }
            usable((&frames, ADDRESS), Some((&index, 0x2000)));
        }
    }
}
