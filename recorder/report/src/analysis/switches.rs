//! Switches and wakeups, which produce the samples.

use fxt_reader::{Cpu, Koid, Nanos, ThreadState};
use fxtrec_sched::{
    Change, CpuInterval, Edge, Enter, Leave, Left, Met, State, SwitchArgs, Threads,
};

use super::causes::{note_call, note_held, note_slice};
use super::cpu::{CpuState, Occupant, on_cpu};
use super::history::OnCpu;
use super::records::Side;
use super::sleeps::Slept;
use super::thread::{BY_INTERRUPT, Live, metric};
use super::thread_figures::Key;
use super::{Analysis, Names, Observer, Ran, Switched, SwitchedOut};
use crate::calls;
use crate::model::Span;
use fxtrec_gates::Metric;

/// Counts a sample of a thread on a CPU.
#[inline(always)]
fn sample(live: &mut Live, cpu: &mut CpuState, metric: Metric, nanos: u64, now: u64) {
    if cpu.counted {
        live.tallies[metric.index()].record(nanos, Nanos(now));
        cpu.tallies[metric.index()].record(nanos, Nanos(now));
    }
}

/// Counts a sample of unknown length of a thread on a CPU.
#[cold]
fn censor(live: &mut Live, cpu: &mut CpuState, metric: Metric) {
    if cpu.counted {
        live.tallies[metric.index()].censor();
        cpu.tallies[metric.index()].censor();
    }
}

#[inline(always)]
fn inferred(said: Option<&SwitchArgs<'_>>) -> bool {
    said.is_some_and(|said| said.inferred)
}

#[inline(always)]
fn detail<'a>(said: Option<&SwitchArgs<'a>>) -> Option<&'a str> {
    said.and_then(|said| said.detail)
}

/// The state of a thread after it was switched out.
#[inline(always)]
fn next(state: ThreadState, said: Option<&SwitchArgs<'_>>) -> State {
    match state {
        ThreadState::Dying | ThreadState::Dead => State::after(state, None),
        // After an inferred switch, the trace does not know the thread's state.
        _ if inferred(said) => State::Unknown,
        ThreadState::Running if said.is_some_and(|said| said.throttled) => State::Throttled,
        // A thread cannot leave a CPU before it was switched in there.
        ThreadState::New => State::Unknown,
        _ => State::after(state, detail(said)),
    }
}

/// The occupant, with the koid as its public key.
#[inline(always)]
pub(super) fn shown(occupant: Occupant) -> fxtrec_sched::Occupant<Koid> {
    match occupant {
        Occupant::Idle => fxtrec_sched::Occupant::Idle,
        Occupant::NotRecorded => fxtrec_sched::Occupant::NotRecorded,
        Occupant::Thread(key) => fxtrec_sched::Occupant::Thread(Koid(key.koid)),
    }
}

/// The same for a change.
#[inline(always)]
pub(super) fn shown_change(change: &Change<Key>) -> Change<Koid> {
    let Change { thread, before, sound, time, end, after } = *change;
    Change { thread: Koid(thread.koid), before, sound, time, end, after }
}

impl<O: Observer> Analysis<O> {
    /// A CPU switches from one thread to another at the current time. The code is inlined for switches that are not inferred and whose
    /// state needs no details; most of the work is not needed for these.
    #[inline(always)]
    pub(super) fn switch(
        &mut self,
        cpu: Cpu,
        out: Side,
        inn: Side,
        state: ThreadState,
        said: Option<&SwitchArgs<'_>>,
    ) {
        let time = Nanos(self.now);
        let inferred = inferred(said);
        let (outgoing, is_other) = self.outgoing(cpu, out);
        let next = next(state, said);
        let leave = Leave { time, cpu, outgoing, next, inferred };
        let mut left = self.cpus.machine.leave(&mut self.thread_figures, leave);
        if is_other {
            left.met = Met::Displaced;
        }
        let ran = match left.met {
            Met::Expected => time.0.saturating_sub(left.tenure.since.0),
            _ => self.met_unexpectedly(&left, outgoing, inferred),
        };
        match outgoing {
            Occupant::Idle => {
                let on = self.cpus.get(cpu.0);
                on.idle += if on.counted { ran } else { 0 };
            }
            Occupant::NotRecorded => {}
            Occupant::Thread(key) => {
                self.switched_out(key.slot, &left, ran, state, said);
            }
        }
        self.observer.ran(&Ran {
            span: Span { begin: Nanos(time.0.saturating_sub(ran)), end: time },
            cpu,
            who: shown(outgoing),
            is_whole: left.slice().is_some(),
            next: left.outgoing.map(|change| change.after),
            said,
        });
        for change in [&left.displaced, &left.outgoing].into_iter().flatten() {
            self.observer.changed(&shown_change(change), said);
        }
        let incoming = match inn.no_thread() {
            Some(occupant) => occupant,
            None => Occupant::Thread(self.thread_figures.key(inn.koid, &self.selection.threads)),
        };
        let enter = Enter { time, cpu, incoming, inferred };
        let change = self.cpus.machine.enter(&mut self.thread_figures, enter);
        if let Some(change) = change {
            self.switched_in(cpu, &change, said);
            self.observer.changed(&shown_change(&change), said);
        }
        if self.cpus.switched(cpu.0, time.0, (incoming, inn.koid), inferred) {
            self.tidy_history(cpu.0);
        }
        self.observer.switched(&Switched {
            time,
            cpu,
            met: left.met,
            displaced: left.displaced.map(|change| Koid(change.thread.koid)),
            outgoing: shown(outgoing),
            before: left.outgoing.map(|change| change.before),
            next,
            incoming: shown(incoming),
            waited: change.map(|change| change.before),
            said,
            periods: &self.periods,
        });
    }

