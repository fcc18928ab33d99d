//! The current state of each thread, and when it began.
//!
//! The durations follow the rules of the report: after a loss nothing is known about waits, and a duration that begins or ends with an
//! inferred switch has no length.
//!
//! ```text
//!   woken          in             out, can run      in           out, waits      woken
//!     |--- wakeup ---|--- slice -----|--- preempt ----|-- slice ----|--- blocked ---|
//!     |--- turn ----------------------------------------------------|
//! ```

use fxt_reader::{Cpu as ReadCpu, Nanos as ReadNanos};
use fxt_writer::Koid;
use fxtrec_gates::Metric;
use fxtrec_sched::{Change, Machine, Occupant as Has, State, Switch, Thread, Threads};
use fxtrec_units::{Cpu, Nanos};

use crate::encode::chain::Occupant;

/// A duration that has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Length {
    /// The metric.
    pub metric: Metric,
    pub nanos: Nanos,
    /// The slice, wait or blocked time that it belongs to; both end at the same time.
    pub within: Nanos,
    /// The CPU that it belongs to.
    pub cpu: Cpu,
}

impl Length {
    fn new(metric: Metric, nanos: Nanos, cpu: Cpu) -> Length {
        Length { metric, nanos, within: nanos, cpu }
    }
}

/// All threads, by slot, each with its id in the trace.
#[derive(Clone, Debug, Default)]
struct Places(Vec<(Koid, Thread)>);

/// The id of slots that have not been used yet.
const NOBODY: Koid = Koid(u64::MAX);

impl Threads for Places {
    type Key = Occupant;

    #[inline]
    fn thread(&mut self, key: Occupant) -> &mut Thread {
        let at = key.slot.index();
        if at >= self.0.len() {
            self.grow(at);
        }
        let (owner, thread) = &mut self.0[at];
        if *owner != key.koid {
            // The slot belonged to another thread, or was unused.
            (*owner, *thread) = (key.koid, Thread::default());
        }
        thread
    }

    fn is_kept(&self, key: Occupant) -> bool {
        self.0.get(key.slot.index()).is_some_and(|(owner, _)| *owner == key.koid)
    }
}

impl Places {
    /// Slots are assigned one after the other, so this grows with the table of threads.
    #[cold]
    fn grow(&mut self, at: usize) {
        self.0.resize(at + 1, (NOBODY, Thread::default()));
    }
}

/// The current states of all threads.
#[derive(Clone, Debug, Default)]
pub struct Ledger {
    machine: Machine<Occupant>,
    threads: Places,
    /// When each thread's current turn began, by slot, if turns are tracked.
    turns: Option<Vec<(Koid, Nanos)>>,
}

impl Ledger {
    /// A ledger that also tracks turns.
    pub fn with_turns() -> Ledger {
        Ledger { turns: Some(Vec::new()), ..Ledger::default() }
    }

    /// The length of the turn that ends when a thread is switched out, if its beginning was recorded and the thread goes to sleep.
    #[inline]
    pub fn end_turn(&mut self, outgoing: Has<Occupant>, next: State, time: Nanos) -> Option<Nanos> {
        let turns = self.turns.as_mut().filter(|_| !next.is_waiting())?;
        let thread = outgoing.thread()?;
        let turn = turns.get_mut(thread.slot.index()).filter(|turn| turn.0 == thread.koid)?;
        let since = std::mem::replace(turn, (NOBODY, time)).1;
        next.is_blocked().then(|| Nanos(time.0.saturating_sub(since.0)))
    }

    fn begin_turn(&mut self, thread: Occupant, time: Nanos) {
        let Some(turns) = &mut self.turns else { return };
        let at = thread.slot.index();
        if at >= turns.len() {
            turns.resize(at + 1, (NOBODY, time));
        }
        turns[at] = (thread.koid, time);
    }

    /// A CPU switches from one thread to another. Returns the slice and the wait that end, if their beginnings were recorded.
    #[inline]
    pub fn switch(
        &mut self,
        (time, cpu): (Nanos, Cpu),
        (outgoing, next): (Has<Occupant>, State),
        incoming: Has<Occupant>,
    ) -> [Option<Length>; 2] {
        let at = (read_time(time), read_cpu(cpu));
        let switch = Switch { time: at.0, cpu: at.1, outgoing, next, incoming, inferred: false };
        let switched = self.machine.switch(&mut self.threads, switch);
        let slice = switched.slice().filter(|_| outgoing.thread().is_some());
        let slice = slice.map(|nanos| Length::new(Metric::Slice, Nanos(nanos), cpu));
        let wait = switched.incoming.and_then(|change| {
            let metric = match change.before.state {
                State::Woken => Metric::Wakeup,
                State::Preempted => Metric::Preemption,
                _ => return None,
            };
            length(&change, metric, cpu)
        });
        [slice, wait]
    }

