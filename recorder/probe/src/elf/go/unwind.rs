//! Tables to unwind Go functions by, in the form that compilers write for exceptions (`.eh_frame`).
//!
//! Go's own functions have frame pointers, but assembly code that uses no stack memory has none, and threads wait in such code: a walk by
//! frame pointers skips the caller of `runtime.futex`. The Go runtime knows the size of each frame at each instruction, so the return
//! address is at a known distance from the stack pointer.

use std::ops::ControlFlow;

use object::ReadRef;

use super::super::{Arch, CostlyRange, Elf};
use super::GoTable;

/// Registers, by their numbers in these tables.
const FRAME: u8 = 6;
const STACK: u8 = 7;
const RETURN: u8 = 16;

const ADVANCE: u8 = 0x40;
const ADVANCE_1: u8 = 0x02;
const ADVANCE_2: u8 = 0x03;
const ADVANCE_4: u8 = 0x04;
const OFFSET: u8 = 0x80;
const RESTORE: u8 = 0xC0;
const UNDEFINED: u8 = 0x07;
const DEFINE: u8 = 0x0C;
const DEFINE_OFFSET: u8 = 0x0E;

/// The common part of all entries: the return address is 8 bytes below the caller's stack pointer; addresses are relative to their
/// position.
const COMMON: [u8; 24] = [
    20,
    0,
    0,
    0,
    0,
    0,
    0,
    0,
    1,
    b'z',
    b'R',
    0,
    1,
    0x78,
    RETURN,
    1,
    0x1B,
    DEFINE,
    STACK,
    8,
    OFFSET | RETURN,
    1,
    0,
    0,
];

/// The maximum number of functions that move the stack pointer elsewhere. Go has about 20.
const MOST_SWITCHES: usize = 256;

/// The expected and the maximum size of a function's entry, in bytes.
const ENTRY: usize = 32;
const LONGEST_ENTRY: usize = 16 << 10;

/// Tables of a file, with those of its Go functions.
#[derive(Debug)]
pub struct Frames {
    /// The section at this address, in the file's numbering of addresses.
    pub bytes: Vec<u8>,
    pub address: u64,
    /// Functions that switch stacks: from there, only frame pointers lead to the caller, and one caller may be missed.
    pub(super) switches: Vec<(u64, u64)>,
}

impl Frames {
    /// Adds the functions that the tables cannot unwind to those that are too expensive to describe.
    pub fn mark(&self, costly: &mut Vec<CostlyRange>) {
        for &(start, end) in &self.switches {
            let mut split = Vec::with_capacity(costly.len() + 2);
            for it in costly.drain(..) {
                split.extend(
                    (it.start < start).then(|| CostlyRange { end: it.end.min(start), ..it }),
                );
                split
                    .extend((it.end > end).then(|| CostlyRange { start: it.start.max(end), ..it }));
            }
            split.push(CostlyRange { start, end, work: u32::MAX });
            split.sort_unstable_by_key(|it| it.start);
            *costly = split;
        }
    }
}

/// The tables of a Go program, appended to its tables for other functions, if they take at most `room` bytes.
pub fn go_frames<'d, R: ReadRef<'d>>(elf: &Elf<'d, R>, room: usize) -> Option<Frames> {
    if elf.arch() != Arch::X86_64 {
        return None;
    }
    let (own, address) = match elf.section_within(".eh_frame", room as u64) {
        Some((bytes, address)) if !bytes.is_empty() => (bytes, address),
        // Another address that is equally near to the functions.
        _ => (&[][..], elf.segments().iter().find(|segment| segment.executable)?.address),
    };
    let table = elf.go_table()?;
    let mut to = Frames { bytes: sound(own).to_vec(), address, switches: Vec::new() };
    let common = to.bytes.len();
    to.bytes.extend(COMMON);
    for number in 0..table.count {
        if to.bytes.len() + ENTRY > room {
            return None;
        }
        // A function without a valid description is left out.
        let before = to.bytes.len();
        if to.add(&table, number, common).is_none() {
            to.bytes.truncate(before);
        }
    }
    (to.switches.len() <= MOST_SWITCHES && to.bytes.len() > common + COMMON.len()).then_some(to)
}

