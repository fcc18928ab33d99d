//! What is done: the programs on switches and wake-ups.

use std::os::fd::{AsRawFd, BorrowedFd};

use super::super::account::{LINE_BYTES, at as line, lines};
use super::super::asm::{Alu, AsmError, Assembler, Atomic, Helper, Insn, Label, Reg, When, Width};
use super::super::contentions;
use super::super::groups;
use super::super::interrupts::{InterruptCount, Reach};
use super::super::lane::{self, NAME_BYTES, NAMES, RECORD_BYTES, RecordKind, SPARE, flag, part};
use super::super::stacks::program::Notes;
use super::super::task::{Cast, FutexLayout};
use super::super::wakers;
use super::switched::{NEXT, PREEMPTED, PREV, load_state};
use super::{FORCE_WAKEUP, Reg::*, Scope, Setting, find_bit, number};

mod call;
mod locks;
mod throttle;

#[cfg(test)]
pub(super) use call::MOST_NUMBERS;
pub(super) use call::call;

/// The argument of the wake-ups, and the first of `sched_migrate_task`.
const WOKEN: i16 = 0;
/// Its second, four bytes.
const MOVED_TO: i16 = 8;

// Places on the stack, which ends at R10.
const CPU_KEY: i16 = -4;
const ZERO_KEY: i16 = -8;
const SCRATCH: i16 = -16;
const SYSCALL: i16 = -24;
/// The address of a futex, or 0; its operation, the value that the call names, and the bytes from the futex on.
const FUTEX: i16 = -32;
const OPERATION: i16 = -36;
const VALUE: i16 = -40;
const WORDS: i16 = -64;
/// Which sides of a switch are in scope.
const IN_SCOPE: i16 = -72;
/// As many as tell whether it is a mutex of the C library, and who has it.
const WORDS_BYTES: i32 = 20;

/// `PF_KTHREAD`, `PF_USER_WORKER` and `PF_IO_WORKER`: threads that never entered the kernel, and have no registers there.
const WORKERS: i32 = 0x0020_0000 | 0x4000 | 0x10;

/// A program on an event, as far as they are alike.
struct Event<'a> {
    asm: Assembler,
    setting: &'a Setting<'a>,
    out: Label,
    busy: Label,
    full: Label,
    tell_loss: Label,
    loss_told: Label,
    tell_name: Label,
    name_told: Label,
    tell_slice: Label,
    slice_told: Label,
    tell_taken: Label,
    taken_told: Label,
    tell_throttled: Label,
    throttled_told: Label,
    tell_wait: Label,
    wait_told: Label,
    tell_futex: Label,
    futex_told: Label,
    tell_lock: Label,
    lock_told: Label,
    ring: Label,
    /// A switch that is out of scope.
    unshown: Label,
    /// Whether there are such.
    skips: bool,
    /// Whether it tells names.
    names: bool,
    /// Whether it tells of slices.
    slices: bool,
    /// Whether it tells what is taken of slices.
    takes: bool,
    /// In which register the thread is that may begin to wait in a throttled queue, if it tells of such.
    throttles: Option<Reg>,
    /// Whether it tells for how long queues were throttled.
    waits: bool,
    /// Whether it tells of futexes, and of locks of the kernel.
    futexes: bool,
    locks: bool,
    /// What it notes of who waits, if it does.
    notes: Option<Notes<'a>>,
    /// This CPU has no lane.
    laneless: Label,
}

