//! Who waits, and whether it was long: the note of a thread that goes out to block, and the beginning of a sample when it
//! comes in.
//!
//! On the way of every switch there are a few instructions and no call. What is rarer is behind the end of the program that they
//! are in, be it one of its own or the one that records switches.

use std::os::fd::{AsRawFd, BorrowedFd};

use super::super::super::asm::Reg::*;
use super::super::super::asm::{Alu, AsmError, Assembler, Helper, Insn, Label, Reg, When, Width};
use super::super::super::programs::switched::{NEXT, PREEMPTED, PREV, load_state};
use super::super::super::programs::{FORCE_WAKEUP, find_bit, number};
use super::{
    BEGAN, KERNEL_BYTES, NO_WAKEUP, NOTE_BYTES, NOW, OWNER, OWNER_BITS, SAMPLE, Setting,
    USER_STACK, User, ZERO_KEY, copy_registers, kind, length_or_zero, part, shared, small,
};

/// The state of a thread that never comes in again.
const DEAD: i32 = 0x80;

/// Where R1 is kept on the stack, which ends at R10.
const KEPT: i16 = -48;

/// What is noted of a switch: R6 has its arguments, R7 is who goes out, R8 who comes in.
#[derive(Clone, Copy, Debug)]
pub(in super::super::super) struct Notes<'a> {
    setting: Setting<'a>,
    given_up: Label,
    noted: Label,
    long: Label,
    told: Label,
    runnable: Label,
    done: Label,
}

