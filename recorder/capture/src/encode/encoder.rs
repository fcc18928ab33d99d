//! Turns typed events, in order of time, into records.

mod exited_threads;
mod inferred;
mod locks;
mod losses;
mod moment;
mod names;
pub mod owner;
mod probes;
mod throttles;
mod waits;
mod wakes;
pub mod watch;

use std::hash::RandomState;
use std::sync::Arc;

use fxt_writer::lanes::Lanes;
use fxt_writer::record::{ContextSwitch, Event as EventRecord, EventKind, ThreadState};
use fxt_writer::{Arg, Koid, ShortArgs, StringRef, Text, ThreadName, Ticks, Value};

use exited_threads::ExitedThreads;
use locks::Contended;
use probes::Probes;

use super::Closed;
use super::chain::{Chains, Occupant, View, view};
use super::generations::id_of;
use super::periods::OpenPeriods;
use super::stats::Stats;
use super::strings;
use super::threads::weight::{self, weight};
use super::threads::{Detail, IDLE, OutgoingState, Run, Slot, Threads, outgoing_state};
use super::throttles::CgroupNames;
use super::unrecorded;
use crate::event::{
    Comm, Event, Kind, Life, LocalId, SliceFacts, Switch, Taken, Throttle, WakeKind,
};
use crate::flight::watch::Watch;
use fxtrec_kernel::bpf::origins::Origin;
use fxtrec_kernel::symbols::KernelSymbols;
use fxtrec_units::{Cpu, Nanos, Tid};

#[derive(Debug)]
pub struct Encoder<L> {
    lanes: L,
    threads: Threads,
    chains: Chains,
    /// Whether only some threads are in scope.
    narrow: bool,
    recorder: ThreadName,
    stats: Stats,
    silent: Vec<Cpu>,
    departed: ExitedThreads,
    probes: Probes,
    /// The reason why a thread waits, if it waits.
    watch: Option<Box<Watch>>,
    cgroups: CgroupNames,
    /// The facts about the quota of the thread that the next event of this CPU wakes.
    queued: Option<(Cpu, Throttle)>,
    /// The cause of the interrupt that does the next wakeup of this CPU.
    origin: Option<(Cpu, Origin)>,
    kernel: Arc<KernelSymbols>,
    /// The cgroups that are currently throttled.
    periods: OpenPeriods,
    /// Gives kernel locks ids of this recording, instead of their addresses.
    lock_ids: RandomState,
    /// The names of locks that are variables of the kernel.
    contended: Contended,
    /// Whether weights of nice 0 are left out.
    brief_weights: bool,
    /// Whether no event can take the fast path, because a thread waits for a kernel lock.
    none_is_plain: bool,
    /// Whether the kernel applies the scope, and reports which thread has a CPU that one in scope waits for.
    kernel_narrows: bool,
    /// Whether renames do not say which thread is renamed: see [`Encoder::take_names_from_switches_only`].
    renames_are_hidden: bool,
}

/// One side of a switch, as it is written.
#[derive(Clone, Copy, Debug)]
struct Side {
    koid: Koid,
    weight: i32,
}

/// What is written about a switch in addition to its two threads.
#[derive(Clone, Copy, Debug)]
struct Words {
    state: OutgoingState,
    /// The number of the system call in which the outgoing thread blocks.
    syscall: Option<u16>,
    /// Whether no tracepoint reported it.
    inferred: bool,
    /// The delay of the slice that this switch ends.
    slice: Option<SliceFacts>,
    taken: Option<Taken>,
    /// The facts about the wait that it ends.
    wait: Option<Waited>,
}

/// What kept a thread from running while it waited.
#[derive(Clone, Copy, Debug)]
struct Waited {
    /// How long a quota kept the thread from running.
    throttled: Nanos,
    /// The id of the cgroup whose quota it was.
    by: u64,
}

impl Words {
    fn reported(state: OutgoingState, slice: Option<SliceFacts>, taken: Option<Taken>) -> Words {
        Words { state, syscall: None, inferred: false, slice, taken, wait: None }
    }

    fn inferred(state: OutgoingState) -> Words {
        Words { state, syscall: None, inferred: true, slice: None, taken: None, wait: None }
    }
}

