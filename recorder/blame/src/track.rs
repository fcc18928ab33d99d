//! Derives the states of threads from records: feeds the [scheduling machine](fxtrec_sched), and reports each new state to a [`Sink`].
//!
//! A thread *enters* a state at a time, on a CPU. Its previous state ends at that time. If the end is uncertain, the thread first enters
//! [`State::Unknown`], for a [`Reason`], at the time from which nothing is certain. So every thread's time is a list of intervals without
//! gaps, and unknown time is an interval too.

mod sink;

pub use sink::{About, Begin, By, Lock, OnCpu, Reason, Request, Sink};

use std::collections::HashMap;

use fxt_reader::record::{
    ContextSwitch, Event, EventKind, IDLE_WEIGHT, LegacyContextSwitch, ProviderEventKind, Value,
    WEIGHT_INFO, Wakeup, is_not_recorded,
};
use fxt_reader::{Cpu, Item, Koid, Nanos, ObjectType, ProviderId, Record, ThreadState};
use fxtrec_sched::{
    Change, CpuInterval, Edge, Enter, FilledUp, Held, Leave, Left, Machine, Met, Periods,
    Scheduler, State, SwitchArgs, Thread, UsualArgs, WakeupFacts, cpu_of, signed,
};
use fxtrec_units::convention::HOST_CPUS;
use fxtrec_units::escape::line;
use fxtrec_units::lock_kind::LockKind;

use crate::cpus::CpuNames;
use crate::origins::Origins;
use crate::threads::{CommandThreads, Index, KnownThreads, Recorders, inherits};
use crate::{Causes, trigger};

/// The provider name of fxtrec in a trace, and the category of its events about the recording.
pub const FXTREC: &str = "fxtrec";

/// The category of the scheduler's events other than switches and wakeups.
pub const SCHED: &str = "sched";

/// Maximum number of gaps that are distinguished; anything that began before the oldest is doubtful from its beginning.
const MOST_GAPS: usize = 1 << 16;

/// Maximum number of kernel locks with names.
const MOST_LOCK_NAMES: usize = 1 << 16;

/// Maximum number of cgroups with names.
const MOST_CGROUPS: usize = 1 << 16;

type Occupant = fxtrec_sched::Occupant<usize>;

/// The recording's description of itself.
#[derive(Clone, Debug, Default)]
pub struct Origin {
    pub command_line: String,
    pub machine: String,
    pub scope: String,
    pub source: String,
    /// Which facts it has.
    pub causes: Causes,
    /// The nanoseconds to add to its times to get the time since 1970.
    pub wall_clock_offset: Option<i64>,
    /// Whether fxtrec recorded the trace.
    pub is_known: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pending {
    Nothing,
    Loss,
    Damage,
}

#[derive(Clone, Copy, Debug)]
struct Gap {
    /// The time from which events may be missing.
    begin: u64,
    /// When the gap was reported.
    reported: u64,
}

/// The machine, and what is known about the recording so far.
#[derive(Debug)]
pub struct Tracker {
    pub known_threads: KnownThreads,
    pub family: CommandThreads,
    pub origin: Origin,
    /// The names of CPUs.
    pub cpus: CpuNames,
    /// The time of the first scheduling record.
    pub first: Option<u64>,
    /// The time of the last record of the scheduler.
    pub now: u64,
    /// The number of gaps.
    pub losses: u64,
    /// Whether the trace ends in the middle of a record, or is empty.
    pub is_truncated: bool,
    /// Whether it has stacks.
    pub has_stacks: bool,
    fired: Option<trigger::Fired>,
    usual_args: UsualArgs,
    machine: Machine<usize>,
    threads: Vec<Thread>,
    periods: Periods,
    cgroups: Vec<Box<str>>,
    by_cgroup: HashMap<Box<str>, u32>,
    /// By their ids.
    lock_names: HashMap<u64, Box<str>>,
    /// The causes of interrupts that wake threads.
    pub origins: Origins,
    gaps: Vec<Gap>,
    pending: Pending,
    /// Whether only some processes were recorded.
    pub narrow: bool,
    scheduler: Scheduler,
    own: Option<ProviderId>,
    recorders: Recorders,
}

#[derive(Clone, Copy, Debug)]
struct Side {
    koid: u64,
    no_thread: Option<Occupant>,
}

fn on_cpu(occupant: Occupant) -> OnCpu {
    match occupant {
        Occupant::Idle => OnCpu::Idle,
        Occupant::NotRecorded => OnCpu::OutOfScope,
        Occupant::Thread(thread) => OnCpu::Thread(thread as Index),
    }
}

fn unknown(time: u64, cpu: Cpu, reason: Reason) -> Begin {
    Begin { time, state: State::Unknown, cpu, about: About::Unknown(reason) }
}

impl Tracker {
    pub fn new(known_threads: KnownThreads) -> Tracker {
        Tracker {
            known_threads,
            family: CommandThreads::default(),
            origin: Origin::default(),
            cpus: CpuNames::default(),
            first: None,
            now: 0,
            losses: 0,
            is_truncated: false,
            has_stacks: false,
            fired: None,
            usual_args: UsualArgs::default(),
            machine: Machine::default(),
            threads: Vec::new(),
            periods: Periods::default(),
            cgroups: Vec::new(),
            by_cgroup: HashMap::new(),
            lock_names: HashMap::new(),
            origins: Origins::default(),
            gaps: Vec::new(),
            pending: Pending::Nothing,
            narrow: false,
            scheduler: Scheduler::default(),
            own: None,
            recorders: Recorders::default(),
        }
    }

