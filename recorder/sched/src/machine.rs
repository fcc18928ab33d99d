//! The machine: the state of each CPU, and the rules by which threads change.

use fxt_reader::{Cpu, Nanos};

use crate::cpu_state::{CpuInterval, CpuState, Edge, Occupant, edge};
use crate::state::State;
use crate::threads::{Thread, Threads};

#[derive(Clone, Copy, Debug)]
pub struct Switch<K> {
    pub time: Nanos,
    pub cpu: Cpu,
    pub outgoing: Occupant<K>,
    /// The next state of the outgoing thread, if it is a thread.
    pub next: State,
    pub incoming: Occupant<K>,
    /// Whether no event reported the switch; it happened at `time` or earlier.
    pub inferred: bool,
}

/// The first half of a [`Switch`].
#[derive(Clone, Copy, Debug)]
pub struct Leave<K> {
    pub time: Nanos,
    pub cpu: Cpu,
    pub outgoing: Occupant<K>,
    /// The next state of the outgoing thread, if it is a thread.
    pub next: State,
    /// Whether no event reported it.
    pub inferred: bool,
}

/// The second half of a [`Switch`].
#[derive(Clone, Copy, Debug)]
pub struct Enter<K> {
    pub time: Nanos,
    pub cpu: Cpu,
    pub incoming: Occupant<K>,
    /// Whether no event reported it.
    pub inferred: bool,
}

/// A thread changes from one state to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Change<K> {
    pub thread: K,
    /// The state that ends: when it began, and on which CPU.
    pub before: Thread,
    /// Whether there was no [invalidation](Machine::invalidate) while the state lasted.
    pub sound: bool,
    /// When it ended.
    pub time: Nanos,
    /// How the end is known.
    pub end: Edge,
    pub after: State,
}

impl<K> Change<K> {
    /// How long the thread was in the state that ends, in nanoseconds, if events reported both ends and nothing in between is uncertain.
    /// For the time that it had a CPU, see [`Switched::slice`].
    #[inline]
    pub fn length(&self) -> Option<u64> {
        let whole = self.sound && self.before.begin == Edge::Recorded && self.end == Edge::Recorded;
        whole.then_some(self.time.0.saturating_sub(self.before.since.0))
    }
}

/// How the outgoing thread of an event compares with the occupant that the machine expected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Met {
    /// It is the expected occupant.
    Expected,
    /// The occupant was unknown.
    Vacant,
    /// Another occupant was expected: a switch is missing.
    Displaced,
}

/// The interval that a switch ends.
#[derive(Clone, Copy, Debug)]
pub struct Switched<K> {
    /// Whether the outgoing thread is the one that was expected to have the CPU.
    pub met: Met,
    /// The use of the CPU until now. If another thread was [displaced](Met::Displaced), that thread's interval.
    pub tenure: CpuInterval<K>,
    /// The thread that was expected to run here, and may now be anywhere.
    pub displaced: Option<Change<K>>,
    /// The thread that was switched out; its state may have been other than running.
    pub outgoing: Option<Change<K>>,
    /// The thread that was switched in.
    pub incoming: Option<Change<K>>,
}

impl<K> Switched<K> {
    /// How long the outgoing thread had the CPU, in nanoseconds, if both its switch in and its switch out were recorded.
    #[inline]
    pub fn slice(&self) -> Option<u64> {
        slice(self.met, &self.tenure)
    }
}

/// The interval that the first half of a switch ends. The fields are those of [`Switched`].
#[derive(Clone, Copy, Debug)]
pub struct Left<K> {
    /// Whether the outgoing thread is the one that was expected to have the CPU.
    pub met: Met,
    /// The use of the CPU until now.
    pub tenure: CpuInterval<K>,
    /// The thread that was expected to run here, and may now be anywhere.
    pub displaced: Option<Change<K>>,
    /// The thread that was switched out.
    pub outgoing: Option<Change<K>>,
}

impl<K> Left<K> {
    /// The same as [`Switched::slice`].
    #[inline]
    pub fn slice(&self) -> Option<u64> {
        slice(self.met, &self.tenure)
    }
}

#[inline]
fn slice<K>(met: Met, tenure: &CpuInterval<K>) -> Option<u64> {
    if met == Met::Expected { tenure.length() } else { None }
}

/// An event other than a switch shows the occupant of a CPU.
#[derive(Clone, Copy, Debug)]
pub struct Found<K> {
    pub met: Met,
    /// The use of the CPU until now, if its occupant was different.
    pub tenure: Option<CpuInterval<K>>,
    /// The thread that was expected to run here, and may now be anywhere.
    pub displaced: Option<Change<K>>,
    /// The thread that has the CPU, unless that was known already.
    pub thread: Option<Change<K>>,
}