impl<'a> Notes<'a> {
    pub(in super::super::super) fn new(asm: &mut Assembler, setting: Setting<'a>) -> Notes<'a> {
        let [given_up, noted, long, told, runnable, done] = [(); 6].map(|()| asm.label());
        Notes { setting, given_up, noted, long, told, runnable, done }
    }

    /// The way of every switch. R0 is the time, and stays as R1 does; R2 to R5 are taken.
    pub(in super::super::super) fn note(&self, asm: &mut Assembler) {
        let Notes { setting, .. } = self;
        let Setting { task, user, .. } = *setting;
        asm.load(Width::Word, R3, R8, task.pid);
        setting.find_note(asm, R3, R4, R2);
        asm.load(Width::Double, R2, R4, 0);
        asm.jump_if(When::Equal, R2, 0, self.told);
        asm.alu(Alu::Xor, R3, R2);
        asm.jump_if(When::Shares, R3, OWNER, self.told);
        asm.store(Width::Double, R4, 0, 0);
        asm.alu(Alu::ShiftRight, R2, OWNER_BITS);
        asm.set(R5, R0);
        asm.alu(Alu::Sub, R5, R2);
        setting.if_long(asm, R5, R3, self.long);
        asm.place(self.told);

        asm.load(Width::Double, R2, R6, PREEMPTED);
        asm.jump_if(When::NotEqual, R2, 0, self.runnable);
        load_state(asm, task.state, R2);
        asm.jump_if(When::Equal, R2, 0, self.runnable);
        asm.jump_if(When::Shares, R2, DEAD, self.runnable);
        asm.load(Width::Word, R3, R7, task.pid);
        setting.find_note(asm, R3, R4, R2);
        asm.set(R2, R0);
        asm.alu(Alu::ShiftLeft, R2, OWNER_BITS);
        asm.alu(Alu::Or, R2, R3);
        asm.load(Width::Double, R5, R4, 0);
        asm.jump_if(When::NotEqual, R5, 0, self.given_up);
        asm.place(self.noted);
        asm.store(Width::Double, R4, 0, R2);
        if let User::Out(user_stacks) = user {
            asm.set(R9, R4);
            asm.alu(Alu::Add, R9, number(NOTE_BYTES));
            asm.store(Width::Double, R9, 0, i32::MIN);
            asm.load(Width::Double, R1, R7, setting.memory);
            asm.jump_if(When::Equal, R1, 0, self.done);
            asm.set(R1, R6);
            asm.load_map(R2, user_stacks.as_raw_fd());
            asm.set(R3, USER_STACK);
            asm.call(Helper::GetStackId);
            asm.store(Width::Double, R9, 0, R0);
        }
        asm.place(self.done);
    }

    /// Of a switch that nothing is noted of: whatever the note of this thread says is not so any more. Takes R2 to R4.
    pub(in super::super::super) fn forget(&self, asm: &mut Assembler, task: Reg) {
        let kept = asm.label();
        asm.load(Width::Word, R3, task, self.setting.task.pid);
        self.setting.find_note(asm, R3, R4, R2);
        asm.load(Width::Double, R2, R4, 0);
        // Most have none, and what is not written to stays in the caches of all CPUs.
        asm.jump_if(When::Equal, R2, 0, kept);
        asm.alu(Alu::Xor, R3, R2);
        asm.jump_if(When::Shares, R3, OWNER, kept);
        asm.store(Width::Double, R4, 0, 0);
        asm.place(kept);
    }

    /// The rest, to be put where nothing leads but by a jump.
    pub(in super::super::super) fn rare(&self, asm: &mut Assembler) {
        asm.place(self.given_up);
        asm.alu(Alu::Xor, R5, R3);
        asm.alu(Alu::And, R5, OWNER);
        // An own one: no program saw the thread come in.
        asm.jump_if(When::Equal, R5, 0, self.noted);
        self.setting.count(asm, shared::GIVEN_UP);
        asm.jump(self.noted);

        // It does not wait, nor did it when it came in: an own note is of a wait whose end no program saw.
        asm.place(self.runnable);
        asm.load(Width::Word, R3, R7, self.setting.task.pid);
        asm.jump_if(When::Equal, R3, 0, self.done);
        self.forget(asm, R7);
        asm.jump(self.done);

        asm.place(self.long);
        asm.store(Width::Double, R10, KEPT, R1);
        asm.store(Width::Double, R10, BEGAN, R2);
        asm.store(Width::Double, R10, NOW, R0);
        let back = asm.label();
        if let Some(chosen) = self.setting.chosen {
            find_bit(asm, self.setting.task, chosen, R8, R1, R2, R3);
            asm.load(Width::Double, R1, R1, 0);
            asm.alu(Alu::ShiftRight, R1, R2);
            asm.alu(Alu::And, R1, 1);
            asm.jump_if(When::Equal, R1, 0, back);
        }
        self.begin_sample(asm, back);
        asm.place(back);
        asm.load(Width::Double, R0, R10, NOW);
        asm.load(Width::Double, R1, R10, KEPT);
        asm.jump(self.told);
    }

    /// The sample of the thread in R8, which comes in, as far as it can be made by now. The times are on the stack.
    fn begin_sample(&self, asm: &mut Assembler, back: Label) {
        let Setting { task, memory, user, copied, .. } = self.setting;
        self.setting.find_sample(asm, back);
        asm.store(Width::Double, R10, SAMPLE, R0);
        if let User::Interrupt(..) = user {
            // The interrupt for the one before has not come: a real-time kernel has such work done by a thread.
            let free = asm.label();
            asm.load(Width::Double, R1, R0, copied.pending());
            asm.jump_if(When::Equal, R1, 0, free);
            asm.set(R2, R0);
            asm.store(Width::Double, R2, small(part::USER), -libc::EFAULT);
            asm.load(Width::Double, R0, R2, small(part::KERNEL));
            self.put(asm, free);
            asm.place(free);
            asm.load(Width::Double, R0, R10, SAMPLE);
        }
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
        asm.load(Width::Double, R1, R8, memory);
        asm.store(Width::Double, R0, small(part::SPACE), R1);
        if let User::Out(_) = user {
            asm.load(Width::Word, R3, R8, task.pid);
            self.setting.find_note(asm, R3, R4, R2);
            asm.alu(Alu::Add, R4, number(NOTE_BYTES));
            asm.load(Width::Double, R1, R4, 0);
            asm.store(Width::Double, R0, small(part::USER), R1);
        }
        asm.set(R1, R8);
        asm.set(R2, R0);
        asm.alu(Alu::Add, R2, number(part::FRAMES));
        asm.set(R3, number(KERNEL_BYTES));
        asm.set(R4, 0);
        asm.call(Helper::GetTaskStack);
        asm.load(Width::Double, R2, R10, SAMPLE);
        asm.store(Width::Double, R2, small(part::KERNEL), R0);
        match user {
            User::In => asm.store(Width::Double, R2, copied.pending(), 1),
            User::Out(_) => self.put(asm, back),
            User::Interrupt(bells, registers) => {
                let program = asm.label();
                asm.load(Width::Double, R1, R2, small(part::SPACE));
                asm.jump_if(When::NotEqual, R1, 0, program);
                asm.store(Width::Double, R2, small(part::USER), i32::MIN);
                self.put(asm, back);
                asm.jump(back);
                asm.place(program);
                asm.set(R1, R8);
                asm.call(Helper::TaskPtRegs);
                asm.load(Width::Double, R2, R10, SAMPLE);
                copy_registers(asm, registers, R2);
                asm.store(Width::Double, R2, copied.pending(), 1);
                self.interrupt(asm, bells, back);
            }
        }
    }

    /// Puts the sample at R2 into the ring, without copies; R0 is the length of its kernel part. Goes to `back` if there is room.
    fn put(&self, asm: &mut Assembler, back: Label) {
        asm.store(Width::Double, R2, small(part::COPIED), 0);
        asm.set(R3, R0);
        length_or_zero(asm, R3, KERNEL_BYTES);
        asm.alu(Alu::Add, R3, number(part::FRAMES));
        asm.load_map(R1, self.setting.ring.as_raw_fd());
        asm.set(R4, NO_WAKEUP);
        asm.call(Helper::RingbufOutput);
        asm.jump_if(When::Equal, R0, 0, back);
        self.setting.count(asm, shared::NO_ROOM);
    }

    /// Has this CPU interrupted as soon as it can be; goes to `back` if it will be. Else nothing is pending.
    fn interrupt(&self, asm: &mut Assembler, bells: BorrowedFd<'_>, back: Label) {
        let silent = asm.label();
        asm.call(Helper::GetSmpProcessorId);
        asm.store(Width::Word, R10, ZERO_KEY, R0);
        asm.set(R2, R10);
        asm.alu(Alu::Add, R2, i32::from(ZERO_KEY));
        asm.load_map(R1, bells.as_raw_fd());
        asm.call(Helper::MapLookup);
        asm.jump_if(When::Equal, R0, 0, silent);
        asm.set(R1, R0);
        asm.set(R2, R10);
        asm.alu(Alu::Add, R2, i32::from(BEGAN));
        asm.set(R3, size_of::<u64>() as i32);
        asm.set(R4, FORCE_WAKEUP);
        asm.call(Helper::RingbufOutput);
        asm.jump_if(When::Equal, R0, 0, back);
        asm.place(silent);
        asm.load(Width::Double, R2, R10, SAMPLE);
        asm.store(Width::Double, R2, self.setting.copied.pending(), 0);
        self.setting.count(asm, shared::NO_ROOM);
    }
}

/// `sched_switch(preempted, prev, next, prev_state)`, where no other program notes who waits.
pub(in super::super) fn switch(setting: Setting<'_>) -> Result<Vec<Insn>, AsmError> {
    let mut asm = Assembler::new();
    let notes = Notes::new(&mut asm, setting);
    asm.set(R6, R1);
    asm.load(Width::Double, R7, R6, PREV);
    asm.load(Width::Double, R8, R6, NEXT);
    // Both of a switch have the same time: looking at the clock is half of what a switch costs that is not told of.
    asm.call(Helper::KtimeGetNs);
    asm.set(R1, 0);
    notes.note(&mut asm);
    asm.exit();
    notes.rare(&mut asm);
    asm.finish()
}
