//! The programs that count.
//!
//! In all of them R9 holds the CPU's value, R7 who goes out and R8 who comes in or is woken. The rest is on the stack, since
//! every step takes R0 to R5.

use std::os::fd::{AsRawFd, BorrowedFd};

use super::super::asm::Reg::*;
use super::super::asm::{Alu, AsmError, Assembler, Helper, Insn, Label, Reg, When, Width};
use super::super::programs::number;
use super::super::programs::switched::{NEXT, PREEMPTED, PREV, load_state};
use super::super::task::{GroupLayout, QueueLayout, TaskLayout, ThrottleLayout};
use super::KeyBy;
use super::layout::{
    FIRST_OCTAVE, KEPT_BYTES, LAST_OCTAVE, Measure, PLACE_BYTES, PROBES, SLOT_BYTES, STATE_BIT,
    Shape, TIME_BIT, cpu, histogram, shared, slot, state,
};

// Places on the stack, which ends at R10.
const CPU_KEY: i16 = -4;
const NOW: i16 = -16;
/// What the thread did until now, and for how long.
const STATE: i16 = -24;
const LENGTH: i16 = -32;
/// Of the slice that ends.
const STEAL: i16 = -40;
/// For how long of its wait the thread that comes in was throttled.
const HELD: i16 = -48;

/// The argument of the wake-ups, and the first of `sched_migrate_task`.
const WOKEN: i16 = 0;

// Bits of a task's state.
const DEAD: i32 = 0x80;
const PARKED: i32 = 0x40;
const STOPPED: i32 = 0x0c;
const INTERRUPTIBLE: i32 = 0x01;
const UNINTERRUPTIBLE: i32 = 0x02;
/// `TASK_UNINTERRUPTIBLE` with `TASK_NOLOAD`: a kernel thread without work.
const IDLE: i32 = 0x402;
/// `TASK_RTLOCK_WAIT` and `TASK_FROZEN`, which are reported as uninterruptible.
const LIKE_UNINTERRUPTIBLE: i32 = 0x9000;

/// In a list of times that queues were throttled: this one is a length, and not a beginning.
const KNOWN_BIT: usize = 62;

/// A multiplier whose products are well mixed in their upper bits: 2^32 divided by the golden ratio, the nearest odd number
/// that fits an immediate.
const MIX: i32 = 0x61c8_8647;

#[derive(Clone, Copy, Debug)]
pub(super) struct Setting<'a> {
    pub(super) task: &'a TaskLayout,
    pub(super) group: GroupLayout,
    pub(super) stolen: Option<QueueLayout>,
    pub(super) throttle: Option<ThrottleLayout>,
    pub(super) key: KeyBy,
    pub(super) shape: Shape,
    pub(super) cpus: BorrowedFd<'a>,
    pub(super) shared: BorrowedFd<'a>,
}

struct Writer<'a> {
    asm: Assembler,
    setting: Setting<'a>,
    out: Label,
}

