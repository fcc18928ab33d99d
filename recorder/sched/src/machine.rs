//! The machine: a seat for each CPU, and the rules by which threads change.

use fxt_reader::{Cpu, Nanos};

use crate::cpu_state::{CpuInterval, CpuState, Edge, Occupant, edge};
use crate::state::State;
use crate::threads::{Thread, Threads};

#[derive(Clone, Copy, Debug)]
pub struct Switch<K> {
    pub time: Nanos,
    pub cpu: Cpu,
    pub outgoing: Occupant<K>,
    /// What the one that goes out does next, if it is a thread.
    pub next: State,
    pub incoming: Occupant<K>,
    /// Whether nobody reported it, so that it was then at the latest.
    pub inferred: bool,
}

/// The first half of a [`Switch`].
#[derive(Clone, Copy, Debug)]
pub struct Leave<K> {
    pub time: Nanos,
    pub cpu: Cpu,
    pub outgoing: Occupant<K>,
    /// What the one that goes out does next, if it is a thread.
    pub next: State,
    /// Whether nobody reported it.
    pub inferred: bool,
}

/// The second half of a [`Switch`].
#[derive(Clone, Copy, Debug)]
pub struct Enter<K> {
    pub time: Nanos,
    pub cpu: Cpu,
    pub incoming: Occupant<K>,
    /// Whether nobody reported it.
    pub inferred: bool,
}

/// A thread goes over from one state to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Change<K> {
    pub thread: K,
    /// What it was until now: its state, since when, and on which CPU.
    pub before: Thread,
    /// Whether there has been no [invalidation](Machine::invalidate) since that began.
    pub sound: bool,
    /// When it ended.
    pub time: Nanos,
    /// How the end is known.
    pub end: Edge,
    pub after: State,
}

impl<K> Change<K> {
    /// How long it was in the state that ends, in nanoseconds, if events reported both ends and nothing in between is
    /// doubtful. For the time that it had a CPU, see [`Switched::slice`].
    #[inline]
    pub fn length(&self) -> Option<u64> {
        let whole = self.sound && self.before.begin == Edge::Recorded && self.end == Edge::Recorded;
        whole.then_some(self.time.0.saturating_sub(self.before.since.0))
    }
}

/// Whom a switch, or something else that tells who has a CPU, met there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Met {
    /// The one that was thought to have it.
    Expected,
    /// It was not known who had it.
    Vacant,
    /// Another was thought to have it: a switch is missing.
    Displaced,
}

/// What a switch ends.
#[derive(Clone, Copy, Debug)]
pub struct Switched<K> {
    /// Whether who goes out is the one that was thought to have the CPU.
    pub met: Met,
    /// What the CPU was used for until now. If another was [displaced](Met::Displaced), it is that one's.
    pub tenure: CpuInterval<K>,
    /// The thread that was thought to run here, and is now anywhere.
    pub displaced: Option<Change<K>>,
    /// The thread that went out, which was not necessarily thought to be running.
    pub outgoing: Option<Change<K>>,
    /// The thread that came in.
    pub incoming: Option<Change<K>>,
}

impl<K> Switched<K> {
    /// How long the one that went out had the CPU, in nanoseconds, if it was seen to come in and to go out.
    #[inline]
    pub fn slice(&self) -> Option<u64> {
        slice(self.met, &self.tenure)
    }
}

/// What the first half of a switch ends. The fields are those of [`Switched`].
#[derive(Clone, Copy, Debug)]
pub struct Left<K> {
    /// Whether who goes out is the one that was thought to have the CPU.
    pub met: Met,
    /// What the CPU was used for until now.
    pub tenure: CpuInterval<K>,
    /// The thread that was thought to run here, and is now anywhere.
    pub displaced: Option<Change<K>>,
    /// The thread that went out.
    pub outgoing: Option<Change<K>>,
}

impl<K> Left<K> {
    /// As [`Switched::slice`].
    #[inline]
    pub fn slice(&self) -> Option<u64> {
        slice(self.met, &self.tenure)
    }
}

#[inline]
fn slice<K>(met: Met, tenure: &CpuInterval<K>) -> Option<u64> {
    if met == Met::Expected { tenure.length() } else { None }
}

/// Somebody turned out to have a CPU.
#[derive(Clone, Copy, Debug)]
pub struct Found<K> {
    pub met: Met,
    /// What the CPU was used for until now, if that was by another.
    pub tenure: Option<CpuInterval<K>>,
    /// The thread that was thought to run here, and is now anywhere.
    pub displaced: Option<Change<K>>,
    /// The thread that has the CPU, unless it was known to.
    pub thread: Option<Change<K>>,
}

/// What a gap cuts.
#[derive(Clone, Copy, Debug)]
pub struct Lost<K> {
    /// What the CPU was used for before it, where that was known.
    pub tenure: Option<CpuInterval<K>>,
    /// The thread that was thought to run there.
    pub change: Option<Change<K>>,
}

/// The seats of all CPUs, and the rules. See the [crate's documentation](crate).
#[derive(Clone, Debug)]
pub struct Machine<K> {
    seats: Vec<CpuState<K>>,
    /// How often states came into doubt.
    epoch: u32,
    /// When the window began: of a CPU that was not heard of, nothing is known since then.
    origin: Nanos,
}

impl<K> Default for Machine<K> {
    fn default() -> Machine<K> {
        Machine { seats: Vec::new(), epoch: 0, origin: Nanos(0) }
    }
}

impl<K: Copy + PartialEq> Machine<K> {
    /// What is known of a CPU.
    #[inline]
    pub fn seat(&self, cpu: Cpu) -> CpuState<K> {
        let known = self.seats.get(usize::from(cpu.0));
        known.copied().unwrap_or(CpuState::unseen(self.origin))
    }

