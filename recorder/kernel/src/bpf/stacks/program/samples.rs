//! How the stack of the thread that runs becomes a sample: once it is back from a long wait, when it ends one of another
//! thread, and when a clock looks at it.
//!
//! R6 holds the context, R8 the length of what follows the sample's head, R9 the sample.

use std::os::fd::AsRawFd;

use super::super::super::asm::Reg::*;
use super::super::super::asm::{
    Alu, AsmError, Assembler, Helper, Insn, Label, Operand, Reg, When, Width,
};
use super::super::super::programs::number;
use super::super::super::task::RegisterLayout;
use super::{
    BEGAN, BLOCK, Copied, KERNEL_BYTES, LARGE_COPY, LENGTH, NO_WAKEUP, NOW, OWNER, OWNER_BITS,
    Setting, USER_BYTES, USER_STACK, Writer, copy_registers, kind, length_or_zero, part, shared,
    small,
};

/// How much of the stack is copied where frame pointers lead on: enough for the functions of libraries without them that
/// are between the kernel and the program's own.
const COPY: usize = 512;

/// A stack with fewer frames than this is not taken for one that frame pointers lead through.
const FEW_FRAMES: usize = 4;

/// How far from the top of the stack a frame may be for its address to be taken for one.
const FAR: i32 = 1 << 20;