impl<'a> Event<'a> {
    fn new(setting: &'a Setting<'a>) -> Event<'a> {
        let mut asm = Assembler::new();
        Event {
            out: asm.label(),
            busy: asm.label(),
            full: asm.label(),
            tell_loss: asm.label(),
            loss_told: asm.label(),
            tell_name: asm.label(),
            name_told: asm.label(),
            tell_slice: asm.label(),
            slice_told: asm.label(),
            tell_taken: asm.label(),
            taken_told: asm.label(),
            unshown: asm.label(),
            tell_throttled: asm.label(),
            throttled_told: asm.label(),
            tell_wait: asm.label(),
            wait_told: asm.label(),
            tell_futex: asm.label(),
            futex_told: asm.label(),
            tell_lock: asm.label(),
            lock_told: asm.label(),
            ring: asm.label(),
            skips: false,
            names: false,
            slices: false,
            takes: false,
            throttles: None,
            waits: false,
            futexes: false,
            locks: false,
            notes: None,
            laneless: asm.label(),
            asm,
            setting,
        }
    }

    /// R9 = the lane of this CPU. Leaves where there is none.
    fn find_lane(&mut self) {
        let asm = &mut self.asm;
        asm.call(Helper::GetSmpProcessorId);
        asm.store(Width::Word, R10, CPU_KEY, R0);
        asm.set(R2, R10);
        asm.alu(Alu::Add, R2, i32::from(CPU_KEY));
        asm.load_map(R1, self.setting.lanes.as_raw_fd());
        asm.call(Helper::MapLookup);
        asm.jump_if(When::Equal, R0, 0, self.laneless);
        asm.store(Width::Word, R10, ZERO_KEY, 0);
        asm.set(R2, R10);
        asm.alu(Alu::Add, R2, i32::from(ZERO_KEY));
        asm.set(R1, R0);
        asm.call(Helper::MapLookup);
        asm.jump_if(When::Equal, R0, 0, self.laneless);
        asm.set(R9, R0);
    }

    /// `target` = 1 if the thread is in scope, else 0. Takes `other` and R3.
    fn is_in_scope(&mut self, scope: Scope<'_>, task: Reg, target: Reg, other: Reg) {
        let asm = &mut self.asm;
        match scope {
            Scope::Threads(set) => {
                find_bit(asm, self.setting.task, set, task, target, other, R3);
                asm.load(Width::Double, target, target, 0);
                asm.alu(Alu::ShiftRight, target, other);
                asm.alu(Alu::And, target, 1);
            }
            Scope::Groups(map, layout) => {
                let [found, done, has_one] = [(); 3].map(|()| asm.label());
                asm.load(Width::Double, R3, task, layout.leader);
                for place in layout.group.0 {
                    asm.load(Width::Double, R3, R3, place);
                }
                // A group that the kernel made for a session of a terminal belongs to no cgroup but the root.
                asm.jump_if(When::NotEqual, R3, 0, has_one);
                asm.set(R3, 1);
                asm.place(has_one);
                groups::find_place(asm, map, groups::at::MEMBERS, R3, target, other);
                groups::look(asm, R3, target, other, found);
                asm.set(target, 0);
                asm.jump(done);
                asm.place(found);
                asm.set(target, 1);
                asm.place(done);
            }
        }
    }

    /// Takes the lane, counts the event, R0 = the time, R1 = the head, and tells what there is to tell before the
    /// record of the thread in R8.
    fn begin(&mut self, kind: RecordKind) {
        let asm = &mut self.asm;
        asm.load(Width::Double, R1, R9, lane::at::BUSY);
        asm.jump_if(When::NotEqual, R1, 0, self.busy);
        asm.store(Width::Double, R9, lane::at::BUSY, 1);
        // Those of moves come behind those of switches and wake-ups.
        let place = match kind {
            RecordKind::Moved => RecordKind::Waking as u8 + 1,
            _ => kind as u8,
        };
        add_one(asm, lane::at::FIRED + 8 * i16::from(place - RecordKind::Switch as u8));
        self.make_room();
        self.check_name();
        self.asm.place(self.name_told);
    }

    /// R0 = the time, R1 = the head; leaves if the lane is full, and tells of losses.
    fn make_room(&mut self) {
        let asm = &mut self.asm;
        asm.call(Helper::KtimeGetNs);
        asm.load(Width::Double, R1, R9, lane::at::HEAD);
        asm.load(Width::Double, R2, R9, lane::at::TAIL);
        asm.set(R3, R1);
        asm.alu(Alu::Sub, R3, R2);
        asm.jump_if(When::AtLeast, R3, number(self.setting.shape.records - SPARE), self.full);
        asm.load(Width::Double, R2, R9, lane::at::LOST);
        asm.load(Width::Double, R3, R9, lane::at::TOLD);
        asm.jump_if(When::NotEqual, R2, R3, self.tell_loss);
        asm.place(self.loss_told);
    }

    /// R2 = where the name of the thread in R8 is remembered; goes to `tell_name` if another is.
    fn check_name(&mut self) {
        self.names = true;
        let (asm, task) = (&mut self.asm, self.setting.task);
        asm.load(Width::Word, R3, R8, task.pid);
        asm.set(R2, R3);
        asm.alu(Alu::And, R2, number(NAMES - 1));
        asm.alu(Alu::ShiftLeft, R2, number(NAME_BYTES.ilog2() as usize));
        asm.alu(Alu::Add, R2, R9);
        asm.load(Width::Double, R4, R2, lane::at::NAMES);
        asm.jump_if(When::NotEqual, R3, R4, self.tell_name);
        for half in [0, 8] {
            asm.load(Width::Double, R3, R8, task.comm + half);
            asm.load(Width::Double, R4, R2, lane::at::NAMES + 8 + half);
            asm.jump_if(When::NotEqual, R3, R4, self.tell_name);
        }
    }

    /// Tells what befell the slice that ends, if anything did. The thread in R8 comes in, on this CPU.
    fn check_slice(&mut self) {
        let Some(queue) = self.setting.task.stolen else { return };
        self.slices = true;
        let asm = &mut self.asm;
        asm.load(Width::Double, R3, R8, queue.queue);
        asm.load(Width::Double, R3, R3, queue.run_queue);
        asm.load(Width::Double, R3, R3, queue.stolen);
        asm.load(Width::Double, R4, R9, lane::at::STOLEN);
        asm.jump_if(When::NotEqual, R3, R4, self.tell_slice);
        asm.place(self.slice_told);
    }

    /// R3 = what this CPU does besides running threads. Takes R4.
    fn find_line(&mut self) {
        let (asm, accounts) = (&mut self.asm, self.setting.accounts);
        asm.load(Width::Word, R3, R10, CPU_KEY);
        asm.alu(Alu::And, R3, number(lines(accounts.possible) - 1));
        asm.alu(Alu::ShiftLeft, R3, number(LINE_BYTES.ilog2() as usize));
        asm.load_map_value(R4, accounts.map.as_raw_fd());
        asm.alu(Alu::Add, R3, R4);
    }

    /// Tells what interrupts took of the slice that ends and since when its end was asked for, if they did and it was.
    fn check_taken(&mut self) {
        if !self.setting.accounts.tells() {
            return;
        }
        self.takes = true;
        self.find_line();
        let asm = &mut self.asm;
        if self.setting.accounts.irqs {
            asm.load(Width::Double, R4, R3, line::HARD);
            asm.load(Width::Double, R5, R3, line::SOFT);
            asm.alu(Alu::Add, R4, R5);
            asm.load(Width::Double, R5, R9, lane::at::IRQS);
            asm.jump_if(When::NotEqual, R4, R5, self.tell_taken);
        }
        if self.setting.accounts.asking {
            asm.load(Width::Double, R4, R3, line::ASKED);
            asm.jump_if(When::NotEqual, R4, 0, self.tell_taken);
        }
        asm.place(self.taken_told);
    }

    /// R3 is the line of this CPU, R7 the thread that goes out.
    fn tell_taken(&mut self) {
        self.asm.place(self.tell_taken);
        self.slot();
        let (asm, task) = (&mut self.asm, self.setting.task);
        // No switch happens within an interrupt.
        asm.store(Width::Double, R3, line::DEPTH, 0);
        asm.load(Width::Double, R4, R3, line::TOTAL);
        asm.load(Width::Double, R5, R9, lane::at::IRQ_NS);
        asm.store(Width::Double, R9, lane::at::IRQ_NS, R4);
        asm.alu(Alu::Sub, R4, R5);
        asm.store(Width::Double, R2, part::IRQ_NS, R4);
        asm.load(Width::Double, R4, R3, line::HARD);
        asm.load(Width::Double, R5, R3, line::SOFT);
        asm.alu(Alu::Add, R4, R5);
        asm.load(Width::Double, R5, R9, lane::at::IRQS);
        asm.store(Width::Double, R9, lane::at::IRQS, R4);
        asm.alu(Alu::Sub, R4, R5);
        asm.store(Width::Word, R2, part::IRQS, R4);
        asm.store(Width::Byte, R2, part::FLAGS, 0);
        let told = asm.label();
        asm.load(Width::Double, R4, R3, line::ASKED);
        asm.jump_if(When::Equal, R4, 0, told);
        asm.store(Width::Double, R3, line::ASKED, 0);
        asm.load(Width::Double, R3, R3, line::ASKED_TID);
        asm.load(Width::Word, R5, R7, task.pid);
        // Another thread's request, whose switch nobody saw.
        asm.jump_if(When::NotEqual, R3, R5, told);
        asm.jump_if(When::AtLeast, R4, R0, told);
        asm.set(R5, R0);
        asm.alu(Alu::Sub, R5, R4);
        asm.store(Width::Double, R2, part::ASKED_NS, R5);
        asm.store(Width::Byte, R2, part::FLAGS, i32::from(flag::FIRST));
        asm.place(told);
        self.kind(RecordKind::Taken);
        self.asm.alu(Alu::Add, R1, 1);
        self.asm.jump(self.taken_told);
    }

    /// A switch that no record tells of answers a request all the same.
    fn forget_request(&mut self) {
        if self.takes && self.setting.accounts.asking {
            self.find_line();
            self.asm.store(Width::Double, R3, line::ASKED, 0);
        }
    }

    /// R3 = the state of the thread in R7 that goes out; R6 has the arguments.
    fn load_state(&mut self) {
        load_state(&mut self.asm, self.setting.task.state, R3);
    }

    /// Puts on the stack in which system call the thread in R7 blocks, if in one. R6 has the arguments. Takes R0 to R5.
    fn note_syscall(&mut self) {
        let Some(layout) = self.setting.task.syscall else { return };
        let done = self.asm.label();
        self.asm.store(Width::Double, R10, SYSCALL, i32::from(lane::NO_SYSCALL));
        if self.setting.task.futex.is_some() {
            self.asm.store(Width::Double, R10, FUTEX, 0);
        }
        self.load_state();
        let asm = &mut self.asm;
        asm.jump_if(When::Equal, R3, 0, done);
        asm.load(Width::Double, R3, R6, PREEMPTED);
        asm.jump_if(When::NotEqual, R3, 0, done);
        asm.load(Width::Word, R3, R7, layout.flags);
        asm.alu(Alu::And, R3, WORKERS);
        asm.jump_if(When::NotEqual, R3, 0, done);
        asm.load(layout.narrow_width, R3, R7, layout.narrow);
        asm.alu(Alu::And, R3, layout.narrow_bits);
        asm.jump_if(When::NotEqual, R3, 0, done);
        asm.set(R1, R7);
        asm.call(Helper::TaskPtRegs);
        asm.load(layout.number_width, R3, R0, layout.number);
        // What entered by an exception has -1.
        asm.jump_if(When::AtLeast, R3, i32::from(lane::NO_SYSCALL), done);
        asm.store(Width::Double, R10, SYSCALL, R3);
        if let Some(futex) = self.setting.task.futex {
            locks::note_futex(asm, futex, done);
        }
        asm.place(done);
    }

    /// R2 = the record at the head.
    fn slot(&mut self) {
        let asm = &mut self.asm;
        asm.set(R2, R1);
        asm.alu(Alu::And, R2, number(self.setting.shape.records - 1));
        asm.alu(Alu::Mul, R2, number(RECORD_BYTES));
        asm.alu(Alu::Add, R2, R9);
        asm.alu(Alu::Add, R2, number(lane::at::RECORDS));
    }

    /// `*(R2 + to) = *(base + from)`, four bytes.
    fn copy_word(&mut self, base: Reg, from: i16, to: i16) {
        self.asm.load(Width::Word, R3, base, from);
        self.asm.store(Width::Word, R2, to, R3);
    }

    fn copy_prio(&mut self, task: Reg, to: i16) {
        self.asm.load(Width::Word, R3, task, self.setting.task.prio);
        self.asm.store(Width::Byte, R2, to, R3);
    }

    fn kind(&mut self, kind: RecordKind) {
        self.asm.store(Width::Byte, R2, part::KIND, i32::from(kind as u8));
    }

    /// Publishes the record, lets go of the lane, and leaves; behind that, the rarer ways through the program.
    fn end(mut self) -> Result<Vec<Insn>, AsmError> {
        let asm = &mut self.asm;
        asm.alu(Alu::Add, R1, 1);
        if cfg!(target_arch = "x86_64") {
            // Stores are not reordered.
            asm.store(Width::Double, R9, lane::at::HEAD, R1);
        } else {
            asm.set(R2, R1);
            asm.atomic(Atomic::Exchange, R9, lane::at::HEAD, R2);
        }
        asm.store(Width::Double, R9, lane::at::BUSY, 0);
        asm.load(Width::Double, R2, R9, lane::at::BELL);
        asm.jump_if(When::AtLeast, R1, R2, self.ring);
        asm.place(self.out);
        if self.notes.is_none() {
            asm.place(self.laneless);
        }
        asm.exit();
        self.rare();
        self.asm.finish()
    }

    /// Of a switch that the lane does not get, nothing may be noted either: a wait would seem to be that of two.
    fn forget_notes(&mut self) {
        if let Some(notes) = self.notes {
            notes.forget(&mut self.asm, R7);
            notes.forget(&mut self.asm, R8);
        }
    }

    fn rare(&mut self) {
        let asm = &mut self.asm;
        asm.place(self.busy);
        asm.jump_if(When::Equal, R1, lane::CLOSED, self.out);
        add_one(asm, lane::at::NESTED);
        self.forget_notes();
        self.asm.exit();

        let asm = &mut self.asm;
        asm.place(self.full);
        add_one(asm, lane::at::LOST);
        asm.store(Width::Double, R9, lane::at::BUSY, 0);
        self.forget_request();
        self.forget_notes();
        self.asm.exit();

        if self.skips {
            self.asm.place(self.unshown);
            self.forget_request();
            self.forget_notes();
            self.asm.exit();
        }
        if let Some(notes) = self.notes {
            self.asm.place(self.laneless);
            self.forget_notes();
            self.asm.exit();
            notes.rare(&mut self.asm);
        }

        let asm = &mut self.asm;
        asm.place(self.ring);
        asm.alu(Alu::Add, R1, number(self.setting.shape.bell_records()));
        asm.store(Width::Double, R9, lane::at::BELL, R1);
        ring(asm, self.setting.doorbell);
        asm.exit();

        self.asm.place(self.tell_loss);
        self.slot();
        self.asm.store(Width::Double, R2, part::TIME, R0);
        self.kind(RecordKind::Lost);
        let asm = &mut self.asm;
        asm.load(Width::Double, R3, R9, lane::at::LOST);
        asm.load(Width::Double, R4, R9, lane::at::TOLD);
        asm.store(Width::Double, R9, lane::at::TOLD, R3);
        asm.alu(Alu::Sub, R3, R4);
        asm.store(Width::Double, R2, part::COUNT, R3);
        asm.alu(Alu::Add, R1, 1);
        asm.jump(self.loss_told);

        if self.names {
            self.tell_name();
        }
        if self.slices {
            self.tell_slice();
        }
        if self.takes {
            self.tell_taken();
        }
        if let Some(task) = self.throttles {
            self.tell_throttled(task);
        }
        if self.waits {
            self.tell_wait();
        }
        if self.futexes {
            self.tell_futex();
        }
        if self.locks {
            self.tell_lock();
        }
    }

    /// R2 is where the name is remembered, R5 the record.
    fn tell_name(&mut self) {
        self.asm.place(self.tell_name);
        self.asm.set(R5, R2);
        self.slot();
        let task = self.setting.task;
        let asm = &mut self.asm;
        asm.load(Width::Word, R3, R8, task.pid);
        asm.store(Width::Word, R2, part::NAMED_TID, R3);
        asm.store(Width::Double, R5, lane::at::NAMES, R3);
        for half in [0, 8] {
            asm.load(Width::Double, R3, R8, task.comm + half);
            asm.store(Width::Double, R2, part::NAME + half, R3);
            asm.store(Width::Double, R5, lane::at::NAMES + 8 + half, R3);
        }
        self.kind(RecordKind::Name);
        self.asm.alu(Alu::Add, R1, 1);
        self.asm.jump(self.name_told);
    }

    /// R3 is the CPU's clock of stolen time, R4 what it was.
    fn tell_slice(&mut self) {
        let asm = &mut self.asm;
        asm.place(self.tell_slice);
        // It never goes back, but where its address is unknown it is read as 0.
        asm.jump_if(When::AtLeast, R4, R3, self.slice_told);
        asm.store(Width::Double, R9, lane::at::STOLEN, R3);
        asm.alu(Alu::Sub, R3, R4);
        self.slot();
        self.asm.store(Width::Double, R2, part::STOLEN, R3);
        self.kind(RecordKind::Slice);
        self.asm.alu(Alu::Add, R1, 1);
        self.asm.jump(self.slice_told);
    }
}

