//! The program on `sched_switch` that notes who blocks, and tells where it did when the wait was long.
//!
//! A thread that comes in has not run yet: its kernel stack is still that of its wait, so it is walked then, and only
//! if the wait was long enough. Its user stack can be walked by nobody but itself. So that is taken when it goes out,
//! into the kernel's table of stacks, which keeps one copy of each.
//!
//! ```text
//!   goes out to block     place of its id := { since, id, number of its user stack }
//!   comes in              leave, if its place is not its own, or the wait was shorter than the threshold
//!                         walk its kernel stack, and put all of it into the ring
//! ```
//!
//! R6 holds the arguments, R7 who goes out, R8 who comes in, R9 the place of whichever it is about.

use std::os::fd::{AsRawFd, BorrowedFd};

use super::super::asm::Reg::*;
use super::super::asm::{Alu, AsmError, Assembler, Atomic, Helper, Insn, Reg, When, Width};
use super::super::task::TaskLayout;

/// How many places there are for threads that wait; a power of two. Of two threads with the same lower bits of their ids
/// that wait at once, the earlier one's is given up, and counted.
pub(super) const PLACES: usize = 64 * 1024;

/// Bytes of a place; a power of two.
pub(super) const PLACE_BYTES: usize = 32;

/// Where the parts of a place are.
mod place {
    /// Since when it waits; 0 for not.
    pub(super) const SINCE: i16 = 0;
    pub(super) const TID: i16 = 8;
    pub(super) const USER: i16 = 16;
}

/// Where the parts of a sample are.
pub(super) mod part {
    pub(in super::super) const SINCE: usize = 0;
    pub(in super::super) const UNTIL: usize = 8;
    pub(in super::super) const TID: usize = 16;
    pub(in super::super) const PID: usize = 20;
    pub(in super::super) const USER: usize = 24;
    pub(in super::super) const KERNEL: usize = 32;
    pub(in super::super) const SPACE: usize = 40;
    pub(in super::super) const FRAMES: usize = 48;
}

/// The most frames of a kernel stack.
pub(super) const KERNEL_FRAMES: usize = 64;
const KERNEL_BYTES: usize = KERNEL_FRAMES * size_of::<u64>();

/// Bytes of the largest sample.
pub(super) const SAMPLE_BYTES: usize = part::FRAMES + KERNEL_BYTES;

/// What is in the map that user space and the program share.
pub(super) mod shared {
    /// Which waits are long, in nanoseconds.
    pub(in super::super) const OVER: i16 = 0;
    /// Samples for which the ring had no room.
    pub(in super::super) const NO_ROOM: i16 = 8;
    /// Places that were taken from a thread that still waited.
    pub(in super::super) const GIVEN_UP: i16 = 16;
    pub(in super::super) const BYTES: usize = 64;
}

/// In place of the number of a user stack: the thread has no program.
pub(super) const NO_PROGRAM: i64 = i32::MIN as i64;

/// Walks the stack of the program, not that of the kernel.
const USER_STACK: i32 = 1 << 8;

/// Lets nobody be woken: the reader looks again and again.
const NO_WAKEUP: i32 = 1;

/// The state of a thread that never comes in again.
const DEAD: i32 = 0x80;

// The arguments of `sched_switch`, eight bytes each.
const PREEMPTED: i16 = 0;
const PREV: i16 = 8;
const NEXT: i16 = 16;
const PREV_STATE: i16 = 24;

// Places on the stack, which ends at R10.
const BEGAN: i16 = -8;
const NOW: i16 = -16;
const ZERO_KEY: i16 = -20;
const SAMPLE: i16 = -32;

/// What the program is made for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Setting<'a> {
    pub(super) task: &'a TaskLayout,
    /// From the beginning of a task to the address of its memory, which is 0 for the kernel's own threads.
    pub(super) memory: i16,
    pub(super) places: BorrowedFd<'a>,
    pub(super) user_stacks: BorrowedFd<'a>,
    pub(super) scratch: BorrowedFd<'a>,
    pub(super) ring: BorrowedFd<'a>,
    pub(super) shared: BorrowedFd<'a>,
}

/// A constant as an operand or a place. All of them are far below 2^15.
fn small(value: usize) -> i16 {
    i16::try_from(value).unwrap_or(i16::MAX)
}

fn number(value: usize) -> i32 {
    i32::try_from(value).unwrap_or(i32::MAX)
}

struct Writer<'a> {
    asm: Assembler,
    setting: Setting<'a>,
}