    /// A thread that was not runnable is put on the queue of a CPU. Returns the blocked time that ends, if its beginning was recorded. It
    /// belongs to the CPU that the thread has left.
    #[inline]
    pub fn wake(&mut self, thread: Occupant, cpu: Cpu, time: Nanos) -> Option<Length> {
        let (cpu, time) = (read_cpu(cpu), read_time(time));
        let change = self.machine.wake(&mut self.threads, thread, cpu, time)?;
        self.begin_turn(thread, Nanos(time.0));
        let metric = match change.before.state {
            State::Uninterruptible => Metric::BlockedUninterruptible,
            state if state.is_blocked() => Metric::Blocked,
            _ => return None,
        };
        length(&change, metric, Cpu(change.before.cpu.0.into()))
    }

    /// An event shows which thread has a CPU, but not when the thread got it. The thread that was expected to have it may be on any CPU or
    /// waiting, if it still exists; `before` says whether it does.
    pub fn found(&mut self, cpu: Cpu, before: bool, now: Has<Occupant>, time: Nanos) {
        let (cpu, time) = (read_cpu(cpu), read_time(time));
        if !before {
            self.machine.forget(cpu, time);
        }
        // The thread that was expected to have it may have slept since.
        let before = self.machine.cpu_state(cpu).occupant.and_then(|it| it.thread());
        for thread in before.into_iter().chain(now.thread()) {
            self.end_turn(Has::Thread(thread), State::Unknown, Nanos(time.0));
        }
        self.machine.found(&mut self.threads, (cpu, now), time);
    }

    /// Events of a CPU were lost: the waits of threads become uncertain. `current` had the CPU before, and is assumed to have it still
    /// until another thread is seen there.
    pub fn lose(&mut self, cpu: Cpu, current: Option<Has<Occupant>>, time: Nanos) {
        let (cpu, time) = (read_cpu(cpu), read_time(time));
        self.machine.invalidate();
        if let Some(turns) = &mut self.turns {
            turns.clear();
        }
        self.machine.gap(&mut self.threads, cpu, (time, time));
        if let Some(current) = current {
            self.machine.found(&mut self.threads, (cpu, current), time);
        }
    }

    /// The CPU on whose queue a thread waits, if known.
    pub fn queued_on(&self, thread: Occupant) -> Option<Cpu> {
        let (_, known) = self.threads.0.get(thread.slot.index())?;
        let waits = known.state.is_waiting() && self.machine.knows(known);
        (waits && self.threads.is_kept(thread)).then(|| Cpu(known.cpu.0.into()))
    }
}

fn length(change: &Change<Occupant>, metric: Metric, cpu: Cpu) -> Option<Length> {
    Some(Length::new(metric, Nanos(change.length()?), cpu))
}

fn read_time(time: Nanos) -> ReadNanos {
    ReadNanos(time.0)
}