/// Wakes the reader. Takes R0 to R5.
pub(super) fn ring(asm: &mut Assembler, doorbell: BorrowedFd<'_>) {
    asm.store(Width::Double, R10, SCRATCH, 0);
    asm.load_map(R1, doorbell.as_raw_fd());
    asm.set(R2, R10);
    asm.alu(Alu::Add, R2, i32::from(SCRATCH));
    asm.set(R3, 8);
    asm.set(R4, FORCE_WAKEUP);
    asm.call(Helper::RingbufOutput);
}

/// `sched_migrate_task(task, cpu)`, which comes before the task is moved.
pub(super) fn migrate(setting: &Setting<'_>) -> Result<Vec<Insn>, AsmError> {
    let mut event = Event::new(setting);
    event.asm.load(Width::Double, R7, R1, MOVED_TO);
    event.woken();
    event.find_lane();
    event.begin(RecordKind::Moved);
    event.check_wait();
    event.slot();
    let task = setting.task;
    event.asm.store(Width::Double, R2, part::TIME, R0);
    event.copy_word(R8, task.pid, part::TID);
    event.asm.store(Width::Word, R2, part::TO_CPU, R7);
    event.copy_word(R8, task.cpu, part::FROM_CPU);
    event.kind(RecordKind::Moved);
    event.tell_new_queue();
    event.end()
}