    /// Whether it is certain that COMMAND did not start this thread.
    pub fn is_stranger(&self, thread: Index) -> bool {
        self.family.is_without(&self.known_threads, self.known_threads.koid(thread))
    }

    /// The delay that fired a trigger, if the file is the snapshot of a trigger.
    pub fn fired(&self) -> Option<&trigger::Fired> {
        self.fired.as_ref()
    }

    /// The name of a cgroup.
    pub fn cgroup(&self, number: u32) -> Option<&str> {
        self.cgroups.get(number as usize).map(|name| &**name)
    }

    /// The name of a kernel lock, if it is recorded, or else its id.
    pub fn lock_name(&self, lock: Lock) -> String {
        let name = lock.kernel_id().and_then(|id| self.known_lock_name(id));
        name.map_or_else(|| format!("{:#x}", lock.address), |name| line(name).to_string())
    }

    /// The name of the kernel lock with this id, if recorded.
    pub fn known_lock_name(&self, id: u64) -> Option<&str> {
        self.lock_names.get(&id).map(|name| &**name)
    }

    /// Something could not be read: this is a gap on all CPUs, at the next record.
    pub fn damaged(&mut self) {
        self.pending = Pending::Damage;
    }

    /// Processes the next record. Returns false when no more records are needed.
    #[inline(always)]
    pub fn take<S: Sink>(&mut self, item: &Item<'_>, sink: &mut S) -> bool {
        match &item.record {
            Record::ContextSwitch(switch) => {
                self.written_by(item.provider);
                self.context_switch(switch, sink)
            }
            Record::Wakeup(wakeup) => {
                self.written_by(item.provider);
                self.wakeup(wakeup, sink)
            }
            Record::LegacyContextSwitch(switch) => {
                self.written_by(item.provider);
                self.legacy_switch(switch, sink)
            }
            Record::KernelObject(object) => {
                let is_reported = !self.recorders.have(item.provider);
                match object.object_type {
                    ObjectType::Process => self.known_threads.name_process(object, is_reported),
                    ObjectType::Thread => {
                        self.known_threads.name_thread(object, is_reported);
                        if !is_reported {
                            self.family.is_named(object.name, object.process().map(|it| it.0));
                        }
                    }
                    _ => {}
                }
                true
            }
            Record::Event(event)
                if event.category == FXTREC && self.recorders.have(item.provider) =>
            {
                self.own_event(event, sink)
            }
            Record::Event(event)
                if event.category == SCHED && self.recorders.have(item.provider) =>
            {
                self.sched_event(event, sink)
            }
            Record::Event(event) => {
                let is_provider = self.own.is_none() || item.provider != self.own;
                sink.event(event, is_provider);
                true
            }
            Record::ProviderInfo(info) => {
                if info.name == FXTREC {
                    self.known_threads.by_fxtrec = true;
                    self.own = Some(info.id);
                    self.recorders.introduce(info.id);
                }
                true
            }
            Record::ProviderEvent(event) => {
                if event.event == ProviderEventKind::BufferFilledUp
                    && self.scheduler.filled_up(event.id) == FilledUp::Scheduler
                {
                    self.pending = Pending::Loss;
                }
                true
            }
            _ => true,
        }
    }