impl<'a> Writer<'a> {
    fn new(setting: Setting<'a>) -> Writer<'a> {
        let mut asm = Assembler::new();
        let out = asm.label();
        Writer { asm, setting, out }
    }

    /// R9 = the value of this CPU, `NOW` = the time.
    fn begin(&mut self) {
        let asm = &mut self.asm;
        asm.call(Helper::GetSmpProcessorId);
        asm.store(Width::Word, R10, CPU_KEY, R0);
        asm.set(R2, R10);
        asm.alu(Alu::Add, R2, i32::from(CPU_KEY));
        asm.load_map(R1, self.setting.cpus.as_raw_fd());
        asm.call(Helper::MapLookup);
        asm.jump_if(When::Equal, R0, 0, self.out);
        asm.set(R9, R0);
        asm.call(Helper::KtimeGetNs);
        asm.store(Width::Double, R10, NOW, R0);
    }

    /// R2 = the place of the thread `task`, R3 = its id. Takes R4.
    fn find_place(&mut self, task: Reg) {
        let asm = &mut self.asm;
        asm.load(Width::Word, R3, task, self.setting.task.pid);
        asm.set(R2, R3);
        asm.alu(Alu::And, R2, number(self.setting.shape.places - 1));
        asm.alu(Alu::ShiftLeft, R2, number(PLACE_BYTES.ilog2() as usize));
        asm.load_map_value(R4, self.setting.shared.as_raw_fd());
        asm.alu(Alu::Add, R2, R4);
    }

    /// R4 = what the thread does according to its place, 0 if that does not say; `LENGTH` = for how long. Takes R0, R1 and R5.
    fn read_place(&mut self) {
        let asm = &mut self.asm;
        let [evicts, unknown, known] = [(); 3].map(|()| asm.label());
        asm.load(Width::Double, R1, R2, shared::PLACES);
        asm.load(Width::Double, R5, R2, shared::PLACES + 8);
        asm.jump_if(When::Equal, R1, 0, unknown);
        asm.set(R0, R5);
        asm.alu(Alu::ShiftLeft, R0, number(TIME_BIT));
        asm.alu(Alu::Or, R0, R3);
        asm.alu(Alu::Xor, R0, R1);
        asm.set(R4, R0);
        asm.alu(Alu::ShiftRight, R4, number(STATE_BIT));
        asm.alu(Alu::And, R0, number((1 << STATE_BIT) - 1));
        asm.jump_if(When::NotEqual, R0, 0, evicts);
        asm.jump_if(When::AtLeast, R4, state::COUNT, evicts);
        // Where the clocks of two CPUs differ, nothing takes less than no time.
        asm.load(Width::Double, R0, R10, NOW);
        asm.store(Width::Double, R10, LENGTH, 0);
        asm.jump_if(When::AtLeast, R5, R0, known);
        asm.alu(Alu::Sub, R0, R5);
        asm.store(Width::Double, R10, LENGTH, R0);
        asm.jump(known);
        asm.place(evicts);
        add_one(asm, Width::Double, R9, cpu::EVICTED);
        asm.place(unknown);
        asm.set(R4, 0);
        asm.store(Width::Double, R10, LENGTH, 0);
        asm.place(known);
    }

    /// Writes down what the thread does from now on: R2 is its place, R3 its id, R4 the state. Takes R0.
    fn write_place(&mut self) {
        let asm = &mut self.asm;
        asm.load(Width::Double, R0, R10, NOW);
        asm.store(Width::Double, R2, shared::PLACES + 8, R0);
        asm.alu(Alu::ShiftLeft, R0, number(TIME_BIT));
        asm.alu(Alu::Or, R0, R3);
        asm.alu(Alu::ShiftLeft, R4, number(STATE_BIT));
        asm.alu(Alu::Or, R0, R4);
        asm.store(Width::Double, R2, shared::PLACES, R0);
    }

    /// R4 = the slot of the thread `task`. Takes R0 to R5.
    fn find_slot(&mut self, task: Reg) {
        let Setting { task: layout, group, key, shape, shared: map, .. } = self.setting;
        let asm = &mut self.asm;
        let [claim, found] = [(); 2].map(|()| asm.label());
        match key {
            KeyBy::Cgroup | KeyBy::CgroupAndName => {
                asm.set(R3, task);
                for place in group.0 {
                    asm.load(Width::Double, R3, R3, place);
                }
                // A group that the kernel made for a session of a terminal belongs to no cgroup but the root.
                let has_one = asm.label();
                asm.jump_if(When::NotEqual, R3, 0, has_one);
                asm.set(R3, 1);
                asm.place(has_one);
            }
            KeyBy::Thread => asm.load(Width::Word, R3, task, layout.pid),
        }
        asm.set(R0, R3);
        if key == KeyBy::CgroupAndName {
            asm.load(Width::Double, R1, task, layout.comm);
            asm.load(Width::Double, R2, task, layout.comm + 8);
            for part in [R1, R2] {
                asm.alu(Alu::Mul, R0, MIX);
                asm.alu(Alu::Xor, R0, part);
                asm.set(R5, R0);
                asm.alu(Alu::ShiftRight, R5, 29);
                asm.alu(Alu::Xor, R0, R5);
            }
        }
        asm.alu(Alu::Mul, R0, MIX);
        asm.alu(Alu::ShiftLeft, R0, 32);
        asm.alu(Alu::ShiftRight, R0, number(64 - shape.slots.ilog2() as usize));
        // The same once more, for a verifier that does not see it.
        asm.alu(Alu::And, R0, number(shape.slots - 1));
        asm.alu(Alu::Mul, R0, number(SLOT_BYTES));
        asm.load_map_value(R5, map.as_raw_fd());
        asm.load(Width::Double, R5, R5, shared::EPOCH);
        asm.alu(Alu::And, R5, 1);
        asm.alu(Alu::Mul, R5, number(shape.table_bytes()));
        asm.set(R4, R9);
        asm.alu(Alu::Add, R4, number(cpu::TABLES));
        asm.alu(Alu::Add, R4, R5);
        asm.alu(Alu::Add, R4, R0);
        for probe in 0..PROBES {
            let next = asm.label();
            asm.load(Width::Double, R0, R4, slot::KEY);
            if key == KeyBy::CgroupAndName {
                asm.jump_if(When::Equal, R0, 0, claim);
                asm.jump_if(When::NotEqual, R0, R3, next);
                asm.load(Width::Double, R0, R4, slot::COMM);
                asm.jump_if(When::NotEqual, R0, R1, next);
                asm.load(Width::Double, R0, R4, slot::COMM + 8);
                asm.jump_if(When::Equal, R0, R2, found);
            } else {
                asm.jump_if(When::Equal, R0, R3, found);
                asm.jump_if(When::Equal, R0, 0, claim);
            }
            asm.place(next);
            if probe + 1 < PROBES {
                asm.alu(Alu::Add, R4, number(SLOT_BYTES));
            }
        }
        add_one(asm, Width::Double, R9, cpu::OVERFLOWED);
        asm.set(R4, R9);
        asm.alu(Alu::Add, R4, number(cpu::TABLES + shape.other() * SLOT_BYTES));
        asm.alu(Alu::Add, R4, R5);
        asm.jump(found);
        asm.place(claim);
        asm.store(Width::Double, R4, slot::KEY, R3);
        if key != KeyBy::Cgroup {
            for half in [0, 8] {
                asm.load(Width::Double, R0, task, layout.comm + half);
                asm.store(Width::Double, R4, slot::COMM + half, R0);
            }
            asm.load(Width::Word, R0, task, layout.tgid);
            asm.store(Width::Word, R4, slot::PROCESS, R0);
        }
        asm.place(found);
    }

    /// Adds `LENGTH` to a histogram of the slot in R4. Takes R0 to R3, and R5.
    fn sample(&mut self, measure: Measure) {
        let at = measure.at();
        let asm = &mut self.asm;
        asm.load(Width::Double, R1, R10, LENGTH);
        add(asm, R4, at + histogram::SUM, R1);
        let below = asm.label();
        asm.load(Width::Double, R0, R4, at + histogram::MAX);
        asm.jump_if(When::AtLeast, R0, R1, below);
        asm.store(Width::Double, R4, at + histogram::MAX, R1);
        asm.place(below);
        // The octave in R2: of R3, the upper half of what is left as long as it has a bit, by subtraction instead of jumps,
        // which nobody could foresee.
        let fits = asm.label();
        asm.set(R3, R1);
        asm.alu(Alu::Or, R3, 1 << FIRST_OCTAVE);
        asm.set(R0, R3);
        asm.alu(Alu::ShiftRight, R0, number(LAST_OCTAVE));
        asm.jump_if(When::Equal, R0, 0, fits);
        asm.set(R3, 1);
        asm.alu(Alu::ShiftLeft, R3, number(LAST_OCTAVE));
        asm.place(fits);
        asm.set(R2, 0);
        for half in [5, 4, 3, 2, 1, 0] {
            asm.set(R0, -1);
            asm.alu(Alu::ShiftRight, R0, 64 - (1 << half));
            asm.alu(Alu::Sub, R0, R3);
            asm.alu(Alu::ShiftRight, R0, 63);
            asm.alu(Alu::ShiftLeft, R0, half);
            asm.alu(Alu::ShiftRight, R3, R0);
            asm.alu(Alu::Or, R2, R0);
        }
        // One more, if it is above the bound within the octave.
        asm.load_map_value(R5, self.setting.shared.as_raw_fd());
        asm.set(R0, R2);
        asm.alu(Alu::ShiftLeft, R0, 3);
        asm.alu(Alu::Add, R5, R0);
        asm.load(Width::Double, R5, R5, shared::BOUNDS);
        asm.alu(Alu::Sub, R5, R1);
        asm.alu(Alu::ShiftRight, R5, 63);
        asm.alu(Alu::Add, R2, R5);
        asm.alu(Alu::ShiftLeft, R2, 2);
        asm.alu(Alu::Add, R2, R4);
        add_one(asm, Width::Word, R2, at + histogram::BUCKETS - 4 * FIRST_OCTAVE as i16);
    }

    /// Counts that something has no length.
    fn censor(&mut self, measure: Measure) {
        add_one(&mut self.asm, Width::Word, R4, measure.at() + histogram::CENSORED);
    }

    /// `STEAL` = what the host took from this CPU since the last switch. R8 comes in on it.
    fn read_steal(&mut self) {
        let Some(queue) = self.setting.stolen else { return };
        let asm = &mut self.asm;
        let known = asm.label();
        asm.store(Width::Double, R10, STEAL, 0);
        asm.load(Width::Double, R3, R8, queue.queue);
        asm.load(Width::Double, R3, R3, queue.run_queue);
        asm.load(Width::Double, R3, R3, queue.stolen);
        asm.load(Width::Double, R4, R9, cpu::STOLEN);
        asm.store(Width::Double, R9, cpu::STOLEN, R3);
        // At the first switch there is the greatest number.
        asm.jump_if(When::AtLeast, R4, R3, known);
        asm.alu(Alu::Sub, R3, R4);
        asm.store(Width::Double, R10, STEAL, R3);
        asm.place(known);
    }

    /// R4 = what the thread in R7 does next; to `dead` if nothing. R6 has the arguments. Takes R0 and R1.
    fn next_state(&mut self, dead: Label) {
        let asm = &mut self.asm;
        let [runnable, blocked, blocked_d, stopped, done] = [(); 5].map(|()| asm.label());
        asm.load(Width::Double, R0, R6, PREEMPTED);
        asm.jump_if(When::NotEqual, R0, 0, runnable);
        load_state(asm, self.setting.task.state, R0);
        asm.jump_if(When::Equal, R0, 0, runnable);
        let mut go_if = |bits: i32, to: Label| {
            asm.set(R1, R0);
            asm.alu(Alu::And, R1, bits);
            if bits == IDLE {
                asm.jump_if(When::Equal, R1, IDLE, to);
            } else {
                asm.jump_if(When::NotEqual, R1, 0, to);
            }
        };
        go_if(DEAD, dead);
        go_if(LIKE_UNINTERRUPTIBLE, blocked_d);
        go_if(IDLE, blocked);
        go_if(PARKED, blocked);
        go_if(STOPPED, stopped);
        go_if(UNINTERRUPTIBLE, blocked_d);
        go_if(INTERRUPTIBLE, blocked);
        asm.place(runnable);
        asm.set(R4, state::PREEMPTED);
        if let Some(layout) = self.setting.throttle
            && let Some(throttled) = layout.of_task
        {
            asm.load(Width::Byte, R0, R7, throttled);
            asm.jump_if(When::Equal, R0, 0, done);
            self.throttled(layout);
        }
        let asm = &mut self.asm;
        asm.jump(done);
        asm.place(blocked);
        asm.set(R4, state::BLOCKED);
        asm.jump(done);
        asm.place(blocked_d);
        asm.set(R4, state::BLOCKED_D);
        asm.jump(done);
        asm.place(stopped);
        asm.set(R4, state::STOPPED);
        asm.place(done);
    }

    /// R1 = where it is kept for how long the queue of the thread with the id in R3 was throttled. Takes R0.
    fn find_kept(&mut self) {
        let asm = &mut self.asm;
        asm.set(R1, R3);
        asm.alu(Alu::And, R1, number(self.setting.shape.places - 1));
        asm.alu(Alu::Mul, R1, number(KEPT_BYTES));
        asm.load_map_value(R0, self.setting.shared.as_raw_fd());
        asm.alu(Alu::Add, R1, R0);
        asm.alu(Alu::Add, R1, number(self.setting.shape.kept_at()));
    }

    /// The thread in R7, with the id in R3, is throttled: keeps for how long its queue has been so far. R4 = its state.
    /// Takes R0, R1 and R5.
    fn throttled(&mut self, layout: ThrottleLayout) {
        self.find_kept();
        let asm = &mut self.asm;
        asm.load(Width::Double, R0, R7, layout.queue);
        asm.load(Width::Double, R4, R0, layout.run_queue);
        asm.load(Width::Double, R4, R4, layout.now);
        asm.load(Width::Double, R5, R0, layout.own_clock);
        asm.alu(Alu::Sub, R4, R5);
        asm.load(Width::Double, R5, R0, layout.own_time);
        asm.alu(Alu::Add, R4, R5);
        asm.store(Width::Double, R1, 0, R4);
        asm.set(R4, state::THROTTLED);
    }

    /// How much the count of the queue of the thread in R8 has grown since what is kept at R1: R4, or to `all` if it has
    /// not, for then the thread left its queue throttled. Takes R0 and R5.
    fn growth(&mut self, layout: ThrottleLayout, all: Label) {
        let asm = &mut self.asm;
        asm.load(Width::Double, R0, R8, layout.queue);
        asm.load(Width::Double, R4, R0, layout.own_time);
        asm.load(Width::Double, R5, R1, 0);
        asm.set(R0, R4);
        asm.alu(Alu::Add, R0, 1);
        asm.jump_if(When::AtLeast, R5, R0, all);
        asm.alu(Alu::Sub, R4, R5);
    }

    /// The thread in R8, with the id in R3, was throttled while it waited for `LENGTH`: takes that time off it. Takes R0 to R5.
    fn held_back(&mut self, layout: ThrottleLayout) {
        self.find_kept();
        let [all, known, done] = [(); 3].map(|()| self.asm.label());
        let asm = &mut self.asm;
        asm.load(Width::Double, R4, R1, 0);
        asm.set(R0, R4);
        asm.alu(Alu::ShiftRight, R0, number(KNOWN_BIT));
        asm.jump_if(When::NotEqual, R0, 0, known);
        self.growth(layout, all);
        let asm = &mut self.asm;
        asm.place(known);
        asm.alu(Alu::ShiftLeft, R4, number(64 - KNOWN_BIT));
        asm.alu(Alu::ShiftRight, R4, number(64 - KNOWN_BIT));
        asm.load(Width::Double, R5, R10, LENGTH);
        asm.jump_if(When::AtLeast, R4, R5, all);
        asm.alu(Alu::Sub, R5, R4);
        asm.store(Width::Double, R10, LENGTH, R5);
        asm.store(Width::Double, R10, HELD, R4);
        asm.jump(done);
        asm.place(all);
        asm.load(Width::Double, R5, R10, LENGTH);
        asm.store(Width::Double, R10, LENGTH, 0);
        asm.store(Width::Double, R10, HELD, R5);
        asm.place(done);
    }

    /// The slice of the thread in R7, which goes out.
    fn outgoing(&mut self) {
        let [dead, written, idle, whole] = [(); 4].map(|()| self.asm.label());
        self.asm.load(Width::Word, R3, R7, self.setting.task.pid);
        self.asm.jump_if(When::Equal, R3, 0, idle);
        self.find_place(R7);
        self.read_place();
        self.asm.store(Width::Double, R10, STATE, R4);
        self.next_state(dead);
        self.write_place();
        let asm = &mut self.asm;
        asm.jump(written);
        asm.place(dead);
        asm.store(Width::Double, R2, shared::PLACES, 0);
        asm.place(written);
        self.find_slot(R7);
        let asm = &mut self.asm;
        asm.load(Width::Double, R1, R10, STATE);
        asm.jump_if(When::Equal, R1, state::RUNNING, whole);
        self.censor(Measure::Slice);
        self.asm.jump(idle);
        self.asm.place(whole);
        self.sample(Measure::Slice);
        if self.setting.stolen.is_some() {
            let asm = &mut self.asm;
            asm.load(Width::Double, R1, R10, STEAL);
            asm.jump_if(When::Equal, R1, 0, idle);
            add(asm, R4, slot::STEAL_NS, R1);
            add_one(asm, Width::Word, R4, slot::STEALS);
        }
        self.asm.place(idle);
    }

    /// The wait of the thread in R8, which comes in.
    fn incoming(&mut self) {
        let throttle = self.setting.throttle;
        self.asm.load(Width::Word, R3, R8, self.setting.task.pid);
        self.asm.jump_if(When::Equal, R3, 0, self.out);
        self.find_place(R8);
        self.read_place();
        self.asm.store(Width::Double, R10, STATE, R4);
        self.asm.set(R4, state::RUNNING);
        self.write_place();
        if let Some(layout) = throttle {
            let free = self.asm.label();
            self.asm.store(Width::Double, R10, HELD, 0);
            self.asm.load(Width::Double, R4, R10, STATE);
            self.asm.jump_if(When::NotEqual, R4, state::THROTTLED, free);
            self.held_back(layout);
            self.asm.place(free);
        }
        self.find_slot(R8);
        let [woken, preempted, blocked, blocked_d, stopped] = [(); 5].map(|()| self.asm.label());
        let asm = &mut self.asm;
        asm.load(Width::Double, R1, R10, STATE);
        asm.jump_if(When::Equal, R1, state::WOKEN, woken);
        asm.jump_if(When::Equal, R1, state::PREEMPTED, preempted);
        asm.jump_if(When::Equal, R1, state::THROTTLED, preempted);
        asm.jump_if(When::Equal, R1, state::BLOCKED, blocked);
        asm.jump_if(When::Equal, R1, state::BLOCKED_D, blocked_d);
        asm.jump_if(When::Equal, R1, state::STOPPED, stopped);
        add_one(asm, Width::Word, R4, slot::UNKNOWN);
        asm.jump(self.out);
        // Of the rest the wake-up was not seen.
        for (label, measure) in [(blocked, Measure::Blocked), (blocked_d, Measure::BlockedD)] {
            self.asm.place(label);
            self.censor(measure);
            self.asm.jump(stopped);
        }
        self.asm.place(stopped);
        self.censor(Measure::Wakeup);
        self.asm.jump(self.out);
        self.asm.place(woken);
        self.sample(Measure::Wakeup);
        self.asm.jump(self.out);
        self.asm.place(preempted);
        self.sample(Measure::Preempted);
        if throttle.is_some() {
            let asm = &mut self.asm;
            asm.load(Width::Double, R1, R10, HELD);
            asm.jump_if(When::Equal, R1, 0, self.out);
            add(asm, R4, slot::THROTTLED_NS, R1);
            add_one(asm, Width::Word, R4, slot::THROTTLES);
        }
    }

    fn end(mut self) -> Result<Vec<Insn>, AsmError> {
        self.asm.place(self.out);
        self.asm.exit();
        self.asm.finish()
    }
}

/// `*(base + at) += value`, eight bytes, by way of R0.
fn add(asm: &mut Assembler, base: Reg, at: i16, value: Reg) {
    asm.load(Width::Double, R0, base, at);
    asm.alu(Alu::Add, R0, value);
    asm.store(Width::Double, base, at, R0);
}

/// `*(base + at) += 1`, by way of R0.
fn add_one(asm: &mut Assembler, width: Width, base: Reg, at: i16) {
    asm.load(width, R0, base, at);
    asm.alu(Alu::Add, R0, 1);
    asm.store(width, base, at, R0);
}

/// `sched_switch(preempted, prev, next, prev_state)`.
pub(super) fn switch(setting: Setting<'_>) -> Result<Vec<Insn>, AsmError> {
    let mut writer = Writer::new(setting);
    let asm = &mut writer.asm;
    asm.set(R6, R1);
    asm.load(Width::Double, R7, R6, PREV);
    asm.load(Width::Double, R8, R6, NEXT);
    writer.begin();
    writer.read_steal();
    writer.outgoing();
    writer.incoming();
    writer.end()
}

/// `sched_wakeup(task)`, and `sched_wakeup_new(task)` of a thread that is new, whatever is known of an earlier one of its id.
pub(super) fn wakeup(setting: Setting<'_>, is_new: bool) -> Result<Vec<Insn>, AsmError> {
    let mut writer = Writer::new(setting);
    writer.asm.load(Width::Double, R8, R1, WOKEN);
    writer.begin();
    writer.find_place(R8);
    if is_new {
        writer.asm.set(R4, state::WOKEN);
        writer.write_place();
        return writer.end();
    }
    writer.read_place();
    let [sleeps, blocked_d] = [(); 2].map(|()| writer.asm.label());
    let asm = &mut writer.asm;
    asm.jump_if(When::Equal, R4, 0, sleeps);
    // What runs or waits for a CPU goes on with that.
    asm.jump_if(When::AtLeast, R4, state::BLOCKED, sleeps);
    asm.jump(writer.out);
    asm.place(sleeps);
    asm.store(Width::Double, R10, STATE, R4);
    asm.set(R4, state::WOKEN);
    writer.write_place();
    let asm = &mut writer.asm;
    asm.load(Width::Double, R1, R10, STATE);
    asm.jump_if(When::Equal, R1, 0, writer.out);
    asm.jump_if(When::Equal, R1, state::STOPPED, writer.out);
    writer.find_slot(R8);
    let asm = &mut writer.asm;
    asm.load(Width::Double, R1, R10, STATE);
    asm.jump_if(When::Equal, R1, state::BLOCKED_D, blocked_d);
    writer.sample(Measure::Blocked);
    writer.asm.jump(writer.out);
    writer.asm.place(blocked_d);
    writer.sample(Measure::BlockedD);
    writer.end()
}

/// `sched_migrate_task(task, cpu)`, which comes before the task is moved: the last moment at which it is known for how long
/// the queue was throttled that it leaves.
pub(super) fn migrate(setting: Setting<'_>, layout: ThrottleLayout) -> Result<Vec<Insn>, AsmError> {
    let mut writer = Writer::new(setting);
    writer.asm.load(Width::Double, R8, R1, WOKEN);
    writer.begin();
    writer.find_place(R8);
    writer.read_place();
    writer.asm.jump_if(When::NotEqual, R4, state::THROTTLED, writer.out);
    writer.find_kept();
    let out = writer.out;
    let asm = &mut writer.asm;
    asm.load(Width::Double, R0, R1, 0);
    asm.alu(Alu::ShiftRight, R0, number(KNOWN_BIT));
    asm.jump_if(When::NotEqual, R0, 0, out);
    let [all, known] = [(); 2].map(|()| asm.label());
    writer.growth(layout, all);
    let asm = &mut writer.asm;
    asm.jump(known);
    asm.place(all);
    asm.set(R4, -1);
    asm.alu(Alu::ShiftRight, R4, number(64 - KNOWN_BIT));
    asm.place(known);
    asm.set(R0, 1);
    asm.alu(Alu::ShiftLeft, R0, number(KNOWN_BIT));
    asm.alu(Alu::Or, R4, R0);
    asm.store(Width::Double, R1, 0, R4);
    writer.end()
}