/// The intervals that a gap cuts.
#[derive(Clone, Copy, Debug)]
pub struct Lost<K> {
    /// The use of the CPU before the gap, if known.
    pub tenure: Option<CpuInterval<K>>,
    /// The thread that was expected to run there.
    pub change: Option<Change<K>>,
}

/// The state of all CPUs, and the rules. See the [crate's documentation](crate).
#[derive(Clone, Debug)]
pub struct Machine<K> {
    seats: Vec<CpuState<K>>,
    /// How often states became doubtful.
    epoch: u32,
    /// When the window began: the state of a CPU without events is unknown since then.
    origin: Nanos,
}

impl<K> Default for Machine<K> {
    fn default() -> Machine<K> {
        Machine { seats: Vec::new(), epoch: 0, origin: Nanos(0) }
    }
}

impl<K: Copy + PartialEq> Machine<K> {
    /// The known facts about a CPU.
    #[inline]
    pub fn cpu_state(&self, cpu: Cpu) -> CpuState<K> {
        let known = self.seats.get(usize::from(cpu.0));
        known.copied().unwrap_or(CpuState::unseen(self.origin))
    }

    /// All CPUs up to the highest number in any event, by number. [`CpuState::is_seen`] is true for those that had events.
    pub fn cpu_states(&self) -> impl ExactSizeIterator<Item = CpuState<K>> + '_ {
        self.seats.iter().copied()
    }

    /// Whether nothing has become uncertain since the thread entered its state.
    #[inline]
    pub fn knows(&self, thread: &Thread) -> bool {
        thread.epoch == self.epoch
    }

    /// A CPU switches: its occupant [leaves](Self::leave), and another one [enters](Self::enter).
    #[inline(always)]
    pub fn switch<T: Threads<Key = K>>(
        &mut self,
        threads: &mut T,
        switch: Switch<K>,
    ) -> Switched<K> {
        let Switch { time, cpu, outgoing, next, incoming, inferred } = switch;
        let left = self.leave(threads, Leave { time, cpu, outgoing, next, inferred });
        let incoming = self.enter(threads, Enter { time, cpu, incoming, inferred });
        let Left { met, tenure, displaced, outgoing } = left;
        Switched { met, tenure, displaced, outgoing, incoming }
    }

    /// The first half of a switch, after which the CPU has no occupant. For callers that drop an exited thread before they look up the next
    /// thread, which may have the same key.
    #[inline(always)]
    pub fn leave<T: Threads<Key = K>>(&mut self, threads: &mut T, leave: Leave<K>) -> Left<K> {
        let Leave { time, cpu, outgoing, next, inferred } = leave;
        let epoch = self.epoch;
        let edge = edge(inferred);
        let seat = self.seat_mut(cpu);
        let before = *seat;
        *seat = CpuState { occupant: None, last: None, since: time, begin: edge };
        let met = match before.occupant {
            Some(occupant) if occupant == outgoing => Met::Expected,
            Some(_) => Met::Displaced,
            None => Met::Vacant,
        };
        let tenure = CpuInterval {
            cpu,
            who: before.occupant.unwrap_or(outgoing),
            since: before.since,
            until: time,
            begin: before.begin,
            end: if met == Met::Displaced { Edge::Inferred } else { edge },
        };
        let at = At { time, cpu, epoch, edge };
        let displaced = match tenure.who {
            Occupant::Thread(key) if met == Met::Displaced => at.vanish(threads, key),
            _ => None,
        };
        let outgoing = outgoing.thread().map(|key| {
            if met == Met::Vacant {
                at.was_running(threads.thread(key), before.since, before.begin);
            }
            at.change(threads, key, next)
        });
        Left { met, tenure, displaced, outgoing }
    }

    /// The second half of a switch: the incoming thread, if it is a thread.
    #[inline(always)]
    pub fn enter<T: Threads<Key = K>>(
        &mut self,
        threads: &mut T,
        enter: Enter<K>,
    ) -> Option<Change<K>> {
        let Enter { time, cpu, incoming, inferred } = enter;
        let (epoch, edge) = (self.epoch, edge(inferred));
        self.seat_mut(cpu).enter(incoming, time, inferred);
        let at = At { time, cpu, epoch, edge };
        incoming.thread().map(|key| at.change(threads, key, State::Running))
    }

    /// An event other than a switch shows the occupant of a CPU.
    pub fn found<T: Threads<Key = K>>(
        &mut self,
        threads: &mut T,
        (cpu, who): (Cpu, Occupant<K>),
        time: Nanos,
    ) -> Found<K> {
        let epoch = self.epoch;
        let seat = self.seat_mut(cpu);
        let before = *seat;
        let tenure = match before.occupant {
            Some(occupant) if occupant == who => {
                return Found { met: Met::Expected, tenure: None, displaced: None, thread: None };
            }
            Some(_) => {
                seat.enter(who, time, true);
                before.tenure(cpu, time, Edge::Inferred)
            }
            None => {
                // The occupant was unknown; the thread has had the CPU since then.
                seat.claim(who);
                None
            }
        };
        let at = At { time, cpu, epoch, edge: Edge::Inferred };
        let displaced = match before.occupant {
            Some(Occupant::Thread(key)) => at.vanish(threads, key),
            _ => None,
        };
        let thread = who.thread().map(|key| at.change(threads, key, State::Running));
        let met = if before.occupant.is_some() { Met::Displaced } else { Met::Vacant };
        Found { met, tenure, displaced, thread }
    }

    /// A thread becomes runnable, and waits for a CPU. `None` if it was already runnable.
    #[inline(always)]
    pub fn wake<T: Threads<Key = K>>(
        &mut self,
        threads: &mut T,
        key: K,
        cpu: Cpu,
        time: Nanos,
    ) -> Option<Change<K>> {
        self.wake_to(threads, key, (cpu, State::Woken), time)
    }

    /// The same as [`wake`](Self::wake), for a thread that may be [held back](State::WokenThrottled).
    #[inline(always)]
    pub fn wake_to<T: Threads<Key = K>>(
        &mut self,
        threads: &mut T,
        key: K,
        (cpu, after): (Cpu, State),
        time: Nanos,
    ) -> Option<Change<K>> {
        let thread = threads.thread(key);
        match thread.state {
            state if (state == State::Running || state.is_waiting()) && self.knows(thread) => {
                return None;
            }
            // No other thread has had its CPU since.
            State::Running
                if self.cpu_state(thread.cpu).occupant == Some(Occupant::Thread(key)) =>
            {
                return None;
            }
            _ => {}
        }
        let at = At { time, cpu, epoch: self.epoch, edge: Edge::Recorded };
        Some(at.change(threads, key, after))
    }

    /// A waiting thread moves to the queue of another CPU, and its wait continues. Returns the CPU that it left; `None` if the thread does
    /// not wait, or waits for `cpu` already.
    pub fn migrate<T: Threads<Key = K>>(&self, threads: &mut T, key: K, cpu: Cpu) -> Option<Cpu> {
        let thread = threads.thread(key);
        let moves = thread.state.is_waiting() && thread.cpu != cpu;
        moves.then(|| std::mem::replace(&mut thread.cpu, cpu))
    }

    /// Records that a quota held a waiting thread back for a part of its wait, and that the thread has waited for a CPU since. Returns the
    /// wait before that part, and the part itself, each if it is not empty; none if the thread does not wait, or has not waited that long.
    pub fn held_back<T: Threads<Key = K>>(
        &self,
        threads: &mut T,
        key: K,
        (from, until): (Nanos, Nanos),
    ) -> [Option<Change<K>>; 2] {
        let epoch = self.epoch;
        let thread = threads.thread(key);
        let Some([waited, held]) = thread.held_back((from, until)) else { return [None; 2] };
        let interval = |before: Thread, time: Nanos, after: State| {
            let sound = before.epoch == epoch;
            let change = Change { thread: key, before, sound, time, end: Edge::Recorded, after };
            (time > before.since).then_some(change)
        };
        [interval(waited, from, held.state), interval(held, until, thread.state)]
    }

    /// Events of a CPU are missing between two times: its use is known up to `from`, and unknown afterwards. The threads of other CPUs keep
    /// their states, unless they are [invalidated](Machine::invalidate).
    pub fn gap<T: Threads<Key = K>>(
        &mut self,
        threads: &mut T,
        cpu: Cpu,
        (from, to): (Nanos, Nanos),
    ) -> Lost<K> {
        let epoch = self.epoch;
        let seat = self.seat_mut(cpu);
        let tenure = seat.tenure(cpu, from, Edge::Gap);
        seat.lose(to);
        let at = At { time: from, cpu, epoch, edge: Edge::Gap };
        let change = match tenure {
            Some(CpuInterval { who: Occupant::Thread(key), .. }) => at.vanish(threads, key),
            _ => None,
        };
        Lost { tenure, change }
    }

    /// Events of any CPU may be missing up to `time`. For CPUs without events so far, the thread that leaves first has had the CPU only
    /// since `time`. CPUs with events each have a [gap](Machine::gap).
    pub fn gap_of_unseen(&mut self, time: Nanos) {
        self.origin = time;
        for seat in self.seats.iter_mut().filter(|seat| !seat.is_seen()) {
            seat.since = time;
        }
    }

    /// The occupant of a CPU becomes unknown although no event is missing: an event stated that it does not report the occupant.
    pub fn forget(&mut self, cpu: Cpu, time: Nanos) {
        self.seat_mut(cpu).forget(time);
    }

    /// Events are missing: any state may have ended unseen, except the state of a thread that has a CPU.
    pub fn invalidate(&mut self) {
        self.epoch = self.epoch.wrapping_add(1);
    }

    /// An idle CPU goes offline. `None` if it is not idle: then it is already online again, or had no events.
    pub fn offline(&mut self, cpu: Cpu, time: Nanos) -> Option<CpuInterval<K>> {
        let seat = self.seat_mut(cpu);
        if seat.occupant != Some(Occupant::Idle) {
            return None;
        }
        let tenure = seat.tenure(cpu, time, Edge::Offline);
        *seat = CpuState { occupant: None, last: None, since: time, begin: Edge::Offline };
        tenure
    }

    /// A CPU is online again: the first thread that is seen to leave it has had it since `time`.
    pub fn online(&mut self, cpu: Cpu, time: Nanos) {
        let seat = self.seat_mut(cpu);
        if seat.occupant.is_none() && seat.begin == Edge::Offline {
            seat.since = time;
        }
    }

    /// A window begins: occupants and states stay known, but the times at which they began do not.
    pub fn cut(&mut self, time: Nanos) {
        self.origin = time;
        self.invalidate();
        for seat in &mut self.seats {
            seat.since = time;
            if seat.begin != Edge::Offline {
                seat.begin = Edge::Start;
            }
        }
    }

    /// The recording ends: the use of the CPUs until then. The caller stores the states of threads.
    pub fn end(&self, time: Nanos) -> impl Iterator<Item = CpuInterval<K>> + '_ {
        let numbered = (0..=u16::MAX).map(Cpu).zip(&self.seats);
        numbered.filter_map(move |(cpu, seat)| seat.tenure(cpu, time, Edge::End))
    }

    #[inline(always)]
    fn seat_mut(&mut self, cpu: Cpu) -> &mut CpuState<K> {
        let at = usize::from(cpu.0);
        if at >= self.seats.len() {
            self.grow(at);
        }
        &mut self.seats[at]
    }

    #[cold]
    fn grow(&mut self, at: usize) {
        self.seats.resize(at + 1, CpuState::unseen(self.origin));
    }
}