    /// Processes a record that says which threads are recorded.
    #[inline(always)]
    fn written_by(&mut self, provider: Option<ProviderId>) {
        if self.scheduler.is(provider) && self.pending == Pending::Nothing {
            self.pending = Pending::Loss;
        }
    }

    /// Advances to the time of a scheduling record. Returns false when it is not needed.
    #[inline(always)]
    fn advance<S: Sink>(&mut self, time: Nanos, sink: &mut S) -> bool {
        let time = time.0.max(self.now);
        if self.first.is_none() {
            self.first = Some(time);
        }
        if !sink.advance(self, time) {
            return false;
        }
        self.now = time;
        if self.pending != Pending::Nothing {
            self.pending = Pending::Nothing;
            self.gap(None, sink);
        }
        true
    }

    #[inline(always)]
    fn context_switch<S: Sink>(&mut self, switch: &ContextSwitch<'_>, sink: &mut S) -> bool {
        if !self.advance(switch.time, sink) {
            return false;
        }
        let (mut out, mut inn) = (self.side(switch.outgoing), self.side(switch.incoming));
        if !self.known_threads.by_fxtrec {
            if switch.outgoing_weight() == Some(IDLE_WEIGHT) {
                out.no_thread = Some(Occupant::Idle);
            }
            if switch.incoming_weight() == Some(IDLE_WEIGHT) {
                inn.no_thread = Some(Occupant::Idle);
            }
        }
        let said = match switch.args.len() > self.usual_args.of_switch {
            true => SwitchArgs::of(switch.args),
            false => SwitchArgs::default(),
        };
        self.switch(switch.cpu, out, inn, (switch.outgoing_state, &said), sink);
        true
    }

    #[inline(never)]
    fn legacy_switch<S: Sink>(&mut self, switch: &LegacyContextSwitch, sink: &mut S) -> bool {
        if !self.advance(switch.time, sink) {
            return false;
        }
        let side = |koid: Koid, priority: u8| Side {
            koid: koid.0,
            no_thread: (priority == 0).then_some(Occupant::Idle),
        };
        let out = side(switch.outgoing.thread, switch.outgoing_priority);
        let inn = side(switch.incoming.thread, switch.incoming_priority);
        self.switch(switch.cpu, out, inn, (switch.outgoing_state, &SwitchArgs::default()), sink);
        true
    }

    #[inline(always)]
    fn side(&self, koid: Koid) -> Side {
        let no_thread = match koid {
            Koid(0) => Some(Occupant::Idle),
            // Only traces of narrow scope have such pseudo-threads.
            koid if self.narrow && is_not_recorded(koid) => Some(Occupant::NotRecorded),
            _ => None,
        };
        Side { koid: koid.0, no_thread }
    }

    #[inline(always)]
    fn occupant(&mut self, side: Side) -> Occupant {
        match side.no_thread {
            Some(occupant) => occupant,
            None => Occupant::Thread(self.known_threads.index(side.koid) as usize),
        }
    }