/// The state of a thread whose switch out was not seen: most often it blocked. A runnable thread is switched in again, and readers would
/// show it as waiting for a CPU until then; for a blocked one, its wakeup or its next slice will be seen.
fn unseen_state(koid: Koid) -> OutgoingState {
    let fxt = if koid == Koid(0) { ThreadState::Running } else { ThreadState::Blocked };
    OutgoingState { fxt, detail: None }
}

/// The side that represents unrecorded threads.
fn not_recorded(cpu: Cpu) -> Side {
    Side { koid: unrecorded::thread_of(cpu), weight: unrecorded::WEIGHT }
}

/// The text of a `prev_state` argument.
fn detail_text(detail: Detail) -> Text<'static> {
    const TEXTS: [StringRef; 6] = [
        registered(strings::PREEMPTED),
        registered(strings::UNINTERRUPTIBLE),
        registered(strings::IDLE_SLEEP),
        registered(strings::PARKED),
        registered(strings::TRACED),
        registered(strings::OTHER),
    ];
    Text::Indexed(TEXTS[detail as usize])
}

const fn registered(text: Text<'static>) -> StringRef {
    match text {
        Text::Indexed(index) => index,
        Text::Inline(_) => panic!("a string of the table"),
    }
}

/// The name, if the event contains one.
fn known_comm(comm: &Comm) -> Option<&Comm> {
    Some(comm).filter(|comm| **comm != Comm::default())
}

fn ticks(time: Nanos) -> Ticks {
    Ticks(time.0)
}

fn cpu_arg(cpu: Cpu) -> Arg<'static> {
    Arg::new(strings::CPU, Value::Uint32(cpu.0))
}

fn cpu_number(cpu: Cpu) -> u16 {
    // The format has 16 bits for a CPU, and Linux at most 8192 of them.
    u16::try_from(cpu.0).unwrap_or(u16::MAX)
}

impl<L: Lanes> Encoder<L> {
    /// An encoder of the threads that are known so far; with `narrow`, only threads in scope are recorded.
    ///
    /// fxtrec's own events belong to the thread `recorder`.
    pub fn new(lanes: L, threads: Threads, narrow: bool, recorder: ThreadName) -> Encoder<L> {
        Encoder {
            lanes,
            threads,
            chains: Chains::default(),
            narrow,
            recorder,
            stats: Stats::default(),
            silent: Vec::new(),
            departed: ExitedThreads::default(),
            probes: Probes::default(),
            watch: None,
            cgroups: CgroupNames::default(),
            queued: None,
            origin: None,
            kernel: Arc::default(),
            periods: OpenPeriods::default(),
            lock_ids: RandomState::new(),
            contended: Contended::new(),
            brief_weights: false,
            none_is_plain: false,
            kernel_narrows: false,
            renames_are_hidden: false,
        }
    }

    /// Lets the events say which thread has a CPU that a thread in scope waits for, because other switches are missing.
    pub fn expect_kernel_filter(&mut self) {
        self.kernel_narrows = true;
    }

    /// Names locks of the kernel that are among its variables, and the functions of timers.
    pub fn name_kernel(&mut self, symbols: Arc<KernelSymbols>) {
        self.kernel = symbols;
    }

    /// Leaves out the weights of nice 0, which nearly all threads have; the trace must say so.
    pub fn leave_out_usual_weights(&mut self) {
        self.brief_weights = true;
    }

    /// From now on, threads are named only by their switches and wakeups. A rename may concern a thread that has changed its user since
    /// its last switch, and so is not in scope any more.
    pub fn take_names_from_switches_only(&mut self) {
        self.renames_are_hidden = true;
    }

    /// Whether a record includes this weight.
    #[inline(always)]
    fn tells_weight(&self, weight: i32) -> bool {
        !self.brief_weights || weight != weight::NICE_0
    }

    /// The counts so far.
    pub fn stats(&self) -> &Stats {
        &self.stats
    }

    /// The thread that fxtrec's own events belong to.
    pub fn recorder(&self) -> ThreadName {
        self.recorder
    }

    pub fn threads(&mut self) -> &mut Threads {
        &mut self.threads
    }

    pub fn lanes(&mut self) -> &mut L {
        &mut self.lanes
    }

    /// Returns the lanes; no more records may follow.
    pub fn into_lanes(self) -> L {
        self.lanes
    }

    /// The globs of cgroups that matched no process.
    pub fn unseen_globs(&self) -> impl Iterator<Item = &str> {
        self.threads.unseen_globs().iter().map(|glob| glob.as_str())
    }

