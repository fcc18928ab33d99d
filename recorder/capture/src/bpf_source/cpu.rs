//! One CPU's lane: from its records to events.

use super::state::States;
use crate::event::{Comm, Event, Kind, Loss, Switch, Wake, WakeKind};
use crate::order::{Lane as Queue, Merger};
use fxtrec_kernel::bpf::lane::{Lane, LaneCounts, NAMES};
use fxtrec_kernel::bpf::record::{Record, RecordKind};
use fxtrec_kernel::clock;
use fxtrec_units::{Cpu, Nanos, Tid};

/// The names that the lane has told, kept as the programs keep them: by the lower bits of the thread's id. So they
/// need no search, and never grow.
#[derive(Debug)]
struct Told(Box<[(Tid, Comm)]>);

impl Told {
    fn new() -> Told {
        Told(vec![(Tid::IDLE, Comm::default()); NAMES].into_boxed_slice())
    }

    fn place(tid: Tid) -> usize {
        tid.0 as usize % NAMES
    }

    fn insert(&mut self, tid: Tid, comm: Comm) {
        self.0[Told::place(tid)] = (tid, comm);
    }

    /// The thread's name; empty when it was not told, or another's since.
    #[inline]
    fn get(&self, tid: Tid) -> Comm {
        match self.0[Told::place(tid)] {
            (told, comm) if told == tid => comm,
            _ => Comm::default(),
        }
    }
}

/// What a CPU's events are made with.
#[derive(Debug)]
pub(super) struct CpuLane {
    pub(super) cpu: Cpu,
    lane: Lane,
    queue: Queue,
    decoder: Decoder,
    /// The part of what was lost that records have told.
    told_lost: u64,
    /// The part of what came in the middle of another event that has been told.
    told_nested: u64,
    away: Away,
}

/// Whether a CPU is offline, and whether that was told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Away {
    No,
    Untold,
    Told,
}

/// From records to events.
#[derive(Debug)]
struct Decoder {
    names: Told,
    /// With a narrow scope: who has the CPU, as far as the records tell.
    current: Option<Option<Tid>>,
}

impl CpuLane {
    pub(super) fn new(cpu: Cpu, lane: Lane, merger: &mut Merger, narrow: bool) -> CpuLane {
        let decoder = Decoder { names: Told::new(), current: narrow.then_some(None) };
        let queue = merger.another_lane(cpu);
        CpuLane { cpu, lane, queue, decoder, told_lost: 0, told_nested: 0, away: Away::No }
    }

    /// Moves what the lane holds into the merger; true when it is not empty since the queue is full.
    pub(super) fn read(&mut self, states: &States, merger: &mut Merger, unknown: &mut u64) -> bool {
        self.lane.refresh();
        let drained = loop {
            if merger.is_full(self.queue) {
                break false;
            }
            match self.lane.next_record() {
                Some(Some(Record::Lost { time, count })) => {
                    self.told_lost = self.told_lost.saturating_add(count);
                    merger.push(self.queue, Event { time, kind: Kind::Lost(Loss::exactly(count)) });
                }
                Some(Some(record)) => {
                    let queue = self.queue;
                    self.decoder.decode(record, states, |event| merger.push(queue, event));
                }
                Some(None) => *unknown += 1,
                None => break true,
            }
        };
        self.lane.release();
        merger.set_drained(self.queue, drained);
        !drained
    }

    /// Notes whether the CPU is online. When it is not, its lane has to be read before [`CpuLane::tell_offline`].
    pub(super) fn follow(&mut self, is_online: bool) {
        self.away = match self.away {
            _ if is_online => Away::No,
            Away::No => Away::Untold,
            away => away,
        };
    }

    /// Adds, once, that the CPU is offline, right behind its last event: that is the switch to the thread that stops
    /// it, since no tracepoint fires on a CPU that is not online any more.
    pub(super) fn tell_offline(&mut self, merger: &mut Merger) {
        if self.away == Away::Untold && merger.queue(self.queue).is_drained() {
            self.away = Away::Told;
            // Time must not go back behind what was handed out.
            let time = merger.queue(self.queue).youngest().max(merger.emitted());
            merger.push(self.queue, Event { time, kind: Kind::Offline { goes_idle: true } });
        }
    }

    /// Adds what no program could write, since it came in the middle of another event, and `also` what none saw.
    pub(super) fn tell_unseen(&mut self, merger: &mut Merger, also: u64) {
        let nested = self.lane.counts().nested;
        let new = nested.saturating_sub(std::mem::replace(&mut self.told_nested, nested));
        self.tell(merger, new.saturating_add(also));
    }

    /// Adds what was lost at the very end, with no event after it. For when the programs have stopped.
    pub(super) fn tell_rest(&mut self, merger: &mut Merger) {
        let lost = self.lane.counts().lost;
        self.tell(merger, lost.saturating_sub(self.told_lost));
    }

    /// Adds that nobody knows how much was missed until then.
    pub(super) fn tell_unknown(&self, merger: &mut Merger, time: Nanos) {
        merger.push(self.queue, Event { time, kind: Kind::Lost(Loss::unknown()) });
    }

    fn tell(&self, merger: &mut Merger, count: u64) {
        if count > 0 {
            merger.push(
                self.queue,
                Event { time: clock::now(), kind: Kind::Lost(Loss::exactly(count)) },
            );
        }
    }

