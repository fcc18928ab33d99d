//! Switches and wake-ups: where samples come from.

use fxt_reader::{Cpu, Koid, Nanos, ThreadState};

use super::cpu::{CpuState, IDLE_SLOT, Occupant, UNRECORDED_SLOT};
use super::history::Tenant;
use super::records::Side;
use super::thread::{Cause, Live, State, blocked};
use super::{Analysis, Names, Observer, SwitchedOut};
use crate::model::Span;
use fxtrec_gates::Metric;

/// The argument of a switch that says a thread waits uninterruptibly.
const UNINTERRUPTIBLE: &str = "D";

/// Takes a sample of a thread on a CPU.
#[inline(always)]
fn sample(live: &mut Live, cpu: &mut CpuState, metric: Metric, nanos: u64, now: u64) {
    if cpu.counted {
        live.tallies[metric.index()].record(nanos, Nanos(now));
        cpu.tallies[metric.index()].record(nanos, Nanos(now));
    }
}

/// Takes note of a sample of a thread on a CPU whose length is not known.
#[cold]
fn censor(live: &mut Live, cpu: &mut CpuState, metric: Metric) {
    if cpu.counted {
        live.tallies[metric.index()].censor();
        cpu.tallies[metric.index()].censor();
    }
}

impl<O: Observer> Analysis<O> {
    /// A CPU goes from one thread to another, at the present time. Inlined where nothing is inferred and the state is
    /// known without details, which spares it much.
    #[inline(always)]
    pub(super) fn switch(
        &mut self,
        cpu: Cpu,
        out: Side,
        inn: Side,
        state: (ThreadState, Option<&str>),
        inferred: bool,
    ) {
        let slot = self.occupy(cpu.0, out, inferred);
        match slot {
            IDLE_SLOT => {
                let on = self.cpus.get(cpu.0);
                on.idle += if on.counted { on.ran(self.now) } else { 0 };
            }
            UNRECORDED_SLOT => {}
            _ => self.switch_out(cpu, slot, state, inferred),
        }
        let slot = match inn.no_thread() {
            Some(slot) => slot,
            None => self.switch_in(cpu, inn.koid, inferred),
        };
        if self.cpus.change(cpu.0, self.now, Occupant { koid: inn.koid, slot }, inferred) {
            self.tidy_history(cpu.0);
        }
    }

    /// The slot of the thread that goes out, which is made to be the one that has the CPU.
    #[inline(always)]
    fn occupy(&mut self, cpu: u16, out: Side, inferred: bool) -> u32 {
        if let Some(Occupant { koid, slot }) = self.cpus.get(cpu).occupant
            && koid == out.koid
            && (slot >= UNRECORDED_SLOT || self.roster.live(slot).koid == koid)
        {
            return slot;
        }
        self.occupy_unexpectedly(cpu, out, inferred)
    }

    #[cold]
    fn occupy_unexpectedly(&mut self, cpu: u16, out: Side, inferred: bool) -> u32 {
        let now = self.now;
        let slot = match out.no_thread() {
            Some(slot) => slot,
            None => self.roster.slot(out.koid, &self.selection.threads),
        };
        let on = self.cpus.get(cpu);
        let before = on.occupant;
        on.sound = false;
        on.occupant = None;
        if std::mem::take(&mut on.away) {
            // Nobody had a CPU that was offline.
            on.since = now;
        }
        if let Some(before) = before {
            // A switch is missing, and nothing in the trace says so: who had the CPU since the last one is not known.
            on.history.correct(Tenant::Unknown);
            on.since = now;
            self.vanish(cpu, before);
        } else if !inferred {
            // It had the CPU since the trace began, or the gap ended.
            let tenant = match slot {
                IDLE_SLOT => Tenant::Idle,
                UNRECORDED_SLOT => Tenant::Unknown,
                _ => Tenant::Thread(out.koid),
            };
            if on.since < now {
                on.history.correct(tenant);
            }
            on.occupant = Some(Occupant { koid: out.koid, slot });
        }
        slot
    }

    /// A thread is no longer on the CPU, and nobody knows since when.
    pub(super) fn vanish(&mut self, cpu: u16, occupant: Occupant) {
        if occupant.slot >= UNRECORDED_SLOT {
            return;
        }
        let (now, epoch) = (self.now, self.epoch);
        let live = self.roster.live(occupant.slot);
        if live.koid == occupant.koid && live.state == State::Running && live.cpu == cpu {
            let on = self.cpus.get(cpu);
            censor(live, on, Metric::Slice);
            on.cut = Some(occupant.koid);
            live.last_cpu = Some(cpu);
            live.enter(State::Unknown, cpu, now, epoch);
        }
    }

