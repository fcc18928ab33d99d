//! One CPU's lane: from its records to events.

use crate::event::{
    Comm, Event, Futex, Kept, Kind, Loss, SliceFacts, Switch, Taken, Throttle, Wake, WakeKind,
    Waker,
};
use crate::order::{Lane as Queue, Merger};
use fxtrec_kernel::bpf::lane::{Lane, LaneCounts, NAMES, Record, RecordKind};
use fxtrec_kernel::clock;
use fxtrec_kernel::prev_state::{PrevState, StateTable};
use fxtrec_units::{Cpu, Nanos, Tid};

/// `TASK_REPORT`: states that are reported as they are. Bits of `exit_state` are among them.
const REPORTED: u32 = 0x7f;

/// `TASK_IDLE`: `TASK_UNINTERRUPTIBLE` and `TASK_NOLOAD` together, reported as a state of its own.
const IDLE: u32 = 0x402;
const REPORTED_IDLE: u32 = 0x80;

/// `TASK_UNINTERRUPTIBLE`, and the states that are reported as it: `TASK_RTLOCK_WAIT` and `TASK_FROZEN`.
const UNINTERRUPTIBLE: u32 = 0x02;
const LIKE_UNINTERRUPTIBLE: u32 = 0x9000;

/// `TASK_REPORT_MAX`: preempted.
const PREEMPTED: i64 = 0x100;

/// The letters of the reported states, from the lowest bit.
const LETTERS: [char; 8] = ['S', 'D', 'T', 't', 'X', 'Z', 'P', 'I'];

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

/// What is reported of a task's state.
///
/// The tracepoint does not store the state as it is: the kernel's
/// `__trace_sched_switch_state` picks one bit and numbers it anew. The programs
/// store the state itself, and this does the same to it. The state bits it
/// looks at have their values since Linux 4.14, and those that came later
/// were not used before; that the numbers of the reported states are the known
/// ones is checked against the tracepoint's own table.
#[derive(Clone, Debug)]
pub(super) struct States {
    runnable: PrevState,
    preempted: PrevState,
    /// By the bit that is reported.
    others: [PrevState; LETTERS.len()],
}

impl States {
    /// Decodes by the tracepoint's table; `None` when it numbers the states in an unknown way.
    pub(super) fn new(table: &StateTable) -> Option<States> {
        let others = std::array::from_fn(|bit| table.decode(1_i64.rotate_left(bit as u32)));
        let known = LETTERS.map(|letter| PrevState { letter, preempted: false });
        let (runnable, preempted) = (table.decode(0), table.decode(PREEMPTED));
        let states = States { runnable, preempted, others };
        (states.others == known && preempted.preempted).then_some(states)
    }