/// Copies so many bytes from the address in R3 to the stack. Where that cannot be read, the kernel clears them. Takes R0 to R5.
fn copy_to_scratch(asm: &mut Assembler, bytes: i32) {
    asm.set(R1, R10);
    asm.alu(Alu::Add, R1, i32::from(SCRATCH));
    asm.set(R2, bytes);
    asm.call(Helper::ProbeReadKernel);
}

/// R0 = the address in R1, as that of a task. Takes R1 to R5.
fn as_task(asm: &mut Assembler, cast: Cast) {
    asm.set(R2, cast.task.cast_signed());
    asm.call_function(cast.function);
}

/// R1 = the count of interrupts at this distance from the address in R3.
fn copy_count(asm: &mut Assembler, distance: i32) {
    asm.alu(Alu::Add, R3, distance);
    copy_to_scratch(asm, 4);
    asm.load(Width::Word, R1, R10, SCRATCH);
}

/// `*(R9 + at) += 1`, by way of R1.
fn add_one(asm: &mut Assembler, at: i16) {
    asm.load(Width::Double, R1, R9, at);
    asm.alu(Alu::Add, R1, 1);
    asm.store(Width::Double, R9, at, R1);
}

/// `sched_switch(preempted, prev, next, prev_state)`.
pub(super) fn switch(setting: &Setting<'_>) -> Result<Vec<Insn>, AsmError> {
    let mut event = Event::new(setting);
    let task = setting.task;
    event.notes = setting.notes.map(|notes| Notes::new(&mut event.asm, notes.setting(task)));
    event.asm.set(R6, R1);
    event.asm.load(Width::Double, R7, R6, PREV);
    event.asm.load(Width::Double, R8, R6, NEXT);
    if let Some(scope) = setting.scope {
        event.is_in_scope(scope, R7, R1, R2);
        event.is_in_scope(scope, R8, R4, R2);
        let asm = &mut event.asm;
        if let Scope::Groups(..) = scope {
            // Who it is, user space is told: nobody else knows in which cgroup they were at this moment.
            asm.alu(Alu::ShiftLeft, R1, number(flag::PREV_IN_SCOPE.ilog2() as usize));
            asm.alu(Alu::ShiftLeft, R4, number(flag::NEXT_IN_SCOPE.ilog2() as usize));
        }
        asm.alu(Alu::Or, R1, R4);
        asm.store(Width::Double, R10, IN_SCOPE, R1);
    }
    event.find_lane();
    if setting.scope.is_some() {
        // The switch after one of the scope is reported too: it ends the slice of whoever came in.
        let asm = &mut event.asm;
        asm.load(Width::Double, R1, R10, IN_SCOPE);
        asm.load(Width::Double, R2, R9, lane::at::SHOWN);
        asm.store(Width::Double, R9, lane::at::SHOWN, R1);
        asm.alu(Alu::Or, R2, R1);
        asm.jump_if(When::Equal, R2, 0, event.unshown);
        event.skips = true;
    }
    event.note_syscall();
    event.begin(RecordKind::Switch);
    event.check_slice();
    event.check_taken();
    event.check_goes_out();
    event.check_wait();
    event.check_futex();
    event.check_lock();
    event.slot();
    event.asm.store(Width::Double, R2, part::TIME, R0);
    event.copy_word(R7, task.pid, part::TID);
    event.copy_word(R8, task.pid, part::SECOND_TID);
    event.load_state();
    event.asm.load(Width::Word, R4, R7, task.exit_state);
    event.asm.alu(Alu::Or, R3, R4);
    event.asm.store(Width::Half, R2, part::STATE, R3);
    if task.syscall.is_some() {
        event.asm.load(Width::Double, R3, R10, SYSCALL);
    } else {
        event.asm.set(R3, i32::from(lane::NO_SYSCALL));
    }
    event.asm.store(Width::Half, R2, part::SYSCALL, R3);
    event.kind(RecordKind::Switch);
    event.asm.load(Width::Double, R3, R6, PREEMPTED);
    if let Some(Scope::Groups(..)) = setting.scope {
        event.asm.load(Width::Double, R4, R10, IN_SCOPE);
        event.asm.alu(Alu::Or, R3, R4);
    }
    event.asm.store(Width::Byte, R2, part::FLAGS, R3);
    event.copy_prio(R7, part::PRIO);
    event.copy_prio(R8, part::SECOND_PRIO);
    if let Some(notes) = event.notes {
        notes.note(&mut event.asm);
    }
    event.end()
}