    #[inline(always)]
    fn switch_out(
        &mut self,
        cpu: Cpu,
        slot: u32,
        (state, detail): (ThreadState, Option<&str>),
        inferred: bool,
    ) {
        let (now, epoch) = (self.now, self.epoch);
        let live = self.roster.live(slot);
        if let State::Waiting(_) = live.state {
            // It was thought to wait while it had the CPU: what woke it, woke it in vain.
            if live.epoch == epoch {
                self.cpus.dequeue(live.cpu, now);
            }
            self.ignored_wakeups += 1;
        }
        let on = self.cpus.get(cpu.0);
        let (ran, whole) = (on.ran(now), on.sound && !inferred);
        if whole {
            sample(live, on, Metric::Slice, ran, now);
        } else if on.cut != Some(live.koid) {
            censor(live, on, Metric::Slice);
        }
        let can_run = state == ThreadState::Running;
        if on.counted {
            on.busy += ran;
            live.cpu_time += ran;
            live.inferred += u64::from(inferred);
            live.involuntary += u64::from(can_run && !inferred);
            live.voluntary += u64::from(!can_run && !inferred);
        }
        let waited = |cause| live.waited.filter(|w| w.0 == cause).map(|w| w.1);
        let shown = SwitchedOut {
            time: Nanos(now),
            cpu,
            koid: Koid(live.koid),
            blocked: live.blocked,
            latency: waited(Cause::Woken),
            preempted: waited(Cause::Preempted),
            ran: whole.then_some(ran),
            state,
            detail,
        };
        let uninterruptible = detail == Some(UNINTERRUPTIBLE);
        let next = match state {
            // Where it is after a switch that was inferred, the trace does not say.
            _ if inferred => State::Unknown,
            ThreadState::Running => State::Waiting(Cause::Preempted),
            ThreadState::Blocked => State::Blocked { uninterruptible },
            ThreadState::Suspended => State::Stopped,
            _ => State::Unknown,
        };
        let preempted = can_run && !inferred;
        on.queue.lengthen(preempted, now);
        live.waker = if preempted { 0 } else { live.waker };
        live.last_cpu = Some(cpu.0);
        (live.blocked, live.waited) = (None, None);
        live.enter(next, cpu.0, now, epoch);
        if on.counted && !inferred {
            self.observer.switched_out(&shown, Names(&self.roster));
        }
        if matches!(state, ThreadState::Dying | ThreadState::Dead) {
            self.roster.end(slot);
        }
    }

    /// The slot of the thread that comes in.
    #[inline(always)]
    fn switch_in(&mut self, cpu: Cpu, koid: u64, inferred: bool) -> u32 {
        let (now, epoch) = (self.now, self.epoch);
        let slot = self.roster.slot(koid, &self.selection.threads);
        // An outsider may run without a record of it: that it was preempted long ago says nothing then.
        let unseen = self.narrow && !self.roster.is_in_scope(koid);
        let live = self.roster.live(slot);
        let State::Waiting(cause) = live.state else {
            self.come_in_unexpectedly(slot, cpu, inferred);
            return slot;
        };
        let (begin, queued_on) = (live.since, live.cpu);
        let length = now.saturating_sub(begin);
        // Who waited since before a gap is in no queue any more.
        let sound = live.epoch == epoch;
        if sound && queued_on != cpu.0 {
            self.cpus.dequeue(queued_on, now);
        }
        let on = self.cpus.get(cpu.0);
        if sound && queued_on == cpu.0 {
            on.queue.shorten(now);
        }
        let whole = sound && !inferred && !(unseen && cause == Cause::Preempted);
        if whole {
            sample(live, on, cause.metric(), length, now);
        } else {
            censor(live, on, cause.metric());
        }
        live.waited = whole.then_some((cause, length));
        let is_long = length > live.longest || self.worst.wants(live, length);
        let noted = whole && on.counted && is_long;
        live.come_in(cpu.0, now, epoch, (on.counted, inferred));
        if noted {
            self.note_wait(
                slot,
                cause,
                Span { begin: Nanos(begin), end: Nanos(now) },
                (Cpu(queued_on), cpu),
            );
        }
        slot
    }

    /// A thread comes in of which it was not known that it waits.
    #[cold]
    fn come_in_unexpectedly(&mut self, slot: u32, cpu: Cpu, inferred: bool) {
        let live = self.roster.live(slot);
        match live.state {
            State::Blocked { uninterruptible } => {
                // Its wake-up is missing.
                let on = self.cpus.get(live.last_cpu.unwrap_or(cpu.0));
                censor(live, on, blocked(uninterruptible));
                censor(live, self.cpus.get(cpu.0), Metric::Wakeup);
            }
            State::Stopped => censor(live, self.cpus.get(cpu.0), Metric::Wakeup),
            State::Unknown | State::Running | State::Waiting(_) => {
                censor(live, self.cpus.get(cpu.0), Metric::RunQueue);
            }
        }
        let counted = self.cpus.get(cpu.0).counted;
        live.come_in(cpu.0, self.now, self.epoch, (counted, inferred));
    }

    /// A thread becomes able to run, at the present time.
    #[inline(always)]
    pub(super) fn wake(&mut self, cpu: Cpu, koid: u64, waker: u64) {
        let (now, epoch) = (self.now, self.epoch);
        let slot = self.roster.slot(koid, &self.selection.threads);
        if self.narrow {
            self.roster.was_woken(koid);
        }
        let live = self.roster.live(slot);
        let sound = live.epoch == epoch;
        match live.state {
            State::Blocked { uninterruptible } => {
                let length = now.saturating_sub(live.since);
                let on = self.cpus.get(live.last_cpu.unwrap_or(cpu.0));
                live.blocked = sound.then_some(length);
                if sound {
                    sample(live, on, blocked(uninterruptible), length, now);
                } else {
                    censor(live, on, blocked(uninterruptible));
                }
            }
            State::Waiting(_) | State::Running if sound => {
                self.ignored_wakeups += 1;
                return;
            }
            State::Waiting(cause) => {
                // What it waited for since before the gap is over.
                censor(live, self.cpus.get(cpu.0), cause.metric());
            }
            State::Running => {
                let has_it = |on: &CpuState| on.occupant.is_some_and(|o| o.koid == koid);
                if has_it(self.cpus.get(live.cpu)) {
                    self.ignored_wakeups += 1;
                    return;
                }
            }
            State::Stopped | State::Unknown => {}
        }
        live.waker = waker;
        live.enter(State::Waiting(Cause::Woken), cpu.0, now, epoch);
        self.cpus.enqueue(cpu.0, now);
    }
}
