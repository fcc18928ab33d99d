//! Missing switches are inferred: determines which thread has each CPU when no switch shows it.

use fxt_writer::lanes::Lanes;
use fxt_writer::record::ThreadState;

use super::{Encoder, Side, Words, cpu_arg, unseen_state};
use crate::encode::Closed;
use crate::encode::chain::Occupant;
use crate::encode::strings;
use crate::encode::threads::weight;
use crate::encode::threads::{IDLE, OutgoingState, Run, Slot};
use crate::event::LocalId;
use fxtrec_units::{Cpu, Nanos};

impl<L: Lanes> Encoder<L> {
    /// A side of an inferred switch; the thread may have ended since its last event.
    fn inferred_side(&self, occupant: Occupant) -> Side {
        let thread = self.threads.thread(occupant.slot);
        let weight = if thread.koid == occupant.koid { thread.weight } else { weight::NICE_0 };
        Side { koid: occupant.koid, weight }
    }

    /// An event names `slot` as the thread on `cpu`. If it is not the thread that was switched in last, the switch between the two is
    /// missing; it is inferred to have occurred by now at the latest.
    #[inline]
    pub(super) fn has_cpu(&mut self, time: Nanos, cpu: Cpu, slot: Slot) -> Result<(), Closed> {
        let koid = self.threads.thread(slot).koid;
        let chain = self.chains.of(cpu);
        let now = Occupant { slot, koid };
        match chain.current() {
            Some(current) if current.koid == koid => Ok(()),
            Some(before) => self.infer(time, cpu, before, now),
            None => self.first_seen(time, cpu, now),
        }
    }

    /// No thread is known to have had the CPU before.
    #[cold]
    fn first_seen(&mut self, time: Nanos, cpu: Cpu, now: Occupant) -> Result<(), Closed> {
        let former = self.former_self(now.slot);
        let first = former.unwrap_or(now);
        self.chains.of(cpu).claim(first);
        self.threads.set_run(first.slot, Run::Running);
        self.watch_found(time, cpu, None, first.slot);
        match former {
            Some(former) => self.infer(time, cpu, former, now),
            None => Ok(()),
        }
    }

    /// The thread that became this main thread by executing a program, if that switch-in was not recorded.
    fn former_self(&mut self, main: Slot) -> Option<Occupant> {
        let slot = self.threads.take_thread_before_exec(main)?;
        Some(Occupant { slot, koid: self.threads.thread(slot).koid })
    }

    #[cold]
    fn infer(
        &mut self,
        time: Nanos,
        cpu: Cpu,
        before: Occupant,
        now: Occupant,
    ) -> Result<(), Closed> {
        if let Some(former) = self.former_self(now.slot)
            && former.koid != before.koid
        {
            self.infer(time, cpu, before, former)?;
            return self.infer(time, cpu, former, now);
        }
        let chain = self.chains.of(cpu);
        let gap = chain.has_gap();
        chain.enter(now, time, true);
        // The end of its wait was not recorded.
        self.waited(time, now.slot)?;
        // The previous thread may have ended since, and its slot may belong to another thread.
        let known = self.threads.thread(before.slot).koid == before.koid;
        self.watch_found(time, cpu, known.then_some(before.slot), now.slot);
        if !known && self.chains.of(cpu).shown != Some(before.koid) && !self.narrow {
            // The file contains nothing about it, not even its name.
            self.threads.set_run(now.slot, Run::Running);
            return Ok(());
        }
        let takeover = known && !gap && self.threads.is_takeover(before.slot, now.slot);
        if !gap && !takeover {
            // The previous task is one that the kernel does not report.
            self.silent.push(cpu);
        }
        // A thread whose id was taken over no longer exists, and neither does a thread that took part in the takeover.
        let state = match takeover || !known {
            true => OutgoingState { fxt: ThreadState::Dead, detail: None },
            false => unseen_state(before.koid),
        };
        let (out, inn) = (self.inferred_side(before), self.inferred_side(now));
        let outgoing = if known { before.slot } else { IDLE };
        let words = Words::inferred(state);
        if self.write_switch(time, cpu, (outgoing, out), (now.slot, inn), words)? {
            self.stats.inferred_switches += 1;
        }
        self.threads.set_run(now.slot, Run::Running);
        match (known, takeover) {
            (true, true) => {
                self.end_thread_spans(time, before.slot)?;
                self.depart(time, before.slot);
                self.threads.end(before.slot);
            }
            (true, false) => self.threads.set_run(before.slot, Run::Unknown),
            (false, _) => {}
        }
        Ok(())
    }

    /// A thread has executed a program. If a thread other than the main thread did, it has the main thread's id from now on, and no thread
    /// has its old id.
    pub(super) fn executed(&mut self, time: Nanos, cpu: Cpu, slot: Slot) -> Result<(), Closed> {
        let current = self.chains.of(cpu).current();
        let before = current.filter(|at| self.threads.thread(at.slot).koid == at.koid);
        let seen = before.is_some_and(|before| self.threads.is_takeover(before.slot, slot));
        if seen || self.threads.has_thread_before_exec(slot) {
            return self.has_cpu(time, cpu, slot);
        }
        Ok(())
    }

    pub(super) fn running(&mut self, time: Nanos, cpu: Cpu, tid: LocalId) -> Result<(), Closed> {
        match self.threads.tid_of(tid) {
            Some(tid) => {
                let slot = self.threads.get(tid, None);
                self.has_cpu(time, cpu, slot)
            }
            None => Ok(()),
        }
    }

    /// The CPU is offline, and no thread has it until it is back.
    pub(super) fn offline(&mut self, time: Nanos, cpu: Cpu, goes_idle: bool) -> Result<(), Closed> {
        if goes_idle && self.chains.of(cpu).current().is_some() {
            // It is known without a tracepoint that the idle task is switched in last.
            self.chains.of(cpu).lose(time);
            self.has_cpu(time, cpu, IDLE)?;
            self.chains.of(cpu).lose(time);
        }
        self.instant(time, strings::CPU_OFFLINE, &[cpu_arg(cpu)])
    }
}