impl Writer<'_> {
    /// R9 = the place of the thread whose id is in `tid`. Takes R2.
    fn find_place(&mut self, tid: Reg) {
        let asm = &mut self.asm;
        asm.set(R9, tid);
        asm.alu(Alu::And, R9, number(PLACES - 1));
        asm.alu(Alu::ShiftLeft, R9, number(PLACE_BYTES.ilog2() as usize));
        asm.load_map_value(R2, self.setting.places.as_raw_fd());
        asm.alu(Alu::Add, R9, R2);
    }

    /// Adds one to a count. Takes R2 and R3.
    fn count(&mut self, at: i16) {
        self.asm.load_map_value(R2, self.setting.shared.as_raw_fd());
        self.asm.set(R3, 1);
        self.asm.atomic(Atomic::Add, R2, at, R3);
    }

    /// Who comes in, and where it was.
    fn incoming(&mut self) {
        let (task, Setting { memory, scratch, ring, shared, .. }) =
            (self.setting.task, self.setting);
        let outgoing = self.asm.label();
        self.asm.load(Width::Word, R1, R8, task.pid);
        self.asm.jump_if(When::Equal, R1, 0, outgoing);
        self.find_place(R1);
        let asm = &mut self.asm;
        asm.load(Width::Double, R2, R9, place::SINCE);
        asm.jump_if(When::Equal, R2, 0, outgoing);
        asm.load(Width::Double, R3, R9, place::TID);
        asm.jump_if(When::NotEqual, R3, R1, outgoing);
        asm.store(Width::Double, R10, BEGAN, R2);
        asm.store(Width::Double, R9, place::SINCE, 0);
        asm.call(Helper::KtimeGetNs);
        asm.store(Width::Double, R10, NOW, R0);
        asm.load(Width::Double, R2, R10, BEGAN);
        asm.alu(Alu::Sub, R0, R2);
        asm.alu(Alu::Add, R0, 1);
        asm.load_map_value(R4, shared.as_raw_fd());
        asm.load(Width::Double, R4, R4, self::shared::OVER);
        // The threshold is more than the wait.
        asm.jump_if(When::AtLeast, R4, R0, outgoing);

        asm.store(Width::Word, R10, ZERO_KEY, 0);
        asm.set(R2, R10);
        asm.alu(Alu::Add, R2, i32::from(ZERO_KEY));
        asm.load_map(R1, scratch.as_raw_fd());
        asm.call(Helper::MapLookup);
        asm.jump_if(When::Equal, R0, 0, outgoing);
        asm.store(Width::Double, R10, SAMPLE, R0);
        for (from, to) in [(BEGAN, part::SINCE), (NOW, part::UNTIL)] {
            asm.load(Width::Double, R1, R10, from);
            asm.store(Width::Double, R0, small(to), R1);
        }
        for (from, to) in [(task.pid, part::TID), (task.tgid, part::PID)] {
            asm.load(Width::Word, R1, R8, from);
            asm.store(Width::Word, R0, small(to), R1);
        }
        asm.load(Width::Double, R1, R9, place::USER);
        asm.store(Width::Double, R0, small(part::USER), R1);
        asm.load(Width::Double, R1, R8, memory);
        asm.store(Width::Double, R0, small(part::SPACE), R1);
        asm.set(R1, R8);
        asm.set(R2, R0);
        asm.alu(Alu::Add, R2, number(part::FRAMES));
        asm.set(R3, number(KERNEL_BYTES));
        asm.set(R4, 0);
        asm.call(Helper::GetTaskStack);
        asm.load(Width::Double, R2, R10, SAMPLE);
        asm.store(Width::Double, R2, small(part::KERNEL), R0);
        let [failed, whole] = [(); 2].map(|()| asm.label());
        asm.set(R3, R0);
        // What is negative is an error, and as an unsigned number more than any length.
        asm.jump_if(When::AtLeast, R3, number(KERNEL_BYTES + 1), failed);
        asm.jump(whole);
        asm.place(failed);
        asm.set(R3, 0);
        asm.place(whole);
        asm.alu(Alu::Add, R3, number(part::FRAMES));
        asm.load_map(R1, ring.as_raw_fd());
        asm.set(R4, NO_WAKEUP);
        asm.call(Helper::RingbufOutput);
        asm.jump_if(When::Equal, R0, 0, outgoing);
        self.count(self::shared::NO_ROOM);
        self.asm.place(outgoing);
    }

    /// Who goes out, if it is to block.
    fn outgoing(&mut self) {
        let (task, Setting { memory, user_stacks, .. }) = (self.setting.task, self.setting);
        let [out, free, no_program] = [(); 3].map(|()| self.asm.label());
        let asm = &mut self.asm;
        asm.load(Width::Double, R1, R6, PREEMPTED);
        asm.jump_if(When::NotEqual, R1, 0, out);
        match task.state {
            None => asm.load(Width::Double, R1, R6, PREV_STATE),
            Some((offset, 8)) => asm.load(Width::Double, R1, R7, offset),
            Some((offset, _)) => asm.load(Width::Word, R1, R7, offset),
        }
        asm.jump_if(When::Equal, R1, 0, out);
        asm.alu(Alu::And, R1, DEAD);
        asm.jump_if(When::NotEqual, R1, 0, out);
        asm.load(Width::Word, R1, R7, task.pid);
        asm.jump_if(When::Equal, R1, 0, out);
        self.find_place(R1);
        let asm = &mut self.asm;
        asm.load(Width::Double, R2, R9, place::SINCE);
        asm.jump_if(When::Equal, R2, 0, free);
        asm.load(Width::Double, R3, R9, place::TID);
        asm.jump_if(When::Equal, R3, R1, free);
        self.count(self::shared::GIVEN_UP);
        let asm = &mut self.asm;
        asm.place(free);
        asm.store(Width::Double, R9, place::TID, R1);
        asm.load(Width::Double, R1, R7, memory);
        asm.jump_if(When::Equal, R1, 0, no_program);
        asm.set(R1, R6);
        asm.load_map(R2, user_stacks.as_raw_fd());
        asm.set(R3, USER_STACK);
        asm.call(Helper::GetStackId);
        asm.store(Width::Double, R9, place::USER, R0);
        let noted = asm.label();
        asm.jump(noted);
        asm.place(no_program);
        asm.store(Width::Double, R9, place::USER, i32::MIN);
        asm.place(noted);
        asm.call(Helper::KtimeGetNs);
        asm.store(Width::Double, R9, place::SINCE, R0);
        asm.place(out);
        asm.exit();
    }
}

/// `sched_switch(preempted, prev, next, prev_state)`.
pub(super) fn switch(setting: Setting<'_>) -> Result<Vec<Insn>, AsmError> {
    let mut writer = Writer { asm: Assembler::new(), setting };
    let asm = &mut writer.asm;
    asm.set(R6, R1);
    asm.load(Width::Double, R7, R6, PREV);
    asm.load(Width::Double, R8, R6, NEXT);
    writer.incoming();
    writer.outgoing();
    writer.asm.finish()
}
