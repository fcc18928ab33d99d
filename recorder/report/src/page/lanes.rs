//! The lanes of the page: the occupant of each CPU and the state of each thread, from one event to the next.
//!
//! No state is inferred here. The [analysis](crate::analysis) determines the effects of each record with its [scheduling
//! machine](fxtrec_sched), and an event of the page holds these effects as assignments. Readers of the page's blocks, such as the page's
//! script, only have to apply them:
//!
//! ```text
//!  cpu 0   ──── A ────┤ switch: A is S, B runs  ├──── B ────
//!  A       ─ running ─┤──────── sleeping ───────┤ wake: A is woken ├─ woken ─┤ switch: A runs
//! ```

use super::state::State;
use super::threads::ThreadIndex;

/// An event, with threads by their index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Event {
    /// A CPU switches to another thread.
    Switch {
        cpu: u16,
        /// The thread that was switched out and now has another state; idle means that there is no such thread.
        outgoing: ThreadIndex,
        state: State,
        /// The thread that has the CPU, and runs.
        incoming: ThreadIndex,
        /// Whether the switch was inferred instead of recorded.
        inferred: bool,
    },
    /// A thread became able to run.
    Wake {
        /// The CPU on which it will run.
        cpu: u16,
        thread: ThreadIndex,
        /// The thread that woke it, if known.
        waker: Option<ThreadIndex>,
        /// Its new state; `None` if it keeps its state.
        state: Option<State>,
    },
    /// A thread moves to the queue of another CPU, and keeps its state.
    Move { thread: ThreadIndex, from: u16, to: u16 },
    /// A thread has had another state, on the same CPU, since a time that may be in the past.
    Change { thread: ThreadIndex, state: State, since: u64 },
    /// A thread turns out to have had a CPU since its occupant became unknown, in nanoseconds of the trace's clock; 0 for before the trace.
    /// If the thread's state was unknown, it ran.
    Claim { cpu: u16, thread: ThreadIndex, since: u64, ran_since: Option<u64> },
    /// The data taken from the slice that ends with the CPU's next switch, at the same time.
    Taken { cpu: u16, taken: Taken },
    /// A CPU has no occupant, or an unknown one; the same holds for the previous `length` nanoseconds.
    Vacate { cpu: u16, length: u64 },
}

impl Event {
    /// The time from which the event's statement is valid; `time` is the time of the event.
    pub(super) fn since(self, time: u64) -> u64 {
        match self {
            Event::Change { since, .. } | Event::Claim { since, .. } => since,
            Event::Vacate { length, .. } => time - length,
            Event::Switch { .. }
            | Event::Wake { .. }
            | Event::Move { .. }
            | Event::Taken { .. } => time,
        }
    }
}

/// The time taken from a slice, if recorded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Taken {
    /// Time taken by the host, in nanoseconds.
    pub(super) steal: u64,
    /// Time taken by interrupts, in nanoseconds.
    pub(super) irq: u64,
    pub(super) irqs: u64,
    /// How long before the slice's end the scheduler requested the switch.
    pub(super) asked: Option<u64>,
}

/// An event and its time, in nanoseconds of the trace's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stamped {
    pub(super) time: u64,
    pub(super) event: Event,
}

/// Receives every interval in which a CPU or a thread stayed the same, at the end of the interval.
pub(super) trait Observer {
    /// The thread had the CPU.
    fn on_cpu(&mut self, cpu: u16, thread: ThreadIndex, from: u64, to: u64);
    /// The thread was in this state; unknown states are not reported.
    fn in_state(&mut self, thread: ThreadIndex, state: State, from: u64, to: u64);
    /// The thread ran, but the host took this much of the time.
    fn ran_less(&mut self, thread: ThreadIndex, _stolen: u64, from: u64, to: u64) {
        self.in_state(thread, State::Running, from, to);
    }
}

