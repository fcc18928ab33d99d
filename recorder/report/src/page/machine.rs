//! The machine as the trace describes it: who is on each CPU, and what each
//! thread is doing, from one event to the next.
//!
//! The page's script follows the same rules when it unfolds a block, so that
//! what the two show is the same:
//!
//! ```text
//!  cpu 0   ──── A ────┤ switch: A out (S), B in ├──── B ────
//!  A       ─ running ─┤──────── sleeping ───────┤ wake ├─ woken ─┤ in: running
//! ```
//!
//! - Whoever goes out of a CPU of which nothing is known was on it since then.
//! - A wake-up of a thread that runs, or waits already, changes nothing.
//! - A gap leaves its CPU, and the thread that was on it, unknown.

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
    },
    /// Events of a CPU were lost.
    Gap {
        /// The CPU.
        cpu: u16,
        /// For how long nothing is known of it, in nanoseconds.
        length: u64,
    },
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
}

/// What is known of a CPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Seat {
    /// Who is on it.
    pub(super) thread: Option<ThreadIndex>,
    /// Since when; 0 for before the trace.
    pub(super) since: u64,
    /// Whether it was ever seen.
    pub(super) seen: bool,
}

/// What is known of a thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Doing {
    /// What it is doing.
    pub(super) state: State,
    /// Since when; 0 for before the trace.
    pub(super) since: u64,
    /// The CPU that it runs on, or was last queued on.
    pub(super) cpu: u16,
    /// Who woke it, while it waits.
    pub(super) waker: Option<ThreadIndex>,
}

/// The whole machine.
#[derive(Clone, Debug, Default)]
pub(super) struct Machine {
    /// By CPU number.
    pub(super) seats: Vec<Seat>,
    /// By thread index.
    pub(super) threads: Vec<Doing>,
}

impl Machine {
    /// What follows from one more event, which must not be older than the last.
    pub(super) fn apply(&mut self, stamped: Stamped, observer: &mut impl Observer) {
        let time = stamped.time;
        match stamped.event {
            Event::Switch { cpu, outgoing, state, incoming, .. } => {
                self.leave(cpu, outgoing, state, time, observer);
                self.seats[usize::from(cpu)] =
                    Seat { thread: Some(incoming), since: time, seen: true };
                if !incoming.is_idle() {
                    self.change(incoming, State::Running, cpu, None, time, observer);
                }
            }
            Event::Wake { cpu, thread, waker } => {
                let doing = self.doing(thread).state;
                if !thread.is_idle() && doing != State::Running && !doing.is_waiting() {
                    self.change(thread, State::Woken, cpu, waker, time, observer);
                }
            }
            Event::Gap { cpu, length } => self.lose(cpu, time - length, time, observer),
        }
    }

    /// Who is on the CPU, as far as is known.
    pub(super) fn on(&self, cpu: u16) -> Option<ThreadIndex> {
        self.seats.get(usize::from(cpu)).and_then(|seat| seat.thread)
    }

    /// Since when the CPU is as it is; 0 for before the trace.
    pub(super) fn since(&self, cpu: u16) -> u64 {
        self.seats.get(usize::from(cpu)).map_or(0, |seat| seat.since)
    }

    /// Ends every stretch at `time`, which is that of the end of the trace.
    pub(super) fn end(&self, time: u64, observer: &mut impl Observer) {
        for (cpu, seat) in self.seats.iter().enumerate() {
            if let (Some(thread), Ok(cpu)) = (seat.thread, u16::try_from(cpu)) {
                observer.on_cpu(cpu, thread, seat.since, time);
            }
        }
        for (index, doing) in self.threads.iter().enumerate() {
            if doing.state != State::Unknown {
                observer.in_state(ThreadIndex::at(index), doing.state, doing.since, time);
            }
        }
    }

    fn leave(
        &mut self,
        cpu: u16,
        outgoing: ThreadIndex,
        state: State,
        time: u64,
        observer: &mut impl Observer,
    ) {
        let seat = self.seat(cpu);
        let before = seat.thread.unwrap_or(outgoing);
        observer.on_cpu(cpu, before, seat.since, time);
        if before != outgoing && self.doing(before).is_running_on(cpu) {
            self.change(before, State::Unknown, cpu, None, time, observer);
        }
        if outgoing.is_idle() {
            return;
        }
        let doing = self.doing(outgoing);
        if seat.thread.is_none() && doing.state == State::Unknown {
            let since = seat.since.max(doing.since);
            *self.doing_mut(outgoing) = Doing { state: State::Running, since, cpu, waker: None };
        }
        self.change(outgoing, state, cpu, None, time, observer);
    }

    fn lose(&mut self, cpu: u16, from: u64, to: u64, observer: &mut impl Observer) {
        let seat = self.seat(cpu);
        if let Some(thread) = seat.thread {
            observer.on_cpu(cpu, thread, seat.since, from);
            if !thread.is_idle() && self.doing(thread).is_running_on(cpu) {
                self.change(thread, State::Unknown, cpu, None, from, observer);
            }
        }
        self.seats[usize::from(cpu)] = Seat { thread: None, since: to, seen: true };
    }

    fn change(
        &mut self,
        thread: ThreadIndex,
        state: State,
        cpu: u16,
        waker: Option<ThreadIndex>,
        time: u64,
        observer: &mut impl Observer,
    ) {
        let doing = self.doing_mut(thread);
        let before = std::mem::replace(doing, Doing { state, since: time, cpu, waker });
        if before.state != State::Unknown && before.since < time {
            observer.in_state(thread, before.state, before.since, time);
        }
    }

    /// A CPU, which is known from now on.
    fn seat(&mut self, cpu: u16) -> Seat {
        let at = usize::from(cpu);
        if at >= self.seats.len() {
            self.seats.resize(at + 1, Seat::default());
        }
        self.seats[at].seen = true;
        self.seats[at]
    }

    fn doing(&mut self, thread: ThreadIndex) -> Doing {
        *self.doing_mut(thread)
    }

    fn doing_mut(&mut self, thread: ThreadIndex) -> &mut Doing {
        let at = thread.index();
        if at >= self.threads.len() {
            self.threads.resize(at + 1, Doing::default());
        }
        &mut self.threads[at]
    }
}

impl Doing {
    fn is_running_on(self, cpu: u16) -> bool {
        self.state == State::Running && self.cpu == cpu
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
        let wake = Event::Wake { cpu: 0, thread: A, waker: Some(B) };
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
