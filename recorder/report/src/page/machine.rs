//! The machine as the trace describes it: who is on each CPU, and what each
//! thread is doing, from one event to the next.
//!
//! The rules are those of the [scheduling machine](fxtrec_sched), without doubt:
//! a gap concerns its own CPU only. The page's script follows the same rules when
//! it unfolds a block, so that what the two show is the same:
//!
//! ```text
//!  cpu 0   ──── A ────┤ switch: A out (S), B in ├──── B ────
//!  A       ─ running ─┤──────── sleeping ───────┤ wake ├─ woken ─┤ in: running
//! ```
//!
//! - Whoever goes out of a CPU of which nothing is known was on it since then.
//! - A wake-up of a thread that runs, or waits already, changes nothing.
//! - A gap leaves its CPU, and the thread that was on it, unknown.

use fxt_reader::{Cpu, Nanos};
use fxtrec_sched::{Change, Occupant, Switch, Tenure, Thread, Threads};

use super::state::State;
use super::threads::ThreadIndex;

/// Something that happened, with threads by their index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Event {
    /// A CPU went from one thread to another.
    Switch {
        /// The CPU.
        cpu: u16,
        /// Who went out.
        outgoing: ThreadIndex,
        /// What it does next.
        state: State,
        /// Who came in.
        incoming: ThreadIndex,
        /// Whether no tracepoint reported it.
        inferred: bool,
    },
    /// A thread became able to run.
    Wake {
        /// The CPU it is to run on.
        cpu: u16,
        /// The thread.
        thread: ThreadIndex,
        /// Who woke it, where that is known.
        waker: Option<ThreadIndex>,
        /// Whether a quota holds it back.
        throttled: bool,
    },
    /// A quota held a thread back in a stretch of its wait, which goes on.
    Held {
        /// The thread.
        thread: ThreadIndex,
        /// When that began, in nanoseconds of the trace's clock.
        from: u64,
        /// When it ended.
        until: u64,
    },
    /// What was taken of the slice that the next switch of a CPU ends, at the same time.
    Taken {
        /// The CPU.
        cpu: u16,
        /// What.
        taken: Taken,
    },
    /// Events of a CPU were lost.
    Gap {
        /// The CPU.
        cpu: u16,
        /// For how long nothing is known of it, in nanoseconds.
        length: u64,
    },
}

/// What was taken of a slice, as far as the recording tells.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Taken {
    /// By the host, in nanoseconds.
    pub(super) steal: u64,
    /// By interrupts, in nanoseconds.
    pub(super) irq: u64,
    /// How many interrupts.
    pub(super) irqs: u64,
    /// How long before its end the scheduler had asked for that.
    pub(super) asked: Option<u64>,
}

/// An event and its time, in nanoseconds of the trace's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stamped {
    /// When.
    pub(super) time: u64,
    /// What.
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

/// What is known of a thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Doing {
    /// What it is doing, since when, and on which CPU.
    pub(super) doing: Thread,
    /// Who woke it, while it waits.
    pub(super) waker: Option<ThreadIndex>,
}

/// What is known of all threads, by index.
#[derive(Clone, Debug, Default)]
struct Doings(Vec<Doing>);

impl Threads for Doings {
    type Key = ThreadIndex;

    #[inline]
    fn thread(&mut self, thread: ThreadIndex) -> &mut Thread {
        let at = thread.index();
        if at >= self.0.len() {
            self.0.resize(at + 1, Doing::default());
        }
        &mut self.0[at].doing
    }
}

/// The whole machine.
#[derive(Clone, Debug, Default)]
pub(super) struct Machine {
    sched: fxtrec_sched::Machine<ThreadIndex>,
    threads: Doings,
    /// What the host took of the slice that ends with the next event.
    stolen: u64,
}

fn occupant(thread: ThreadIndex) -> Occupant<ThreadIndex> {
    if thread.is_idle() { Occupant::Idle } else { Occupant::Thread(thread) }
}

/// The thread that the page shows on a CPU, if any.
fn shown(occupant: Occupant<ThreadIndex>) -> Option<ThreadIndex> {
    match occupant {
        Occupant::Idle => Some(ThreadIndex::IDLE),
        Occupant::NotRecorded => None,
        Occupant::Thread(thread) => Some(thread),
    }
}

fn on_cpu(tenure: &Tenure<ThreadIndex>, observer: &mut impl Observer) {
    if let Some(thread) = shown(tenure.who) {
        observer.on_cpu(tenure.cpu.0, thread, tenure.since.0, tenure.until.0);
    }
}