    /// The outgoing thread, and whether it differs from the CPU's occupant. Threads are compared by koid: the key of a thread that is added
    /// here may be that of a thread that has ended. Idle tasks are recognised by koid as well, even if the weight that marks them is
    /// missing.
    #[inline(always)]
    fn outgoing(&mut self, cpu: Cpu, out: Side) -> (Occupant, bool) {
        let occupant = self.cpus.machine.cpu_state(cpu).occupant;
        let same = match occupant {
            Some(Occupant::Thread(key)) => key.koid == out.koid && self.thread_figures.is_kept(key),
            Some(_) => self.cpus.get(cpu.0).koid == out.koid,
            None => false,
        };
        match (occupant, out.no_thread()) {
            (Some(occupant), _) if same => (occupant, false),
            (_, Some(no_thread)) => (no_thread, occupant.is_some()),
            (_, None) => {
                let key = self.thread_figures.key(out.koid, &self.selection.threads);
                (Occupant::Thread(key), occupant.is_some())
            }
        }
    }

    /// The outgoing thread is not the known occupant. Returns how long the thread had the CPU, if that is known.
    #[cold]
    fn met_unexpectedly(&mut self, left: &Left<Key>, outgoing: Occupant, inferred: bool) -> u64 {
        let CpuInterval { cpu, since, until, begin, .. } = left.tenure;
        let on = self.cpus.get(cpu.0);
        if left.met == Met::Displaced {
            // A switch is missing although no loss was recorded: the thread that had the CPU since the last switch is unknown.
            on.history.correct(OnCpu::Unknown);
            if let Some(change) = left.displaced {
                self.vanished(cpu, change.thread);
            }
            return 0;
        }
        // An offline CPU has no occupant.
        if inferred || begin == Edge::Offline {
            return 0;
        }
        // It has had the CPU since the trace began, or since the gap ended.
        if since < until {
            on.history.correct(on_cpu(outgoing));
        }
        until.0.saturating_sub(since.0)
    }

    /// A thread is no longer on the CPU; the time at which it left is unknown.
    pub(super) fn vanished(&mut self, cpu: Cpu, key: Key) {
        let on = self.cpus.get(cpu.0);
        let live = self.thread_figures.live(key.slot);
        censor(live, on, Metric::Slice);
        on.cut = Some(key.koid);
        live.last_cpu = Some(cpu);
    }