impl Writer<'_> {
    /// The user part of the sample in R9, of the thread that runs: its frames, its registers, and the top of its stack.
    fn user_part(&mut self, registers: RegisterLayout) {
        let done = self.asm.label();
        let asm = &mut self.asm;
        asm.store(Width::Double, R9, small(part::COPIED), 0);
        asm.store(Width::Double, R9, small(part::USER), i32::MIN);
        asm.load(Width::Double, R1, R9, small(part::SPACE));
        asm.jump_if(When::Equal, R1, 0, done);
        asm.set(R1, R6);
        asm.set(R2, R9);
        asm.alu(Alu::Add, R2, R8);
        asm.alu(Alu::Add, R2, number(part::FRAMES));
        asm.set(R3, number(USER_BYTES));
        asm.set(R4, USER_STACK);
        asm.call(Helper::GetStack);
        asm.store(Width::Double, R9, small(part::USER), R0);
        asm.set(R7, R0);
        length_or_zero(asm, R7, USER_BYTES);
        asm.alu(Alu::Add, R8, R7);

        asm.call(Helper::GetCurrentTaskBtf);
        asm.set(R1, R0);
        asm.call(Helper::TaskPtRegs);
        copy_registers(&mut self.asm, registers, R9);

        match self.setting.copied {
            Copied::Usual => self.copy_little(done),
            Copied::Blocks(blocks) => self.copy_blocks(blocks, done),
        }
        self.asm.place(done);
    }

    /// Goes to `elsewhere` if the interrupt came when another thread ran than the one of the sample in R9, or when this one was in its
    /// program again: then its registers are others. Such a sample has no user part.
    fn unless_in_wait(&mut self, registers: RegisterLayout, elsewhere: Label) {
        let asm = &mut self.asm;
        asm.store(Width::Double, R9, small(part::USER), -libc::EFAULT);
        asm.store(Width::Double, R9, small(part::COPIED), 0);
        asm.call(Helper::GetCurrentTaskBtf);
        asm.load(Width::Word, R1, R0, self.setting.task.pid);
        asm.load(Width::Word, R2, R9, small(part::TID));
        asm.jump_if(When::NotEqual, R1, R2, elsewhere);
        asm.set(R1, R0);
        asm.call(Helper::TaskPtRegs);
        for (from, known) in
            [registers.instruction, registers.stack].into_iter().zip(part::REGISTERS)
        {
            asm.load(Width::Double, R1, R0, from);
            asm.load(Width::Double, R2, R9, small(known));
            asm.jump_if(When::NotEqual, R1, R2, elsewhere);
        }
    }

    /// Copies the blocks at the top of the program's stack one after the other, until one is not there: then to `done`.
    fn copy_blocks(&mut self, blocks: usize, done: Label) {
        self.asm.set(R7, 0);
        for block in 0..blocks {
            let asm = &mut self.asm;
            asm.set(R2, number(BLOCK));
            if block == 0 {
                // The first one ends where its page may.
                asm.load(Width::Double, R3, R9, small(part::REGISTERS[1]));
                asm.alu(Alu::And, R3, number(BLOCK - 1));
                asm.alu(Alu::Sub, R2, R3);
            }
            asm.store(Width::Double, R10, LENGTH, R2);
            self.copy_stack(Some(R7));
            let asm = &mut self.asm;
            asm.jump_if(When::NotEqual, R0, 0, done);
            asm.load(Width::Double, R1, R10, LENGTH);
            asm.alu(Alu::Add, R7, R1);
            asm.alu(Alu::Add, R8, R1);
            asm.store(Width::Double, R9, small(part::COPIED), R7);
        }
    }

    /// Copies what most programs need, and goes to `done` if it is not there. R7 holds how many bytes of frames there are.
    fn copy_little(&mut self, done: Label) {
        let [leads, copy, copied] = [(); 3].map(|()| self.asm.label());
        let asm = &mut self.asm;
        asm.set(R2, number(LARGE_COPY));
        // Few frames, or a register that is no address of a frame: frame pointers lead nowhere.
        asm.jump_if(When::AtLeast, R7, number(FEW_FRAMES * size_of::<u64>()), leads);
        asm.jump(copy);
        asm.place(leads);
        asm.load(Width::Double, R1, R9, small(part::REGISTERS[2]));
        asm.load(Width::Double, R3, R9, small(part::REGISTERS[1]));
        asm.alu(Alu::Sub, R1, R3);
        asm.jump_if(When::AtLeast, R1, FAR, copy);
        asm.set(R2, number(COPY));
        asm.place(copy);
        asm.store(Width::Double, R10, LENGTH, R2);
        self.copy_stack(None);
        let asm = &mut self.asm;
        asm.jump_if(When::Equal, R0, 0, copied);
        // As far as the end of the page, behind which there may be nothing.
        asm.load(Width::Double, R3, R9, small(part::REGISTERS[1]));
        asm.alu(Alu::And, R3, number(BLOCK - 1));
        asm.set(R2, number(BLOCK));
        asm.alu(Alu::Sub, R2, R3);
        asm.load(Width::Double, R1, R10, LENGTH);
        asm.jump_if(When::AtLeast, R2, R1, done);
        asm.jump_if(When::AtLeast, R2, number(LARGE_COPY), done);
        asm.store(Width::Double, R10, LENGTH, R2);
        self.copy_stack(None);
        let asm = &mut self.asm;
        asm.jump_if(When::NotEqual, R0, 0, done);
        asm.place(copied);
        asm.load(Width::Double, R7, R10, LENGTH);
        asm.store(Width::Double, R9, small(part::COPIED), R7);
        asm.alu(Alu::Add, R8, R7);
    }

    /// Copies R2 bytes of the program's stack, from so far behind its top, to the end of the sample; R0 is 0 if they are there.
    fn copy_stack(&mut self, behind: Option<Reg>) {
        let asm = &mut self.asm;
        asm.set(R1, R9);
        asm.alu(Alu::Add, R1, R8);
        asm.alu(Alu::Add, R1, number(part::FRAMES));
        asm.load(Width::Double, R3, R9, small(part::REGISTERS[1]));
        if let Some(behind) = behind {
            asm.alu(Alu::Add, R3, behind);
        }
        asm.call(Helper::ProbeReadUser);
    }

    /// Puts the sample in R9 into the ring.
    fn put(&mut self) {
        let sent = self.asm.label();
        let asm = &mut self.asm;
        asm.load_map(R1, self.setting.ring.as_raw_fd());
        asm.set(R2, R9);
        asm.set(R3, R8);
        asm.alu(Alu::Add, R3, number(part::FRAMES));
        asm.set(R4, NO_WAKEUP);
        asm.call(Helper::RingbufOutput);
        asm.jump_if(When::Equal, R0, 0, sent);
        self.setting.count(asm, shared::NO_ROOM);
        self.asm.place(sent);
    }

    /// The end of a program, at `out`: the stack of the thread that runs as a sample, and into the ring. R6 holds the context.
    /// The times are on the stack.
    fn own_stack(
        mut self,
        (kind, woken): (i32, Operand),
        registers: RegisterLayout,
        out: Label,
    ) -> Result<Vec<Insn>, AsmError> {
        let asm = &mut self.asm;
        self.setting.find_sample(asm, out);
        asm.set(R9, R0);
        asm.store(Width::Word, R9, small(part::WOKEN), woken);
        for (from, to) in [(BEGAN, part::SINCE), (NOW, part::UNTIL)] {
            asm.load(Width::Double, R1, R10, from);
            asm.store(Width::Double, R9, small(to), R1);
        }
        asm.store(Width::Word, R9, small(part::KIND), kind);
        asm.call(Helper::GetCurrentPidTgid);
        asm.store(Width::Word, R9, small(part::TID), R0);
        asm.alu(Alu::ShiftRight, R0, 32);
        asm.store(Width::Word, R9, small(part::PID), R0);
        asm.call(Helper::GetCurrentTaskBtf);
        asm.load(Width::Double, R1, R0, self.setting.memory);
        asm.store(Width::Double, R9, small(part::SPACE), R1);
        asm.set(R1, R6);
        asm.set(R2, R9);
        asm.alu(Alu::Add, R2, number(part::FRAMES));
        asm.set(R3, number(KERNEL_BYTES));
        asm.set(R4, 0);
        asm.call(Helper::GetStack);
        asm.store(Width::Double, R9, small(part::KERNEL), R0);
        asm.set(R8, R0);
        length_or_zero(asm, R8, KERNEL_BYTES);
        self.user_part(registers);
        self.put();
        self.end(out)
    }
}

