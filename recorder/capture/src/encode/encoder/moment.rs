//! The encoder's view of the machine: running and waiting threads, and open spans.

use fxt_reader::record::is_not_recorded;
use fxt_writer::Koid;
use fxt_writer::lanes::Lanes;
use rustc_hash::{FxHashMap, FxHashSet};

use super::{Encoder, cpu_number};
use crate::encode::Closed;
use crate::encode::chain::{Chain, Occupant};
use crate::encode::moment::{Label, MachineState, RunnableThread, Span, Track};
use crate::encode::probes::interrupts::{Name, PROCESS, thread_of};
use crate::encode::threads::{Announced, IDLE, Naming};
use crate::encode::{unrecorded, weight};
use fxtrec_units::{Cpu, Nanos};

impl<L: Lanes> Encoder<L> {
    /// The current state of the machine according to the trace. Only an encoder with a [`Watch`](crate::flight::watch::Watch) knows which
    /// threads wait for a CPU.
    pub fn present(&mut self) -> MachineState {
        let mut moment = MachineState::default();
        let living = self.living();
        for (cpu, chain) in self.chains.all() {
            if let Some(koid) = chain.shown.filter(|koid| !chain.has_gap() && living.contains(koid))
            {
                let weight = self.weight_of(koid, &chain);
                moment.cpus.insert(cpu_number(cpu), RunnableThread { koid, weight });
            }
        }
        let mut processes: FxHashMap<Koid, Koid> = FxHashMap::default();
        for slot in self.threads.slots() {
            let thread = self.threads.thread(slot);
            let (koid, home, weight) = (thread.koid, thread.process, thread.weight);
            let written = slot != IDLE && thread.naming != Naming::Never;
            let watch = self.watch.as_deref();
            let occupant = Occupant { slot, koid };
            let queue = watch.and_then(|watch| watch.ledger.queued_on(occupant));
            if let Some(cpu) = queue.filter(|_| written) {
                moment.waiting.insert(koid, (cpu_number(cpu), weight));
            }
            processes.insert(koid, self.threads.process_koid(home));
        }
        for (koid, stack) in self.probes.spans().all() {
            let spans = stack.open().iter().map(|open| Span {
                category: Label::Known(open.category),
                name: Label::Known(open.name),
            });
            // If the end of a thread was not recorded, its process is unknown.
            let process = processes.get(&koid).copied().unwrap_or(koid);
            moment.spans.insert((process, koid), spans.collect());
        }
        for (cpu, open) in self.probes.interrupts().all() {
            let spans = open.iter().map(|open| Span {
                category: Label::Known(open.category),
                name: match open.name {
                    Name::Known(text) => Label::Known(text),
                    Name::Copied(..) => Label::Own(open.name.own_text()),
                },
            });
            moment.spans.insert(interrupt_track(cpu), spans.collect());
        }
        moment
    }

    /// The weight of a thread that a chain shows.
    fn weight_of(&self, koid: Koid, chain: &Chain) -> i32 {
        let current = chain.current().map(|current| self.threads.thread(current.slot));
        match current.filter(|thread| thread.koid == koid) {
            _ if koid == Koid(0) => weight::IDLE,
            _ if is_not_recorded(fxt_reader::Koid(koid.0)) => unrecorded::WEIGHT,
            Some(thread) => thread.weight,
            None => weight::NICE_0,
        }
    }

    /// Ends a part of the trace at `time`, and closes everything that is open in it. Returns the beginning of the next part: the names of
    /// everything in the trace, and the current state of the machine.
    ///
    /// # Errors
    /// Returns [`Closed`] if the trace accepts no more records.
    pub fn rotate(&mut self, time: Nanos) -> Result<Vec<u8>, Closed> {
        self.let_go_of_the_past();
        let moment = self.present();
        moment.end(time, &mut self.lanes)?;
        let mut beginning = self.names();
        self.names_are_known();
        moment.begin(time, &mut beginning)?;
        Ok(beginning)
    }

    /// Marks names as current, because they were just written.
    fn names_are_known(&mut self) {
        for slot in self.threads.slots() {
            let thread = self.threads.thread_mut(slot);
            if slot != IDLE && thread.naming == Naming::Never {
                continue;
            }
            thread.naming = Naming::Done;
            let home = thread.process;
            self.threads.process_mut(home).naming = Naming::Done;
        }
    }

    /// The living threads that are in the trace, including the idle task.
    fn living(&self) -> FxHashSet<Koid> {
        let slots = self.threads.slots().into_iter();
        let threads = slots.map(|slot| self.threads.thread(slot));
        let written = threads.filter(|thread| thread.naming != Naming::Never);
        let unrecorded = self.chains.all().filter(|(_, chain)| chain.unrecorded);
        let unrecorded = unrecorded.map(|(cpu, _)| unrecorded::thread_of(cpu));
        written.map(|thread| thread.koid).chain(unrecorded).chain([Koid(0)]).collect()
    }

    /// Forgets threads that only an earlier part can name: ended threads, on CPUs and as wakers.
    fn let_go_of_the_past(&mut self) {
        let living = self.living();
        for chain in self.chains.all_mut() {
            let shown = chain.shown.is_none_or(|koid| living.contains(&koid));
            let current = chain
                .current()
                .is_none_or(|current| self.threads.thread(current.slot).koid == current.koid);
            if chain.has_gap() || !shown || !current {
                *chain = Chain { unrecorded: chain.unrecorded, ..Chain::default() };
            }
        }
        for slot in self.threads.slots() {
            let thread = self.threads.thread_mut(slot);
            thread.waker = thread.waker.filter(|waker| match waker {
                Announced::Task(koid) => living.contains(koid),
                Announced::Interrupt | Announced::Unknown => true,
            });
        }
    }
}

/// The track of the interrupts of a CPU.
fn interrupt_track(cpu: Cpu) -> Track {
    (PROCESS, thread_of(cpu))
}