    /// All CPUs up to the greatest number that was heard of, by number. [`CpuState::is_seen`] tells which were.
    pub fn seats(&self) -> impl ExactSizeIterator<Item = CpuState<K>> + '_ {
        self.seats.iter().copied()
    }

    /// Whether nothing has come into doubt since the thread began to do what it does.
    #[inline]
    pub fn knows(&self, thread: &Thread) -> bool {
        thread.epoch == self.epoch
    }

    /// A CPU goes from one to another: who has it [leaves](Self::leave), and another [enters](Self::enter).
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

    /// The first half of a switch, after which nobody has the CPU. For callers who drop a thread that has ended before they
    /// look up the next, whose key may be the same.
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

    /// The second half of a switch: the thread that comes in, if it is one.
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

    /// Something tells who has a CPU, without being a switch.
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
                // Who has it now has had it since it is not known who has.
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

    /// A thread becomes able to run, and waits for a CPU. `None` when it was so already.
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

    /// The same, of a thread that is [held back](State::WokenThrottled) or not.
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
            // Nobody has taken its CPU since.
            State::Running if self.seat(thread.cpu).occupant == Some(Occupant::Thread(key)) => {
                return None;
            }
            _ => {}
        }
        let at = At { time, cpu, epoch: self.epoch, edge: Edge::Recorded };
        Some(at.change(threads, key, after))
    }

    /// A thread that waits is put into the queue of another CPU, and its wait goes on. The CPU that it left; `None` if it
    /// does not wait, or did so for that CPU already.
    pub fn migrate<T: Threads<Key = K>>(&self, threads: &mut T, key: K, cpu: Cpu) -> Option<Cpu> {
        let thread = threads.thread(key);
        let moves = thread.state.is_waiting() && thread.cpu != cpu;
        moves.then(|| std::mem::replace(&mut thread.cpu, cpu))
    }

    /// It turns out that a thread which waits was held back by a quota for some stretch of its wait, and waits for a CPU
    /// since. What it did before that, and the stretch itself, where they lasted; none if it does not wait, or not so long.
    pub fn held_back<T: Threads<Key = K>>(
        &self,
        threads: &mut T,
        key: K,
        (from, until): (Nanos, Nanos),
    ) -> [Option<Change<K>>; 2] {
        let epoch = self.epoch;
        let thread = threads.thread(key);
        let Some([waited, held]) = thread.held_back((from, until)) else { return [None; 2] };
        let stretch = |before: Thread, time: Nanos, after: State| {
            let sound = before.epoch == epoch;
            let change = Change { thread: key, before, sound, time, end: Edge::Recorded, after };
            (time > before.since).then_some(change)
        };
        [stretch(waited, from, held.state), stretch(held, until, thread.state)]
    }

    /// Events of a CPU are missing between two times: what it was used for is known up to `from`, and then no more. The
    /// threads of other CPUs are as they were, unless they are [invalidated](Machine::invalidate).
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

    /// Events of any CPU may be missing up to `time`: those that were not seen yet are had by whoever leaves them first only
    /// since then. CPUs that were seen have a [gap](Machine::gap) each.
    pub fn gap_of_unseen(&mut self, time: Nanos) {
        self.origin = time;
        for seat in self.seats.iter_mut().filter(|seat| !seat.is_seen()) {
            seat.since = time;
        }
    }

    /// Who has a CPU is not known any more, though nothing is missing: an event said that it says nothing of it.
    pub fn forget(&mut self, cpu: Cpu, time: Nanos) {
        self.seat_mut(cpu).forget(time);
    }

    /// Something is missing: any state may have ended unseen, except that of a thread which has a CPU.
    pub fn invalidate(&mut self) {
        self.epoch = self.epoch.wrapping_add(1);
    }

    /// A CPU that idles goes offline. `None` when it does not idle: then it is back already, or not heard of.
    pub fn offline(&mut self, cpu: Cpu, time: Nanos) -> Option<CpuInterval<K>> {
        let seat = self.seat_mut(cpu);
        if seat.occupant != Some(Occupant::Idle) {
            return None;
        }
        let tenure = seat.tenure(cpu, time, Edge::Offline);
        *seat = CpuState { occupant: None, last: None, since: time, begin: Edge::Offline };
        tenure
    }

    /// A CPU is back: from now on, it is had by whoever is seen to leave it first.
    pub fn online(&mut self, cpu: Cpu, time: Nanos) {
        let seat = self.seat_mut(cpu);
        if seat.occupant.is_none() && seat.begin == Edge::Offline {
            seat.since = time;
        }
    }

    /// A window begins: who has which CPU and who does what stays known, but not for how long it has been so.
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

    /// The recording ends: what the CPUs are used for until then. What threads do goes on too, and the caller has them.
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
    /// A thread goes over to another state.
    #[inline(always)]
    fn change<T: Threads>(self, threads: &mut T, key: T::Key, after: State) -> Change<T::Key> {
        let At { time, cpu, epoch, edge } = self;
        let thread = threads.thread(key);
        let before = *thread;
        *thread = Thread { since: time, epoch, cpu, state: after, begin: edge };
        Change { thread: key, before, sound: before.epoch == epoch, time, end: edge, after }
    }

    /// A thread is no longer on the CPU, and nobody knows since when.
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

    /// A thread of which nothing was known has had the CPU since then.
    #[cold]
    fn was_running(self, thread: &mut Thread, since: Nanos, begin: Edge) {
        if !thread.state.is_known() {
            // Something may be known of it since later than that, if only that it was no longer elsewhere.
            let since = since.max(thread.since);
            let At { cpu, epoch, .. } = self;
            *thread = Thread { since, epoch, cpu, state: State::Running, begin };
        }
    }
}
