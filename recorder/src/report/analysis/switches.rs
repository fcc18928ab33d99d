//! Switches and wake-ups: where samples come from.

use fxt_reader::{Cpu, Koid, Nanos, ThreadState};

use super::cpu::{CpuState, IDLE_SLOT, Occupant};
use super::history::Tenant;
use super::thread::{Cause, Live, State, blocked};
use super::{Analysis, Names, Observer, Side, SwitchedOut};
use crate::report::metric::Metric;

/// The argument of a switch that says a thread waits uninterruptibly.
const UNINTERRUPTIBLE: &str = "D";

/// Takes a sample of a thread on a CPU; it is censored unless `whole`.
#[inline]
fn sample(live: &mut Live, cpu: &mut CpuState, metric: Metric, nanos: u64, now: u64, whole: bool) {
    if !cpu.counted {
        return;
    }
    let tallies = [&mut live.tallies[metric.index()], &mut cpu.tallies[metric.index()]];
    for tally in tallies {
        if whole { tally.record(nanos, Nanos(now)) } else { tally.censor() }
    }
}

impl<O: Observer> Analysis<O> {
    /// A CPU goes from one thread to another, at the present time.
    #[inline]
    pub(super) fn switch(
        &mut self,
        cpu: Cpu,
        out: Side,
        inn: Side,
        state: (ThreadState, Option<&str>),
        inferred: bool,
    ) {
        let now = self.now;
        let slot = self.occupy(cpu.0, out, inferred);
        let on = self.cpus.get(cpu.0);
        if on.counted {
            on.switches += u64::from(!inferred);
            on.inferred += u64::from(inferred);
        }
        // Without an occupant it is not known who had the CPU until now.
        let ran = if on.occupant.is_some() { now.saturating_sub(on.since) } else { 0 };
        if slot == IDLE_SLOT {
            on.idle += if on.counted { ran } else { 0 };
        } else {
            on.busy += if on.counted { ran } else { 0 };
            self.switch_out(cpu, slot, ran, state, inferred);
        }
        let slot = if inn.idle { IDLE_SLOT } else { self.switch_in(cpu, inn.koid, inferred) };
        let on = self.cpus.get(cpu.0);
        on.occupant = Some(Occupant { koid: inn.koid, slot });
        on.since = now;
        on.sound = !inferred;
        on.cut = None;
        on.history.push(now, if inn.idle { Tenant::Idle } else { Tenant::Thread(inn.koid) });
        self.cpus.weigh(cpu.0, now);
    }

    /// The slot of the thread that goes out, which is made to be the one that has the CPU.
    #[inline]
    fn occupy(&mut self, cpu: u16, out: Side, inferred: bool) -> u32 {
        if let Some(Occupant { koid, slot }) = self.cpus.get(cpu).occupant
            && koid == out.koid
            && (slot == IDLE_SLOT || self.roster.live(slot).koid == koid)
        {
            return slot;
        }
        self.occupy_unexpectedly(cpu, out, inferred)
    }

    #[cold]
    fn occupy_unexpectedly(&mut self, cpu: u16, out: Side, inferred: bool) -> u32 {
        let now = self.now;
        let slot = match out.idle {
            true => IDLE_SLOT,
            false => self.roster.slot(out.koid, &self.selection.threads),
        };
        let on = self.cpus.get(cpu);
        let before = on.occupant;
        on.sound = false;
        on.occupant = None;
        if let Some(before) = before {
            // A switch is missing, and nothing in the trace says so: who had the CPU since the last one is not known.
            on.history.correct(Tenant::Unknown);
            on.since = now;
            self.vanish(cpu, before);
        } else if !inferred {
            // It had the CPU since the trace began, or the gap ended.
            let tenant = if out.idle { Tenant::Idle } else { Tenant::Thread(out.koid) };
            on.history.correct(tenant);
            on.occupant = Some(Occupant { koid: out.koid, slot });
        }
        slot
    }

    /// A thread is no longer on the CPU, and nobody knows since when.
    pub(super) fn vanish(&mut self, cpu: u16, occupant: Occupant) {
        if occupant.slot == IDLE_SLOT {
            return;
        }
        let (now, epoch) = (self.now, self.epoch);
        let live = self.roster.live(occupant.slot);
        if live.koid == occupant.koid && live.state == State::Running && live.cpu == cpu {
            let on = self.cpus.get(cpu);
            sample(live, on, Metric::Slice, 0, now, false);
            on.cut = Some(occupant.koid);
            live.last_cpu = Some(cpu);
            live.enter(State::Unknown, cpu, now, epoch);
        }
    }

