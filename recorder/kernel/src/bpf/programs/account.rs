//! What a CPU does besides running threads: the programs on interrupts, and on requests for a switch.

use super::super::account::{LINE_BYTES, at, lines};
use super::super::asm::{Alu, AsmError, Assembler, Helper, Insn, Reg, When, Width};
use super::super::task::TaskLayout;
use super::{Accounts, Reg::*, number};
use std::os::fd::AsRawFd;

// The arguments of `sched_set_need_resched_tp(task, cpu, flag)`, eight bytes each.
const ASKED: i16 = 0;
const ASKED_CPU: i16 = 8;

/// The first argument of `sched_exit_tp`.
const IS_SWITCH: i16 = 0;

/// `cpu` = the line of that CPU. Takes `other`.
pub(super) fn find_line(asm: &mut Assembler, accounts: Accounts<'_>, cpu: Reg, other: Reg) {
    asm.alu(Alu::And, cpu, number(lines(accounts.possible) - 1));
    asm.alu(Alu::ShiftLeft, cpu, number(LINE_BYTES.ilog2() as usize));
    asm.load_map_value(other, accounts.map.as_raw_fd());
    asm.alu(Alu::Add, cpu, other);
}

/// R6 = the line of this CPU.
fn own_line(asm: &mut Assembler, accounts: Accounts<'_>) {
    asm.call(Helper::GetSmpProcessorId);
    asm.set(R6, R0);
    find_line(asm, accounts, R6, R1);
}

/// An interrupt begins. The depth grows before the time is taken: see [`super::super::account`].
pub(super) fn entry(accounts: Accounts<'_>, is_soft: bool) -> Result<Vec<Insn>, AsmError> {
    let mut asm = Assembler::new();
    let nested = asm.label();
    own_line(&mut asm, accounts);
    let count = if is_soft { at::SOFT } else { at::HARD };
    asm.load(Width::Double, R1, R6, count);
    asm.alu(Alu::Add, R1, 1);
    asm.store(Width::Double, R6, count, R1);
    asm.load(Width::Double, R1, R6, at::DEPTH);
    asm.set(R2, R1);
    asm.alu(Alu::Add, R2, 1);
    asm.store(Width::Double, R6, at::DEPTH, R2);
    asm.jump_if(When::NotEqual, R1, 0, nested);
    asm.call(Helper::KtimeGetNs);
    asm.store(Width::Double, R6, at::SINCE, R0);
    asm.place(nested);
    asm.exit();
    asm.finish()
}

/// An interrupt ends. One that began before its program was there has no depth.
pub(super) fn exit(accounts: Accounts<'_>) -> Result<Vec<Insn>, AsmError> {
    let mut asm = Assembler::new();
    let [nested, done] = [(); 2].map(|()| asm.label());
    own_line(&mut asm, accounts);
    asm.load(Width::Double, R1, R6, at::DEPTH);
    asm.jump_if(When::Equal, R1, 0, done);
    asm.jump_if(When::NotEqual, R1, 1, nested);
    asm.call(Helper::KtimeGetNs);
    asm.load(Width::Double, R1, R6, at::SINCE);
    asm.alu(Alu::Sub, R0, R1);
    asm.load(Width::Double, R1, R6, at::TOTAL);
    asm.alu(Alu::Add, R1, R0);
    asm.store(Width::Double, R6, at::TOTAL, R1);
    asm.set(R1, 1);
    asm.place(nested);
    asm.alu(Alu::Sub, R1, 1);
    asm.store(Width::Double, R6, at::DEPTH, R1);
    asm.place(done);
    asm.exit();
    asm.finish()
}

/// `sched_set_need_resched_tp(task, cpu, flag)`: somebody asks for a switch, maybe on another CPU. A second, more urgent
/// request changes nothing. That the idle task makes room is nobody's loss.
pub(super) fn asked(task: &TaskLayout, accounts: Accounts<'_>) -> Result<Vec<Insn>, AsmError> {
    let mut asm = Assembler::new();
    let [first, done] = [(); 2].map(|()| asm.label());
    asm.load(Width::Double, R7, R1, ASKED);
    asm.load(Width::Double, R6, R1, ASKED_CPU);
    asm.load(Width::Word, R8, R7, task.pid);
    asm.jump_if(When::Equal, R8, 0, done);
    find_line(&mut asm, accounts, R6, R1);
    asm.load(Width::Double, R1, R6, at::ASKED);
    asm.jump_if(When::Equal, R1, 0, first);
    asm.load(Width::Double, R1, R6, at::ASKED_TID);
    asm.jump_if(When::Equal, R1, R8, done);
    asm.place(first);
    asm.call(Helper::KtimeGetNs);
    asm.store(Width::Double, R6, at::ASKED_TID, R8);
    asm.store(Width::Double, R6, at::ASKED, R0);
    asm.place(done);
    asm.exit();
    asm.finish()
}

/// `sched_exit_tp(is_switch)`: the scheduler has decided. If the thread goes on, nothing is asked of it any more.
pub(super) fn decided(accounts: Accounts<'_>) -> Result<Vec<Insn>, AsmError> {
    let mut asm = Assembler::new();
    let done = asm.label();
    asm.load(Width::Double, R1, R1, IS_SWITCH);
    asm.jump_if(When::NotEqual, R1, 0, done);
    own_line(&mut asm, accounts);
    asm.store(Width::Double, R6, at::ASKED, 0);
    asm.place(done);
    asm.exit();
    asm.finish()
}