fn read_cpu(cpu: Cpu) -> ReadCpu {
    // Linux has at most 8192 of them.
    ReadCpu(u16::try_from(cpu.0).unwrap_or(u16::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::encode::threads::Slot;

    const CPU: Cpu = Cpu(3);

    fn thread(number: u32) -> Occupant {
        Occupant { slot: Slot::at(number), koid: Koid(number.into()) }
    }

    fn length(metric: Metric, nanos: u64) -> Option<Length> {
        Some(Length::new(metric, Nanos(nanos), CPU))
    }

    fn comes_in(ledger: &mut Ledger, thread: Occupant, time: u64) -> Option<Length> {
        let at = (Nanos(time), CPU);
        ledger.switch(at, (Has::Idle, State::Unknown), Has::Thread(thread))[1]
    }

    fn goes_out(
        ledger: &mut Ledger,
        thread: Occupant,
        next: State,
        (time, cpu): (u64, Cpu),
    ) -> Option<Length> {
        ledger.switch((Nanos(time), cpu), (Has::Thread(thread), next), Has::Idle)[0]
    }

    #[test]
    fn the_picture_holds() {
        let (mut ledger, t) = (Ledger::default(), thread(5));
        assert_eq!(ledger.wake(t, CPU, Nanos(10)), None, "what was before is not known");
        assert_eq!(ledger.queued_on(t), Some(CPU));
        assert_eq!(comes_in(&mut ledger, t, 15), length(Metric::Wakeup, 5));
        assert_eq!(ledger.queued_on(t), None);
        let out = goes_out(&mut ledger, t, State::Preempted, (22, CPU));
        assert_eq!(out, length(Metric::Slice, 7));
        assert_eq!(comes_in(&mut ledger, t, 31), length(Metric::Preemption, 9));
        let out = goes_out(&mut ledger, t, State::Sleeping, (42, CPU));
        assert_eq!(out, length(Metric::Slice, 11));
        assert_eq!(ledger.wake(t, Cpu(0), Nanos(55)), length(Metric::Blocked, 13));
    }

    #[test]
    fn a_turn_is_from_a_wake_up_to_the_next_sleep_if_nothing_is_missing_in_between() {
        let (mut ledger, t) = (Ledger::with_turns(), thread(5));
        let end = |ledger: &mut Ledger, next, time| {
            let ended = ledger.end_turn(Has::Thread(t), next, Nanos(time));
            goes_out(ledger, t, next, (time, CPU));
            ended
        };
        assert_eq!(end(&mut ledger, State::Sleeping, 5), None, "its begin was not seen");
        ledger.wake(t, CPU, Nanos(10));
        comes_in(&mut ledger, t, 15);
        assert_eq!(end(&mut ledger, State::Preempted, 22), None, "it goes on");
        comes_in(&mut ledger, t, 31);
        assert_eq!(end(&mut ledger, State::Uninterruptible, 42), Some(Nanos(32)));
        ledger.wake(t, CPU, Nanos(50));
        ledger.lose(Cpu(9), None, Nanos(51));
        comes_in(&mut ledger, t, 52);
        assert_eq!(end(&mut ledger, State::Sleeping, 53), None, "it may have slept meanwhile");
        ledger.wake(t, CPU, Nanos(60));
        comes_in(&mut ledger, t, 61);
        ledger.found(CPU, true, Has::Thread(thread(6)), Nanos(62));
        assert_eq!(end(&mut ledger, State::Sleeping, 63), None, "it was not seen to go out");
        ledger.wake(t, CPU, Nanos(70));
        comes_in(&mut ledger, t, 71);
        assert_eq!(end(&mut ledger, State::Dead, 72), None, "it does not sleep");
        let mut without = Ledger::default();
        without.wake(t, CPU, Nanos(10));
        assert_eq!(without.end_turn(Has::Thread(t), State::Sleeping, Nanos(11)), None);
    }

    #[test]
    fn blocked_time_belongs_to_the_cpu_that_was_left_and_waits_to_the_one_that_was_got() {
        let (mut ledger, t) = (Ledger::default(), thread(5));
        goes_out(&mut ledger, t, State::Uninterruptible, (1, Cpu(1)));
        let blocked = ledger.wake(t, Cpu(2), Nanos(2)).expect("it was seen to begin");
        assert_eq!((blocked.metric, blocked.cpu), (Metric::BlockedUninterruptible, Cpu(1)));
        assert_eq!(comes_in(&mut ledger, t, 3), length(Metric::Wakeup, 1));
    }

    #[test]
    fn a_loss_censors_waits_that_are_open_and_slices_only_where_the_cpu_lost() {
        let (mut ledger, t, other) = (Ledger::default(), thread(5), thread(6));
        ledger.wake(t, CPU, Nanos(1));
        ledger.switch((Nanos(1), Cpu(4)), (Has::Idle, State::Unknown), Has::Thread(other));
        ledger.lose(Cpu(9), None, Nanos(1));
        assert_eq!(ledger.queued_on(t), None);
        assert_eq!(comes_in(&mut ledger, t, 2), None);
        let slice = goes_out(&mut ledger, other, State::Sleeping, (4, Cpu(4)));
        let whole = Length::new(Metric::Slice, Nanos(3), Cpu(4));
        assert_eq!(slice, Some(whole), "all switches of a CPU are in its own ring");
        ledger.lose(CPU, Some(Has::Thread(t)), Nanos(5));
        assert_eq!(ledger.wake(t, CPU, Nanos(5)), None);
        assert_eq!(ledger.queued_on(t), None, "it has a CPU");
        assert_eq!(goes_out(&mut ledger, t, State::Sleeping, (6, CPU)), None);
        assert_eq!(ledger.wake(t, CPU, Nanos(8)), length(Metric::Blocked, 2));
    }

    #[test]
    fn a_thread_that_comes_in_though_it_was_blocked_has_waited_for_an_unknown_time() {
        let (mut ledger, t) = (Ledger::default(), thread(5));
        goes_out(&mut ledger, t, State::Sleeping, (1, CPU));
        assert_eq!(comes_in(&mut ledger, t, 9), None);
        ledger.found(CPU, true, Has::Thread(thread(6)), Nanos(9));
        assert_eq!(goes_out(&mut ledger, t, State::Sleeping, (10, CPU)), None);
    }

    #[test]
    fn what_a_place_was_in_the_middle_of_is_not_its_next_owners() {
        let (mut ledger, t) = (Ledger::default(), thread(5));
        goes_out(&mut ledger, t, State::Sleeping, (1, CPU));
        let next = Occupant { koid: Koid(99), ..t };
        assert_eq!(ledger.wake(next, CPU, Nanos(4)), None);
        assert_eq!((ledger.queued_on(t), ledger.queued_on(next)), (None, Some(CPU)));
    }
}