    /// In which state a thread went out; bits of `exit_state` are in `state`.
    #[inline]
    pub(super) fn decode(&self, state: u32, preempted: bool) -> PrevState {
        if preempted {
            return self.preempted;
        }
        let mut report = state & REPORTED;
        if state & IDLE == IDLE {
            report = REPORTED_IDLE;
        }
        if state & LIKE_UNINTERRUPTIBLE != 0 {
            report = UNINTERRUPTIBLE;
        }
        match report.checked_ilog2() {
            Some(highest) => self.others[highest as usize],
            None => self.runnable,
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

#[derive(Debug)]
struct Decoder {
    names: Told,
    /// With a narrow scope: who has the CPU, as far as the records tell.
    current: Option<Option<Tid>>,
    /// What the next switch is told of the slice that it ends.
    slice: Option<SliceFacts>,
    taken: Option<Taken>,
    /// For how long the queue of the next record's thread was throttled.
    kept: Option<Kind>,
    /// When the last move was.
    moved: Nanos,
    /// Whether the switch before the next one is known, which began that slice.
    began: bool,
}

impl CpuLane {
    pub(super) fn new(cpu: Cpu, lane: Lane, merger: &mut Merger, narrow: bool) -> CpuLane {
        let decoder = Decoder::new(narrow);
        let queue = merger.another_lane(cpu);
        CpuLane { cpu, lane, queue, decoder, told_lost: 0, told_nested: 0, away: Away::No }
    }

    /// Lets the programs write.
    pub(super) fn open(&self) {
        self.lane.open();
    }

    /// As [`Lane::close`].
    pub(super) fn close(&self) -> bool {
        self.lane.close()
    }

    /// Moves what the lane holds into the merger; true when it is not empty since the queue is full.
    pub(super) fn read(&mut self, states: &States, merger: &mut Merger, unknown: &mut u64) -> bool {
        let mut waiting = self.lane.waiting();
        let drained = loop {
            if merger.is_full(self.queue) {
                break false;
            }
            match waiting.next() {
                Some(Some(Record::Lost { time, count })) => {
                    self.told_lost = self.told_lost.saturating_add(count);
                    self.decoder.began = false;
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
    fn new(narrow: bool) -> Decoder {
        let current = narrow.then_some(None);
        Decoder {
            names: Told::new(),
            current,
            slice: None,
            taken: None,
            kept: None,
            moved: Nanos(0),
            began: false,
        }
    }

    #[inline]
    fn decode(&mut self, record: Record, states: &States, mut push: impl FnMut(Event)) {
        match record {
            Record::Switch {
                time,
                prev,
                next,
                prev_prio,
                next_prio,
                state,
                syscall,
                preempted,
            } => {
                if self.lost_sight(prev, next) {
                    push(Event { time, kind: Kind::Skipped });
                    self.began = false;
                }
                // What was stolen goes back to the switch before.
                let whole = std::mem::replace(&mut self.began, true);
                let told = |it: &SliceFacts| whole || it.throttled.is_some() || it.futex.is_some();
                if let Some(mut facts) = self.slice.take().filter(told) {
                    facts.steal = if whole { facts.steal } else { Nanos(0) };
                    push(Event { time, kind: Kind::Slice(facts) });
                }
                // The request is of the slice, whenever that began.
                let told = |taken: &Taken| whole || taken.asked.is_some();
                if let Some(taken) = self.taken.take().filter(told) {
                    let (irq, irqs) = if whole { (taken.irq, taken.irqs) } else { (Nanos(0), 0) };
                    push(Event { time, kind: Kind::Taken(Taken { irq, irqs, ..taken }) });
                }
                if let Some(kind) = self.kept.take() {
                    push(Event { time, kind });
                }
                let kind = Kind::Switch(Switch {
                    prev,
                    next,
                    prev_prio,
                    next_prio,
                    state: states.decode(state.into(), preempted),
                    syscall,
                    // It was told when the thread came in, and a new name since then comes from perf's rings.
                    prev_comm: Comm::default(),
                    next_comm: self.names.get(next),
                });
                push(Event { time, kind });
            }
            Record::Wake {
                kind,
                time,
                tid,
                current,
                waker,
                prio,
                target,
                in_interrupt,
                same_process,
            } => {
                if self.lost_sight(current, current) {
                    push(Event { time, kind: Kind::Skipped });
                }
                if let Some(throttle) = self.slice.take().and_then(|facts| facts.throttled) {
                    push(Event { time, kind: Kind::Queued(throttle) });
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
                    by: match in_interrupt {
                        true => Waker::Interrupt,
                        false if waker == Tid::IDLE => Waker::Unknown,
                        false => Waker::Task(waker),
                    },
                    same_process: (kind == RecordKind::WakeupNew).then_some(same_process),
                });
                push(Event { time, kind });
            }
            Record::Name { tid, name } => self.names.insert(tid, Comm::from_bytes(&name)),
            Record::Slice { stolen } => self.slice.get_or_insert_default().steal = stolen,
            Record::Taken { irq, irqs, asked } => self.taken = Some(Taken { irq, irqs, asked }),
            Record::Throttled { kept, cgroup, own, now, of_queues } => {
                let throttle = Throttle { kept, cgroup, own, now, of_queues };
                self.slice.get_or_insert_default().throttled = Some(throttle);
            }
            Record::Futex(raw) => {
                self.slice.get_or_insert_default().futex = Some(Futex::new(raw));
            }
            // It has no time of its own: it is of the record that follows, or of the move before it.
            Record::Wait { tid, kept, cpu, own, of_queues, begins, goes_on } => {
                let kind = Kind::Kept(Kept { tid, kept, cpu, own, of_queues, begins, goes_on });
                match begins {
                    true => push(Event { time: self.moved, kind }),
                    false => self.kept = Some(kind),
                }
            }
            Record::Moved { time, tid, from, to } => {
                if let Some(kind) = self.kept.take() {
                    push(Event { time, kind });
                }
                self.moved = time;
                push(Event { time, kind: Kind::Moved { tid, from, to } });
            }
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
    use super::*;
    use fxtrec_kernel::bpf::lane;
    use fxtrec_kernel::format::Format;

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
            syscall: None,
            preempted: false,
        }
    }

    /// Thread 5 has the CPU.
    fn wake(waker: u32, in_interrupt: bool) -> Record {
        Record::Wake {
            kind: RecordKind::Wakeup,
            time: Nanos(6),
            tid: Tid(9),
            current: Tid(5),
            waker: Tid(waker),
            prio: 120,
            target: Cpu(1),
            in_interrupt,
            same_process: false,
        }
    }

    fn name(tid: u32, name: &str) -> Record {
        Record::Name { tid: Tid(tid), name: Comm::from_bytes(name.as_bytes()).0 }
    }

    #[test]
    fn a_name_is_the_threads_until_another_takes_its_place() {
        let mut decoder = Decoder::new(false);
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
    fn the_waker_is_who_began_it_unless_an_interrupt_did_or_it_is_not_known() {
        let by = |record| match events(&mut Decoder::new(false), record)[0] {
            Kind::Wake(wake) => wake.by,
            other => panic!("{other:?}"),
        };
        assert_eq!(by(wake(4, false)), Waker::Task(Tid(4)));
        assert_eq!(by(wake(4, true)), Waker::Interrupt);
        assert_eq!(by(wake(0, false)), Waker::Unknown);
    }

    #[test]
    fn with_a_scope_a_gap_in_the_chain_is_told_and_without_one_it_is_for_the_encoder() {
        let mut narrow = Decoder::new(true);
        assert_eq!(events(&mut narrow, switch(1, 2)).len(), 1);
        assert_eq!(events(&mut narrow, switch(2, 5)).len(), 1);
        assert_eq!(events(&mut narrow, wake(4, false)).len(), 1);
        assert_eq!(events(&mut narrow, switch(3, 1))[0], Kind::Skipped);
        assert_eq!(events(&mut narrow, wake(4, false))[0], Kind::Skipped);
        let mut wide = Decoder::new(false);
        assert_eq!(events(&mut wide, switch(1, 2)).len(), 1);
        assert_eq!(events(&mut wide, switch(3, 1)).len(), 1);
    }

    fn slice(stolen: u64) -> Record {
        Record::Slice { stolen: Nanos(stolen) }
    }

    /// The stolen time that is told with a switch.
    fn told(decoder: &mut Decoder, prev: u32, next: u32) -> Option<u64> {
        events(decoder, switch(prev, next)).into_iter().find_map(|kind| match kind {
            Kind::Slice(facts) => Some(facts.steal.0),
            _ => None,
        })
    }

    #[test]
    fn what_befell_a_slice_is_told_when_both_its_ends_are_known() {
        let mut decoder = Decoder::new(false);
        assert!(events(&mut decoder, slice(900)).is_empty());
        assert_eq!(told(&mut decoder, 1, 2), None, "it goes back to before the recording");
        events(&mut decoder, slice(30));
        assert_eq!(told(&mut decoder, 2, 3), Some(30));
        assert_eq!(told(&mut decoder, 3, 2), None, "nothing more");
        events(&mut decoder, slice(40));
        decoder.began = false;
        assert_eq!(told(&mut decoder, 2, 3), None, "something was lost");
    }

    #[test]
    fn a_request_for_a_switch_is_told_even_of_a_slice_whose_begin_is_not_known() {
        let taken = Taken { irq: Nanos(70), irqs: 3, asked: Some(Nanos(5)) };
        let record = || Record::Taken { irq: taken.irq, irqs: taken.irqs, asked: taken.asked };
        let mut decoder = Decoder::new(false);
        assert!(events(&mut decoder, record()).is_empty());
        let part = Taken { irq: Nanos(0), irqs: 0, ..taken };
        assert_eq!(events(&mut decoder, switch(1, 2))[0], Kind::Taken(part));
        events(&mut decoder, record());
        assert_eq!(events(&mut decoder, switch(2, 1))[0], Kind::Taken(taken));
        assert_eq!(events(&mut decoder, switch(1, 2)).len(), 1, "it is told once");
        decoder.began = false;
        events(&mut decoder, Record::Taken { irq: Nanos(70), irqs: 3, asked: None });
        assert_eq!(events(&mut decoder, switch(2, 1)).len(), 1, "nothing is known of this one");
    }

    #[test]
    fn that_a_thread_is_throttled_is_told_whatever_is_known_of_its_slice() {
        let mut decoder = Decoder::new(false);
        events(&mut decoder, slice(900));
        let (kept, cgroup, own, now, of_queues) = (Nanos(9), 12, 13, true, false);
        let record = Record::Throttled { kept, cgroup, own, now, of_queues };
        events(&mut decoder, record);
        let throttle = Throttle { kept, cgroup, own, now, of_queues };
        let throttled = Some(throttle);
        let expected = Kind::Slice(SliceFacts { steal: Nanos(0), throttled, futex: None });
        assert_eq!(events(&mut decoder, switch(1, 2))[0], expected);
        let (tid, kept, cpu) = (Tid(1), Nanos(20), Cpu(1));
        let (begins, goes_on) = (false, false);
        let wait = Record::Wait { tid, kept, cpu, own, of_queues, begins, goes_on };
        assert!(events(&mut decoder, wait).is_empty());
        let moved = Record::Moved { time: Nanos(7), tid, from: Cpu(1), to: Cpu(0) };
        let said = Kept { tid, kept, cpu, own, of_queues, begins, goes_on };
        let expected = [Kind::Kept(said), Kind::Moved { tid, from: Cpu(1), to: Cpu(0) }];
        assert_eq!(events(&mut decoder, moved), expected);
        assert_eq!(events(&mut decoder, switch(2, 1)).len(), 1, "it is told once");
        // What the queue says that it was moved to comes behind the move.
        let wait = Record::Wait { tid, kept, cpu, own, of_queues, begins: true, goes_on };
        let expected = [Kind::Kept(Kept { begins: true, ..said })];
        assert_eq!(events(&mut decoder, wait), expected);
        // A thread may be woken in such a queue, too.
        events(&mut decoder, record);
        assert_eq!(events(&mut decoder, wake(3, false))[0], Kind::Queued(throttle));
        assert_eq!(events(&mut decoder, wake(3, false)).len(), 1, "it is told once");
    }

    #[test]
    fn the_futex_that_a_thread_blocks_on_is_told_whatever_is_known_of_its_slice() {
        let mut decoder = Decoder::new(false);
        events(&mut decoder, slice(900));
        let raw = lane::Futex { address: 0x1000, value: 2, word: 2, ..lane::Futex::default() };
        events(&mut decoder, Record::Futex(lane::Futex { after_8: 7, ..raw }));
        let futex = Some(Futex { address: 0x1000, owner: Some(Tid(7)), is_end: false });
        let expected = Kind::Slice(SliceFacts { futex, ..SliceFacts::default() });
        assert_eq!(events(&mut decoder, switch(1, 2))[0], expected);
        assert_eq!(events(&mut decoder, switch(2, 1)).len(), 1, "it is told once");
    }

    #[test]
    fn with_a_scope_what_befell_slices_out_of_it_is_not_told() {
        let mut narrow = Decoder::new(true);
        events(&mut narrow, switch(1, 2));
        events(&mut narrow, slice(30));
        assert_eq!(told(&mut narrow, 5, 1), None, "of more slices than one");
        events(&mut narrow, slice(20));
        assert_eq!(told(&mut narrow, 1, 5), Some(20));
    }

    fn table(rows: &str, mask: &str, plus: &str) -> StateTable {
        let text = format!(
            "name: sched_switch\nID: 1\nformat:\n\n\tfield:long prev_state;\toffset:8;\tsize:8;\tsigned:1;\n\n\
             print fmt: \"%s%s\", __print_flags(REC->prev_state & {mask}, \"|\", {rows}), \
             REC->prev_state & {plus} ? \"+\" : \"\"\n"
        );
        StateTable::parse(&Format::parse(&text).expect("a format")).expect("a table")
    }

    fn current() -> StateTable {
        let rows = r#"{ 1, "S" }, { 2, "D" }, { 4, "T" }, { 8, "t" }, { 0x10, "X" }, { 0x20, "Z" }, { 0x40, "P" }, { 0x80, "I" }"#;
        table(rows, "0xff", "0x100")
    }

    fn text(state: u32, preempted: bool) -> String {
        let decoded = States::new(&current()).expect("the known table").decode(state, preempted);
        format!("{}{}", decoded.letter, if decoded.preempted { "+" } else { "" })
    }

    #[test]
    fn states_are_those_that_the_kernel_reports() {
        // TASK_DEAD with EXIT_DEAD and with EXIT_ZOMBIE, TASK_WAKEKILL with TASK_UNINTERRUPTIBLE and with __TASK_STOPPED,
        // TASK_FREEZABLE with TASK_INTERRUPTIBLE, and so on.
        let known = [
            (0, "R"),
            (0x1, "S"),
            (0x2, "D"),
            (0x90, "X"),
            (0xa0, "Z"),
            (0x102, "D"),
            (0x104, "T"),
            (0x8, "t"),
            (0x40, "P"),
            (0x402, "I"),
            (0x2001, "S"),
            (0x1000, "D"),
            (0x8000, "D"),
            (0x8402, "D"),
            (0x800, "R"),
        ];
        for (state, letters) in known {
            assert_eq!(text(state, false), letters, "{state:#x}");
        }
    }

    #[test]
    fn a_preempted_thread_is_runnable_whatever_its_state() {
        assert_eq!(text(0, true), "R+");
        assert_eq!(text(0x402, true), "R+");
    }

    #[test]
    fn a_kernel_that_numbers_states_in_another_way_is_not_guessed_at() {
        let rows = r#"{ 1, "D" }, { 2, "S" }"#;
        assert!(States::new(&table(rows, "0x3", "0x4")).is_none());
    }
}