/// `sched_exit_tp(is_switch)` or `irq_work_entry(vector)`: the scheduler is done, and the thread that came in has its memory.
pub(in super::super) fn switched(
    setting: Setting<'_>,
    registers: RegisterLayout,
) -> Result<Vec<Insn>, AsmError> {
    let mut writer = Writer { asm: Assembler::new(), setting };
    let out = writer.asm.label();
    writer.asm.set(R6, R1);
    let asm = &mut writer.asm;
    setting.find_sample(asm, out);
    asm.set(R9, R0);
    asm.load(Width::Double, R1, R9, setting.copied.pending());
    asm.jump_if(When::Equal, R1, 0, out);
    asm.store(Width::Double, R9, setting.copied.pending(), 0);
    asm.load(Width::Double, R8, R9, small(part::KERNEL));
    length_or_zero(asm, R8, KERNEL_BYTES);
    let elsewhere = asm.label();
    if setting.by_interrupt {
        writer.unless_in_wait(registers, elsewhere);
    }
    writer.user_part(registers);
    writer.asm.place(elsewhere);
    writer.put();
    writer.end(out)
}

/// `sched_waking(task)`: somebody ends a wait, maybe a long one. The sample is of who does.
pub(in super::super) fn waking(
    setting: Setting<'_>,
    registers: RegisterLayout,
) -> Result<Vec<Insn>, AsmError> {
    let mut writer = Writer { asm: Assembler::new(), setting };
    let asm = &mut writer.asm;
    let out = asm.label();
    asm.set(R6, R1);
    asm.load(Width::Double, R7, R6, 0);
    asm.load(Width::Word, R8, R7, setting.task.pid);
    asm.jump_if(When::Equal, R8, 0, out);
    asm.set(R3, R8);
    setting.find_note(asm, R3, R9, R2);
    asm.load(Width::Double, R2, R9, 0);
    asm.jump_if(When::Equal, R2, 0, out);
    asm.alu(Alu::Xor, R3, R2);
    asm.jump_if(When::Shares, R3, OWNER, out);
    asm.alu(Alu::ShiftRight, R2, OWNER_BITS);
    asm.store(Width::Double, R10, BEGAN, R2);
    writer.look_at_the_clock();
    let asm = &mut writer.asm;
    let long = asm.label();
    asm.load(Width::Double, R2, R10, BEGAN);
    asm.alu(Alu::Sub, R0, R2);
    setting.if_long(asm, R0, R2, long);
    asm.jump(out);
    asm.place(long);
    writer.own_stack((kind::WAKE, R8.into()), registers, out)
}

/// A sample of a perf event that counts time: who runs, and where.
pub(in super::super) fn running(
    setting: Setting<'_>,
    registers: RegisterLayout,
) -> Result<Vec<Insn>, AsmError> {
    let mut writer = Writer { asm: Assembler::new(), setting };
    let asm = &mut writer.asm;
    let out = asm.label();
    asm.set(R6, R1);
    asm.call(Helper::GetCurrentPidTgid);
    // The lower half, which is 0 for the idle task.
    asm.alu(Alu::ShiftLeft, R0, 32);
    asm.jump_if(When::Equal, R0, 0, out);
    asm.call(Helper::KtimeGetNs);
    asm.store(Width::Double, R10, BEGAN, R0);
    asm.store(Width::Double, R10, NOW, R0);
    writer.own_stack((kind::CPU, 0.into()), registers, out)
}