    /// The CPUs on which a task was not reported although nothing was lost, since the last call.
    pub fn take_silent(&mut self) -> Vec<Cpu> {
        std::mem::take(&mut self.silent)
    }

    /// Writes the records for one event; `bytes` is its payload if it is a sample. Times must not decrease from call to call.
    ///
    /// # Errors
    /// Returns [`Closed`] when the trace accepts no more records.
    #[inline]
    pub fn event(
        &mut self,
        time: Nanos,
        cpu: Cpu,
        event: &Event,
        bytes: &[u8],
    ) -> Result<(), Closed> {
        match self.plain_event(time, cpu, event)? {
            true => Ok(()),
            false => self.any_event(time, cpu, event, bytes),
        }
    }

    /// Writes the records for an event of the most common kinds. Returns false, and does nothing, for any other event.
    #[inline(always)]
    pub(super) fn plain_event(
        &mut self,
        time: Nanos,
        cpu: Cpu,
        event: &Event,
    ) -> Result<bool, Closed> {
        match &event.kind {
            Kind::Switch(switch) => self.plain_switch(time, cpu, switch),
            Kind::Wake(wake) => self.plain_wake(time, cpu, wake),
            _ => Ok(false),
        }
    }

    /// Handles any event, whether or not it can take the fast path.
    #[inline(never)]
    pub(super) fn any_event(
        &mut self,
        time: Nanos,
        cpu: Cpu,
        event: &Event,
        bytes: &[u8],
    ) -> Result<(), Closed> {
        match &event.kind {
            Kind::Switch(switch) => {
                if let Some([prev, next]) = switch.in_scope {
                    self.threads.choose(switch.prev, prev);
                    self.threads.choose(switch.next, next);
                }
                self.switch(time, cpu, switch)
            }
            Kind::Slice(facts) => {
                self.chains.of(cpu).slice = Some(*facts);
                Ok(())
            }
            Kind::Taken(taken) => {
                self.chains.of(cpu).taken = Some(*taken);
                Ok(())
            }
            Kind::Wake(wake) if event.time < time && self.threads.has_ended(wake.tid) => {
                // The event arrived so late that the thread has been switched out for the last time since.
                (self.queued, self.origin) = (None, None);
                self.stats.wakeups += u64::from(wake.kind != WakeKind::Waking);
                self.stats.spurious_wakeups += u64::from(wake.kind != WakeKind::Waking);
                Ok(())
            }
            Kind::Wake(wake) => {
                if let Some(wanted) = wake.in_scope {
                    self.threads.choose(wake.tid, wanted);
                }
                self.wake(time, cpu, wake)
            }
            Kind::Running { tid, .. } => self.running(time, cpu, *tid),
            Kind::Occupant { cpu, tid, prio, comm } => {
                self.occupied(time, *cpu, (*tid, *prio), known_comm(comm))
            }
            Kind::Fork { pid, tid, parent_pid, parent_tid } => {
                self.stats.forks += 1;
                self.threads.fork(event.time, (*pid, *tid), (*parent_pid, *parent_tid));
                Ok(())
            }
            Kind::Exit { .. } => {
                self.stats.exits += 1;
                Ok(())
            }
            Kind::Comm { pid, tid, exec, comm } => {
                self.stats.renames += 1;
                match self.renames_are_hidden {
                    true => self.threads.forget_name(*pid, *tid, *exec),
                    false => self.threads.renamed(*pid, *tid, *comm, *exec),
                }
                match self.threads.tid_of(*tid).filter(|_| *exec) {
                    Some(tid) => {
                        let slot = self.threads.get(tid, None);
                        self.executed(time, cpu, slot)?;
                        self.end_program_spans(time, slot)
                    }
                    None => Ok(()),
                }
            }
            Kind::Life(life) => {
                self.life(event.time, life);
                Ok(())
            }
            Kind::Identity { tid, local_pid, local_tid } => {
                self.threads.identify(*tid, *local_pid, *local_tid);
                Ok(())
            }
            Kind::Sample(sample) => self.sample(time, cpu, sample, bytes),
            Kind::Call(call) => self.syscall_event(time, cpu, *call),
            Kind::Kept(kept) => self.kept(time, *kept),
            Kind::Queued(throttle) => {
                self.queued = Some((cpu, *throttle));
                Ok(())
            }
            Kind::Origin(origin) => {
                self.origin = Some((cpu, *origin));
                Ok(())
            }
            Kind::Moved { tid, from, to } => self.moved(time, *tid, *from, *to),
            Kind::Contention { tid, contention } => {
                self.contention(*tid, *contention);
                Ok(())
            }
            Kind::Skipped => {
                self.chains.of(cpu).forget(time);
                Ok(())
            }
            Kind::Lost(loss) => self.lost(time, cpu, loss),
            Kind::LostOthers(others) => self.lost_others(time, cpu, *others),
            Kind::LostLives { count } => self.lost_lives(time, cpu, *count),
            Kind::Offline { goes_idle } => self.offline(time, cpu, *goes_idle),
            Kind::Online => self.instant(time, strings::CPU_ONLINE, &[cpu_arg(cpu)]),
        }
    }

