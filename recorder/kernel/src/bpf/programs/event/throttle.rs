//! Whom quotas hold back: what the programs tell of a thread that begins to wait, that comes in, and that is moved.
//!
//! Since Linux 6.18 the kernel marks each thread that a quota takes off its queue, and that is told when it goes out. Before, it
//! takes the queue off the CPU, and says nothing to the threads on it: one may have waited long before, and through several
//! periods. So there, for how long its queue was throttled so far is told at both ends of every wait, and of both queues of a
//! move; the difference is how long the thread was. Of queues that never were throttled, which are most, nothing is told.

use super::super::super::asm::{Alu, Assembler, Label, Reg, When, Width};
use super::super::super::lane::{RecordKind, flag, part};
use super::super::super::task::{ThrottleLayout, Throttling};
use super::super::{Reg::*, number, switched::PREEMPTED};
use super::{Event, as_task};

/// How many groups upwards are looked at for a quota that is used up.
const LEVELS: usize = 8;

/// Kernel priorities of threads that quotas are for: from the first on, so many.
const FAIR: (i32, i32) = (100, 40);

impl Event<'_> {
    /// Tells whose quota keeps the thread in R7 from running on, if one does. R6 has the arguments of the switch.
    pub(super) fn check_goes_out(&mut self) {
        let Some(layout) = self.setting.task.throttle else { return };
        self.throttles = Some(R7);
        match layout.throttling {
            Throttling::OfTasks(throttled) => {
                self.asm.load(Width::Byte, R3, R7, throttled);
                self.asm.jump_if(When::NotEqual, R3, 0, self.tell_throttled);
            }
            Throttling::OfQueues { .. } => {
                let able = self.asm.label();
                self.load_state();
                self.asm.jump_if(When::Equal, R3, 0, able);
                self.asm.load(Width::Double, R3, R6, PREEMPTED);
                self.asm.jump_if(When::Equal, R3, 0, self.throttled_told);
                self.asm.place(able);
                has_history(&mut self.asm, layout, R7);
                self.asm.jump_if(When::NotEqual, R4, 0, self.tell_throttled);
            }
        }
        self.asm.place(self.throttled_told);
    }

    /// The same of the thread in R8, which is woken.
    pub(super) fn check_is_woken(&mut self) {
        let Some(layout) = self.setting.task.throttle else { return };
        if let Throttling::OfQueues { .. } = layout.throttling {
            self.throttles = Some(R8);
            has_history(&mut self.asm, layout, R8);
            self.asm.jump_if(When::NotEqual, R4, 0, self.tell_throttled);
            self.asm.place(self.throttled_told);
        }
    }

    /// Of the thread in `task`.
    pub(super) fn tell_throttled(&mut self, task: Reg) {
        let Some(layout) = self.setting.task.throttle else { return };
        self.asm.place(self.tell_throttled);
        let flags = self.leave_unfair(layout, task, self.throttled_told);
        self.slot();
        let asm = &mut self.asm;
        asm.load(Width::Double, R3, task, layout.queue);
        queue_time(asm, layout, R3);
        asm.store(Width::Double, R2, part::KEPT, R4);
        cgroup_number(asm, layout);
        asm.store(Width::Word, R2, part::OWN_CGROUP, R3);

        let [found, nobody, told] = [(); 3].map(|()| asm.label());
        asm.load(Width::Double, R3, task, layout.queue);
        if let Throttling::OfQueues { count, .. } = layout.throttling {
            asm.store(Width::Byte, R2, part::FLAGS, i32::from(flags));
            asm.load(Width::Word, R4, R3, count);
            asm.jump_if(When::Equal, R4, 0, nobody);
        }
        asm.store(Width::Byte, R2, part::FLAGS, i32::from(flags | flag::FIRST));
        asm.load(Width::Double, R4, R3, layout.clock);
        asm.jump_if(When::NotEqual, R4, 0, found);
        asm.load(Width::Double, R5, task, layout.parent);
        for _ in 0..LEVELS {
            asm.jump_if(When::Equal, R5, 0, nobody);
            asm.load(Width::Double, R3, R5, layout.entity_queue);
            asm.load(Width::Double, R4, R3, layout.clock);
            asm.jump_if(When::NotEqual, R4, 0, found);
            asm.load(Width::Double, R5, R5, layout.entity_parent);
        }
        asm.place(nobody);
        asm.set(R3, 0);
        asm.jump(told);
        asm.place(found);
        cgroup_number(asm, layout);
        asm.place(told);
        asm.store(Width::Double, R2, part::CGROUP, R3);
        self.kind(RecordKind::Throttled);
        self.asm.alu(Alu::Add, R1, 1);
        self.asm.jump(self.throttled_told);
    }

    /// Tells for how long the queue of the thread in R8, which leaves it, was throttled so far, if it ever was.
    pub(super) fn check_wait(&mut self) {
        let Some(layout) = self.setting.task.throttle else { return };
        self.waits = true;
        match layout.throttling {
            // A time that goes on is no time of a thread that comes in.
            Throttling::OfTasks(_) => {
                self.asm.load(Width::Double, R3, R8, layout.queue);
                self.asm.load(Width::Double, R4, R3, layout.own_time);
            }
            Throttling::OfQueues { .. } => has_history(&mut self.asm, layout, R8),
        }
        self.asm.jump_if(When::NotEqual, R4, 0, self.tell_wait);
        self.asm.place(self.wait_told);
    }

    /// R3 is the queue, R4 what it says of the past.
    pub(super) fn tell_wait(&mut self) {
        let Some(layout) = self.setting.task.throttle else { return };
        let task = self.setting.task;
        self.asm.place(self.tell_wait);
        let flags = self.leave_unfair(layout, R8, self.wait_told);
        self.slot();
        let asm = &mut self.asm;
        asm.store(Width::Byte, R2, part::FLAGS, i32::from(flags));
        if let Throttling::OfQueues { .. } = layout.throttling {
            let over = asm.label();
            asm.load(Width::Double, R3, R8, layout.queue);
            asm.load(Width::Double, R4, R3, layout.own_clock);
            asm.jump_if(When::Equal, R4, 0, over);
            asm.store(Width::Byte, R2, part::FLAGS, i32::from(flags | flag::GOES_ON));
            asm.place(over);
            queue_time(asm, layout, R3);
        }
        asm.store(Width::Double, R2, part::KEPT, R4);
        cgroup_number(asm, layout);
        asm.store(Width::Word, R2, part::OWN_CGROUP, R3);
        self.copy_word(R8, task.pid, part::TID);
        self.copy_word(R8, task.cpu, part::WAIT_CPU);
        self.kind(RecordKind::Wait);
        self.asm.alu(Alu::Add, R1, 1);
        self.asm.jump(self.wait_told);
    }

    /// Tells the same of the queue that the thread in R8 is moved to, on the CPU in R7, behind the record of the move, which
    /// is the last one and not counted yet. R6 is free.
    pub(super) fn tell_new_queue(&mut self) {
        let Some(layout) = self.setting.task.throttle else { return };
        let Throttling::OfQueues { group, queues, cast, .. } = layout.throttling else { return };
        let (pid, done) = (self.setting.task.pid, self.asm.label());
        let asm = &mut self.asm;
        asm.set(R6, R1);
        // Where a task would begin whose queue is the one of that CPU.
        asm.load(Width::Double, R1, R8, group);
        asm.load(Width::Double, R1, R1, queues);
        asm.set(R2, R7);
        asm.alu(Alu::ShiftLeft, R2, number(size_of::<usize>().ilog2() as usize));
        asm.alu(Alu::Add, R1, R2);
        asm.alu(Alu::Sub, R1, i32::from(layout.queue));
        as_task(asm, cast);
        asm.set(R1, R6);
        asm.load(Width::Double, R6, R0, layout.queue);
        asm.load(Width::Double, R4, R6, layout.own_time);
        asm.load(Width::Double, R5, R6, layout.own_clock);
        asm.alu(Alu::Or, R4, R5);
        asm.jump_if(When::Equal, R4, 0, done);
        let flags = self.leave_unfair(layout, R8, done) | flag::FIRST;
        let asm = &mut self.asm;
        asm.alu(Alu::Add, R1, 1);
        asm.set(R3, R6);
        // The clock of the other CPU may be late.
        asm.load(Width::Double, R2, R8, layout.queue);
        queue_time(asm, layout, R2);
        self.slot();
        self.asm.store(Width::Double, R2, part::KEPT, R4);
        cgroup_number(&mut self.asm, layout);
        self.asm.store(Width::Word, R2, part::OWN_CGROUP, R3);
        self.copy_word(R8, pid, part::TID);
        self.asm.store(Width::Word, R2, part::WAIT_CPU, R7);
        self.asm.store(Width::Byte, R2, part::FLAGS, i32::from(flags));
        self.kind(RecordKind::Wait);
        self.asm.place(done);
    }

    /// Goes to `away` if quotas are not for the thread in `task`, which only queues do not know; returns the flags of what is
    /// told else. Takes R4.
    fn leave_unfair(&mut self, layout: ThrottleLayout, task: Reg, away: Label) -> u8 {
        let Throttling::OfQueues { .. } = layout.throttling else { return 0 };
        let (first, count) = FAIR;
        self.asm.load(Width::Word, R4, task, self.setting.task.prio);
        self.asm.alu(Alu::Sub, R4, first);
        self.asm.jump_if(When::AtLeast, R4, count, away);
        flag::OF_QUEUES
    }
}