    pub(super) fn counts(&self) -> LaneCounts {
        self.lane.counts()
    }

    pub(super) fn bytes(&self) -> usize {
        self.lane.bytes()
    }
}

impl Decoder {
    #[inline]
    fn decode(&mut self, record: Record, states: &States, mut push: impl FnMut(Event)) {
        match record {
            Record::Switch { time, prev, next, prev_prio, next_prio, state, preempted } => {
                if self.lost_sight(prev, next) {
                    push(Event { time, kind: Kind::Skipped });
                }
                let kind = Kind::Switch(Switch {
                    prev,
                    next,
                    prev_prio,
                    next_prio,
                    state: states.decode(state, preempted),
                    // It was told when the thread came in, and a new name since then comes from perf's rings.
                    prev_comm: Comm::default(),
                    next_comm: self.names.get(next),
                });
                push(Event { time, kind });
            }
            Record::Wake { kind, time, tid, current, prio, target, in_interrupt } => {
                if self.lost_sight(current, current) {
                    push(Event { time, kind: Kind::Skipped });
                }
                let kind = Kind::Wake(Wake {
                    kind: match kind {
                        RecordKind::WakeupNew => WakeKind::New,
                        RecordKind::Waking => WakeKind::Waking,
                        _ => WakeKind::Wakeup,
                    },
                    tid,
                    prio,
                    target,
                    comm: self.names.get(tid),
                    current,
                    from_task: !in_interrupt && current != Tid::IDLE,
                });
                push(Event { time, kind });
            }
            Record::Name { tid, name } => self.names.insert(tid, Comm::from_bytes(&name)),
            Record::Lost { .. } => {}
        }
    }

    /// With a narrow scope: whether switches were left out since the last record, so that it is another's turn than it
    /// seemed. `next` has the CPU from now on.
    #[inline]
    fn lost_sight(&mut self, now: Tid, next: Tid) -> bool {
        let Some(current) = &mut self.current else { return false };
        current.replace(next).is_some_and(|before| before != now)
    }
}

#[cfg(test)]
mod tests {
    use super::super::state::tests::current;
    use super::*;

    fn decoder(narrow: bool) -> Decoder {
        Decoder { names: Told::new(), current: narrow.then_some(None) }
    }

    fn events(decoder: &mut Decoder, record: Record) -> Vec<Kind> {
        let states = States::new(&current()).expect("the known table");
        let mut found = Vec::new();
        decoder.decode(record, &states, |event| found.push(event.kind));
        found
    }

    fn switch(prev: u32, next: u32) -> Record {
        Record::Switch {
            time: Nanos(5),
            prev: Tid(prev),
            next: Tid(next),
            prev_prio: 120,
            next_prio: 98,
            state: 1,
            preempted: false,
        }
    }

    fn wake(current: u32, in_interrupt: bool) -> Record {
        Record::Wake {
            kind: RecordKind::Wakeup,
            time: Nanos(6),
            tid: Tid(9),
            current: Tid(current),
            prio: 120,
            target: Cpu(1),
            in_interrupt,
        }
    }

    fn name(tid: u32, name: &str) -> Record {
        Record::Name { tid: Tid(tid), name: Comm::from_bytes(name.as_bytes()).0 }
    }

    #[test]
    fn a_name_is_the_threads_until_another_takes_its_place() {
        let mut decoder = decoder(false);
        assert!(events(&mut decoder, name(7, "seven")).is_empty());
        let other = 7 + NAMES as u32;
        let of = |decoder: &mut Decoder, tid| match events(decoder, switch(1, tid))[0] {
            Kind::Switch(switch) => switch.next_comm,
            other => panic!("{other:?}"),
        };
        assert_eq!(of(&mut decoder, 7), Comm::from_bytes(b"seven"));
        assert_eq!(of(&mut decoder, other), Comm::default());
        events(&mut decoder, name(other, "other"));
        assert_eq!(of(&mut decoder, 7), Comm::default());
        assert_eq!(of(&mut decoder, other), Comm::from_bytes(b"other"));
    }

    #[test]
    fn the_waker_is_the_current_thread_unless_an_interrupt_or_idle_does_it() {
        let from_task = |record| match events(&mut decoder(false), record)[0] {
            Kind::Wake(wake) => wake.from_task,
            other => panic!("{other:?}"),
        };
        assert!(from_task(wake(4, false)));
        assert!(!from_task(wake(4, true)));
        assert!(!from_task(wake(0, false)));
    }

    #[test]
    fn with_a_scope_a_gap_in_the_chain_is_told_and_without_one_it_is_for_the_encoder() {
        let mut narrow = decoder(true);
        assert_eq!(events(&mut narrow, switch(1, 2)).len(), 1);
        assert_eq!(events(&mut narrow, wake(2, false)).len(), 1);
        assert_eq!(events(&mut narrow, switch(3, 1))[0], Kind::Skipped);
        assert_eq!(events(&mut narrow, wake(5, false))[0], Kind::Skipped);
        let mut wide = decoder(false);
        assert_eq!(events(&mut wide, switch(1, 2)).len(), 1);
        assert_eq!(events(&mut wide, switch(3, 1)).len(), 1);
    }
}