/// The occupant of a CPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct CpuLane {
    pub(super) thread: Option<ThreadIndex>,
    /// When it got the CPU; 0 for before the trace.
    pub(super) since: u64,
    /// Whether the CPU has had any event.
    pub(super) seen: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct ThreadLane {
    pub(super) state: State,
    pub(super) since: u64,
    /// The CPU that it has, waits for, or had last.
    pub(super) cpu: u16,
    /// The thread that woke it, while it waits.
    pub(super) waker: Option<ThreadIndex>,
}

/// All lanes at one time.
#[derive(Clone, Debug, Default)]
pub(super) struct Lanes {
    cpus: Vec<CpuLane>,
    threads: Vec<ThreadLane>,
    /// The time that the host took from the slice that ends with the next event.
    stolen: u64,
}

impl Lanes {
    /// Applies one more event, which must not be older than the previous one.
    pub(super) fn apply(&mut self, stamped: Stamped, observer: &mut impl Observer) {
        let time = stamped.time;
        match stamped.event {
            Event::Switch { cpu, outgoing, state, incoming, .. } => {
                self.give(cpu, Some(incoming), (time, time), observer);
                let stolen = std::mem::take(&mut self.stolen);
                let lane = ThreadLane { state, since: time, cpu, waker: None };
                self.become_of(outgoing, lane, stolen, observer);
                self.become_of(incoming, ThreadLane { state: State::Running, ..lane }, 0, observer);
            }
            Event::Wake { state: None, .. } | Event::Move { .. } => {}
            Event::Wake { cpu, thread, waker, state: Some(state) } => {
                self.become_of(thread, ThreadLane { state, since: time, cpu, waker }, 0, observer);
            }
            Event::Change { thread, state, since } => {
                let lane = ThreadLane { state, since, ..self.thread(thread) };
                self.become_of(thread, lane, 0, observer);
            }
            Event::Claim { cpu, thread, since, ran_since } => {
                *entry(&mut self.cpus, cpu.into()) =
                    CpuLane { thread: Some(thread), since, seen: true };
                if let Some(since) = ran_since {
                    *entry(&mut self.threads, thread.index()) =
                        ThreadLane { state: State::Running, since, cpu, waker: None };
                }
            }
            Event::Taken { taken, .. } => self.stolen = taken.steal,
            Event::Vacate { cpu, length } => self.give(cpu, None, (time - length, time), observer),
        }
    }

    /// The state of a CPU.
    pub(super) fn cpu(&self, cpu: u16) -> CpuLane {
        self.cpus.get(usize::from(cpu)).copied().unwrap_or_default()
    }

    /// The state of a thread.
    pub(super) fn thread(&self, thread: ThreadIndex) -> ThreadLane {
        self.threads.get(thread.index()).copied().unwrap_or_default()
    }

    /// Every CPU, by its number.
    pub(super) fn cpus(&self) -> &[CpuLane] {
        &self.cpus
    }

    /// Every thread, by its index.
    pub(super) fn threads(&self) -> &[ThreadLane] {
        &self.threads
    }

    /// Ends all intervals at `time`, the end of the trace.
    pub(super) fn end(&self, time: u64, observer: &mut impl Observer) {
        for (lane, cpu) in self.cpus.iter().zip(0..) {
            if let Some(thread) = lane.thread {
                observer.on_cpu(cpu, thread, lane.since, time);
            }
        }
        for (index, lane) in self.threads.iter().enumerate() {
            if lane.state.is_known() {
                observer.in_state(ThreadIndex::at(index), lane.state, lane.since, time);
            }
        }
    }

    /// The occupant has the CPU until the first time; another thread has it from the second time on.
    fn give(
        &mut self,
        cpu: u16,
        thread: Option<ThreadIndex>,
        (until, since): (u64, u64),
        observer: &mut impl Observer,
    ) {
        let lane = entry(&mut self.cpus, cpu.into());
        let before = std::mem::replace(lane, CpuLane { thread, since, seen: true });
        if let Some(thread) = before.thread {
            observer.on_cpu(cpu, thread, before.since, until);
        }
    }

