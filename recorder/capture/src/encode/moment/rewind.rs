//! Derives the machine's state at the beginning of a trace from its state at the end.
//!
//! If the first part of a trace was overwritten, the encoder knows the state of the machine only at its end. The state at the
//! beginning follows from that and from the records in between:
//!
//! ```text
//!                 beginning                              end
//!   CPU 0 has     a          <-- the first to be switched out
//!   CPU 1 has     b          <-- (no switch)             b
//!   c waits       since      <-- (no record of c)        waits
//!   d is inside   f > g      <-- the end of g            f
//! ```
//!
//! Unknown states are left out: whether a thread waited, if its first record says that it was switched in (the kernel might not have
//! reported its wakeup), and which thread was on a CPU, if events were lost before that CPU's first switch.

use std::collections::BTreeMap;
use std::io::Read;

use fxt_reader::record::{ContextSwitch, Event, EventKind};
use fxt_reader::{Error, Nanos as ReadNanos, Reader, Record};
use fxt_writer::Koid;
use fxtrec_sched::{Edge, Machine, Occupant, State, Switch, Thread};
use rustc_hash::FxHashMap;

use super::filter_relevant::filter_relevant;
use super::{Label, MachineState, RunnableThread, Span, Track};
use crate::encode::weight::NICE_0;
use fxtrec_units::Nanos;

/// When the trace of `pieces` begins, and the state of the machine at that time. `now` is the state at its end, and `head` contains the
/// strings that the records of the pieces refer to.
///
/// # Errors
/// Returns an error when the trace cannot be read.
pub fn rewind(
    head: &[u8],
    pieces: &[&[u8]],
    now: &MachineState,
) -> Result<Option<(Nanos, MachineState)>, Error> {
    // Only a few of a million records matter.
    if let Some(records) = filter_relevant(pieces, now) {
        return rewind_trace(&mut Reader::new(head.chain(records.as_slice())), now);
    }
    let first: Box<dyn Read + '_> = Box::new(head);
    let all = pieces.iter().fold(first, |all, piece| Box::new(all.chain(*piece)));
    rewind_trace(&mut Reader::new(all), now)
}

/// The same as [`rewind`], for a trace that is read record by record.
///
/// # Errors
/// Returns an error when the trace cannot be read.
pub fn rewind_trace(
    trace: &mut Reader<'_>,
    now: &MachineState,
) -> Result<Option<(Nanos, MachineState)>, Error> {
    let mut past = Past::default();
    while let Some(item) = trace.next()? {
        past.take(&item.record);
    }
    Ok(past.begin.map(|begin| (Nanos(begin.0), past.conclude(now))))
}

#[derive(Debug, Default)]
struct Past {
    begin: Option<ReadNanos>,
    /// Whether events were lost so far.
    doubtful: bool,
    machine: Machine<Koid>,
    /// The threads that had a record.
    seen: FxHashMap<Koid, Thread>,
    /// The first thread to be switched out of each CPU; `None` if unknown.
    cpus: BTreeMap<u16, Option<RunnableThread>>,
    /// How many of each track's open spans began within the trace.
    begun: BTreeMap<Track, usize>,
    /// Spans that ended within the trace and did not begin there, the innermost first.
    ended: BTreeMap<Track, Vec<Span>>,
}

impl Past {
    fn take(&mut self, record: &Record<'_>) {
        match record {
            Record::ContextSwitch(switch) => {
                self.begin.get_or_insert(switch.time);
                self.switch(switch);
            }
            Record::Wakeup(wakeup) => {
                self.begin.get_or_insert(wakeup.time);
                self.machine.wake(&mut self.seen, wakeup.koid, wakeup.cpu, wakeup.time);
            }
            Record::Event(event) if event.category == "fxtrec" => {
                self.doubtful |= event.name == "lost";
            }
            Record::Event(event) => {
                self.begin.get_or_insert(event.time);
                self.event(event);
            }
            _ => {}
        }
    }

    fn switch(&mut self, switch: &ContextSwitch<'_>) {
        let inferred = switch.args.get("inferred").is_some();
        // The first thread to be switched out was on the CPU before, even if it is the idle task.
        let switched = self.machine.switch(
            &mut self.seen,
            Switch {
                time: switch.time,
                cpu: switch.cpu,
                outgoing: Occupant::Thread(switch.outgoing),
                next: State::after(switch.outgoing_state, None),
                incoming: Occupant::Thread(switch.incoming),
                inferred,
            },
        );
        if switched.tenure.begin == Edge::Start {
            let koid = switch.outgoing;
            let weight = switch.outgoing_weight().unwrap_or(NICE_0);
            let known = !self.doubtful && !inferred;
            self.cpus.insert(switch.cpu.0, known.then_some(RunnableThread { koid, weight }));
        }
    }

    fn event(&mut self, event: &Event<'_>) {
        let track = (Koid(event.thread.process.0), Koid(event.thread.thread.0));
        match event.kind {
            EventKind::DurationBegin => *self.begun.entry(track).or_default() += 1,
            EventKind::DurationEnd => match self.begun.get_mut(&track) {
                Some(begun) if *begun > 0 => *begun -= 1,
                _ => self.ended.entry(track).or_default().push(Span {
                    category: Label::Own(event.category.to_owned()),
                    name: Label::Own(event.name.to_owned()),
                }),
            },
            _ => {}
        }
    }

    fn conclude(self, now: &MachineState) -> MachineState {
        let first = self.cpus.iter().filter_map(|(cpu, first)| Some((*cpu, (*first)?)));
        let unchanged = now.cpus.iter().filter(|(cpu, _)| !self.cpus.contains_key(cpu));
        let cpus = first.chain(unchanged.map(|(cpu, contender)| (*cpu, *contender))).collect();
        let waiting = now.waiting.iter().filter(|(koid, _)| !self.seen.contains_key(koid));
        let waiting = waiting.map(|(koid, queue)| (*koid, *queue)).collect();
        // Spans that are open now and did not begin within the trace, then those that ended within it.
        let mut spans: BTreeMap<Track, Vec<Span>> = BTreeMap::new();
        for (track, open) in &now.spans {
            let begun = self.begun.get(track).copied().unwrap_or(0);
            let before = open.len().saturating_sub(begun);
            spans.insert(*track, open[..before].to_vec());
        }
        for (track, ended) in self.ended {
            spans.entry(track).or_default().extend(ended.into_iter().rev());
        }
        spans.retain(|_, open| !open.is_empty());
        MachineState { cpus, waiting, spans }
    }
}