    fn life(&mut self, time: Nanos, life: &Life) {
        match *life {
            Life::Begin { tid, parent, same_process, elsewhere } => {
                self.stats.forks += 1;
                self.threads.begun(time, tid, parent, same_process);
                if elsewhere {
                    self.look_for_home(tid, None);
                }
            }
            Life::Rename { tid, comm } => {
                self.stats.renames += 1;
                match self.renames_are_hidden {
                    true => self.threads.forget_name(LocalId(tid.0), LocalId(tid.0), false),
                    false => self.threads.named(tid, comm),
                }
            }
            Life::End { .. } => self.stats.exits += 1,
            Life::Home { tid, cgroup } => self.look_for_home(tid, cgroup),
        }
    }

    /// A switch between two threads without any new, uncertain or additional facts; nearly all switches are like this. Does the same
    /// writing and bookkeeping for it as [`Encoder::switch`]. Returns false, and does nothing, for any other switch.
    #[inline(always)]
    fn plain_switch(&mut self, time: Nanos, cpu: Cpu, switch: &Switch) -> Result<bool, Closed> {
        let Some(current) = self.plain_occupant(cpu, switch.prev, &switch.prev_comm) else {
            return Ok(false);
        };
        let outgoing = current.slot;
        let Some(incoming) = self.threads.recall(switch.next) else { return Ok(false) };
        let next = self.threads.thread(incoming);
        if next.throttled.is_some() || !self.threads.is_settled(incoming, &switch.next_comm) {
            return Ok(false);
        }
        // If at least one of the threads is in scope, both are shown, so the file shows the outgoing thread.
        if self.narrow {
            let [from, to] = [outgoing, incoming].map(|slot| self.threads.thread(slot).in_scope);
            let in_scope = |at: usize| switch.in_scope.map(|in_scope| in_scope[at]);
            if !(from || to)
                || !self.is_known_scope(outgoing, in_scope(0))
                || !self.is_known_scope(incoming, in_scope(1))
            {
                return Ok(false);
            }
        }
        let (state, incoming_koid) = (outgoing_state(switch.state), next.koid);
        let run = match state.fxt {
            ThreadState::Running => Run::Runnable,
            ThreadState::Dying | ThreadState::Dead => return Ok(false),
            _ => Run::Blocked,
        };
        let syscall = switch.syscall.filter(|_| state.fxt == ThreadState::Blocked);
        let weights =
            [weight(switch.next, switch.next_prio), weight(switch.prev, switch.prev_prio)];
        let mut args = ShortArgs::default();
        let [to, from] = [strings::INCOMING_WEIGHT, strings::OUTGOING_WEIGHT].map(registered);
        // If all threads are recorded, the compiler knows these positions.
        match self.brief_weights {
            false => {
                args.push(to, Value::Int32(weights[0]));
                args.push(from, Value::Int32(weights[1]));
            }
            true => {
                args.push_if(self.tells_weight(weights[0]), to, Value::Int32(weights[0]));
                args.push_if(self.tells_weight(weights[1]), from, Value::Int32(weights[1]));
            }
        }
        if let Some(detail) = state.detail {
            args.push(registered(strings::PREV_STATE), Value::Str(detail_text(detail)));
        }
        if let Some(number) = syscall {
            args.push(registered(strings::SYSCALL), Value::Uint32(number.into()));
        }
        self.lanes.rolling(&ContextSwitch {
            cpu: cpu_number(cpu),
            time: ticks(time),
            outgoing: current.koid,
            incoming: incoming_koid,
            outgoing_state: state.fxt,
            args,
        })?;
        self.stats.switches += 1;
        self.stats.switches_written += 1;
        let entering = Occupant { slot: incoming, koid: incoming_koid };
        if self.watch.is_some() {
            self.watch_plain_switch(time, cpu, (current, entering), state)?;
        }
        let chain = self.chains.of(cpu);
        chain.shown = Some(incoming_koid);
        chain.enter(entering, time, false);
        // The order matters if both are the same thread.
        let thread = self.threads.thread_mut(outgoing);
        thread.weight = weights[1];
        let thread = self.threads.thread_mut(incoming);
        thread.weight = weights[0];
        thread.run = Run::Running;
        self.threads.thread_mut(outgoing).run = run;
        if self.narrow {
            self.note_waits(cpu, outgoing, run == Run::Runnable, incoming);
        }
        Ok(true)
    }

