//! The lane of one CPU: turns its records into events.
//!
//! The records of a lane are already sorted: a program reads the clock while it holds the lane. So records stay in their raw form, which
//! takes a third of an event's memory, until the merge with all other CPUs reaches them. Only then each becomes an event.

use crate::event::{
    Call, Comm, Event, Futex, Kept, KernelLock, Kind, Loss, LostOthers, SliceFacts, Switch, Taken,
    Throttle, Wake, WakeKind, Waker,
};
use crate::order::{Backlog, Lane as MergeLane, Merger, QUEUE_EVENTS, Queue};
use crate::readers::{Look, ReadRing, WORTH_COPYING};
use fxtrec_kernel::bpf::lane::{Lane, LaneCounts, NAMES, RawRecord, Record, RecordKind};
use fxtrec_kernel::bpf::origins::{Bytes, Origin, RawOrigin};
use fxtrec_kernel::bpf::scope::ScopeBy;
use fxtrec_kernel::clock;
use fxtrec_kernel::extra::ExtraIndex;
use fxtrec_kernel::prev_state::{PrevState, StateTable};
use fxtrec_units::{Cpu, Nanos, Tid};
use std::collections::VecDeque;

/// `TASK_REPORT`: states that are reported without translation. This includes bits of `exit_state`.
const REPORTED: u32 = 0x7f;

/// `TASK_IDLE`: `TASK_UNINTERRUPTIBLE` and `TASK_NOLOAD` together, reported as a separate state.
const IDLE: u32 = 0x402;
const REPORTED_IDLE: u32 = 0x80;

/// `TASK_UNINTERRUPTIBLE`, and the states that are reported as it: `TASK_RTLOCK_WAIT` and `TASK_FROZEN`.
const UNINTERRUPTIBLE: u32 = 0x02;
const LIKE_UNINTERRUPTIBLE: u32 = 0x9000;

/// `TASK_REPORT_MAX`: preempted.
const PREEMPTED: i64 = 0x100;

/// The letters of the reported states, from the lowest bit.
const LETTERS: [char; 8] = ['S', 'D', 'T', 't', 'X', 'Z', 'P', 'I'];

/// The thread names that the lane reported, stored as the programs store them: indexed by the lower bits of the thread id. So a name needs
/// no search, and the table never grows.
#[derive(Debug)]
struct ReportedNames(Box<[(Tid, Comm)]>);

impl ReportedNames {
    fn new() -> ReportedNames {
        ReportedNames(vec![(Tid::IDLE, Comm::default()); NAMES].into_boxed_slice())
    }

    fn place(tid: Tid) -> usize {
        tid.0 as usize % NAMES
    }

    fn insert(&mut self, tid: Tid, comm: Comm) {
        self.0[ReportedNames::place(tid)] = (tid, comm);
    }

    /// The thread's name; empty if it was not reported, or another thread's name has replaced it.
    #[inline]
    fn get(&self, tid: Tid) -> Comm {
        match self.0[ReportedNames::place(tid)] {
            (reported, comm) if reported == tid => comm,
            _ => Comm::default(),
        }
    }
}

/// Translates a task's state to the state that the tracepoint reports.
///
/// The tracepoint does not store the raw state: the kernel's `__trace_sched_switch_state` picks one bit and renumbers it. The programs
/// store the raw state, and this type does the same translation. The state bits that it uses have had their values since Linux 4.14, and
/// bits that were added later were unused before. Whether the reported states have the expected numbers is checked against the tracepoint's
/// own table.
#[derive(Clone, Debug)]
pub(super) struct States {
    runnable: PrevState,
    preempted: PrevState,
    /// Indexed by the reported bit.
    others: [PrevState; LETTERS.len()],
}

impl States {
    /// Decodes by the tracepoint's table; `None` if the tracepoint encodes the states in an unknown way.
    pub(super) fn new(table: &StateTable) -> Option<States> {
        let others = std::array::from_fn(|bit| table.decode(1_i64.rotate_left(bit as u32)));
        let known = LETTERS.map(|letter| PrevState { letter, preempted: false });
        let (runnable, preempted) = (table.decode(0), table.decode(PREEMPTED));
        let states = States { runnable, preempted, others };
        (states.others == known && preempted.preempted).then_some(states)
    }