    #[inline]
    fn switch_out(
        &mut self,
        cpu: Cpu,
        slot: u32,
        ran: u64,
        (state, detail): (ThreadState, Option<&str>),
        inferred: bool,
    ) {
        let (now, epoch) = (self.now, self.epoch);
        let live = self.roster.live(slot);
        if let State::Waiting(_) = live.state {
            // It was thought to wait while it had the CPU: what woke it, woke it in vain.
            if live.epoch == epoch {
                let queued_on = live.cpu;
                self.cpus.dequeue(queued_on, now);
                self.cpus.weigh(queued_on, now);
            }
            self.ignored_wakeups += 1;
        }
        let on = self.cpus.get(cpu.0);
        let whole = on.sound && !inferred;
        if whole || on.cut != Some(live.koid) {
            sample(live, on, Metric::Slice, ran, now, whole);
        }
        live.last_cpu = Some(cpu.0);
        if on.counted {
            live.cpu_time += ran;
            live.inferred += u64::from(inferred);
            if !inferred {
                let can_run = state == ThreadState::Running;
                live.involuntary += u64::from(can_run);
                live.voluntary += u64::from(!can_run);
            }
        }
        if !inferred {
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
            if on.counted {
                self.observer.switched_out(&shown, Names(&self.roster));
            }
        }
        let next = match state {
            ThreadState::Dying | ThreadState::Dead => return self.roster.end(slot),
            // Where it is since then, the trace does not say.
            _ if inferred => State::Unknown,
            ThreadState::Running => State::Waiting(Cause::Preempted),
            ThreadState::Blocked => {
                State::Blocked { uninterruptible: detail == Some(UNINTERRUPTIBLE) }
            }
            ThreadState::Suspended => State::Stopped,
            _ => State::Unknown,
        };
        let live = self.roster.live(slot);
        (live.blocked, live.waited) = (None, None);
        live.enter(next, cpu.0, now, epoch);
        if next == State::Waiting(Cause::Preempted) {
            live.waker = 0;
            self.cpus.enqueue(cpu.0, now);
        }
    }

    /// The slot of the thread that comes in.
    #[inline]
    fn switch_in(&mut self, cpu: Cpu, koid: u64, inferred: bool) -> u32 {
        let (now, epoch) = (self.now, self.epoch);
        let slot = self.roster.slot(koid, &self.selection.threads);
        let unseen = self.narrow && !self.roster.is_in_scope(koid);
        let live = self.roster.live(slot);
        let length = now.saturating_sub(live.since);
        let sound = live.epoch == epoch;
        match live.state {
            State::Waiting(cause) => {
                let queued_on = live.cpu;
                if sound {
                    self.cpus.dequeue(queued_on, now);
                    if queued_on != cpu.0 {
                        self.cpus.weigh(queued_on, now);
                    }
                }
                // An outsider may have run meanwhile without a record of it.
                let whole = sound && !inferred && !(unseen && cause == Cause::Preempted);
                let on = self.cpus.get(cpu.0);
                sample(live, on, cause.metric(), length, now, whole);
                live.waited = whole.then_some((cause, length));
                if whole && on.counted && (length > live.longest || self.worst.wants(live, length))
                {
                    self.note_wait(slot, cause, cpu);
                }
            }
            State::Blocked { uninterruptible } => {
                // Its wake-up is missing.
                let on = self.cpus.get(live.last_cpu.unwrap_or(cpu.0));
                sample(live, on, blocked(uninterruptible), 0, now, false);
                sample(live, self.cpus.get(cpu.0), Metric::Wakeup, 0, now, false);
            }
            State::Stopped => sample(live, self.cpus.get(cpu.0), Metric::Wakeup, 0, now, false),
            State::Unknown | State::Running => {
                sample(live, self.cpus.get(cpu.0), Metric::RunQueue, 0, now, false);
            }
        }
        let live = self.roster.live(slot);
        let counted = self.cpus.get(cpu.0).counted;
        if counted {
            live.inferred += u64::from(inferred);
            live.migrations += u64::from(live.last_cpu.is_some_and(|last| last != cpu.0));
        }
        live.enter(State::Running, cpu.0, now, epoch);
        slot
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
                sample(live, on, blocked(uninterruptible), length, now, sound);
                live.blocked = sound.then_some(length);
            }
            State::Waiting(_) | State::Running if sound => {
                self.ignored_wakeups += 1;
                return;
            }
            State::Waiting(cause) => {
                // What it waited for since before the gap is over.
                sample(live, self.cpus.get(cpu.0), cause.metric(), 0, now, false);
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
        self.cpus.weigh(cpu.0, now);
    }
}
