//! Checks that stacks can be unwound with a file's tables (`.eh_frame`) in bounded time.
//!
//! A rule of these tables can be an expression, a small program with jumps. The evaluator has no limit, so an untrusted file could keep a
//! recorder busy forever. No compiler emits jumps there: a file with a jump is unwound without its tables.
//!
//! The file also controls the length of an entry and its references: entries may overlap, and all of them may refer to one description that
//! is as long as the file. So reading is limited, and an index (`.eh_frame_hdr`) is used only if it leads to entries that were checked.
//!
//! To find the rules at an address, all instructions before it are executed, and some are expensive: DW_CFA_remember_state copies the rules
//! of up to 192 registers. So the work that each entry may take is summed up here, and expensive entries are listed ([`CostlyRange`]), so
//! that the unwinder can give them a budget. Among four million entries in 2400 files of Debian, Rust and Chromium, 1900 are expensive
//! (0.05 %): the longest functions of compilers, with at most 22 000 steps.

use std::collections::HashMap;

use gimli::{
    AArch64, BaseAddresses, CallFrameInstruction as Instruction, CieOrFde, CommonInformationEntry,
    EhFrame, EhFrameHdr, EhFrameOffset, Encoding, EndianSlice, LittleEndian, Operation,
    UnwindExpression, UnwindSection,
};

/// The maximum length of an entry, in bytes: all of its instructions are executed for one step.
const LONGEST: usize = 64 << 10;

/// How often as many bytes as the whole table has may be read.
const READS: usize = 4;

/// An entry with at least this much work is listed.
const COSTLY: u64 = 512;

/// How many registers can have rules.
const MOST_RULES: usize = 192;

/// The work for a byte of an expression, in instructions.
const EXPRESSION_BYTE: u64 = 4;

/// The sizes of pointers of all supported processors, in bytes.
const POINTER: u8 = 8;

type Slice<'b> = EndianSlice<'b, LittleEndian>;
type Section<'b> = EhFrame<Slice<'b>>;

/// The common part of entries, and the work for its instructions.
type Common<'b> = (CommonInformationEntry<Slice<'b>>, Work);

/// The result of [`usable`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Usable {
    /// An index as a linker would write it for the tables, by their contents; `None` if the file's own index can be used.
    pub index: Option<Vec<u8>>,
    /// In ascending order.
    pub costly: Vec<CostlyRange>,
}

/// Addresses at which it takes much work to find the rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CostlyRange {
    pub start: u64,
    pub end: u64,
    /// The maximum, in executed instructions.
    pub work: u32,
}

/// Whether `frames` and `index` can be used, each the bytes of a section and its address.
pub fn usable(frames: (&[u8], u64), index: Option<(&[u8], u64)>) -> Option<Usable> {
    let mut entries = Check::new(frames).entries()?;
    if let Some(costly) = index.and_then(|index| leads_to(index, frames, &entries)) {
        return Some(Usable { index: None, costly });
    }
    entries.sort_unstable_by_key(|entry| (entry.start, entry.at));
    let index = Some(index_of(&entries, frames.1)?);
    let mut costly = CostlyRanges::default();
    entries.iter().for_each(|entry| costly.add(entry));
    Some(Usable { index, costly: costly.done() })
}

/// `None` if the functions are too far from the tables.
fn index_of(entries: &[Entry], address: u64) -> Option<Vec<u8>> {
    // The index has the address of the tables, 4 bytes before the field that holds this address.
    let mut bytes = vec![1, 0x1B, 0x03, 0x3B];
    bytes.extend((-4_i32).to_le_bytes());
    bytes.extend(u32::try_from(entries.len()).ok()?.to_le_bytes());
    for Entry { at, start, .. } in entries {
        let from_here = i32::try_from(start.wrapping_sub(address).cast_signed()).ok()?;
        bytes.extend(from_here.to_le_bytes());
        bytes.extend(i32::try_from(*at).ok()?.to_le_bytes());
    }
    Some(bytes)
}

/// The entry of a function.
#[derive(Clone, Copy, Debug)]
struct Entry {
    /// Its position in the section.
    at: usize,
    /// Where the function begins.
    start: u64,
    work: u64,
}

/// Makes the list from entries in the order of an index. A search finds the last entry before an address, even if the function does not
/// reach that far; the first entry for addresses before all; and any of several entries with the same beginning.
#[derive(Default)]
struct CostlyRanges {
    all: Vec<CostlyRange>,
    /// The beginning of the last entry, and the maximum work of the entries that begin there.
    last: Option<(u64, u64)>,
}