    #[inline(always)]
    fn switched_out(
        &mut self,
        slot: u32,
        left: &Left<Key>,
        ran: u64,
        state: ThreadState,
        said: Option<&SwitchArgs<'_>>,
    ) {
        let inferred = inferred(said);
        let (now, cpu) = (self.now, left.tenure.cpu);
        if let Some(change) = left.outgoing.filter(|change| change.before.state.is_waiting()) {
            // It was believed to wait while it had the CPU: its wakeup had no effect.
            if change.sound && !change.before.state.is_throttled() {
                self.cpus.dequeue(change.before.cpu.0, now);
            }
            self.ignored_wakeups += 1;
        }
        let live = self.thread_figures.live(slot);
        let on = self.cpus.get(cpu.0);
        let whole = left.slice().is_some();
        if whole {
            sample(live, on, Metric::Slice, ran, now);
        } else if on.cut != Some(live.koid) {
            censor(live, on, Metric::Slice);
        }
        let can_run = state == ThreadState::Running;
        if on.counted {
            on.busy = on.busy.saturating_add(ran);
            live.cpu_time = live.cpu_time.saturating_add(ran);
            live.inferred += u64::from(inferred);
            live.involuntary += u64::from(can_run && !inferred);
            live.voluntary += u64::from(!can_run && !inferred);
        }
        if let Some(said) = said {
            note_slice(live, on, said, whole, now);
        }
        let held = live.facts.as_mut().map_or(0, |facts| std::mem::take(&mut facts.held));
        let waited = |metric| live.waited.filter(|w| w.0 == metric).map(|w| w.1);
        let shown = SwitchedOut {
            time: Nanos(now),
            cpu,
            koid: Koid(live.koid),
            blocked: live.blocked,
            latency: waited(Metric::Wakeup),
            preempted: waited(Metric::Preemption),
            ran: whole.then_some(ran),
            state,
            detail: detail(said),
            causes: self.causes,
            throttled: held,
            steal: said.map_or(0, |said| said.steal),
            irq: said.map_or(0, |said| said.irq),
        };
        let preempted = can_run && !inferred;
        // A thread that a quota holds back is in no queue.
        let queued = preempted && !said.is_some_and(|said| said.throttled);
        on.queue.lengthen(queued, now);
        live.waker = if preempted { 0 } else { live.waker };
        live.last_cpu = Some(cpu);
        live.call = said
            .filter(|_| state == ThreadState::Blocked)
            .and_then(|said| said.syscall)
            .and_then(calls::number);
        (live.blocked, live.waited) = (None, None);
        if on.counted && !inferred {
            self.observer.switched_out(&shown, Names(&self.thread_figures));
        }
        if matches!(state, ThreadState::Dying | ThreadState::Dead) {
            let koid = self.thread_figures.live(slot).koid;
            if self.family.process == Some(koid) {
                self.command.1 = Some(now);
            }
            self.thread_figures.delays.ended(koid, now.saturating_sub(ran));
            self.thread_figures.end(slot, &self.family);
        }
    }

    #[inline(always)]
    fn switched_in(&mut self, cpu: Cpu, change: &Change<Key>, said: Option<&SwitchArgs<'_>>) {
        let (now, inferred) = (self.now, inferred(said));
        let Key { koid, slot } = change.thread;
        // A thread outside the scope may run without being recorded, so an earlier preemption does not determine the kind of its wait.
        let unseen = self.narrow && !self.thread_figures.is_in_scope(koid);
        let before = change.before;
        let waited_for = match before.state {
            State::Woken | State::WokenThrottled => Metric::Wakeup,
            State::Preempted | State::Throttled => Metric::Preemption,
            _ => return self.came_in_unexpectedly(cpu, change, inferred),
        };
        let (begin, queued_on) = (before.since, before.cpu);
        let length = now.saturating_sub(begin.0);
        // While a quota holds a thread back, it does not wait for a CPU.
        let held = said.map_or(0, |said| said.held).min(length);
        let length = length - held;
        // A thread that has waited since before a gap is not in any queue now.
        let sound = change.sound;
        let held_at_begin = before.state.is_throttled();
        if sound && (held > 0 || held_at_begin) {
            self.correct_queue(queued_on, if held_at_begin { (length, 0) } else { (0, held) });
        }
        let queued = sound && !held_at_begin;
        if queued && queued_on != cpu {
            self.cpus.dequeue(queued_on.0, now);
        }
        let live = self.thread_figures.live(slot);
        let on = self.cpus.get(cpu.0);
        if queued && queued_on == cpu {
            on.queue.shorten(now);
        }
        let whole = sound && !inferred && !(unseen && waited_for == Metric::Preemption);
        if whole {
            sample(live, on, waited_for, length, now);
        } else {
            censor(live, on, waited_for);
        }
        if held > 0 {
            note_held(live, on, held, whole, now);
        }
        // A sleep that ended at a time of the thread's own choice is not a part of the delay.
        let blocked = live.blocked.filter(|_| live.waker != 0 && live.waker != BY_INTERRUPT);
        let late = length + held + blocked.unwrap_or(0);
        let is_late = whole && on.counted && late > live.delay_floor;
        live.waited = whole.then_some((waited_for, length));
        let is_long = length > live.longest || self.worst.wants(live, length);
        let noted = whole && on.counted && (is_long || self.observer.wants_waits());
        live.came_in(cpu, (on.counted, inferred));
        if is_late {
            self.note_delay(slot, before, late);
        }
        if noted {
            let span = Span { begin, end: Nanos(now) };
            self.note_wait(slot, waited_for, span, (queued_on, cpu), (said, held_at_begin));
        }
    }

