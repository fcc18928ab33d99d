//! The programs that note who blocks, and tell where it did when the wait was long.
//!
//! A thread that comes in has not run yet: its kernel stack is still that of its wait, so it is walked then, and only
//! if the wait was long enough. Its user stack can be read by nobody but itself. Since Linux 6.15 there is a tracepoint
//! where the thread has its memory again, and is still in its wait:
//!
//! ```text
//!   sched_switch    goes out to block   place of its id := { since, id }
//!                   comes in            leave, if its place is not its own, or the wait was shorter than the threshold
//!                                       walk its kernel stack into the CPU's sample, which is pending now
//!   sched_exit_tp   a sample is pending walk its user stack by frame pointers, copy its registers and the top of its stack,
//!                                       and put all of it into the ring
//! ```
//!
//! Between the two, nothing else switches on that CPU. Before 6.15 the user stack is taken when the thread goes out, into the
//! kernel's table of stacks, which keeps one copy of each, and nothing is copied.
//!
//! Two more programs are there if they are wanted: on `sched_waking`, where the thread that ends a long wait runs, and on the
//! samples of a clock. Each has a place of its own to make its samples in, since one may interrupt the other.
//!
//! Who waits is the matter of `waits`; how the stack of the thread that runs becomes a sample that of `samples`.

mod samples;
mod waits;

use std::os::fd::{AsRawFd, BorrowedFd};

use super::super::asm::Reg::*;
use super::super::asm::{Alu, AsmError, Assembler, Atomic, Helper, Insn, Label, Reg, When, Width};
use super::super::programs::number;
use super::super::task::TaskLayout;

pub(super) use samples::{running, switched, waking};
pub(super) use waits::switch;

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
pub(super) enum Copied {
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
    fn pending(self) -> i16 {
        small(self.sample_bytes())
    }
}

/// A divisor of every page size: what is in one such block is there or not.
pub(super) const BLOCK: usize = 4096;

/// So many blocks are copied at most, the first of them in part: the kernel has 32 KiB for each CPU's part of a map's value.
pub(super) const MOST_BLOCKS: usize = 7;

const _: () = assert!(Copied::Blocks(MOST_BLOCKS).scratch_bytes() <= 32 << 10);

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

// Places on the stack, which ends at R10.
const BEGAN: i16 = -8;
const NOW: i16 = -16;
const ZERO_KEY: i16 = -20;
const SAMPLE: i16 = -32;
const LENGTH: i16 = -40;

/// What the program is made for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Setting<'a> {
    pub(super) task: &'a TaskLayout,
    /// From the beginning of a task to the address of its memory, which is 0 for the kernel's own threads.
    pub(super) memory: i16,
    pub(super) places: BorrowedFd<'a>,
    pub(super) user: User<'a>,
    pub(super) copied: Copied,
    pub(super) scratch: BorrowedFd<'a>,
    pub(super) ring: BorrowedFd<'a>,
    pub(super) shared: BorrowedFd<'a>,
}

/// How user stacks are taken.
#[derive(Clone, Copy, Debug)]
pub(super) enum User<'a> {
    /// When a thread goes out, into the kernel's table of stacks.
    Out(BorrowedFd<'a>),
    /// When it has come in again.
    In,
}

/// A constant as a place. All of them are far below 2^15.
fn small(value: usize) -> i16 {
    i16::try_from(value).unwrap_or(i16::MAX)
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

    /// R9 = the place of the thread whose id is in `tid`, if it is its own and the thread waits; else to `out`. `BEGAN` is since
    /// when. Takes R2 and R3.
    fn find_wait(&mut self, tid: Reg, out: Label) {
        self.find_place(tid);
        let asm = &mut self.asm;
        asm.load(Width::Double, R2, R9, place::SINCE);
        asm.jump_if(When::Equal, R2, 0, out);
        asm.load(Width::Double, R3, R9, place::TID);
        asm.jump_if(When::NotEqual, R3, tid, out);
        asm.store(Width::Double, R10, BEGAN, R2);
    }

    /// `NOW` is the time. Takes R0 to R5.
    fn look_at_the_clock(&mut self) {
        self.asm.call(Helper::KtimeGetNs);
        self.asm.store(Width::Double, R10, NOW, R0);
    }

    /// Goes to `out` if the wait that began at `BEGAN` is shorter by `NOW` than the threshold. Takes R0, R2 and R4.
    fn unless_long(&mut self, out: Label) {
        let asm = &mut self.asm;
        asm.load(Width::Double, R0, R10, NOW);
        asm.load(Width::Double, R2, R10, BEGAN);
        asm.alu(Alu::Sub, R0, R2);
        asm.alu(Alu::Add, R0, 1);
        asm.load_map_value(R4, self.setting.shared.as_raw_fd());
        asm.load(Width::Double, R4, R4, shared::OVER);
        asm.jump_if(When::AtLeast, R4, R0, out);
    }

    /// R0 = the place where this CPU makes samples; to `out` if there is none.
    fn find_sample(&mut self, out: Label) {
        let asm = &mut self.asm;
        asm.store(Width::Word, R10, ZERO_KEY, 0);
        asm.set(R2, R10);
        asm.alu(Alu::Add, R2, i32::from(ZERO_KEY));
        asm.load_map(R1, self.setting.scratch.as_raw_fd());
        asm.call(Helper::MapLookup);
        asm.jump_if(When::Equal, R0, 0, out);
    }

    /// Makes the length of a walk that failed 0. What is negative is an error, and as an unsigned number more than `most`.
    fn length_or_zero(&mut self, length: Reg, most: usize) {
        let asm = &mut self.asm;
        let [failed, whole] = [(); 2].map(|()| asm.label());
        asm.jump_if(When::AtLeast, length, number(most + 1), failed);
        asm.jump(whole);
        asm.place(failed);
        asm.set(length, 0);
        asm.place(whole);
    }

    /// Adds one to a count. Takes R2 and R3.
    fn count(&mut self, at: i16) {
        self.asm.load_map_value(R2, self.setting.shared.as_raw_fd());
        self.asm.set(R3, 1);
        self.asm.atomic(Atomic::Add, R2, at, R3);
    }

    /// The program, which ends at `out`.
    fn end(mut self, out: Label) -> Result<Vec<Insn>, AsmError> {
        self.asm.place(out);
        self.asm.exit();
        self.asm.finish()
    }
}