impl Event<'_> {
    /// R8 = the woken. Leaves where it is out of scope.
    fn woken(&mut self) {
        self.asm.load(Width::Double, R8, R1, WOKEN);
        if let Some(scope) = self.setting.scope {
            self.is_in_scope(scope, R8, R1, R2);
            self.asm.jump_if(When::Equal, R1, 0, self.out);
        }
    }

    /// R7 = who runs.
    fn current(&mut self) {
        match self.setting.task.interrupts {
            // These have more in the task that they need. Linux 5.10 has no such call.
            InterruptCount::BesideRunQueue { reach: Reach::Cast(_) | Reach::CopyLast, .. }
            | InterruptCount::OfTask { .. } => {
                self.asm.call(Helper::GetCurrentTaskBtf);
                self.asm.load(Width::Word, R7, R0, self.setting.task.pid);
            }
            InterruptCount::OfCpu { .. }
            | InterruptCount::BesideRunQueue { reach: Reach::CopyAll, .. }
            | InterruptCount::Unknown => {
                const HALF: i32 = 32;
                self.asm.call(Helper::GetCurrentPidTgid);
                self.asm.set(R7, R0);
                self.asm.alu(Alu::ShiftLeft, R7, HALF);
                self.asm.alu(Alu::ShiftRight, R7, HALF);
            }
        }
    }

    /// R6 = the flag of wake-ups that an interrupt does, if one runs, else 0; R7 = the task that runs.
    fn current_or_interrupt(&mut self) {
        let task = self.setting.task;
        self.current();
        let asm = &mut self.asm;
        match task.interrupts {
            InterruptCount::OfCpu { variable, offset } => {
                asm.load_variable(R1, variable);
                asm.call(Helper::ThisCpuPtr);
                asm.load(Width::Word, R1, R0, offset);
            }
            InterruptCount::BesideRunQueue { queue, run_queue, distance, reach } => {
                match reach {
                    Reach::Cast(cast) => {
                        asm.load(Width::Double, R1, R0, queue);
                        asm.load(Width::Double, R1, R1, run_queue);
                        // Where a task would begin whose id is the count.
                        asm.alu(Alu::Add, R1, distance - i32::from(task.pid));
                        as_task(asm, cast);
                        asm.load(Width::Word, R1, R0, task.pid);
                    }
                    Reach::CopyLast => {
                        asm.load(Width::Double, R3, R0, queue);
                        asm.load(Width::Double, R3, R3, run_queue);
                        copy_count(asm, distance);
                    }
                    Reach::CopyAll => {
                        asm.call(Helper::GetCurrentTask);
                        asm.set(R3, R0);
                        for step in [queue, run_queue] {
                            asm.alu(Alu::Add, R3, i32::from(step));
                            copy_to_scratch(asm, 8);
                            asm.load(Width::Double, R3, R10, SCRATCH);
                        }
                        copy_count(asm, distance);
                    }
                }
            }
            InterruptCount::OfTask { offset } => asm.load(Width::Word, R1, R0, offset),
            InterruptCount::Unknown => return asm.set(R6, 0),
        }
        let from_task = asm.label();
        asm.set(R6, 0);
        asm.alu(Alu::And, R1, task.interrupt_bits);
        asm.jump_if(When::Equal, R1, 0, from_task);
        asm.set(R6, i32::from(flag::FIRST));
        asm.place(from_task);
    }

    /// `target` = the waker, if it is R7; 0 where nobody knows whether an interrupt does it: no thread is named as the
    /// waker rather than the wrong one.
    fn waker(&mut self, target: Reg) {
        match self.setting.task.interrupts {
            InterruptCount::Unknown => self.asm.set(target, 0),
            _ => self.asm.set(target, R7),
        }
    }

    /// R5 = where it is noted who wakes the thread in R8, whose id is in `tid`. Takes R4.
    fn find_waker(&mut self, tid: Reg) {
        let asm = &mut self.asm;
        asm.set(R5, tid);
        asm.alu(Alu::And, R5, number(wakers::ENTRIES - 1));
        asm.alu(Alu::ShiftLeft, R5, number(size_of::<u64>().ilog2() as usize));
        asm.load_map_value(R4, self.setting.wakers.as_raw_fd());
        asm.alu(Alu::Add, R5, R4);
    }

    /// The record of a wake-up, which R6 says an interrupt does, or else R4; R7 runs.
    fn wake_record(&mut self, kind: RecordKind) {
        let task = self.setting.task;
        self.asm.store(Width::Word, R2, part::SECOND_TID, R7);
        self.kind(kind);
        self.asm.store(Width::Byte, R2, part::FLAGS, R6);
        let asm = &mut self.asm;
        asm.load(Width::Word, R3, R8, task.cpu);
        asm.store(Width::Byte, R2, part::CPU, R3);
        asm.alu(Alu::ShiftRight, R3, 8);
        asm.alu(Alu::ShiftLeft, R3, number(lane::WAKER_BITS as usize));
        asm.alu(Alu::Or, R3, R4);
        asm.store(Width::Word, R2, part::WAKER, R3);
        self.copy_prio(R8, part::PRIO);
    }
}

