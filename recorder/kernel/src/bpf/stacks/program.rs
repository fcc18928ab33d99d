//! The programs that note who blocks, and tell where it did when the wait was long.
//!
//! A thread that comes in has not run yet: its kernel stack is still that of its wait, so it is walked then, and only
//! if the wait was long enough. Its user stack can be read by nobody but itself, where it has its memory again and is
//! still in its wait. On x86 the CPU interrupts itself for that: a bell of BPF is rung, which the kernel does by an
//! interrupt (`irq_work`), and that comes as soon as the switch is over.
//!
//! ```text
//!   sched_switch     goes out to block   note of its id := since when
//!                    comes in            nothing, if the note is not its own, or the wait was shorter than the threshold
//!                                        walk its kernel stack into the CPU's sample, which is pending now; ring the CPU's bell
//!   irq_work_entry   a sample is pending walk its user stack by frame pointers, copy its registers and the top of its stack,
//!                                        and put all of it into the ring
//! ```
//!
//! Between the two, nothing else switches on that CPU. Elsewhere the second part is on `sched_exit_tp` (since Linux 6.15),
//! which comes behind every switch, and so takes its time there too, and no bell is rung. Where there is neither, the user
//! stack is taken when the thread goes out, into the kernel's table of stacks, which keeps one copy of each, and nothing
//! is copied.
//!
//! Where programs record switches anyway, the first part is in theirs, which has the time and both threads at hand: a
//! program of its own costs a switch more than all that it does.
//!
//! Two more programs are there if they are wanted: on `sched_waking`, where the thread that ends a long wait runs, and on the
//! samples of a clock. Each has a place of its own to make its samples in, since one may interrupt the other.
//!
//! Who waits is the matter of `recorder/kernel/bpf/notes.h`, in C; how the stack of the thread that runs becomes a sample that of
//! `samples`, which is assembled.

mod samples;

use std::os::fd::{AsRawFd, BorrowedFd};

use super::super::asm::Reg::*;
use super::super::asm::{Alu, AsmError, Assembler, Atomic, Helper, Insn, Label, Reg, When, Width};
use super::super::programs::number;
use super::super::scope::TIDS;
use super::super::task::{RegisterLayout, TaskLayout};
use crate::units::Nanos;

pub(super) use samples::{running, switched, waking};

/// How many notes there are of threads that wait; a power of two. Of two threads with the same lower bits of their ids
/// that wait at once, the earlier one's is given up, and counted.
///
/// ```text
///   bits 0 to 5    the upper bits of the thread's id, whose lower ones are the number of the note
///   bits 6 to 63   since when it waits, in nanoseconds: nine years. All 0 for not
/// ```
pub(super) const NOTES: usize = 64 * 1024;

/// Bytes of all of them. Behind them are the numbers of user stacks, if these are taken when a thread goes out.
pub(super) const NOTE_BYTES: usize = NOTES * size_of::<u64>();

/// The bits of a note that say whose it is.
const OWNER_BITS: i32 = 6;
const OWNER: i32 = (1 << OWNER_BITS) - 1;

const _: () = assert!(NOTES << OWNER_BITS == TIDS);

/// Where the parts of a sample are.
pub(super) mod part {
    pub(in super::super) const SINCE: usize = 0;
    pub(in super::super) const UNTIL: usize = 8;
    pub(in super::super) const TID: usize = 16;
    pub(in super::super) const PID: usize = 20;
    pub(in super::super) const USER: usize = 24;
    pub(in super::super) const KERNEL: usize = 32;
    pub(in super::super) const SPACE: usize = 40;
    /// Registers of the program: instruction, stack, frame, link.
    pub(in super::super) const REGISTERS: [usize; 4] = [48, 56, 64, 72];
    /// How many bytes of the stack there are.
    pub(in super::super) const COPIED: usize = 80;
    /// Which stack it is: see [`super::kind`].
    pub(in super::super) const KIND: usize = 88;
    /// The thread that was woken.
    pub(in super::super) const WOKEN: usize = 92;
    /// The kernel's frames, then the program's, then the top of its stack.
    pub(in super::super) const FRAMES: usize = 96;
}