    fn become_of(
        &mut self,
        thread: ThreadIndex,
        lane: ThreadLane,
        stolen: u64,
        observer: &mut impl Observer,
    ) {
        if thread.is_idle() {
            return;
        }
        let before = std::mem::replace(entry(&mut self.threads, thread.index()), lane);
        let (from, to) = (before.since, lane.since);
        match before.state {
            State::Running if stolen > 0 => observer.ran_less(thread, stolen, from, to),
            state if state.is_known() && from < to => observer.in_state(thread, state, from, to),
            _ => {}
        }
    }
}

fn entry<T: Clone + Default>(list: &mut Vec<T>, at: usize) -> &mut T {
    if at >= list.len() {
        list.resize(at + 1, T::default());
    }
    &mut list[at]
}

#[cfg(test)]
mod tests {
    use super::*;

    const IDLE: ThreadIndex = ThreadIndex::IDLE;
    const A: ThreadIndex = ThreadIndex(1);
    const B: ThreadIndex = ThreadIndex(2);

    #[derive(Default, PartialEq, Debug)]
    struct Log {
        cpus: Vec<(u16, u32, u64, u64)>,
        threads: Vec<(u32, State, u64, u64)>,
    }

    impl Observer for Log {
        fn on_cpu(&mut self, cpu: u16, thread: ThreadIndex, from: u64, to: u64) {
            self.cpus.push((cpu, thread.0, from, to));
        }

        fn in_state(&mut self, thread: ThreadIndex, state: State, from: u64, to: u64) {
            self.threads.push((thread.0, state, from, to));
        }
    }

    fn switch(outgoing: ThreadIndex, state: State, incoming: ThreadIndex) -> Event {
        Event::Switch { cpu: 0, outgoing, state, incoming, inferred: false }
    }

    fn play(events: &[(u64, Event)]) -> Log {
        let (mut lanes, mut log) = (Lanes::default(), Log::default());
        for &(time, event) in events {
            lanes.apply(Stamped { time, event }, &mut log);
        }
        lanes.end(100, &mut log);
        log
    }

    #[test]
    fn a_thread_sleeps_is_woken_waits_and_runs() {
        let wake = |state| Event::Wake { cpu: 0, thread: A, waker: Some(B), state };
        let claim = Event::Claim { cpu: 0, thread: A, since: 0, ran_since: Some(0) };
        let log = play(&[
            (10, claim),
            (10, switch(A, State::Sleeping, B)),
            (30, wake(Some(State::Woken))),
            (35, wake(None)),
            (50, switch(B, State::Preempted, A)),
        ]);
        assert_eq!(log.cpus, [(0, 1, 0, 10), (0, 2, 10, 50), (0, 1, 50, 100)]);
        let expected = [
            (1, State::Running, 0, 10),
            (1, State::Sleeping, 10, 30),
            (2, State::Running, 10, 50),
            (1, State::Woken, 30, 50),
            (1, State::Running, 50, 100),
            (2, State::Preempted, 50, 100),
        ];
        assert_eq!(log.threads, expected);
    }

    #[test]
    fn a_cpu_that_is_vacated_has_no_owner_until_it_is_claimed() {
        let lost = [
            (40, Event::Change { thread: A, state: State::Unknown, since: 20 }),
            (40, Event::Vacate { cpu: 0, length: 20 }),
        ];
        let claim = Event::Claim { cpu: 0, thread: B, since: 40, ran_since: Some(45) };
        let mut events = vec![(10, switch(IDLE, State::Unknown, A))];
        events.extend(lost);
        events.extend([(50, claim), (50, switch(B, State::Sleeping, IDLE))]);
        let log = play(&events);
        assert_eq!(log.cpus, [(0, 1, 10, 20), (0, 2, 40, 50), (0, 0, 50, 100)]);
        let expected = [
            (1, State::Running, 10, 20),
            (2, State::Running, 45, 50),
            (2, State::Sleeping, 50, 100),
        ];
        assert_eq!(log.threads, expected);
    }
}
