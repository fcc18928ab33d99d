//! What the program on switches tells of the futex or the lock of the kernel that the thread which goes out waits for.

use super::*;

impl Event<'_> {
    /// Tells which futex the thread in R7 blocks on, if one.
    pub(super) fn check_futex(&mut self) {
        if self.setting.task.syscall.is_none() || self.setting.task.futex.is_none() {
            return;
        }
        self.futexes = true;
        self.asm.load(Width::Double, R3, R10, FUTEX);
        self.asm.jump_if(When::NotEqual, R3, 0, self.tell_futex);
        self.asm.place(self.futex_told);
    }

    /// R3 is its address.
    pub(super) fn tell_futex(&mut self) {
        self.asm.place(self.tell_futex);
        self.slot();
        self.asm.store(Width::Double, R2, part::ADDRESS, R3);
        self.copy_word(R10, WORDS, part::WORD);
        self.copy_word(R10, WORDS + 8, part::WORD_AFTER_8);
        self.copy_word(R10, VALUE, part::VALUE);
        for (width, from, to) in [
            (Width::Byte, OPERATION, part::OPERATION),
            (Width::Half, WORDS + 16, part::WORD_AFTER_16),
        ] {
            // Whole words were stored; the part that is wanted is cut by the store.
            self.asm.load(Width::Word, R3, R10, from);
            self.asm.store(width, R2, to, R3);
        }
        self.kind(RecordKind::Futex);
        self.asm.alu(Alu::Add, R1, 1);
        self.asm.jump(self.futex_told);
    }

    /// Tells which lock of the kernel the thread in R7 waits for, if one, whether it sleeps for it or is preempted.
    pub(super) fn check_lock(&mut self) {
        let Some(places) = self.setting.contentions else { return };
        self.locks = true;
        let asm = &mut self.asm;
        asm.load(Width::Word, R3, R7, self.setting.task.pid);
        asm.set(R2, R3);
        asm.alu(Alu::And, R2, number(contentions::ENTRIES - 1));
        asm.alu(Alu::ShiftLeft, R2, number(contentions::ENTRY_BYTES.ilog2() as usize));
        asm.load_map_value(R4, places.as_raw_fd());
        asm.alu(Alu::Add, R2, R4);
        asm.load(Width::Word, R4, R2, contentions::at::TID);
        asm.jump_if(When::Equal, R4, 0, self.lock_told);
        asm.jump_if(When::Equal, R4, R3, self.tell_lock);
        asm.place(self.lock_told);
    }

    /// R2 is its place.
    pub(super) fn tell_lock(&mut self) {
        let asm = &mut self.asm;
        asm.place(self.tell_lock);
        asm.load(Width::Double, R4, R2, contentions::at::ADDRESS);
        asm.load(Width::Word, R5, R2, contentions::at::FLAGS);
        self.slot();
        self.asm.store(Width::Double, R2, part::ADDRESS, R4);
        self.asm.store(Width::Word, R2, part::LOCK_FLAGS, R5);
        self.kind(RecordKind::Contention);
        self.asm.alu(Alu::Add, R1, 1);
        self.asm.jump(self.lock_told);
    }
}

/// Puts on the stack what there is to know of the futex that a thread blocks on, if its system call, the number of which is in R3,
/// is futex(2); else goes to `done`. Its registers are in R0. The thread has its memory still, and nothing is brought in for
/// this: what is not there is read as 0. Takes R0 to R5.
pub(super) fn note_futex(asm: &mut Assembler, layout: FutexLayout, done: Label) {
    asm.jump_if(When::NotEqual, R3, layout.call, done);
    asm.load(Width::Double, R3, R0, layout.address);
    asm.store(Width::Double, R10, FUTEX, R3);
    for (from, to) in [(layout.operation, OPERATION), (layout.value, VALUE)] {
        asm.load(Width::Double, R4, R0, from);
        asm.store(Width::Word, R10, to, R4);
    }
    asm.set(R1, R10);
    asm.alu(Alu::Add, R1, i32::from(WORDS));
    asm.set(R2, WORDS_BYTES);
    asm.call(Helper::ProbeReadUser);
}
