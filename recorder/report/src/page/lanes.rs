//! The lanes as the page shows them: who is on each CPU, and what each thread does, from one event to the next.
//!
//! Nothing is worked out here. What follows from a record, the [analysis](crate::analysis) says, which has the
//! [scheduling machine](fxtrec_sched); an event of the page is what its machine made of it, as assignments. A reader of the
//! page's blocks, like the page's script, only has to carry them out:
//!
//! ```text
//!  cpu 0   ──── A ────┤ switch: A is S, B runs  ├──── B ────
//!  A       ─ running ─┤──────── sleeping ───────┤ wake: A is woken ├─ woken ─┤ switch: A runs
//! ```

use super::state::State;
use super::threads::ThreadIndex;

/// Something that happened, with threads by their index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Event {
    /// A CPU goes to another thread.
    Switch {
        cpu: u16,
        /// Who went out and is in another state now; idle for nobody.
        outgoing: ThreadIndex,
        state: State,
        /// Who has the CPU, and runs.
        incoming: ThreadIndex,
        /// Whether no tracepoint reported it.
        inferred: bool,
    },
    /// A thread became able to run.
    Wake {
        /// The CPU it is to run on.
        cpu: u16,
        thread: ThreadIndex,
        /// Who woke it, where that is known.
        waker: Option<ThreadIndex>,
        /// What it does now; `None` where it goes on with what it does.
        state: Option<State>,
    },
    /// A thread goes over to the queue of another CPU, and goes on with what it does.
    Move { thread: ThreadIndex, from: u16, to: u16 },
    /// A thread has been in another state since a time that may be past, on the same CPU.
    Change { thread: ThreadIndex, state: State, since: u64 },
    /// It turns out who has had a CPU since nobody was known to have it, in nanoseconds of the trace's clock; 0 for before
    /// the trace. If nothing was known of the thread, it ran.
    Claim { cpu: u16, thread: ThreadIndex, since: u64, ran_since: Option<u64> },
    /// What was taken of the slice that the next switch of a CPU ends, at the same time.
    Taken { cpu: u16, taken: Taken },
    /// Nobody has a CPU, or nobody knows who does, and neither for so many nanoseconds before.
    Vacate { cpu: u16, length: u64 },
}

impl Event {
    /// Since when what an event of this time says is so.
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

/// What was taken of a slice, as far as the recording tells.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Taken {
    /// By the host, in nanoseconds.
    pub(super) steal: u64,
    /// By interrupts, in nanoseconds.
    pub(super) irq: u64,
    pub(super) irqs: u64,
    /// How long before its end the scheduler had asked for that.
    pub(super) asked: Option<u64>,
}

/// An event and its time, in nanoseconds of the trace's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stamped {
    pub(super) time: u64,
    pub(super) event: Event,
}

/// Is told of every stretch of time in which a CPU or a thread stayed the same,
/// when it ends.
pub(super) trait Observer {
    /// The thread had the CPU.
    fn on_cpu(&mut self, cpu: u16, thread: ThreadIndex, from: u64, to: u64);
    /// The thread was in this state, which is never unknown.
    fn in_state(&mut self, thread: ThreadIndex, state: State, from: u64, to: u64);
    /// The thread ran, and the host took so much of that.
    fn ran_less(&mut self, thread: ThreadIndex, _stolen: u64, from: u64, to: u64) {
        self.in_state(thread, State::Running, from, to);
    }
}

/// Who is on a CPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct CpuLane {
    pub(super) thread: Option<ThreadIndex>,
    /// Since when it is so; 0 for before the trace.
    pub(super) since: u64,
    /// Whether anything was said about the CPU.
    pub(super) seen: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct ThreadLane {
    pub(super) state: State,
    pub(super) since: u64,
    /// The CPU that it has, waits for, or had last.
    pub(super) cpu: u16,
    /// Who woke it, while it waits.
    pub(super) waker: Option<ThreadIndex>,
}

/// All lanes at some time.
#[derive(Clone, Debug, Default)]
pub(super) struct Lanes {
    cpus: Vec<CpuLane>,
    threads: Vec<ThreadLane>,
    /// What the host took of the slice that ends with the next event.
    stolen: u64,
}

impl Lanes {
    /// Carries out one more event, which must not be older than the last.
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

    /// What is known of a CPU.
    pub(super) fn cpu(&self, cpu: u16) -> CpuLane {
        self.cpus.get(usize::from(cpu)).copied().unwrap_or_default()
    }

    /// What is known of a thread.
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

    /// Ends every stretch at `time`, which is that of the end of the trace.
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

    /// Whoever has the CPU has it until the first time; from the second on, another does.
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
    fn a_cpu_that_is_vacated_is_nobodys_until_it_is_claimed() {
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