/// `sched_waking(task)`: notes who does it, and with `record` tells it as well.
pub(super) fn waking(setting: &Setting<'_>, record: bool) -> Result<Vec<Insn>, AsmError> {
    let mut event = Event::new(setting);
    event.woken();
    event.current_or_interrupt();
    event.asm.load(Width::Word, R1, R8, setting.task.pid);
    event.find_waker(R1);
    event.waker(R3);
    let asm = &mut event.asm;
    asm.alu(Alu::ShiftLeft, R3, number(wakers::WAKER_AT));
    asm.alu(Alu::Or, R1, R3);
    asm.set(R3, R6);
    asm.alu(Alu::ShiftLeft, R3, number(wakers::INTERRUPT_BIT));
    asm.alu(Alu::Or, R1, R3);
    asm.store(Width::Double, R5, 0, R1);
    match record {
        true => {
            event.find_lane();
            event.by_current(RecordKind::Waking)
        }
        false => {
            event.asm.place(event.out);
            event.asm.exit();
            event.asm.finish()
        }
    }
}

/// `sched_wakeup_new(task)`, which no `sched_waking` precedes. Its maker runs.
pub(super) fn wake_new(setting: &Setting<'_>) -> Result<Vec<Insn>, AsmError> {
    let mut event = Event::new(setting);
    event.woken();
    event.current_or_interrupt();
    // A thread that is not the first of its process is of its maker's, who runs.
    let (asm, task) = (&mut event.asm, setting.task);
    let is_first = asm.label();
    asm.load(Width::Word, R1, R8, task.pid);
    asm.load(Width::Word, R2, R8, task.tgid);
    asm.jump_if(When::Equal, R1, R2, is_first);
    asm.alu(Alu::Or, R6, i32::from(flag::SAME_PROCESS));
    asm.place(is_first);
    event.find_lane();
    event.by_current(RecordKind::WakeupNew)
}