    /// The state in which a thread was switched out; `state` includes bits of `exit_state`.
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

/// The lane of one CPU, and the records that were read from it.
#[derive(Debug)]
pub(super) struct CpuLane {
    /// The number of its decoder.
    number: usize,
    pub(super) cpu: Cpu,
    lane: Lane,
    /// Records taken from the lane, which wait to be merged.
    held: Held,
    /// Whether the last read took everything that the lane held.
    drained: bool,
    /// Whether no program was writing during that read.
    at_rest: bool,
    /// The queue for events that no record reports.
    queue: MergeLane,
    /// Nested events (events in the middle of another event) that were already reported as lost.
    reported_nested: u64,
    away: Away,
    /// Whether this is the CPU's lane of system calls, which exists in addition to that of switches.
    of_calls: bool,
}

/// The records of a lane that wait to be merged.
#[derive(Debug, Default)]
struct Held {
    records: VecDeque<RawRecord>,
    /// Time of the youngest record that this ever held.
    youngest: Nanos,
    /// Time of the last move that was passed on.
    moved: Nanos,
}

/// Turns the records of one lane into events.
#[derive(Debug)]
pub(super) struct LaneDecoder {
    states: States,
    decoder: Decoder,
    /// Number of invalid records.
    unknown: u64,
    /// Losses that records have already reported.
    reported_lost: u64,
}

/// Whether a CPU is offline, and whether that was reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Away {
    No,
    Unreported,
    Reported,
}

#[derive(Debug)]
struct Decoder {
    /// The CPU of the lane.
    cpu: Cpu,
    names: ReportedNames,
    /// With a narrow scope: the thread on the CPU, if the records show it.
    current: Option<Option<Tid>>,
    /// Whether the records currently say which threads are in scope.
    by_group: bool,
    /// Facts about the slice that the next switch ends.
    slice: Option<SliceFacts>,
    taken: Option<Taken>,
    /// How long the queue of the next record's thread was throttled.
    kept: Option<Kind>,
    /// The cause of the interrupt of the next wakeup.
    origin: Option<(RawOrigin, Bytes)>,
    /// Time of the last move.
    moved: Nanos,
    /// Whether the beginning of that slice is known.
    began: bool,
    /// The events for the beginnings and ends of system calls.
    calls: Option<CallEvents>,
}

/// The non-scheduler events for the beginning and the end of a system call.
#[derive(Clone, Copy, Debug)]
pub(super) struct CallEvents {
    pub(super) enter: ExtraIndex,
    pub(super) exit: ExtraIndex,
}

impl CpuLane {
    /// `number` is the number of its decoder; `of_calls` is set for a lane of system calls.
    pub(super) fn new(
        number: usize,
        (cpu, lane): (Cpu, Lane),
        merger: &mut Merger,
        of_calls: bool,
    ) -> CpuLane {
        CpuLane {
            number,
            cpu,
            lane,
            held: Held::default(),
            drained: true,
            at_rest: false,
            queue: merger.another_lane(cpu),
            reported_nested: 0,
            away: Away::No,
            of_calls,
        }
    }

    /// Whether it is the CPU's lane of switches and wakeups.
    pub(super) fn has_switches(&self) -> bool {
        !self.of_calls
    }

    /// Permits the programs to write.
    pub(super) fn open(&self) {
        self.lane.open();
    }

    /// The same as [`Lane::close`].
    pub(super) fn close(&self) -> bool {
        self.lane.close()
    }

    /// Reads the records in the lane, up to the space that is left here.
    pub(super) fn look(&mut self) -> Look {
        let before = self.held.records.len();
        // This read must come first: everything that is written after it has a later time.
        self.at_rest = self.lane.is_quiescent();
        self.drained = self.held.add(|room, records| self.lane.take(room, records));
        Look { brought: self.held.records.len() - before, drained: self.drained }
    }