impl Frames {
    fn add(&mut self, table: &GoTable<'_>, number: usize, common: usize) -> Option<()> {
        let description = table.description(number)?;
        let (start, end) = (table.start(number)?, table.start(number + 1)?);
        let flags = table.flags(description)?;
        let length = u32::try_from(end.checked_sub(start)?).ok().filter(|length| *length > 0)?;
        let begin = self.bytes.len();
        self.bytes.extend([0; 4]);
        let back = u32::try_from(self.bytes.len() - common).ok()?;
        self.bytes.extend(back.to_le_bytes());
        let here = self.address.checked_add(self.bytes.len() as u64)?;
        let from_here = i32::try_from(start.wrapping_sub(here).cast_signed()).ok()?;
        self.bytes.extend(from_here.to_le_bytes());
        self.bytes.extend(length.to_le_bytes());
        self.bytes.push(0);
        if flags.switches_stacks {
            self.switches.push((start, end));
            // By frame pointers.
            self.bytes.extend([DEFINE, FRAME, 16, OFFSET | FRAME, 2]);
        } else if flags.is_top {
            self.bytes.extend([UNDEFINED, RETURN]);
        } else {
            self.add_sizes(table, (description, start), begin)?;
        }
        let unpadded = self.bytes.len() - begin;
        self.bytes.resize(begin + unpadded.next_multiple_of(8), 0);
        let length = u32::try_from(self.bytes.len() - begin - 4).ok()?;
        self.bytes.get_mut(begin..begin + 4)?.copy_from_slice(&length.to_le_bytes());
        Some(())
    }

    /// The size of a function's frame at each of its instructions.
    fn add_sizes(
        &mut self,
        table: &GoTable<'_>,
        (description, start): (usize, u64),
        begin: usize,
    ) -> Option<()> {
        // The tables' content so far: at an address, the size of the frame.
        let (mut at, mut known) = (start, 0);
        let mut from = start;
        let is_short = table.each_value(table.field(description, 3)?, start, |size, end| {
            let fits = u32::try_from(size).is_ok() && self.bytes.len() - begin < LONGEST_ENTRY;
            if !fits {
                return ControlFlow::Break(());
            }
            if size != known {
                self.advance(from - at);
                at = from;
                self.bytes.push(DEFINE_OFFSET);
                self.unsigned(size.unsigned_abs() + 8);
                // A function with a frame has saved its caller's frame pointer in its first word.
                match (known, size) {
                    (0, _) => self.bytes.extend([OFFSET | FRAME, 2]),
                    (_, 0) => self.bytes.push(RESTORE | FRAME),
                    _ => {}
                }
                known = size;
            }
            from = end;
            ControlFlow::Continue(())
        });
        (is_short.is_continue() && from > start).then_some(())
    }

    fn advance(&mut self, bytes: u64) {
        match bytes {
            0 => {}
            1..0x40 => self.bytes.push(ADVANCE | bytes as u8),
            0x40..0x100 => self.bytes.extend([ADVANCE_1, bytes as u8]),
            0x100..0x1_0000 => {
                self.bytes.push(ADVANCE_2);
                self.bytes.extend((bytes as u16).to_le_bytes());
            }
            // Functions are never longer than 32 bits can express.
            _ => {
                self.bytes.push(ADVANCE_4);
                self.bytes.extend((bytes as u32).to_le_bytes());
            }
        }
    }

    fn unsigned(&mut self, mut number: u32) {
        while number >= 0x80 {
            self.bytes.push(number as u8 | 0x80);
            number >>= 7;
        }
        self.bytes.push(number as u8);
    }
}

/// The entries of a section up to the end marker, or up to an incomplete one.
fn sound(section: &[u8]) -> &[u8] {
    let mut at = 0;
    while let Some(length) = section.get(at..).and_then(<[u8]>::first_chunk) {
        let length = u32::from_le_bytes(*length) as usize;
        let end = at + 4 + length;
        if length == 0 || end > section.len() {
            break;
        }
        at = end;
    }
    &section[..at]
}