/// Where and when something happens to threads.
#[derive(Clone, Copy, Debug)]
struct At {
    time: Nanos,
    cpu: Cpu,
    epoch: u32,
    edge: Edge,
}

impl At {
    /// A thread changes to another state.
    #[inline(always)]
    fn change<T: Threads>(self, threads: &mut T, key: T::Key, after: State) -> Change<T::Key> {
        let At { time, cpu, epoch, edge } = self;
        let thread = threads.thread(key);
        let before = *thread;
        *thread = Thread { since: time, epoch, cpu, state: after, begin: edge };
        Change { thread: key, before, sound: before.epoch == epoch, time, end: edge, after }
    }

    /// A thread is no longer on the CPU; the time at which it left is unknown.
    #[cold]
    fn vanish<T: Threads>(self, threads: &mut T, key: T::Key) -> Option<Change<T::Key>> {
        if !threads.is_kept(key) {
            return None;
        }
        let thread = threads.thread(key);
        // It may have been seen elsewhere since.
        if thread.state != State::Running || thread.cpu != self.cpu {
            return None;
        }
        let edge = if self.edge == Edge::Gap { Edge::Gap } else { Edge::Inferred };
        Some(At { edge, ..self }.change(threads, key, State::Unknown))
    }

    /// A thread whose state was unknown has had the CPU since that time.
    #[cold]
    fn was_running(self, thread: &mut Thread, since: Nanos, begin: Edge) {
        if !thread.state.is_known() {
            // One fact may be known about it after that time: it was no longer on another CPU.
            let since = since.max(thread.since);
            let At { cpu, epoch, .. } = self;
            *thread = Thread { since, epoch, cpu, state: State::Running, begin };
        }
    }
}
