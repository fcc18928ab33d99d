//! The guarantees of fxtrec about its traces: names, order, weights, chains, modules.
//!
//! The chain of a CPU is the sequence of threads it runs. Each switch continues the chain: the outgoing thread is the one that was switched
//! in last.
//!
//! ```text
//!   sound      0 -> 41    41 -> 42    42 -> 0
//!   broken     0 -> 41    42 -> 0            the switch 41 -> 42 is missing
//! ```

use rustc_hash::{FxHashMap, FxHashSet};

use super::Findings;
use super::rule::Rule;
use crate::reader::Item;
use crate::record::{ContextSwitch, EventKind, IDLE_WEIGHT, Record, WEIGHT_INFO};
use crate::types::{Cpu, Koid, Nanos, ObjectType, ProviderId, Thread};

/// The event of fxtrec that names the file or socket for which a thread waited, for a wait with a stack.
const WAITED_FOR: &str = "waited_for";

/// The event of fxtrec that says that an application dropped records.
const LOST_RECORDS: &str = "lost_records";

/// The koid of the idle task, on every CPU.
const IDLE: Koid = Koid(0);

#[derive(Debug, Default)]
pub(super) struct FxtrecChecks {
    named: FxHashSet<Koid>,
    tick_length_known: FxHashSet<Option<ProviderId>>,
    /// The time of the last scheduling record.
    last_time: Option<Nanos>,
    /// The time of the last event of each thread.
    last_of_thread: FxHashMap<(Option<ProviderId>, Thread), Nanos>,
    /// The thread that each CPU runs.
    running: FxHashMap<Cpu, Koid>,
    /// The modules of each process.
    modules: FxHashSet<(Option<ProviderId>, Koid, u16)>,
    /// Whether usual weights are left out.
    brief_weights: bool,
}

impl FxtrecChecks {
    pub(super) fn item(&mut self, item: &Item<'_>, findings: &mut Findings) {
        let mut add = |rule, detail| findings.add(item.offset, rule, detail);
        if item.record.time().is_some() && !self.tick_length_known.contains(&item.provider) {
            self.tick_length_known.insert(item.provider);
            add(Rule::TickLength, "a time before the initialization record".into());
        }
        match item.record {
            Record::Initialization(_) => {
                self.tick_length_known.insert(item.provider);
            }
            Record::KernelObject(object) => {
                if object.name.is_empty() {
                    add(Rule::Named, format!("the name of koid {} is empty", object.koid));
                }
                if object.object_type == ObjectType::Thread && object.process().is_none() {
                    add(Rule::Process, format!("thread {} has no process", object.koid));
                }
                self.named.insert(object.koid);
            }
            Record::ContextSwitch(switch) => {
                self.ordered(switch.time, &mut add);
                self.is_named(switch.outgoing, &mut add);
                self.is_named(switch.incoming, &mut add);
                self.continues_chain(&switch, &mut add);
                let (out, inn) = (switch.outgoing_weight(), switch.incoming_weight());
                self.weight("outgoing", switch.outgoing, out, &mut add);
                self.weight("incoming", switch.incoming, inn, &mut add);
            }
            Record::Wakeup(wakeup) => {
                self.ordered(wakeup.time, &mut add);
                self.is_named(wakeup.koid, &mut add);
                if let Some(waker) = wakeup.waker() {
                    self.is_named(waker, &mut add);
                }
                if wakeup.weight().is_none() && !self.brief_weights {
                    add(Rule::Weight, format!("the wakeup of {} has no weight", wakeup.koid));
                }
            }
            Record::Event(event) => {
                self.brief_weights |= (event.category, event.name) == ("fxtrec", WEIGHT_INFO);
                // The first comes with its stack; the second follows the part of an application's records in which records were dropped.
                if event.category == "fxtrec" && [WAITED_FOR, LOST_RECORDS].contains(&event.name) {
                    return;
                }
                let written = match event.kind {
                    EventKind::DurationComplete { end } => end,
                    _ => event.time,
                };
                let thread = (item.provider, event.thread);
                self.thread_ordered(thread, (event.time, written), &mut add);
            }
            Record::Log(log) => {
                let thread = (item.provider, log.thread);
                self.thread_ordered(thread, (log.time, log.time), &mut add);
            }
            Record::Module(module) => {
                self.modules.insert((item.provider, module.process, module.id));
            }
            Record::Mapping(mapping) => {
                let (process, module) = (mapping.process, mapping.module);
                if !self.modules.contains(&(item.provider, process, module)) {
                    let detail = format!("process {process} has no module {module} yet");
                    add(Rule::Module, detail);
                }
            }
            Record::Backtrace(backtrace) => {
                self.is_named(backtrace.thread.thread, &mut add);
            }
            _ => {}
        }
    }

    /// After damage it is unknown which thread runs on which CPU.
    pub(super) fn damage(&mut self) {
        self.running.clear();
    }

    fn ordered(&mut self, time: Nanos, add: &mut impl FnMut(Rule, String)) {
        match self.last_time {
            Some(last) if time < last => {
                let back = last.0 - time.0;
                add(
                    Rule::TimeOrder,
                    format!("time {time} is {back} ns before that of the previous record"),
                );
            }
            _ => self.last_time = Some(time),
        }
    }

    /// Checks that records of one thread are in time order: `time`, and the latest time at which it was written.
    fn thread_ordered(
        &mut self,
        key: (Option<ProviderId>, Thread),
        (time, written): (Nanos, Nanos),
        add: &mut impl FnMut(Rule, String),
    ) {
        let last = self.last_of_thread.entry(key).or_default();
        if written < *last {
            let (back, thread) = (last.0 - written.0, key.1.thread);
            let detail =
                format!("time {time} is {back} ns before the last time of thread {thread}");
            add(Rule::ThreadOrder, detail);
        }
        *last = time.max(*last);
    }

    fn is_named(&self, koid: Koid, add: &mut impl FnMut(Rule, String)) {
        if koid != IDLE && !self.named.contains(&koid) {
            add(Rule::Named, format!("koid {koid} is used before it is named"));
        }
    }

    fn continues_chain(&mut self, switch: &ContextSwitch<'_>, add: &mut impl FnMut(Rule, String)) {
        let (cpu, outgoing) = (switch.cpu, switch.outgoing);
        match self.running.insert(cpu, switch.incoming) {
            Some(running) if running != outgoing => {
                add(
                    Rule::Chain,
                    format!("CPU {cpu} ran {running}, but {outgoing} is switched out"),
                );
            }
            _ => {}
        }
    }

    fn weight(
        &self,
        side: &str,
        koid: Koid,
        weight: Option<i32>,
        add: &mut impl FnMut(Rule, String),
    ) {
        match weight {
            None if self.brief_weights && koid != IDLE => {}
            None => add(Rule::Weight, format!("the {side} thread {koid} has no weight")),
            Some(weight) if (weight == IDLE_WEIGHT) != (koid == IDLE) => {
                add(Rule::IdleWeight, format!("the {side} thread {koid} has the weight {weight}"));
            }
            Some(_) => {}
        }
    }
}
