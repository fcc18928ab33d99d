//! With a narrow scope: which threads have a CPU while a thread in scope waits for it. They are shown although they are not in scope.

use fxt_writer::Koid;
use fxt_writer::lanes::Lanes;

use super::{Encoder, Side, Words, not_recorded, unseen_state};
use crate::encode::Closed;
use crate::encode::threads::weight::{self, weight};
use crate::encode::threads::{IDLE, Slot};
use crate::encode::unrecorded;
use crate::event::Comm;
use fxtrec_units::{Cpu, Nanos, Tid};

impl<L: Lanes> Encoder<L> {
    /// A switch happened, after which the outgoing thread may wait for the CPU.
    pub(super) fn note_waits(&mut self, cpu: Cpu, outgoing: Slot, waits: bool, incoming: Slot) {
        let waits = waits && outgoing != IDLE && self.threads.thread(outgoing).in_scope;
        self.set_wait(outgoing, waits.then_some(cpu));
        self.set_wait(incoming, None);
    }

    /// A thread in scope waits for this CPU from now on. If the kernel applies the scope, it reports the CPU's thread itself.
    pub(super) fn begin_wait(&mut self, time: Nanos, cpu: Cpu, slot: Slot) -> Result<(), Closed> {
        if self.kernel_narrows {
            return Ok(());
        }
        self.set_wait(slot, Some(cpu));
        self.show_occupant(time, cpu)
    }

    fn set_wait(&mut self, slot: Slot, cpu: Option<Cpu>) {
        if self.kernel_narrows {
            return;
        }
        let before = std::mem::replace(&mut self.threads.thread_mut(slot).waits_for, cpu);
        if before == cpu {
            return;
        }
        if let Some(before) = before {
            let chain = self.chains.of(before);
            chain.waiting = chain.waiting.saturating_sub(1);
        }
        if let Some(cpu) = cpu {
            self.chains.of(cpu).waiting += 1;
        }
    }

    /// The kernel reports the thread that has this CPU.
    pub(super) fn occupied(
        &mut self,
        time: Nanos,
        cpu: Cpu,
        (tid, prio): (Tid, i32),
        comm: Option<&Comm>,
    ) -> Result<(), Closed> {
        let slot = self.threads.get(tid, comm);
        let thread = self.threads.thread_mut(slot);
        thread.weight = weight(tid, prio);
        let koid = thread.koid;
        let chain = self.chains.of(cpu);
        if chain.current().is_some_and(|current| current.koid != koid) {
            // Its switches were not reported.
            chain.forget(time);
        }
        self.has_cpu(time, cpu, slot)?;
        self.show_occupant(time, cpu)
    }

    /// Shows the thread that has the CPU, if the file does not yet.
    pub(super) fn show_occupant(&mut self, time: Nanos, cpu: Cpu) -> Result<(), Closed> {
        let chain = self.chains.of(cpu);
        let Some(occupant) = chain.current().filter(|_| !chain.has_gap()) else { return Ok(()) };
        if chain.shown == Some(occupant.koid) {
            return Ok(());
        }
        let shown = chain.shown.replace(occupant.koid);
        if !std::mem::replace(&mut chain.unrecorded, true) {
            unrecorded::objects(&mut self.lanes, cpu)?;
        }
        let thread = self.threads.thread(occupant.slot);
        let inn = match thread.koid == occupant.koid {
            true => Side { koid: occupant.koid, weight: thread.weight },
            false => Side { koid: occupant.koid, weight: weight::NICE_0 },
        };
        if thread.koid == occupant.koid {
            self.name(occupant.slot)?;
        }
        let out = match shown {
            Some(Koid(0)) => Side { koid: Koid(0), weight: weight::IDLE },
            Some(koid) if koid != not_recorded(cpu).koid => Side { koid, weight: weight::NICE_0 },
            _ => not_recorded(cpu),
        };
        self.stats.occupants += 1;
        let words = Words::inferred(unseen_state(out.koid));
        self.put_switch(time, cpu, out, inn, words)
    }
}