impl Event<'_> {
    /// The rest of a program on a wake-up that who runs does, or an interrupt.
    fn by_current(mut self, kind: RecordKind) -> Result<Vec<Insn>, AsmError> {
        self.begin(kind);
        if kind == RecordKind::WakeupNew {
            self.check_is_woken();
        }
        self.slot();
        self.asm.store(Width::Double, R2, part::TIME, R0);
        self.copy_word(R8, self.setting.task.pid, part::TID);
        self.waker(R4);
        self.wake_record(kind);
        self.end()
    }
}

/// `sched_wakeup(task)`: who did it was noted when it began, maybe on another CPU.
pub(super) fn wakeup(setting: &Setting<'_>) -> Result<Vec<Insn>, AsmError> {
    let mut event = Event::new(setting);
    event.woken();
    event.current();
    event.find_lane();
    event.begin(RecordKind::Wakeup);
    event.check_is_woken();
    event.slot();
    event.asm.store(Width::Double, R2, part::TIME, R0);
    event.asm.load(Width::Word, R3, R8, setting.task.pid);
    event.asm.store(Width::Word, R2, part::TID, R3);
    event.find_waker(R3);
    let asm = &mut event.asm;
    asm.set(R6, 0);
    asm.load(Width::Double, R0, R5, 0);
    asm.set(R4, R0);
    asm.alu(Alu::And, R4, wakers::TID_MASK);
    let [unknown, done] = [(); 2].map(|()| asm.label());
    asm.jump_if(When::NotEqual, R4, R3, unknown);
    // It is used once: an older note is worse than none.
    asm.store(Width::Double, R5, 0, 0);
    asm.set(R6, R0);
    asm.alu(Alu::ShiftRight, R6, number(wakers::INTERRUPT_BIT));
    asm.alu(Alu::And, R6, 1);
    asm.set(R4, R0);
    asm.alu(Alu::ShiftRight, R4, number(wakers::WAKER_AT));
    asm.jump(done);
    asm.place(unknown);
    asm.set(R4, 0);
    asm.place(done);
    event.wake_record(RecordKind::Wakeup);
    event.end()
}