    /// Corrects the queue after a wait that was longer or shorter than assumed.
    #[cold]
    fn correct_queue(&mut self, cpu: Cpu, (more, less): (u64, u64)) {
        self.cpus.get(cpu.0).queue.correct(more, less, self.now);
    }

    /// A thread was switched in that was not known to wait.
    #[cold]
    fn came_in_unexpectedly(&mut self, cpu: Cpu, change: &Change<Key>, inferred: bool) {
        let live = self.thread_figures.live(change.thread.slot);
        let state = change.before.state;
        match metric(state) {
            Some(blocked) => {
                // Its wakeup is missing.
                censor(live, self.cpus.get(live.last_cpu.unwrap_or(cpu).0), blocked);
                censor(live, self.cpus.get(cpu.0), Metric::Wakeup);
            }
            None if state.is_stopped() => censor(live, self.cpus.get(cpu.0), Metric::Wakeup),
            None => censor(live, self.cpus.get(cpu.0), Metric::RunQueue),
        }
        let counted = self.cpus.get(cpu.0).counted;
        live.came_in(cpu, (counted, inferred));
    }

    /// A thread becomes runnable now. Returns its new state, unless it was already runnable.
    #[inline(always)]
    pub(super) fn wake(
        &mut self,
        cpu: Cpu,
        koid: u64,
        (waker, throttled): (u64, bool),
    ) -> Option<State> {
        let now = self.now;
        let made = self.thread_figures.made;
        let key = self.thread_figures.key(koid, &self.selection.threads);
        if self.thread_figures.made != made {
            self.first_woken(koid, waker);
        }
        if self.narrow {
            self.thread_figures.was_woken(koid);
        }
        let state = if throttled { State::WokenThrottled } else { State::Woken };
        let after = (cpu, state);
        let machine = &mut self.cpus.machine;
        let Some(change) = machine.wake_to(&mut self.thread_figures, key, after, Nanos(now)) else {
            self.ignored_wakeups += 1;
            return None;
        };
        self.observer.changed(&shown_change(&change), None);
        let is_gate = self.family.is_command(koid)
            && change.before.state.is_blocked()
            && self.let_run(koid, waker);
        let live = self.thread_figures.live(key.slot);
        let state = change.before.state;
        match metric(state) {
            _ if is_gate => (live.blocked, live.woken_from) = (None, None),
            // The wait that began before the gap has ended.
            Some(metric) if state.is_waiting() => censor(live, self.cpus.get(cpu.0), metric),
            Some(metric) => {
                let length = now.saturating_sub(change.before.since.0);
                let on = self.cpus.get(live.last_cpu.unwrap_or(cpu).0);
                live.blocked = change.sound.then_some(length);
                if change.sound {
                    sample(live, on, metric, length, now);
                    let call = live.call.take();
                    live.woken_from = call;
                    if let Some(number) = call {
                        note_call(live, on, number, length);
                    }
                    if length > live.blocked_floor && on.counted {
                        let begin = change.before.since.0;
                        let slept = Slept { begin, end: now, state, call, waker };
                        self.note_sleep(key.slot, slept);
                    }
                } else {
                    censor(live, on, metric);
                }
            }
            None => {}
        }
        self.thread_figures.live(key.slot).waker = waker;
        if !throttled {
            self.cpus.enqueue(cpu.0, now);
        }
        Some(change.after)
    }

    /// Whether this wakeup is the one with which the recorder lets COMMAND run. COMMAND's process is created before the recorder is ready,
    /// and waits for it; without a recorder, there is no such wait.
    #[cold]
    fn let_run(&mut self, command: u64, waker: u64) -> bool {
        let is_it = waker != BY_INTERRUPT
            && self.family.is_recorder(&self.thread_figures, waker)
            && self.let_run.insert(command);
        if is_it {
            self.command.0.get_or_insert(self.now);
        }
        is_it
    }

    /// A thread without earlier records is woken.
    #[cold]
    fn first_woken(&mut self, koid: u64, waker: u64) {
        let interrupt = waker == BY_INTERRUPT;
        let by = (Some(Koid(waker)).filter(|_| !interrupt), interrupt);
        self.family.first_woken(&self.thread_figures, koid, by);
    }
}