    /// Whether the kernel's view of the thread's scope, if reported, agrees with the encoder's.
    #[inline(always)]
    fn is_known_scope(&self, slot: Slot, in_scope: Option<bool>) -> bool {
        slot == IDLE
            || in_scope.is_none_or(|in_scope| in_scope == self.threads.thread(slot).in_scope)
    }

    /// The thread `tid`, if it has the CPU both in reality and in the file, and if nothing about it, or about the thread that the file
    /// shows, is new or uncertain.
    #[inline(always)]
    fn plain_occupant(&mut self, cpu: Cpu, tid: Tid, comm: &Comm) -> Option<Occupant> {
        if self.none_is_plain {
            return None;
        }
        let current = self.chains.of(cpu).plain()?;
        // A thread that has ended may still have its entry, or another thread may have its id.
        let is_same = self.threads.recall(tid) == Some(current.slot)
            && self.threads.thread(current.slot).koid == current.koid;
        (is_same && self.threads.is_settled(current.slot, comm)).then_some(current)
    }

    fn switch(&mut self, time: Nanos, cpu: Cpu, switch: &Switch) -> Result<(), Closed> {
        self.stats.switches += 1;
        let outgoing = self.threads.get(switch.prev, known_comm(&switch.prev_comm));
        if let Some(former) = self.former_owner(cpu, switch.prev, outgoing) {
            return self.former_owner_leaves(time, cpu, former, switch);
        }
        let koid = self.threads.thread(outgoing).koid;
        let (slice, taken) = self.chains.of(cpu).end_slice(time, koid);
        self.has_cpu(time, cpu, outgoing)?;
        let incoming = self.threads.get(switch.next, known_comm(&switch.next_comm));
        let state = outgoing_state(switch.state);
        let slice = self.with_contention(switch.prev, slice);
        let slice = match slice {
            Some(facts) if facts.futex.is_some() || facts.kernel_lock.is_some() => {
                Some(self.with_owner(outgoing, facts)?)
            }
            slice => slice,
        };
        let out = self.side(outgoing, switch.prev_prio);
        let inn = self.side(incoming, switch.next_prio);
        let wait = match self.threads.thread(incoming).throttled {
            Some(_) => self.waited(time, incoming)?,
            None => None,
        };
        let syscall = switch.syscall.filter(|_| state.fxt == ThreadState::Blocked);
        let words = Words { wait, syscall, ..Words::reported(state, slice, taken) };

        if self.write_switch(time, cpu, (outgoing, out), (incoming, inn), words)? {
            self.stats.switches_written += 1;
        }
        if let Some(throttle) = slice.and_then(|facts| facts.throttled) {
            self.throttled(time, cpu, outgoing, throttle)?;
        }
        if self.watch.is_some() {
            self.watch_switch(time, cpu, (outgoing, incoming), words)?;
        }
        self.chains.of(cpu).enter(Occupant { slot: incoming, koid: inn.koid }, time, false);
        if self.narrow {
            self.note_waits(cpu, outgoing, state.fxt == ThreadState::Running, incoming);
            if self.chains.of(cpu).waiting > 0 {
                self.show_occupant(time, cpu)?;
            }
        }
        self.threads.set_run(incoming, Run::Running);
        match state.fxt {
            ThreadState::Running => self.threads.set_run(outgoing, Run::Runnable),
            ThreadState::Dying | ThreadState::Dead => {
                self.end_thread_spans(time, outgoing)?;
                self.depart(time, outgoing);
                self.threads.end(outgoing);
            }
            _ => self.threads.set_run(outgoing, Run::Blocked),
        }
        Ok(())
    }

