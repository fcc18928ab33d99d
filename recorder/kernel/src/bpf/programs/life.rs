//! Who is in scope: the programs on the beginning of a thread's life, and on that of a cgroup's.

use std::os::fd::{AsRawFd, BorrowedFd};

use super::super::asm::{Alu, AsmError, Assembler, Atomic, Helper, Insn, Reg, When, Width};
use super::super::groups::{self, PROBES, at};
use super::super::task::ScopeLayout;
use super::super::task::TaskLayout;
use super::event::ring;
use super::{Reg::*, find_bit};

/// The first argument, eight bytes.
const CHILD: i16 = 0;

/// `target` = 1 if the bit at place `bit` of the word at `word` is set, else 0.
fn test(asm: &mut Assembler, target: Reg, word: Reg, bit: Reg) {
    asm.load(Width::Double, target, word, 0);
    asm.alu(Alu::ShiftRight, target, bit);
    asm.alu(Alu::And, target, 1);
}

/// `task_newtask(child, flags)`: the child of a thread in scope is in scope, and no other is. Its parent runs.
///
/// This says all about the child's id: what an earlier owner left there is overwritten, and nothing that comes later
/// belongs to an earlier owner. The kernel lets go of a task long after it gave the id to another, so that
/// `sched_process_free` would take the bit away from that other.
pub(in super::super) fn newtask(
    task: &TaskLayout,
    scope: BorrowedFd<'_>,
) -> Result<Vec<Insn>, AsmError> {
    let mut asm = Assembler::new();
    let [in_scope, done] = [(); 2].map(|()| asm.label());
    asm.load(Width::Double, R7, R1, CHILD);
    asm.call(Helper::GetCurrentTaskBtf);
    asm.set(R6, R0);
    find_bit(&mut asm, task, scope, R6, R2, R3, R4);
    find_bit(&mut asm, task, scope, R7, R8, R5, R4);
    // A bit of its own in R9, at the child's place.
    asm.set(R9, 1);
    asm.alu(Alu::ShiftLeft, R9, R5);
    test(&mut asm, R1, R2, R3);
    asm.jump_if(When::NotEqual, R1, 0, in_scope);
    asm.set(R1, R9);
    asm.alu(Alu::Xor, R1, -1);
    asm.atomic(Atomic::And, R8, 0, R1);
    // fxtrec may have put both in scope since the first look, and have found the child's bit set.
    test(&mut asm, R1, R2, R3);
    asm.jump_if(When::Equal, R1, 0, done);
    asm.place(in_scope);
    asm.atomic(Atomic::Or, R8, 0, R9);
    asm.place(done);
    asm.exit();
    asm.finish()
}

/// `cgroup_mkdir(cgroup, path)`, before anybody sees it: where its parent says so it is in scope, and so are its children. Of
/// others the bell is rung.
pub(super) fn mkdir(
    map: BorrowedFd<'_>,
    layout: ScopeLayout,
    doorbell: BorrowedFd<'_>,
) -> Result<Vec<Insn>, AsmError> {
    let mut asm = Assembler::new();
    let [known, out] = [(); 2].map(|()| asm.label());
    asm.load(Width::Double, R6, R1, CHILD);
    asm.load(Width::Double, R3, R6, layout.root);
    asm.load(Width::Word, R3, R3, layout.root_hierarchy);
    asm.jump_if(When::NotEqual, R3, layout.hierarchy.cast_signed(), out);
    asm.set(R3, R6);
    for place in [layout.parent, layout.of_state, layout.node, layout.number] {
        asm.load(Width::Double, R3, R3, place);
    }
    groups::find_place(&mut asm, map, at::PARENTS, R3, R4, R5);
    groups::look(&mut asm, R3, R4, R5, known);
    asm.load_map_value(R2, map.as_raw_fd());
    asm.alu(Alu::Add, R2, super::number(at::MADE));
    asm.set(R1, 1);
    asm.atomic(Atomic::Add, R2, 0, R1);
    ring(&mut asm, doorbell);
    asm.exit();
    asm.place(known);
    asm.load(Width::Double, R3, R6, layout.node);
    asm.load(Width::Double, R3, R3, layout.number);
    for table in [at::PARENTS, at::MEMBERS] {
        let put = asm.label();
        groups::find_place(&mut asm, map, table, R3, R4, R5);
        for probe in 0..PROBES as i16 {
            asm.set(R0, 0);
            asm.atomic(Atomic::CompareExchange, R4, 8 * probe, R3);
            asm.jump_if(When::Equal, R0, 0, put);
        }
        asm.load_map_value(R2, map.as_raw_fd());
        asm.alu(Alu::Add, R2, super::number(at::FULL));
        asm.set(R1, 1);
        asm.atomic(Atomic::Add, R2, 0, R1);
        asm.place(put);
    }
    asm.place(out);
    asm.exit();
    asm.finish()
}