impl CostlyRanges {
    fn add(&mut self, entry: &Entry) {
        match &mut self.last {
            Some((start, work)) if *start == entry.start => *work = entry.work.max(*work),
            Some(_) => {
                self.end(entry.start);
                self.last = Some((entry.start, entry.work));
            }
            None => self.last = Some((0, entry.work)),
        }
    }

    fn end(&mut self, end: u64) {
        if let Some((start, work)) = self.last.filter(|(_, work)| *work >= COSTLY) {
            self.all.push(CostlyRange { start, end, work: work.try_into().unwrap_or(u32::MAX) });
        }
    }

    fn done(mut self) -> Vec<CostlyRange> {
        self.end(u64::MAX);
        self.all
    }
}

/// The maximum work that instructions take.
#[derive(Clone, Debug, Default)]
struct Work {
    done: u64,
    /// The registers that may have rules: a bit for each, and their number.
    seen: [u64; MOST_RULES / 64],
    rules: u64,
}

impl Work {
    fn add(&mut self, instruction: &Instruction<usize>) {
        self.done += 1;
        match instruction {
            Instruction::Undefined { register }
            | Instruction::SameValue { register }
            | Instruction::Offset { register, .. }
            | Instruction::OffsetExtendedSf { register, .. }
            | Instruction::ValOffset { register, .. }
            | Instruction::ValOffsetSf { register, .. }
            | Instruction::Expression { register, .. }
            | Instruction::ValExpression { register, .. }
            | Instruction::Restore { register }
            | Instruction::Register { dest_register: register, .. } => self.set(register.0),
            Instruction::NegateRaState => self.set(AArch64::RA_SIGN_STATE.0),
            // All rules are copied.
            Instruction::RememberState => self.done += self.rules,
            _ => {}
        }
        if let Some(expression) = expression_of(instruction) {
            self.done += (expression.length as u64).saturating_mul(EXPRESSION_BYTE);
        }
    }

    /// The rule is searched for among all rules.
    fn set(&mut self, register: u16) {
        let (word, bit) = (usize::from(register / 64), 1 << (register % 64));
        let is_known = self.seen.get(word).is_some_and(|seen| seen & bit != 0);
        if !is_known && self.rules < MOST_RULES as u64 {
            self.rules += 1;
        }
        if let Some(seen) = self.seen.get_mut(word) {
            *seen |= bit;
        }
        self.done += self.rules;
    }
}

fn expression_of(instruction: &Instruction<usize>) -> Option<UnwindExpression<usize>> {
    match instruction {
        Instruction::DefCfaExpression { expression }
        | Instruction::Expression { expression, .. }
        | Instruction::ValExpression { expression, .. } => Some(*expression),
        _ => None,
    }
}

