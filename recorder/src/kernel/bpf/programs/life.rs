//! Who is in scope: the programs on the beginning and the end of a thread's life.

use std::os::fd::BorrowedFd;

use super::super::asm::{Alu, AsmError, Assembler, Atomic, Insn, Reg, When, Width};
use super::super::task::TaskLayout;
use super::{Reg::*, find_bit};

/// Eight bytes for each argument.
const PARENT: i16 = 0;
const CHILD: i16 = 8;

/// A bit of its own in `target`, at the place that `bit` says.
fn mask(asm: &mut Assembler, target: Reg, bit: Reg) {
    asm.set(target, 1);
    asm.alu(Alu::ShiftLeft, target, bit);
}

/// `sched_process_fork(parent, child)`: the child of a thread in scope is in scope.
pub(super) fn fork(task: &TaskLayout, scope: BorrowedFd<'_>) -> Result<Vec<Insn>, AsmError> {
    let mut asm = Assembler::new();
    let done = asm.label();
    asm.load(Width::Double, R6, R1, PARENT);
    asm.load(Width::Double, R7, R1, CHILD);
    find_bit(&mut asm, task, scope, R6, R2, R3, R4);
    asm.load(Width::Double, R1, R2, 0);
    asm.alu(Alu::ShiftRight, R1, R3);
    asm.alu(Alu::And, R1, 1);
    asm.jump_if(When::Equal, R1, 0, done);
    find_bit(&mut asm, task, scope, R7, R2, R3, R4);
    mask(&mut asm, R1, R3);
    asm.atomic(Atomic::Or, R2, 0, R1);
    asm.place(done);
    asm.exit();
    asm.finish()
}

/// `sched_process_free(thread)`: its id may be another's soon.
pub(super) fn free(task: &TaskLayout, scope: BorrowedFd<'_>) -> Result<Vec<Insn>, AsmError> {
    let mut asm = Assembler::new();
    asm.load(Width::Double, R6, R1, PARENT);
    find_bit(&mut asm, task, scope, R6, R2, R3, R4);
    mask(&mut asm, R1, R3);
    asm.alu(Alu::Xor, R1, -1);
    asm.atomic(Atomic::And, R2, 0, R1);
    asm.exit();
    asm.finish()
}
