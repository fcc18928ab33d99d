//! Which lock of the kernel a thread waits for: the programs on `contention_begin` and `contention_end`.

use std::os::fd::{AsRawFd, BorrowedFd};

use super::super::asm::{Alu, AsmError, Assembler, Helper, Insn, Reg, When, Width};
use super::super::contentions::{ENTRIES, ENTRY_BYTES, at, flag};
use super::{Reg::*, number};

/// The arguments of both: the lock, and of the first its flags, eight bytes each.
const LOCK: i16 = 0;
const FLAGS: i16 = 8;

/// `place` = where it is noted for which lock the thread waits whose id is in `tid`. Takes `other`.
pub(super) fn find_place(
    asm: &mut Assembler,
    places: BorrowedFd<'_>,
    (place, tid): (Reg, Reg),
    other: Reg,
) {
    asm.set(place, tid);
    asm.alu(Alu::And, place, number(ENTRIES - 1));
    asm.alu(Alu::ShiftLeft, place, number(ENTRY_BYTES.ilog2() as usize));
    asm.load_map_value(other, places.as_raw_fd());
    asm.alu(Alu::Add, place, other);
}

/// R8 = the place of the thread that runs, R0 its id; R6 = the lock.
fn begin(asm: &mut Assembler, places: BorrowedFd<'_>) {
    const HALF: i32 = 32;
    asm.call(Helper::GetCurrentPidTgid);
    asm.alu(Alu::ShiftLeft, R0, HALF);
    asm.alu(Alu::ShiftRight, R0, HALF);
    find_place(asm, places, (R8, R0), R1);
}

/// `contention_begin(lock, flags)`: it is taken. One for which a thread only spins is none of a thread that goes out.
pub(super) fn on_begin(places: BorrowedFd<'_>) -> Result<Vec<Insn>, AsmError> {
    let mut asm = Assembler::new();
    let done = asm.label();
    asm.load(Width::Double, R6, R1, LOCK);
    asm.load(Width::Double, R7, R1, FLAGS);
    asm.set(R2, R7);
    asm.alu(Alu::And, R2, number(flag::SPIN as usize));
    asm.jump_if(When::NotEqual, R2, 0, done);
    begin(&mut asm, places);
    asm.store(Width::Double, R8, at::ADDRESS, R6);
    asm.store(Width::Word, R8, at::FLAGS, R7);
    asm.store(Width::Word, R8, at::TID, R0);
    asm.place(done);
    asm.exit();
    asm.finish()
}

/// `contention_end(lock, ret)`: it has the lock, or does not wait for it any more.
pub(super) fn on_end(places: BorrowedFd<'_>) -> Result<Vec<Insn>, AsmError> {
    let mut asm = Assembler::new();
    let done = asm.label();
    asm.load(Width::Double, R6, R1, LOCK);
    begin(&mut asm, places);
    asm.load(Width::Word, R1, R8, at::TID);
    asm.jump_if(When::NotEqual, R1, R0, done);
    // A lock for which it only spun meanwhile is another one.
    asm.load(Width::Double, R1, R8, at::ADDRESS);
    asm.jump_if(When::NotEqual, R1, R6, done);
    asm.store(Width::Word, R8, at::TID, 0);
    asm.place(done);
    asm.exit();
    asm.finish()
}