    /// Stores whether the CPU is online. If it is not, its lane must be read before [`CpuLane::report_offline`].
    pub(super) fn follow(&mut self, is_online: bool) {
        self.away = match self.away {
            _ if is_online => Away::No,
            Away::No => Away::Unreported,
            away => away,
        };
    }

    /// Reports, once, that the CPU is offline, right after its last event. That event is the switch to the thread that stops the CPU,
    /// because no tracepoint fires on an offline CPU.
    pub(super) fn report_offline(&mut self, merger: &mut Merger) {
        if self.away == Away::Unreported && self.drained && self.has_switches() {
            self.away = Away::Reported;
            // The time must not be earlier than the events that were already passed on.
            let reported = merger.queue(self.queue).youngest();
            let time = self.held.youngest.max(reported).max(merger.emitted());
            merger.push(self.queue, Event { time, kind: Kind::Offline { goes_idle: true } });
        }
    }

    /// Reports `also` lost events, plus the events that no program could write because they occurred in the middle of another event.
    pub(super) fn report_losses(&mut self, merger: &mut Merger, also: u64) {
        let nested = self.lane.counts().nested;
        let new = nested.saturating_sub(std::mem::replace(&mut self.reported_nested, nested));
        self.report_loss(merger, new.saturating_add(also));
    }

    /// Reports losses at the very end, with no event after them. Call this when the programs have stopped.
    pub(super) fn report_remaining_losses(
        &mut self,
        merger: &mut Merger,
        decoders: &[LaneDecoder],
    ) {
        let reported = self.held.lost().saturating_add(decoders[self.number].reported_lost);
        self.report_loss(merger, self.lane.counts().lost.saturating_sub(reported));
    }

    /// Reports that an unknown number of events is missing up to `time`.
    pub(super) fn report_unknown_loss(&self, merger: &mut Merger, time: Nanos) {
        merger.push(self.queue, Event { time, kind: Kind::Lost(Loss::unknown()) });
    }

    fn report_loss(&self, merger: &mut Merger, count: u64) {
        if count > 0 {
            let kind = lost(count, self.of_calls);
            merger.push(self.queue, Event { time: clock::now(), kind });
        }
    }

    pub(super) fn counts(&self) -> LaneCounts {
        self.lane.counts()
    }

    pub(super) fn bytes(&self) -> usize {
        self.lane.bytes()
    }
}

/// Reading a ring adds nothing to the queue: the records wait in the lane itself.
impl ReadRing for CpuLane {
    const WORTH_SHARING: usize = WORTH_COPYING;

    fn lane(&self) -> MergeLane {
        self.queue
    }

    fn read(&mut self, _: &mut Queue) -> Look {
        self.look()
    }
}

impl Backlog for CpuLane {
    type Item = RawRecord;

    fn number(&self) -> usize {
        self.number
    }

    fn cpu(&self) -> Cpu {
        self.cpu
    }

    fn queue(&self) -> MergeLane {
        self.queue
    }

    fn first(&mut self) -> Option<Nanos> {
        self.held.first()
    }

    fn youngest(&self) -> Nanos {
        self.held.youngest
    }

    fn is_drained(&self) -> bool {
        self.drained
    }

    fn is_complete(&self) -> bool {
        self.drained && self.at_rest
    }

    fn read_if_filling(&mut self) -> bool {
        self.lane.is_filling() && !self.look().drained
    }

    fn held(&self) -> usize {
        self.held.records.len()
    }

    #[inline]
    fn hand_out(&mut self, until: Nanos, take: impl FnMut(&RawRecord) -> bool) -> bool {
        self.held.hand_out(until, take)
    }
}

impl Held {
    /// Lets `read` add as many records as there is space for, and returns its result.
    fn add(&mut self, read: impl FnOnce(usize, &mut VecDeque<RawRecord>) -> bool) -> bool {
        let before = self.records.len();
        let all = read(QUEUE_EVENTS.saturating_sub(before), &mut self.records);
        let mut new = self.records.range(before..).rev();
        self.youngest = new.find_map(Record::time).unwrap_or(self.youngest);
        all
    }