    /// Handles a switch of a CPU from one thread to another at the current time.
    #[inline(always)]
    fn switch<S: Sink>(
        &mut self,
        cpu: Cpu,
        out: Side,
        inn: Side,
        (state, said): (ThreadState, &SwitchArgs<'_>),
        sink: &mut S,
    ) {
        let time = Nanos(self.now);
        let inferred = said.inferred;
        let (outgoing, incoming) = (self.occupant(out), self.occupant(inn));
        let next = State::after(state, said.detail);
        let next = match next {
            next if next.is_over() => next,
            // After an inferred switch, the trace does not show where the thread is.
            _ if inferred => State::Unknown,
            // The next state of an outsider is not recorded.
            _ if incoming == Occupant::NotRecorded => State::NotRecorded,
            next if said.throttled => next.held(),
            next => next,
        };
        let leave = Leave { time, cpu, outgoing, next, inferred };
        let left = self.machine.leave(&mut self.threads, leave);
        if left.met != Met::Expected {
            self.met_unexpectedly(&left, outgoing, inferred, sink);
        }
        if let Some(change) = left.outgoing {
            self.went_out(&change, left.met, next, said, sink);
        }
        if let Occupant::Thread(thread) = incoming {
            self.before_it_comes_in(thread, cpu, said, sink);
        }
        let enter = Enter { time, cpu, incoming, inferred };
        match self.machine.enter(&mut self.threads, enter) {
            Some(change) => self.came_in(&change, cpu, inferred, sink),
            None => sink.on_cpu(cpu, time.0, on_cpu(incoming)),
        }
    }

    /// The thread that is switched out is not the known occupant.
    #[cold]
    fn met_unexpectedly<S: Sink>(
        &mut self,
        left: &Left<usize>,
        outgoing: Occupant,
        inferred: bool,
        sink: &mut S,
    ) {
        let CpuInterval { cpu, since, begin, .. } = left.tenure;
        if left.met == Met::Displaced {
            // A switch is missing although no loss was recorded: the thread that had the CPU since the last switch is unknown.
            sink.on_cpu(cpu, since.0, OnCpu::Unknown);
            if let Some(Change { thread, before, .. }) = left.displaced {
                sink.begin(thread as Index, unknown(before.since.0, cpu, Reason::Inferred));
            }
            return;
        }
        // An offline CPU had no thread; if the switch is inferred, the beginning of that time is unknown.
        if inferred || begin == Edge::Offline {
            return;
        }
        // It had the CPU since the trace began, or since the gap ended.
        match outgoing {
            Occupant::Thread(_) => {}
            other => sink.on_cpu(cpu, since.0, on_cpu(other)),
        }
    }

    #[inline(always)]
    fn went_out<S: Sink>(
        &mut self,
        change: &Change<usize>,
        met: Met,
        next: State,
        said: &SwitchArgs<'_>,
        sink: &mut S,
    ) {
        let (thread, time) = (change.thread as Index, change.time.0);
        let Thread { since, cpu, state, begin, .. } = change.before;
        if state != State::Running {
            // It was believed to be in another state while it had the CPU.
            if state.is_known() {
                sink.begin(thread, unknown(since.0, cpu, Reason::NoWakeup));
            }
        } else if said.inferred || met == Met::Displaced {
            sink.begin(thread, unknown(since.0, cpu, Reason::Inferred));
        } else if met == Met::Vacant && begin != Edge::Offline {
            // It has had the CPU since before the first record, or since a gap.
            let about = About::Nothing;
            let time = since.0.max(self.first.unwrap_or(0));
            sink.begin(thread, Begin { time, state: State::Running, cpu, about });
        } else if met == Met::Vacant {
            sink.begin(thread, unknown(since.0, cpu, Reason::NoWakeup));
        } else if said.steal > 0 || said.irq > 0 {
            sink.taken(thread, said.steal, said.irq);
        }
        let about = match next {
            State::Unknown => About::Unknown(Reason::Inferred),
            State::NotRecorded => About::Unknown(Reason::OutOfScope),
            _ => About::Syscall(said.syscall),
        };
        sink.begin(thread, Begin { time, state: next, cpu, about });
        if let Some(address) = said.futex {
            let owner = said.futex_end_of.or(said.futex_owner);
            let owner = owner.map(|owner| self.known_threads.index(owner.0));
            let is_end = said.futex_end_of.is_some();
            sink.lock(thread, time, Lock { address, kernel: None, owner, is_end });
        } else if let Some(address) = said.kernel_lock {
            let kernel = Some(LockKind::parse(said.kernel_lock_kind.unwrap_or_default()));
            if let Some(name) = said.kernel_lock_name {
                self.name_lock(address, name);
            }
            sink.lock(thread, time, Lock { address, kernel, owner: None, is_end: false });
        }
    }

    #[cold]
    fn name_lock(&mut self, id: u64, name: &str) {
        if self.lock_names.len() < MOST_LOCK_NAMES && !self.lock_names.contains_key(&id) {
            self.lock_names.insert(id, name.into());
        }
    }

    /// Reports the parts of the thread's wait in which a quota held it back.
    #[inline(always)]
    fn before_it_comes_in<S: Sink>(
        &mut self,
        thread: usize,
        cpu: Cpu,
        said: &SwitchArgs<'_>,
        sink: &mut S,
    ) {
        let Some(before) = self.threads.get(thread).copied() else { return };
        if !before.state.is_waiting() {
            return;
        }
        if said.held > 0 || before.state.is_throttled() {
            self.held_back(thread, before, said, sink);
        }
        // The CPU where it waited matters, not the CPU where it was switched in.
        let Thread { state, cpu: queue, .. } = self.threads[thread];
        if queue != cpu {
            let about = About::Queue(queue);
            sink.begin(thread as Index, Begin { time: self.now, state, cpu, about });
        }
    }

    #[cold]
    fn held_back<S: Sink>(
        &mut self,
        thread: usize,
        before: Thread,
        said: &SwitchArgs<'_>,
        sink: &mut S,
    ) {
        let known = self.machine.knows(&before) && said.held > 0;
        let held = Held::of(before, Nanos(self.now), (said.held, said.held_by));
        let intervals = held.filter(|_| known).and_then(|held| self.periods.place(held));
        let Some(intervals) = intervals else {
            let since = self.doubtful_since(&before).unwrap_or(before.since.0);
            let reason = if known { Reason::Unplaced } else { Reason::Lost };
            sink.begin(thread as Index, unknown(since, before.cpu, reason));
            return;
        };
        for interval in intervals {
            for change in
                self.machine.held_back(&mut self.threads, thread, interval).into_iter().flatten()
            {
                let about = About::Queue(before.cpu);
                let (time, state, cpu) = (change.time.0, change.after, before.cpu);
                sink.begin(thread as Index, Begin { time, state, cpu, about });
            }
        }
        if let Some(cgroup) = said.held_by.and_then(|name| self.cgroup_number(name)) {
            sink.quota(thread as Index, cgroup);
        }
    }

    fn cgroup_number(&mut self, name: &str) -> Option<u32> {
        if let Some(&known) = self.by_cgroup.get(name) {
            return Some(known);
        }
        if self.cgroups.len() >= MOST_CGROUPS {
            return None;
        }
        let number = self.cgroups.len() as u32;
        self.cgroups.push(name.into());
        self.by_cgroup.insert(name.into(), number);
        Some(number)
    }

    /// The time from which the state of a thread is uncertain, if anything was lost since its state began.
    fn doubtful_since(&self, thread: &Thread) -> Option<u64> {
        if self.machine.knows(thread) {
            return None;
        }
        let since = thread.since.0;
        let next = self.gaps.partition_point(|gap| gap.reported < since);
        // If two gaps were reported, the later report may have the earlier beginning.
        let begin = self.gaps[next.min(self.gaps.len())..].iter().map(|gap| gap.begin).min();
        Some(begin.unwrap_or(since).max(since))
    }

    #[inline(always)]
    fn came_in<S: Sink>(&mut self, change: &Change<usize>, cpu: Cpu, inferred: bool, sink: &mut S) {
        let thread = change.thread as Index;
        let Change { before, sound, time, .. } = *change;
        let since = before.since.0;
        if before.state.is_waiting() {
            if inferred {
                sink.begin(thread, unknown(since, before.cpu, Reason::Inferred));
            } else if !sound {
                self.in_doubt(thread, &before, sink);
            }
        } else if before.state.is_known() && !before.state.is_over() {
            let reason = if sound { Reason::NoWakeup } else { Reason::Lost };
            sink.begin(thread, unknown(since, before.cpu, reason));
        }
        let about = About::Nothing;
        sink.begin(thread, Begin { time: time.0, state: State::Running, cpu, about });
    }

    #[cold]
    fn in_doubt<S: Sink>(&mut self, thread: Index, before: &Thread, sink: &mut S) {
        if let Some(since) = self.doubtful_since(before) {
            sink.begin(thread, unknown(since, before.cpu, Reason::Lost));
        }
    }

    #[inline(always)]
    fn wakeup<S: Sink>(&mut self, wakeup: &Wakeup<'_>, sink: &mut S) -> bool {
        if !self.advance(wakeup.time, sink) {
            return false;
        }
        if wakeup.koid.0 == 0 {
            return true;
        }
        let said = match wakeup.args.len() > self.usual_args.of_wakeup {
            true => WakeupFacts::of(wakeup.args),
            false => WakeupFacts::default(),
        };
        let thread = match self.known_threads.find(wakeup.koid.0) {
            Some(thread) => thread,
            None => {
                let by = (said.waker, said.interrupt);
                self.family.first_woken(&self.known_threads, wakeup.koid.0, by);
                self.known_threads.index(wakeup.koid.0)
            }
        };
        let by = match said.waker {
            _ if said.interrupt => {
                By::Interrupt(self.origins.of(said.interrupt_kind, said.interrupt_name))
            }
            Some(Koid(0)) | None => By::Unknown,
            Some(Koid(waker)) => By::Thread(self.known_threads.index(waker)),
        };
        let state = if said.throttled { State::WokenThrottled } else { State::Woken };
        let (cpu, time) = (wakeup.cpu, Nanos(self.now));
        let woken = self.machine.wake_to(&mut self.threads, thread as usize, (cpu, state), time);
        if let Some(Change { before, sound, .. }) = woken {
            if before.state == State::Running {
                sink.begin(thread, unknown(before.since.0, before.cpu, Reason::Lost));
            } else if !sound && before.state.is_known() && !before.state.is_over() {
                self.in_doubt(thread, &before, sink);
            }
            if before.state == State::Unknown && self.has_existed(wakeup.koid.0, &before, by) {
                sink.was_blocked(thread);
            }
            sink.begin(thread, Begin { time: time.0, state, cpu, about: About::Woken(by) });
            if let Some(ago) = said.sent {
                sink.sent(thread, ago);
            }
            if let Some(request) = said.request.filter(|_| said.interrupt) {
                let ago = |ago: Option<u64>| time.0.checked_sub(ago?);
                sink.request(
                    thread,
                    Request {
                        bytes: request.bytes,
                        by: request.by.map(|by| self.known_threads.index(by.0)),
                        started: ago(request.started),
                        issued: ago(request.issued),
                    },
                );
            }
        }
        true
    }

    /// Whether a thread that is woken now, without an earlier event, was blocked since the beginning of the trace, and is not new.
    fn has_existed(&self, koid: u64, before: &Thread, by: By) -> bool {
        if self.losses > 0 || self.narrow || before.since.0 > 0 {
            return false;
        }
        match by {
            // Interrupts make no threads.
            By::Interrupt(_) => true,
            By::Thread(waker) => {
                let is_named = self.known_threads.comm(koid).is_some();
                is_named && !inherits(&self.known_threads, koid, self.known_threads.koid(waker))
            }
            By::Unknown => false,
        }
    }

    #[cold]
    fn own_event<S: Sink>(&mut self, event: &Event<'_>, sink: &mut S) -> bool {
        match event.name {
            "trace_info" => self.learn(event),
            "stack_info" => self.has_stacks = true,
            "snapshot_info" => self.fired = trigger::Fired::read(event),
            HOST_CPUS => self.cpus.learn(&event.args),
            WEIGHT_INFO => self.usual_args = UsualArgs::WITHOUT_WEIGHTS,
            "trace_stats" => {
                // The recording continues until that time.
                let time = event.time.0.max(self.now);
                if self.first.is_some() {
                    if !sink.advance(self, time) {
                        return false;
                    }
                    self.now = time;
                }
            }
            "lost" => {
                if let Some(own) = self.own {
                    self.scheduler.said(own);
                }
                self.pending = match self.pending {
                    Pending::Loss => Pending::Nothing,
                    other => other,
                };
                if !self.advance(event.time, sink) {
                    return false;
                }
                self.gap(cpu_of(event.args, "cpu"), sink);
            }
            "cpu_offline" | "cpu_online" => {
                if !self.advance(event.time, sink) {
                    return false;
                }
                let Some(cpu) = cpu_of(event.args, "cpu") else { return true };
                let time = Nanos(self.now);
                if event.name == "cpu_online" {
                    self.machine.online(cpu, time);
                } else if self.machine.offline(cpu, time).is_some() {
                    sink.on_cpu(cpu, time.0, OnCpu::Unknown);
                }
            }
            _ => {}
        }
        true
    }

    fn learn(&mut self, event: &Event<'_>) {
        let text = |name| event.args.str(name).unwrap_or_default().to_owned();
        let causes = Causes::parse(event.args.str("causes").unwrap_or_default());
        // A kind of fact counts as recorded only if all of several recordings have it.
        let before = self.origin.is_known.then_some(&self.origin);
        let causes = before.map_or(causes, |origin| causes.and(origin.causes));
        let offset = event.args.get("wall_clock_offset_ns").and_then(signed);
        let wall_clock_offset = before.and_then(|origin| origin.wall_clock_offset).or(offset);
        let scope = text("scope");
        self.narrow = !matches!(scope.as_str(), "" | "all");
        if let Some(Value::Koid(command)) = event.args.get("command") {
            self.family.has_command(command.0);
        }
        self.family.is_recorded_by(event.thread.process.0);
        self.origin = Origin {
            command_line: text("command_line"),
            machine: text("machine"),
            scope,
            source: text("source"),
            causes,
            wall_clock_offset,
            is_known: true,
        };
    }

    /// A scheduler event without a separate record type.
    #[cold]
    fn sched_event<S: Sink>(&mut self, event: &Event<'_>, sink: &mut S) -> bool {
        if let ("migrate", EventKind::Instant) = (event.name, event.kind)
            && self.first.is_some()
        {
            return self.migrated(event, sink);
        }
        self.periods.event(event);
        true
    }

    /// A thread moves to another queue. Returns false when the time is beyond the requested range.
    fn migrated<S: Sink>(&mut self, event: &Event<'_>, sink: &mut S) -> bool {
        if !self.advance(event.time, sink) {
            return false;
        }
        let koid = event.thread.thread.0;
        let to = cpu_of(event.args, "dest_cpu").filter(|_| koid != 0);
        let Some(to) = to else { return true };
        let thread = self.known_threads.index(koid);
        if let Some(from) = self.machine.migrate(&mut self.threads, thread as usize, to) {
            let state = self.threads[thread as usize].state;
            let about = About::Queue(from);
            sink.begin(thread, Begin { time: self.now, state, cpu: to, about });
        }
        true
    }

    /// Events of one CPU, or of all CPUs, are missing up to the current time.
    #[cold]
    fn gap<S: Sink>(&mut self, cpu: Option<Cpu>, sink: &mut S) {
        let now = self.now;
        let mut begin = now;
        let hit = match cpu {
            Some(Cpu(cpu)) => cpu..cpu.saturating_add(1),
            None => {
                self.machine.gap_of_unseen(Nanos(now));
                0..u16::try_from(self.machine.cpu_states().len()).unwrap_or(u16::MAX)
            }
        };
        for number in hit.map(Cpu) {
            let since = self.machine.cpu_state(number).since.0;
            begin = begin.min(since);
            let lost = self.machine.gap(&mut self.threads, number, (Nanos(now), Nanos(now)));
            // Since the CPU's last switch, any thread may have had it; at the current time, it is the thread that is switched out next.
            sink.on_cpu(number, since, OnCpu::Unknown);
            if let Some(Change { thread, before, .. }) = lost.change {
                let since = before.since.0;
                sink.begin(thread as Index, unknown(since, number, Reason::Lost));
            }
        }
        // Any thread may have run there, too, so no open state can be relied on.
        self.machine.invalidate();
        self.losses += 1;
        if self.gaps.len() < MOST_GAPS {
            self.gaps.push(Gap { begin, reported: now });
        } else if let Some(last) = self.gaps.last_mut() {
            // Too many to distinguish: the last entry represents all further ones.
            *last = Gap { begin: last.begin.min(begin), reported: now };
        }
    }

    /// States that are doubtful become unknown, as they do when they end.
    pub fn settle<S: Sink>(&self, sink: &mut S) {
        if self.losses > 0 {
            (0..self.threads.len()).for_each(|thread| self.settle_thread(thread as Index, sink));
        }
    }

    /// Doubtful states of one thread become unknown: see [`settle`](Self::settle).
    pub fn settle_thread<S: Sink>(&self, index: Index, sink: &mut S) {
        let Some(thread) = self.threads.get(index as usize) else { return };
        let open =
            thread.state.is_known() && thread.state != State::Running && !thread.state.is_over();
        if let (true, Some(since)) = (open, self.doubtful_since(thread)) {
            sink.begin(index, unknown(since, thread.cpu, Reason::Lost));
        }
    }
}