impl Machine {
    /// What follows from one more event, which must not be older than the last.
    pub(super) fn apply(&mut self, stamped: Stamped, observer: &mut impl Observer) {
        let time = Nanos(stamped.time);
        match stamped.event {
            Event::Switch { cpu, outgoing, state, incoming, inferred } => {
                let (outgoing, incoming) = (occupant(outgoing), occupant(incoming));
                let (cpu, next) = (Cpu(cpu), state);
                let switch = Switch { time, cpu, outgoing, next, incoming, inferred };
                let switched = self.sched.switch(&mut self.threads, switch);
                on_cpu(&switched.tenure, observer);
                let stolen = std::mem::take(&mut self.stolen);
                self.changed(switched.displaced, None, observer);
                match switched.outgoing {
                    Some(Change { thread, before, time, .. })
                        if stolen > 0 && before.state == State::Running =>
                    {
                        self.threads.0[thread.index()].waker = None;
                        observer.ran_less(thread, stolen, before.since.0, time.0);
                    }
                    other => self.changed(other, None, observer),
                }
                self.changed(switched.incoming, None, observer);
            }
            Event::Wake { thread, .. } if thread.is_idle() => {}
            Event::Wake { cpu, thread, waker, throttled } => {
                let state = if throttled { State::WokenThrottled } else { State::Woken };
                let after = (Cpu(cpu), state);
                let woken = self.sched.wake_to(&mut self.threads, thread, after, time);
                self.changed(woken, waker, observer);
            }
            Event::Held { thread, from, until } => {
                let stretch = (Nanos(from), Nanos(until));
                for change in self.sched.held_back(&mut self.threads, thread, stretch) {
                    // Whoever woke it, did so at the beginning.
                    let waker = self.threads.0[thread.index()].waker;
                    self.changed(change, waker, observer);
                }
            }
            Event::Taken { taken, .. } => self.stolen = taken.steal,
            Event::Gap { cpu, length } => {
                let from = Nanos(time.0 - length);
                let lost = self.sched.gap(&mut self.threads, Cpu(cpu), (from, time));
                if let Some(tenure) = lost.tenure {
                    on_cpu(&tenure, observer);
                }
                self.changed(lost.change, None, observer);
            }
        }
    }

    /// Who is on the CPU, as far as is known.
    pub(super) fn on(&self, cpu: u16) -> Option<ThreadIndex> {
        self.sched.seat(Cpu(cpu)).occupant.and_then(shown)
    }

    /// Since when the CPU is as it is; 0 for before the trace.
    pub(super) fn since(&self, cpu: u16) -> u64 {
        self.sched.seat(Cpu(cpu)).since.0
    }

    /// Whether anything was said about the CPU.
    pub(super) fn has_seen(&self, cpu: u16) -> bool {
        self.sched.seat(Cpu(cpu)).is_seen()
    }

    /// Whether something was said about the CPU, and it is not known who has it.
    pub(super) fn is_lost(&self, cpu: u16) -> bool {
        let seat = self.sched.seat(Cpu(cpu));
        seat.is_seen() && seat.occupant.is_none()
    }

    /// Who is on each CPU, by its number, and since when.
    pub(super) fn seats(&self) -> impl Iterator<Item = (Option<ThreadIndex>, u64)> + '_ {
        self.sched.seats().map(|seat| (seat.occupant.and_then(shown), seat.since.0))
    }

    /// What each thread does, by its index.
    pub(super) fn threads(&self) -> &[Doing] {
        &self.threads.0
    }

    /// A thread that waits is in the queue of another CPU.
    pub(super) fn migrate(&mut self, thread: ThreadIndex, cpu: Cpu) {
        self.sched.migrate(&mut self.threads, thread, cpu);
    }

    /// Ends every stretch at `time`, which is that of the end of the trace.
    pub(super) fn end(&self, time: u64, observer: &mut impl Observer) {
        for tenure in self.sched.end(Nanos(time)) {
            on_cpu(&tenure, observer);
        }
        for (index, Doing { doing, .. }) in self.threads.0.iter().enumerate() {
            if doing.state.is_known() {
                observer.in_state(ThreadIndex::at(index), doing.state, doing.since.0, time);
            }
        }
    }

    /// A thread went over to another state, if it did, and `waker` woke it.
    fn changed(
        &mut self,
        change: Option<Change<ThreadIndex>>,
        waker: Option<ThreadIndex>,
        observer: &mut impl Observer,
    ) {
        let Some(Change { thread, before, time, .. }) = change else { return };
        self.threads.0[thread.index()].waker = waker;
        if before.state.is_known() && before.since < time {
            observer.in_state(thread, before.state, before.since.0, time.0);
        }
    }
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

    fn switch(time: u64, outgoing: ThreadIndex, state: State, incoming: ThreadIndex) -> Stamped {
        Stamped {
            time,
            event: Event::Switch { cpu: 0, outgoing, state, incoming, inferred: false },
        }
    }

    fn play(events: &[Stamped]) -> Log {
        let (mut machine, mut log) = (Machine::default(), Log::default());
        for &event in events {
            machine.apply(event, &mut log);
        }
        machine.end(100, &mut log);
        log
    }

    #[test]
    fn a_thread_sleeps_is_woken_waits_and_runs() {
        let wake = Event::Wake { cpu: 0, thread: A, waker: Some(B), throttled: false };
        let log = play(&[
            switch(10, A, State::Sleeping, B),
            Stamped { time: 30, event: wake },
            Stamped { time: 35, event: wake },
            switch(50, B, State::Preempted, A),
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
    fn a_gap_makes_its_cpu_and_the_thread_on_it_unknown() {
        let gap = Event::Gap { cpu: 0, length: 20 };
        let log = play(&[
            switch(10, IDLE, State::Unknown, A),
            Stamped { time: 40, event: gap },
            switch(50, B, State::Sleeping, IDLE),
        ]);
        assert_eq!(log.cpus, [(0, 0, 0, 10), (0, 1, 10, 20), (0, 2, 40, 50), (0, 0, 50, 100)]);
        let expected = [
            (1, State::Running, 10, 20),
            (2, State::Running, 40, 50),
            (2, State::Sleeping, 50, 100),
        ];
        assert_eq!(log.threads, expected);
    }

    #[test]
    fn a_thread_that_was_replaced_unseen_is_unknown_from_then_on() {
        let log =
            play(&[switch(10, IDLE, State::Unknown, A), switch(30, B, State::Sleeping, IDLE)]);
        assert_eq!(log.threads[0], (1, State::Running, 10, 30));
        assert!(log.threads.iter().all(|slice| slice.0 != 1 || slice.3 == 30));
    }
}