/// R3 = the queue of the thread in `task`, and R4 = 0 if that never was throttled. Takes R5.
fn has_history(asm: &mut Assembler, layout: ThrottleLayout, task: Reg) {
    asm.load(Width::Double, R3, task, layout.queue);
    asm.load(Width::Double, R4, R3, layout.own_time);
    asm.load(Width::Double, R5, R3, layout.own_clock);
    asm.alu(Alu::Or, R4, R5);
}

/// R4 = for how long the queue in R3 was throttled so far, with a time that goes on, by the clock of the queue in `near`. Takes
/// R5.
fn queue_time(asm: &mut Assembler, layout: ThrottleLayout, near: Reg) {
    let [none, over] = [(); 2].map(|()| asm.label());
    asm.load(Width::Double, R4, R3, layout.own_clock);
    asm.jump_if(When::Equal, R4, 0, over);
    asm.load(Width::Double, R5, near, layout.run_queue);
    asm.load(Width::Double, R5, R5, layout.now);
    asm.jump_if(When::AtLeast, R4, R5, none);
    asm.alu(Alu::Sub, R5, R4);
    asm.set(R4, R5);
    asm.jump(over);
    asm.place(none);
    asm.set(R4, 0);
    asm.place(over);
    asm.load(Width::Double, R5, R3, layout.own_time);
    asm.alu(Alu::Add, R4, R5);
}

/// R3 = the number of the cgroup of the queue in R3.
fn cgroup_number(asm: &mut Assembler, layout: ThrottleLayout) {
    for place in [layout.group, layout.cgroup, layout.node, layout.number] {
        asm.load(Width::Double, R3, R3, place);
    }
}