struct Check<'b> {
    section: Section<'b>,
    bases: BaseAddresses,
    /// The common parts of entries that were checked.
    common: HashMap<usize, Common<'b>>,
    /// How many more bytes may be read.
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

    /// The entries of functions, in ascending order of their addresses; `None` if one of them cannot be used.
    fn entries(&mut self) -> Option<Vec<Entry>> {
        let mut found = Vec::new();
        let (section, bases) = (self.section, self.bases.clone());
        let mut entries = section.entries(&bases);
        // No reader finds entries after an unreadable one.
        while let Ok(Some(entry)) = entries.next() {
            let CieOrFde::Fde(partial) = entry else { continue };
            self.pays(partial.entry_len())?;
            let (common, mut work) = self.common(partial.cie_offset())?;
            let Ok(entry) = partial.parse(|_, _, _| Ok(common.clone())) else { continue };
            let mut instructions = entry.instructions(&section, &bases);
            // Each function begins with a copy of the common rules.
            work.done += work.rules;
            self.follow(common.encoding(), &mut work, || instructions.next())?;
            let (at, start) = (entry.offset(), entry.initial_address());
            found.push(Entry { at, start, work: work.done });
        }
        Some(found)
    }

    /// The common part at an offset.
    fn common(&mut self, at: EhFrameOffset) -> Option<Common<'b>> {
        if let Some(known) = self.common.get(&at.0) {
            return Some(known.clone());
        }
        let (section, bases) = (self.section, self.bases.clone());
        let common = section.cie_from_offset(&bases, at).ok()?;
        self.pays(common.entry_len())?;
        let mut instructions = common.instructions(&section, &bases);
        let mut work = Work::default();
        self.follow(common.encoding(), &mut work, || instructions.next())?;
        self.common.insert(at.0, (common, work));
        self.common.get(&at.0).cloned()
    }

    fn pays(&mut self, length: usize) -> Option<()> {
        self.left = self.left.checked_sub(length).filter(|_| length <= LONGEST)?;
        Some(())
    }

    /// `None` if an expression among the instructions contains a jump. Instructions after an unreadable one are never executed.
    fn follow(
        &self,
        encoding: Encoding,
        work: &mut Work,
        mut next: impl FnMut() -> gimli::Result<Option<Instruction<usize>>>,
    ) -> Option<()> {
        while let Ok(Some(instruction)) = next() {
            work.add(&instruction);
            if expression_of(&instruction).is_some_and(|it| self.jumps(&it, encoding)) {
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

/// The ranges of costly addresses according to an index, whose rows must be `entries`, in ascending order of the functions' beginnings;
/// `None` if the index has other rows.
fn leads_to(
    index: (&[u8], u64),
    frames: (&[u8], u64),
    entries: &[Entry],
) -> Option<Vec<CostlyRange>> {
    let bases = BaseAddresses::default().set_eh_frame(frames.1).set_eh_frame_hdr(index.1);
    let parsed = EhFrameHdr::new(index.0, LittleEndian).parse(&bases, POINTER).ok()?;
    let table = parsed.table()?;
    let first = parsed.eh_frame_ptr().direct().ok()?;
    let (mut rows, mut costly, mut last) = (table.iter(&bases), CostlyRanges::default(), 0);
    while let Some((start, pointer)) = rows.next().ok()? {
        let (start, at) = (start.direct().ok()?, pointer.direct().ok()?);
        // Addresses before the first entry are treated like those far after it.
        let at = usize::try_from(at.checked_sub(first)?).ok()?;
        let entry = &entries[entries.binary_search_by_key(&at, |entry| entry.at).ok()?];
        if entry.start != start || start < std::mem::replace(&mut last, start) {
            return None;
        }
        costly.add(entry);
    }
    Some(costly.done())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Where the tables are.
    const ADDRESS: u64 = 0x3000;

    /// An entry: its length, and its content.
    fn entry(content: &[u8]) -> Vec<u8> {
        let mut bytes = (content.len() as u32).to_le_bytes().to_vec();
        bytes.extend(content);
        bytes
    }

    /// A common part, followed by the entry of a function with these instructions.
    fn frames(instructions: &[u8]) -> Vec<u8> {
        // Version 1, augmentation "zR" of one byte, code factor 1, data factor -8, return address in register 16; pointers have 4 bytes,
        // relative.
        let mut bytes = entry(&[0, 0, 0, 0, 1, b'z', b'R', 0, 1, 0x78, 16, 1, 0x1B]);
        let mut own = (bytes.len() as u32 + 4).to_le_bytes().to_vec();
        own.extend([0, 0x10, 0, 0, 0x40, 0, 0, 0, 0]);
        own.extend(instructions);
        bytes.extend(entry(&own));
        bytes
    }

    /// An index that leads to one entry, for a function that begins at `start`.
    fn index(to: u32, start: u32) -> Vec<u8> {
        // At 0x2000, with the tables 0x1000 after it: the first pointer is counted from itself.
        let mut bytes = vec![1, 0x1B, 0x03, 0x3B];
        bytes.extend((0x1000_u32 - 4).to_le_bytes());
        bytes.extend(1_u32.to_le_bytes());
        bytes.extend((start - 0x2000).to_le_bytes());
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
        assert!(usable((&plain, ADDRESS), None).is_some_and(|it| it.costly.is_empty()));
        for jumping in [&[0x2F, 0xFD, 0xFF][..], &[0x30, 0x28, 0xFC, 0xFF]] {
            let endless = frames(&expression(jumping));
            assert_eq!(usable((&endless, ADDRESS), None), None, "{jumping:x?}");
            // For the rule of a register, and for the value of one.
            for rule in [0x10, 0x16] {
                let of_register = [&[rule, 6][..], &expression(jumping)[1..]].concat();
                assert_eq!(usable((&frames(&of_register), ADDRESS), None), None);
            }
        }
    }

    #[test]
    fn an_index_is_used_if_it_leads_to_entries() {
        let frames = frames(&[0x0C, 7, 8]);
        let start = ADDRESS as u32 + 17 + 8 + 0x1000;
        let with = |to, start| {
            let found = usable((&frames, ADDRESS), Some((&index(to, start), 0x2000)));
            found.expect("the tables can be used").index.is_none()
        };
        assert_eq!((with(17, start), with(18, start), with(0, start)), (true, false, false));
        // If it did not match the function's beginning, it would be found for other functions.
        assert!(!with(17, start + 1));
    }

    #[test]
    fn an_index_is_made_for_tables_that_have_none() {
        // Two functions with one common part, the second function's entry first.
        let mut bytes = frames(&[]);
        let second = bytes.len() as u32;
        let own = [second + 4, 0x0800, 0x40, 0].map(u32::to_le_bytes);
        bytes.extend(entry(&own.concat()));
        let made = |address| usable((&bytes, address), None).expect("usable").index.expect("made");
        let far = made(1 << 40).len();
        let made = made(ADDRESS);
        let again = usable((&bytes, ADDRESS), Some((&made, ADDRESS)));
        assert_eq!(again, Some(Usable::default()));
        let word = |at: usize| u32::from_le_bytes(made[at..at + 4].try_into().expect("4 bytes"));
        assert_eq!((word(8), word(16), word(24)), (2, second, 17));
        assert_eq!(far, 28);
    }

    #[test]
    fn entries_that_would_be_read_again_and_again_are_not_used() {
        // Common parts of 20 bytes, whose reach is given by `reach`, and an entry for each of them.
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
        assert!(of(&|_| 16).is_some());
        assert_eq!(of(&|at| count * 20 - at - 4), None);
    }

    #[test]
    fn what_takes_much_work_is_listed_by_what_a_search_finds() {
        let work = |instructions: &[u8]| {
            let found = usable((&frames(instructions), ADDRESS), None).expect("it can be used");
            // The only entry is found for all addresses.
            let whole = |it: &CostlyRange| (it.start, it.end) == (0, u64::MAX);
            assert!(found.costly.iter().all(whole) && found.costly.len() < 2, "{:?}", found.costly);
            found.costly.first().map_or(0, |costly| costly.work)
        };
        assert_eq!(work(&[0; COSTLY as usize - 1]), 0);
        assert_eq!(work(&[0; COSTLY as usize]), COSTLY as u32);
        // DW_CFA_same_value of 120 registers, twice, and then DW_CFA_remember_state with DW_CFA_restore_state.
        let rules: Vec<u8> = (0..120).flat_map(|register| [0x08, register]).collect();
        let (first, second) = (120 + 120 * 121 / 2, 120 + 120 * 120);
        assert_eq!(work(&rules), first);
        assert_eq!(work(&[&rules[..], &rules].concat()), first + second);
        let copies = [&rules[..], &[0x0A, 0x0B].repeat(1000)].concat();
        assert_eq!(work(&copies), first + 1000 * (120 + 2));
        // A rule that is an expression of 125 bytes: DW_OP_dup and DW_OP_drop.
        let long = [&[0x0F, 125, 0x77, 8][..], &[0x12, 0x13].repeat(61), &[0x96]].concat();
        assert_eq!(work(&long.repeat(2)), 2 * (1 + 125 * 4));
    }

    #[test]
    fn work_is_listed_from_one_beginning_to_the_next() {
        let mut costly = CostlyRanges::default();
        let (little, much) = (COSTLY - 1, COSTLY * 2);
        for (start, work) in [(10, much), (20, little), (20, much), (20, little), (30, little)] {
            costly.add(&Entry { at: 0, start, work });
        }
        costly.add(&Entry { at: 0, start: 40, work: u64::MAX });
        let range = |start, end, work| CostlyRange { start, end, work };
        let work = much as u32;
        let listed = [range(0, 20, work), range(20, 30, work), range(40, u64::MAX, u32::MAX)];
        assert_eq!(costly.done(), listed);
    }

    proptest::proptest! {
        #[test]
        fn no_bytes_make_it_panic(
            lies in proptest::collection::vec((0_usize..60, proptest::num::u8::ANY), 1..8),
        ) {
            let (mut frames, mut index) = (frames(&expression(&[0x77, 8, 0x2F, 0, 0])), index(17, 0x4019));
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