    /// Number of lost events that these records report.
    fn lost(&self) -> u64 {
        let reported = self.records.iter().filter_map(|record| match Record::parse(record) {
            Some(Record::Lost { count, .. }) => Some(count),
            _ => None,
        });
        reported.fold(0, u64::saturating_add)
    }

    /// Time of the first record that has a time. The records before it refer to it, so they are passed on together; it might not have
    /// arrived yet, unless there is no space for it.
    #[inline]
    fn first(&self) -> Option<Nanos> {
        let full = || (self.records.len() >= QUEUE_EVENTS).then_some(self.youngest);
        self.records.iter().find_map(|record| time_of(record, self.moved)).or_else(full)
    }

    #[inline]
    fn hand_out(&mut self, until: Nanos, mut take: impl FnMut(&RawRecord) -> bool) -> bool {
        let (mut done, mut go_on) = (0, true);
        let (front, back) = self.records.as_slices();
        'all: for run in [front, back] {
            for record in run {
                let time = time_of(record, self.moved);
                if !go_on || time.is_some_and(|time| time > until) {
                    break 'all;
                }
                if Record::is_move(record) {
                    self.moved = time.unwrap_or(self.moved);
                }
                done += 1;
                go_on = take(record);
            }
        }
        // With many CPUs, usually only one record is processed at a time, and `drain` is slower for that.
        match done {
            1 => drop(self.records.pop_front()),
            _ => drop(self.records.drain(..done)),
        }
        go_on
    }
}

/// The time of the events that the record becomes, after a move at `moved`; `None` if the record describes a later record.
#[inline]
fn time_of(record: &RawRecord, moved: Nanos) -> Option<Nanos> {
    // A queue's report about a thread that was moved to it has the time of that move.
    Record::time(record).or_else(|| Record::begins_wait(record).then_some(moved))
}

/// The event that reports `count` records for which the lane had no space.
fn lost(count: u64, of_calls: bool) -> Kind {
    match of_calls {
        false => Kind::Lost(Loss::exactly(count)),
        // No switch is missing.
        true => Kind::LostOthers(LostOthers { count, at_most: false, calls: true }),
    }
}

impl LaneDecoder {
    /// Whether it is for a lane of system calls.
    pub(super) fn is_of_calls(&self) -> bool {
        self.decoder.calls.is_some()
    }

    /// For a lane of system calls, `calls` contains their events.
    pub(super) fn new(
        states: States,
        cpu: Cpu,
        narrow: Option<ScopeBy>,
        calls: Option<CallEvents>,
    ) -> LaneDecoder {
        let decoder = Decoder::new(cpu, narrow.filter(|_| calls.is_none()), calls);
        LaneDecoder { states, decoder, unknown: 0, reported_lost: 0 }
    }

    /// Passes the record's events to `take`, as long as that returns true; returns its last result.
    #[inline]
    pub(super) fn decode(
        &mut self,
        record: &RawRecord,
        mut take: impl FnMut(&Event) -> bool,
    ) -> bool {
        let LaneDecoder { states, decoder, unknown, reported_lost } = self;
        let mut go_on = true;
        match Record::parse(record) {
            Some(Record::Lost { time, count }) => {
                *reported_lost = reported_lost.saturating_add(count);
                decoder.began = false;
                go_on = take(&Event { time, kind: lost(count, decoder.calls.is_some()) });
            }
            Some(record) => {
                decoder.decode(record, states, |event| go_on = go_on && take(&event));
            }
            None => *unknown += 1,
        }
        go_on
    }

    /// Number of invalid records.
    pub(super) fn unknown(&self) -> u64 {
        self.unknown
    }
}