/// Which stack a sample has.
pub(super) mod kind {
    pub(in super::super) const OFF_CPU: i32 = 0;
    pub(in super::super) const WAKE: i32 = 1;
    pub(in super::super) const CPU: i32 = 2;
}

/// The most frames of a kernel stack.
pub(super) const KERNEL_FRAMES: usize = 64;
const KERNEL_BYTES: usize = KERNEL_FRAMES * size_of::<u64>();

/// The most frames of a user stack; no more than the kernel's default for `perf_event_max_stack`.
pub(super) const USER_FRAMES: usize = 127;
const USER_BYTES: usize = USER_FRAMES * size_of::<u64>();

/// How much of a program's stack is copied at most: where frame pointers lead nowhere.
const LARGE_COPY: usize = 4096;

/// How much of a program's stack is copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum Copied {
    /// Little, and [`LARGE_COPY`] where frame pointers lead nowhere.
    Usual,
    /// So many blocks of [`BLOCK`] bytes, as far as there are.
    Blocks(usize),
}

impl Copied {
    /// Bytes of the largest sample.
    const fn sample_bytes(self) -> usize {
        let copy = match self {
            Copied::Usual => LARGE_COPY,
            Copied::Blocks(blocks) => blocks * BLOCK,
        };
        part::FRAMES + KERNEL_BYTES + USER_BYTES + copy
    }

    /// Bytes of the place that samples are made in, one for each CPU.
    pub(super) const fn scratch_bytes(self) -> usize {
        self.sample_bytes() + 8
    }

    /// Where it is told that a sample lacks its user part, behind the sample.
    pub(super) fn pending(self) -> i16 {
        small(self.sample_bytes())
    }
}

/// A divisor of every page size: what is in one such block is there or not.
pub(super) const BLOCK: usize = 4096;

/// So many blocks are copied at most, the first of them in part: the kernel has 32 KiB for each CPU's part of a map's value.
pub(super) const MOST_BLOCKS: usize = 7;

const _: () = assert!(Copied::Blocks(MOST_BLOCKS).scratch_bytes() <= 32 << 10);

/// What programs count.
pub(super) mod shared {
    /// Samples for which the ring had no room.
    pub(in super::super) const NO_ROOM: i16 = 0;
    /// Notes that were taken from a thread that still waited.
    pub(in super::super) const GIVEN_UP: i16 = 8;
    pub(in super::super) const BYTES: usize = 64;
}

/// In place of the number of a user stack: the thread has no program.
pub(super) const NO_PROGRAM: i64 = i32::MIN as i64;

/// Walks the stack of the program, not that of the kernel.
const USER_STACK: i32 = 1 << 8;

/// Lets nobody be woken: the reader looks again and again.
const NO_WAKEUP: i32 = 1;

// Places on the stack, which ends at R10.
const BEGAN: i16 = -8;
const NOW: i16 = -16;
const ZERO_KEY: i16 = -20;
const LENGTH: i16 = -40;

/// What the programs are made for.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct Setting<'a> {
    pub(in super::super) task: &'a TaskLayout,
    /// From the beginning of a task to the address of its memory, which is 0 for the kernel's own threads.
    pub(super) memory: i16,
    /// Which waits are long.
    pub(super) over: Nanos,
    pub(super) notes: BorrowedFd<'a>,
    /// The threads whose waits are wanted, if not all are: see [`super::super::scope`].
    pub(super) chosen: Option<BorrowedFd<'a>>,
    /// Whether user stacks are taken by an interrupt that a long wait asks for.
    pub(super) by_interrupt: bool,
    pub(super) copied: Copied,
    pub(super) scratch: BorrowedFd<'a>,
    pub(super) ring: BorrowedFd<'a>,
    pub(super) shared: BorrowedFd<'a>,
}

