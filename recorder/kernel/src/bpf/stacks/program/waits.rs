//! Who waits, and whether it was long: the note that a thread leaves when it goes out to block, and the beginning of a
//! sample when it comes in.
//!
//! In `sched_switch`, R6 holds the arguments, R7 who goes out, R8 who comes in, R9 the place of whichever it is about.

use std::os::fd::AsRawFd;

use super::super::super::asm::Reg::*;
use super::super::super::asm::{Alu, AsmError, Assembler, Helper, Insn, Label, When, Width};
use super::super::super::programs::number;
use super::super::super::programs::switched::{NEXT, PREEMPTED, PREV, load_state};
use super::{
    BEGAN, KERNEL_BYTES, NO_WAKEUP, NOW, SAMPLE, Setting, USER_STACK, User, Writer, kind, part,
    place, shared, small,
};

/// The state of a thread that never comes in again.
const DEAD: i32 = 0x80;

impl Writer<'_> {
    /// Who comes in, and where it was.
    fn incoming(&mut self) {
        let Setting { task, memory, user, copied, ring, .. } = self.setting;
        let outgoing = self.asm.label();
        self.asm.load(Width::Word, R1, R8, task.pid);
        self.asm.jump_if(When::Equal, R1, 0, outgoing);
        self.find_wait(R1, outgoing);
        self.asm.store(Width::Double, R9, place::SINCE, 0);
        self.unless_long(outgoing);
        self.find_sample(outgoing);
        let asm = &mut self.asm;
        asm.store(Width::Double, R10, SAMPLE, R0);
        for (from, to) in [(BEGAN, part::SINCE), (NOW, part::UNTIL)] {
            asm.load(Width::Double, R1, R10, from);
            asm.store(Width::Double, R0, small(to), R1);
        }
        for (from, to) in [(task.pid, part::TID), (task.tgid, part::PID)] {
            asm.load(Width::Word, R1, R8, from);
            asm.store(Width::Word, R0, small(to), R1);
        }
        asm.store(Width::Word, R0, small(part::KIND), kind::OFF_CPU);
        asm.store(Width::Word, R0, small(part::WOKEN), 0);
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
        if let User::In = user {
            asm.store(Width::Double, R2, copied.pending(), 1);
            asm.place(outgoing);
            return;
        }
        asm.store(Width::Double, R2, small(part::COPIED), 0);
        asm.set(R3, R0);
        self.length_or_zero(R3, KERNEL_BYTES);
        let asm = &mut self.asm;
        asm.alu(Alu::Add, R3, number(part::FRAMES));
        asm.load_map(R1, ring.as_raw_fd());
        asm.set(R4, NO_WAKEUP);
        asm.call(Helper::RingbufOutput);
        asm.jump_if(When::Equal, R0, 0, outgoing);
        self.count(shared::NO_ROOM);
        self.asm.place(outgoing);
    }

    /// Who goes out, if it is to block; else to `out`.
    fn outgoing(&mut self, out: Label) {
        let Setting { task, memory, user, .. } = self.setting;
        let free = self.asm.label();
        let asm = &mut self.asm;
        asm.load(Width::Double, R1, R6, PREEMPTED);
        asm.jump_if(When::NotEqual, R1, 0, out);
        load_state(asm, task.state, R1);
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
        self.count(shared::GIVEN_UP);
        let asm = &mut self.asm;
        asm.place(free);
        asm.store(Width::Double, R9, place::TID, R1);
        if let User::Out(user_stacks) = user {
            let [no_program, noted] = [(); 2].map(|()| asm.label());
            asm.load(Width::Double, R1, R7, memory);
            asm.jump_if(When::Equal, R1, 0, no_program);
            asm.set(R1, R6);
            asm.load_map(R2, user_stacks.as_raw_fd());
            asm.set(R3, USER_STACK);
            asm.call(Helper::GetStackId);
            asm.store(Width::Double, R9, place::USER, R0);
            asm.jump(noted);
            asm.place(no_program);
            asm.store(Width::Double, R9, place::USER, i32::MIN);
            asm.place(noted);
        }
        asm.load(Width::Double, R2, R10, NOW);
        asm.store(Width::Double, R9, place::SINCE, R2);
    }
}

/// `sched_switch(preempted, prev, next, prev_state)`.
pub(in super::super) fn switch(setting: Setting<'_>) -> Result<Vec<Insn>, AsmError> {
    let mut writer = Writer { asm: Assembler::new(), setting };
    let asm = &mut writer.asm;
    let out = asm.label();
    asm.set(R6, R1);
    asm.load(Width::Double, R7, R6, PREV);
    asm.load(Width::Double, R8, R6, NEXT);
    // Both of a switch have the same time: looking at the clock is half of what a switch costs that is not told of.
    writer.look_at_the_clock();
    writer.incoming();
    writer.outgoing(out);
    writer.end(out)
}