impl Decoder {
    fn new(cpu: Cpu, narrow: Option<ScopeBy>, calls: Option<CallEvents>) -> Decoder {
        let current = narrow.map(|_| None);
        Decoder {
            cpu,
            names: ReportedNames::new(),
            current,
            by_group: matches!(narrow, Some(ScopeBy::Cgroup | ScopeBy::Owner)),
            slice: None,
            taken: None,
            kept: None,
            origin: None,
            moved: Nanos(0),
            began: false,
            calls,
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
                prev_in_scope,
                next_in_scope,
                waited_for,
            } => {
                if self.lost_sight(prev, next) {
                    push(Event { time, kind: Kind::Skipped });
                    self.began = false;
                }
                // Stolen time is counted since the previous switch, so it is valid only if that switch is known.
                let whole = std::mem::replace(&mut self.began, true);
                let reported = |it: &SliceFacts| {
                    let locks = it.futex.is_some() || it.kernel_lock.is_some();
                    whole || it.throttled.is_some() || locks
                };
                if let Some(mut facts) = self.slice.take().filter(reported) {
                    facts.steal = if whole { facts.steal } else { Nanos(0) };
                    push(Event { time, kind: Kind::Slice(facts) });
                }
                // A request to switch belongs to this slice even if its beginning is unknown.
                let reported = |taken: &Taken| whole || taken.asked.is_some();
                if let Some(taken) = self.taken.take().filter(reported) {
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
                    in_scope: self.by_group.then_some([prev_in_scope, next_in_scope]),
                    // The name was recorded when the thread was switched in; a newer name is reported by perf's rings.
                    prev_comm: Comm::default(),
                    next_comm: self.names.get(next),
                });
                push(Event { time, kind });
                if waited_for && !(prev_in_scope || next_in_scope) {
                    push(self.occupant(time, self.cpu, next, next_prio));
                }
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
                let origin = self.origin.take();
                let origin = origin.and_then(|(raw, bytes)| raw.understand(bytes));
                if let Some(origin) = origin {
                    push(Event { time, kind: Kind::Origin(origin) });
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
                    by: match (in_interrupt, origin) {
                        (true, Some(Origin::Sent { sender, .. })) => Waker::Task(sender),
                        (true, _) => Waker::Interrupt,
                        (false, _) if waker == Tid::IDLE => Waker::Unknown,
                        (false, _) => Waker::Task(waker),
                    },
                    same_process: (kind == RecordKind::WakeupNew).then_some(same_process),
                    // No records are written about threads out of scope.
                    in_scope: self.by_group.then_some(true),
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
            Record::Contention(raw) => {
                self.slice.get_or_insert_default().kernel_lock = Some(KernelLock::new(raw));
            }
            // This record has no time: it belongs to the next record, or to the previous move.
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
            Record::Call { time, tid, number, result, is_32_bit } => {
                let Some(CallEvents { enter, exit }) = self.calls else { return };
                let extra = if result.is_some() { exit } else { enter };
                let call = Call { extra, tid, number, result, is_32_bit };
                push(Event { time, kind: Kind::Call(call) });
            }
            Record::Occupant { time, tid, cpu, prio } => {
                push(self.occupant(time, cpu, tid, prio));
            }
            Record::Origin(raw) => self.origin = Some((raw, Bytes::default())),
            Record::More(more) => {
                if let Some((_, bytes)) = &mut self.origin {
                    bytes.add(&more);
                }
            }
            Record::Lost { .. } => {}
        }
    }

    fn occupant(&self, time: Nanos, cpu: Cpu, tid: Tid, prio: i32) -> Event {
        let comm = self.names.get(tid);
        Event { time, kind: Kind::Occupant { cpu, tid, prio, comm } }
    }

    /// With a narrow scope: whether switches were left out since the last record, so that another thread runs than the records showed. From
    /// now on `next` runs on the CPU.
    #[inline]
    fn lost_sight(&mut self, now: Tid, next: Tid) -> bool {
        let Some(current) = &mut self.current else { return false };
        current.replace(next).is_some_and(|before| before != now)
    }
}

#[cfg(test)]
mod handed_over;
#[cfg(test)]
mod tests;