/// A constant as a place. All of them are far below 2^15.
fn small(value: usize) -> i16 {
    i16::try_from(value).unwrap_or(i16::MAX)
}

impl Setting<'_> {
    /// R0 = the place where this CPU makes samples; to `out` if there is none.
    fn find_sample(&self, asm: &mut Assembler, out: Label) {
        asm.store(Width::Word, R10, ZERO_KEY, 0);
        asm.set(R2, R10);
        asm.alu(Alu::Add, R2, i32::from(ZERO_KEY));
        asm.load_map(R1, self.scratch.as_raw_fd());
        asm.call(Helper::MapLookup);
        asm.jump_if(When::Equal, R0, 0, out);
    }

    /// Adds one to a count. Takes R3 and R5.
    fn count(&self, asm: &mut Assembler, at: i16) {
        asm.load_map_value(R5, self.shared.as_raw_fd());
        asm.set(R3, 1);
        asm.atomic(Atomic::Add, R5, at, R3);
    }

    /// `place` = where the note is of the thread whose id is in `tid`, which becomes what an own note has in its bits of the owner.
    fn find_note(&self, asm: &mut Assembler, tid: Reg, place: Reg, other: Reg) {
        asm.set(place, tid);
        asm.alu(Alu::And, place, number(NOTES - 1));
        asm.alu(Alu::ShiftLeft, place, number(size_of::<u64>().ilog2() as usize));
        asm.load_map_value(other, self.notes.as_raw_fd());
        asm.alu(Alu::Add, place, other);
        asm.alu(Alu::ShiftRight, tid, number(NOTES.ilog2() as usize));
    }

    /// Goes to `long` if a wait of so many nanoseconds is. Takes `other`.
    fn if_long(&self, asm: &mut Assembler, length: Reg, other: Reg, long: Label) {
        // A constant has 31 bits without its sign.
        let part = |shift: u32| ((self.over.0 >> shift) & 0x7fff_ffff) as i32;
        if self.over.0 > i32::MAX as u64 {
            asm.set(other, part(62));
            for shift in [31, 0] {
                asm.alu(Alu::ShiftLeft, other, 31);
                asm.alu(Alu::Or, other, part(shift));
            }
        } else {
            asm.set(other, part(0));
        }
        asm.jump_if(When::AtLeast, length, other, long);
    }
}

/// Copies the program's registers from R0, where the kernel keeps them, to the sample in `sample`. Takes R1.
fn copy_registers(asm: &mut Assembler, layout: RegisterLayout, sample: Reg) {
    let RegisterLayout { instruction, stack, frame, link } = layout;
    let known = [Some(instruction), Some(stack), Some(frame), link];
    for (from, to) in known.into_iter().zip(part::REGISTERS) {
        match from {
            Some(from) => {
                asm.load(Width::Double, R1, R0, from);
                asm.store(Width::Double, sample, small(to), R1);
            }
            None => asm.store(Width::Double, sample, small(to), 0),
        }
    }
}

/// Makes the length of a walk that failed 0. What is negative is an error, and as an unsigned number more than `most`.
fn length_or_zero(asm: &mut Assembler, length: Reg, most: usize) {
    let [failed, whole] = [(); 2].map(|()| asm.label());
    asm.jump_if(When::AtLeast, length, number(most + 1), failed);
    asm.jump(whole);
    asm.place(failed);
    asm.set(length, 0);
    asm.place(whole);
}

struct Writer<'a> {
    asm: Assembler,
    setting: Setting<'a>,
}

impl Writer<'_> {
    /// `NOW` is the time. Takes R0 to R5.
    fn look_at_the_clock(&mut self) {
        self.asm.call(Helper::KtimeGetNs);
        self.asm.store(Width::Double, R10, NOW, R0);
    }

    /// The program, which ends at `out`.
    fn end(mut self, out: Label) -> Result<Vec<Insn>, AsmError> {
        self.asm.place(out);
        self.asm.exit();
        self.asm.finish()
    }
}