    /// The earlier owner of an id, if it still has the CPU. The kernel may reuse the id of an ending thread before that thread is switched
    /// out for the last time.
    #[inline]
    fn former_owner(&mut self, cpu: Cpu, tid: Tid, slot: Slot) -> Option<Occupant> {
        let koid = self.threads.thread(slot).koid;
        let chain = self.chains.of(cpu);
        let is_former = |now: &Occupant| now.koid != koid && id_of(now.koid) == u64::from(tid.0);
        chain.current().filter(is_former).filter(|_| !chain.has_gap())
    }

    /// That thread is switched out under an id that now belongs to another thread; the other thread is not affected.
    #[cold]
    fn former_owner_leaves(
        &mut self,
        time: Nanos,
        cpu: Cpu,
        former: Occupant,
        switch: &Switch,
    ) -> Result<(), Closed> {
        let incoming = self.threads.get(switch.next, known_comm(&switch.next_comm));
        let state = outgoing_state(switch.state);
        let out = Side { koid: former.koid, weight: weight(switch.prev, switch.prev_prio) };
        let inn = self.side(incoming, switch.next_prio);
        let (slice, taken) = self.chains.of(cpu).end_slice(time, former.koid);
        // Its process is no longer known.
        let slice = slice.map(|facts| SliceFacts { futex: None, ..facts });
        let syscall = switch.syscall.filter(|_| state.fxt == ThreadState::Blocked);
        let words = Words { syscall, ..Words::reported(state, slice, taken) };
        // The thread is no longer known; its name was written when it was switched in.
        if self.write_switch(time, cpu, (IDLE, out), (incoming, inn), words)? {
            self.stats.switches_written += 1;
        }
        self.watch_found(time, cpu, None, incoming);
        self.chains.of(cpu).enter(Occupant { slot: incoming, koid: inn.koid }, time, false);
        self.threads.set_run(incoming, Run::Running);
        Ok(())
    }

    fn side(&mut self, slot: Slot, prio: i32) -> Side {
        let thread = self.threads.thread_mut(slot);
        thread.weight = weight(thread.tid, prio);
        Side { koid: thread.koid, weight: thread.weight }
    }

    /// Writes the sides of a switch that are in scope; returns false if both are out of scope.
    fn write_switch(
        &mut self,
        time: Nanos,
        cpu: Cpu,
        (outgoing, out): (Slot, Side),
        (incoming, inn): (Slot, Side),
        words: Words,
    ) -> Result<bool, Closed> {
        let chain = self.chains.of(cpu);
        let whole = View { outgoing: true, incoming: true };
        let view = match self.narrow {
            false => Some(whole),
            true => view(
                self.threads.thread(outgoing).in_scope,
                self.threads.thread(incoming).in_scope,
                chain.shown == Some(out.koid),
            ),
        };
        let Some(view) = view else { return Ok(false) };
        let (out, words) = match view.outgoing {
            true => (out, words),
            // Nothing is known about its slice.
            false => {
                let state = unseen_state(not_recorded(cpu).koid);
                (
                    not_recorded(cpu),
                    Words { state, syscall: None, slice: None, taken: None, ..words },
                )
            }
        };
        let (inn, words) = match view.incoming {
            true => (inn, words),
            false => (not_recorded(cpu), Words { wait: None, ..words }),
        };
        let shown = chain.shown.replace(inn.koid).filter(|shown| *shown != out.koid);
        if view != whole && !std::mem::replace(&mut chain.unrecorded, true) {
            unrecorded::objects(&mut self.lanes, cpu)?;
        }
        if view.outgoing {
            self.name(outgoing)?;
        }
        if view.incoming {
            self.name(incoming)?;
        }
        if let Some(koid) = shown {
            // The thread came into scope while it had the CPU.
            let weight = match koid {
                Koid(0) => weight::IDLE,
                koid if koid == not_recorded(cpu).koid => not_recorded(cpu).weight,
                _ => weight::NICE_0,
            };
            self.stats.inferred_switches += 1;
            let words = Words::inferred(unseen_state(koid));
            self.put_switch(time, cpu, Side { koid, weight }, out, words)?;
        }
        self.put_switch(time, cpu, out, inn, words)?;
        Ok(true)
    }

    /// The arguments that do not depend on the slice or the wait; returns their number.
    #[inline]
    fn common_args(&self, args: &mut [Arg<'_>], out: Side, inn: Side, words: Words) -> usize {
        let mut count = 0;
        let mut add = |name, value| {
            args[count] = Arg::new(name, value);
            count += 1;
        };
        for (name, side) in [(strings::INCOMING_WEIGHT, inn), (strings::OUTGOING_WEIGHT, out)] {
            if self.tells_weight(side.weight) {
                add(name, Value::Int32(side.weight));
            }
        }
        if let Some(detail) = words.state.detail {
            add(strings::PREV_STATE, Value::Str(detail_text(detail)));
        }
        if let Some(number) = words.syscall {
            add(strings::SYSCALL, Value::Uint32(number.into()));
        }
        if words.inferred {
            add(strings::INFERRED, Value::Bool(true));
        }
        count
    }

    fn put_switch(
        &mut self,
        time: Nanos,
        cpu: Cpu,
        out: Side,
        inn: Side,
        words: Words,
    ) -> Result<(), Closed> {
        if words.slice.is_some() || words.taken.is_some() || words.wait.is_some() {
            return self.put_reported_switch(time, cpu, out, inn, words);
        }
        let none = Arg::new(Text::EMPTY, Value::Null);
        let mut args = [none; 5];
        let count = self.common_args(&mut args, out, inn, words);
        self.lanes.rolling(&ContextSwitch {
            cpu: cpu_number(cpu),
            time: ticks(time),
            outgoing: out.koid,
            incoming: inn.koid,
            outgoing_state: words.state.fxt,
            args: &args[..count],
        })?;
        Ok(())
    }

    /// Writes a switch with facts about the slice or the wait.
    #[cold]
    fn put_reported_switch(
        &mut self,
        time: Nanos,
        cpu: Cpu,
        out: Side,
        inn: Side,
        words: Words,
    ) -> Result<(), Closed> {
        let none = Arg::new(Text::EMPTY, Value::Null);
        let mut args = [none; 15];
        let facts = words.slice.unwrap_or_default();
        let name = facts.kernel_lock.and_then(|lock| self.kernel.variable(lock.address));
        let lock = self.lock_args(facts, words, name.as_deref());
        let mut count = self.common_args(&mut args, out, inn, words);
        let mut add = |arg| {
            args[count] = arg;
            count += 1;
        };
        lock.into_iter().flatten().for_each(&mut add);
        if facts.steal > Nanos(0) {
            add(Arg::new(strings::STEAL_NS, Value::uint(facts.steal.0)));
        }
        let taken = words.taken.unwrap_or_default();
        if taken.irqs > 0 {
            add(Arg::new(strings::IRQ_NS, Value::uint(taken.irq.0)));
            add(Arg::new(strings::IRQS, Value::Uint32(taken.irqs)));
        }
        if let Some(asked) = taken.asked {
            add(Arg::new(strings::NEED_RESCHED_NS, Value::uint(asked.0)));
        }
        if facts.throttled.is_some_and(|throttle| throttle.now) {
            add(Arg::new(strings::THROTTLED, Value::Bool(true)));
        }
        if let Some(wait) = words.wait {
            add(Arg::new(strings::THROTTLED_NS, Value::uint(wait.throttled.0)));
            if let Some(path) = throttles::path(&mut self.cgroups, &self.threads, wait.by) {
                add(Arg::new(strings::THROTTLED_BY, Value::Str(Text::Inline(path))));
            }
        }
        self.lanes.rolling(&ContextSwitch {
            cpu: cpu_number(cpu),
            time: ticks(time),
            outgoing: out.koid,
            incoming: inn.koid,
            outgoing_state: words.state.fxt,
            args: &args[..count],
        })?;
        Ok(())
    }

    /// Writes one of fxtrec's own events.
    ///
    /// # Errors
    /// Returns [`Closed`] when the trace accepts no more records.
    pub fn instant(&mut self, time: Nanos, name: Text<'_>, args: &[Arg<'_>]) -> Result<(), Closed> {
        self.lanes.rolling(&own_event(time, self.recorder, name, args))?;
        Ok(())
    }
}

/// One of fxtrec's own events.
pub fn own_event<'a>(
    time: Nanos,
    recorder: ThreadName,
    name: Text<'a>,
    args: &'a [Arg<'a>],
) -> EventRecord<'a> {
    EventRecord {
        kind: EventKind::Instant,
        time: ticks(time),
        thread: recorder,
        category: strings::FXTREC,
        name,
        args,
    }
}
