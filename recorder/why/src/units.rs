//! Finds the unit of work that took unusually long, for queries that name neither a span nor a kind of interval.
//!
//! Most long waits are normal: a server waits for requests, a client sleeps between them. Such waits are idle. A unit of work extends from
//! the end of one idle wait of a thread to the beginning of the next. A unit that is much longer than the median of its thread's units is
//! an incident.
//!
//! ```text
//!   client   sleeps | send, recv | sleeps | send, recv ............ | sleeps        idle: the sleeps
//!                   |- unit 0.2 -|        |- unit 300: the incident -|
//!   server   epoll  |- work -| epoll ...  |- work ------------| epoll               idle: epoll, since the client slept meanwhile
//! ```
//!
//! Waits at one place are alike: they have the same system call, the same kind of waker, and for sleeps and locks the same stack. A place
//! is idle if the thread waits there in many parts of its lifetime, and if no thread worked for these waits, as far as the recording shows:
//! the wakers, and the wakers' wakers, slept most of the time.
//!
//! After its last idle wait, a thread does its last work, and may then shut down: it waits for the ends of others, closes files, and ends.
//! That work counts as far as it consists of waits that the thread has had before, or of a lock that it tries to get again and again.
//!
//! For a thread without idle waits, such as a client that sends one request after another, single waits are examined: each is compared with
//! the median of those at its place.

mod alike;
mod between;
mod normal;

use alike::StackIds;
use fxtrec_blame::Class;
use fxtrec_blame::threads::Index;
use fxtrec_blame::track::{About, Begin, By, Reason};
use fxtrec_report::stacks::Recorded;
use fxtrec_sched::State;
use rustc_hash::{FxHashMap, FxHasher};
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::hash::{Hash, Hasher};
use std::ops::Range;

pub(crate) use normal::Normal;

/// The maximum number of waits that are kept, of 24 bytes each. If a recording has more, its units of work are not examined for incidents.
const MOST_WAITS: usize = 2_000_000;

/// A thread with fewer units has no usual length.
const LEAST_UNITS: usize = 8;

/// [`LEAST_UNITS`] for threads of a whole machine, many of which have different tasks at different times.
const LEAST_UNITS_OF_ALL: u64 = 20;

/// A place with fewer waits is not judged separately, but together with others in the same system call.
const LEAST_WAITS: usize = 5;

/// An idle place has waits in at least this many tenths of the thread's life.
const LEAST_TENTHS: u32 = 4;

/// The number of waits of a place that are examined to decide whether another thread worked for them.
const SAMPLES: usize = 15;

/// In a process with more threads, fxtrec does not determine which of them sleep.
const MOST_OTHERS: usize = 256;

/// The number of wakers that are followed, from one to the next, and the number of waits of each that are examined.
const MOST_DEEP: usize = 4;
const MOST_INSIDE: usize = 64;

/// The maximum number of incidents to consider when one is explained: the recorder may be the cause of the first.
pub(crate) const MOST_INCIDENTS: usize = 5;

/// How many of a thread's incidents are compared. Only the worst is listed; another takes its place if that one is not the thread's own.
const MOST_OF_THREAD: usize = 3;

/// For a thread without idle waits, only system calls with at least this many waits are examined.
const LEAST_SINGLE: usize = 20;

/// This number of consecutive waits for a lock that timers end: the thread tries to get the lock again and again.
const LEAST_TRIES: usize = 3;

/// The unknown part of a unit is at most its length divided by this.
const MOST_UNKNOWN: u64 = 10;

/// An incident is longer than the median by at least this many nanoseconds, and by at least this many medians.
const LEAST_EXCESS: u64 = 1_000_000;
const LEAST_RATIO: u64 = 5;

/// Values that replace a waker.
const INTERRUPT: Index = Index::MAX;
const UNKNOWN: Index = Index::MAX - 1;
/// Marks an entry that is not a wait, but time in which the thread's state is unknown.
const GAP: Index = Index::MAX - 2;
/// Used in place of a system call.
const NO_CALL: u32 = u32::MAX;

/// A time in which a thread was blocked.
#[derive(Clone, Copy, Debug)]
struct Wait {
    from: u64,
    to: u64,
    call: u32,
    by: Index,
}

impl Wait {
    /// Whether it represents unknown time.
    fn is_gap(&self) -> bool {
        self.by == GAP
    }

    fn length(&self) -> u64 {
        self.to - self.from
    }

    fn call(&self) -> Option<u64> {
        (self.call != NO_CALL).then(|| u64::from(self.call))
    }
}

#[derive(Clone, Debug, Default)]
struct Thread {
    first: u64,
    last: u64,
    /// When the thread blocked, and in which system call.
    blocked: Option<(u64, u32)>,
    /// The time from which the thread's state is unknown.
    unknown: Option<u64>,
    /// Its state at the end.
    state: State,
    waits: Vec<Wait>,
}

/// The waits of all threads.
#[derive(Debug, Default)]
pub(crate) struct Waits {
    threads: Vec<Thread>,
    count: usize,
}

/// A unit of work, or a single wait, in comparison with the others of its thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Unit {
    /// Whether it is a single wait of a thread without idle waits.
    pub(crate) is_wait: bool,
    /// Whether it is the last work of its thread, with no idle wait after it.
    pub(crate) is_last: bool,
    pub(crate) koid: u64,
    pub(crate) from: u64,
    pub(crate) to: u64,
    /// The number of the thread's units, or of its waits at this place.
    pub(crate) count: u64,
    pub(crate) median: u64,
    /// A unit of median length.
    pub(crate) usual: (u64, u64),
    /// The system call of the idle waits, or of these waits.
    pub(crate) call: Option<u64>,
}

impl Unit {
    pub(crate) fn excess(&self) -> u64 {
        (self.to - self.from).saturating_sub(self.median)
    }

    pub(crate) fn is_unusual(&self) -> bool {
        let excess = self.excess();
        excess >= LEAST_EXCESS && excess >= LEAST_RATIO.saturating_mul(self.median)
    }
}

/// The result of judging the units of all threads.
#[derive(Clone, Debug, Default)]
pub(crate) struct Judged {
    /// At most one for each thread, those with the largest excess first.
    pub(crate) incidents: Vec<Unit>,
    /// Further incidents of the same threads, which are not listed.
    pub(crate) others: Vec<Unit>,
    /// The unit with the largest excess among those that are not unusual.
    pub(crate) usual: Option<Unit>,
    /// The longest life of a thread that does one unit of work after another, as threads of a service and of its clients do.
    pub(crate) served: u64,
}

/// The common properties of similar waits: system call, how they end, stack.
type Place = (u32, Ender, u64);

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Ender {
    /// A thread of this name, as a hash.
    Thread(u64),
    Interrupt,
    Unknown,
}

/// The known facts about threads and system calls, other than waits.
pub(crate) struct Known<'a> {
    /// When the recording ends.
    pub(crate) end: u64,
    pub(crate) koid: &'a dyn Fn(Index) -> u64,
    pub(crate) comm: &'a dyn Fn(u64) -> Option<&'a str>,
    pub(crate) process: &'a dyn Fn(u64) -> Option<u64>,
    pub(crate) class: &'a dyn Fn(Option<u64>) -> Class,
    pub(crate) stacks: Option<&'a Recorded>,
    /// The object that a thread waited for between two times, according to the stack.
    pub(crate) by_stack: &'a dyn Fn(u64, (u64, u64)) -> Option<Class>,
}

impl Waits {
    /// A thread changes its state.
    #[inline]
    pub(crate) fn begin(&mut self, index: Index, begin: &Begin) {
        let at = index as usize;
        if at >= self.threads.len() {
            self.threads.resize(at + 1, Thread::default());
        }
        let thread = &mut self.threads[at];
        if thread.first == 0 {
            thread.first = begin.time;
        }
        thread.last = begin.time;
        thread.state = begin.state;
        if let Some(from) = thread.unknown.take() {
            self.add(at, Wait { from, to: begin.time, call: NO_CALL, by: GAP });
        }
        let thread = &mut self.threads[at];
        if begin.state.is_blocked() {
            let call = match begin.about {
                About::Syscall(Some(number)) => u32::try_from(number).unwrap_or(NO_CALL),
                _ => NO_CALL,
            };
            thread.blocked = Some((begin.time, call));
            return;
        }
        if begin.state == State::Unknown {
            // The thread was blocked until shortly before it has a CPU again; only the wakeup is missing from the file.
            let reason = About::Unknown(Reason::NoWakeup);
            if thread.blocked.is_some() && begin.about == reason {
                return;
            }
            thread.unknown = Some(begin.time);
            return;
        }
        let Some((from, call)) = thread.blocked.take() else { return };
        let by = match (begin.state, begin.about) {
            (State::Woken | State::WokenThrottled, About::Woken(By::Thread(waker))) => waker,
            (State::Woken | State::WokenThrottled, About::Woken(By::Interrupt(_))) => INTERRUPT,
            (State::Woken | State::WokenThrottled | State::Running, _) => UNKNOWN,
            // The thread ended, or its state is unknown.
            _ => return,
        };
        if from < begin.time {
            self.add(at, Wait { from, to: begin.time, call, by });
        }
    }

    #[inline]
    fn add(&mut self, thread: usize, wait: Wait) {
        self.count += 1;
        if self.count <= MOST_WAITS {
            self.threads[thread].waits.push(wait);
        }
    }

    /// Whether there were more waits than can be kept.
    pub(crate) fn is_cut(&self) -> bool {
        self.count > MOST_WAITS
    }

    /// From the first record of a thread to its last.
    pub(crate) fn life(&self, thread: Index) -> u64 {
        self.threads.get(thread as usize).map_or(0, |thread| thread.last - thread.first)
    }

    /// How long a thread waited in the system calls that `is_one` accepts.
    pub(crate) fn in_calls(&self, thread: Index, is_one: impl Fn(Option<u64>) -> bool) -> u64 {
        let waits = self.threads.get(thread as usize).map_or(&[][..], |thread| &thread.waits);
        waits.iter().filter(|it| !it.is_gap() && is_one(it.call())).map(Wait::length).sum()
    }

    /// Judges the threads that `wanted` accepts, and finds at most this many incidents. `all`: these are the threads of a whole machine;
    /// kernel threads, which never wait in a system call, are left out.
    pub(crate) fn judge(
        &self,
        known: &Known<'_>,
        most: usize,
        all: bool,
        wanted: impl Fn(u64) -> bool,
    ) -> Judged {
        if self.is_cut() {
            return Judged::default();
        }
        let stacks = known.stacks.map(StackIds::of).unwrap_or_default();
        let processes = Processes::of(self, known);
        let mut idle: Vec<Vec<bool>> = vec![Vec::new(); self.threads.len()];
        let mut found: Vec<(usize, Unit)> = Vec::new();
        let mut usual: Option<Unit> = None;
        let mut served = 0;
        for (at, thread) in self.threads.iter().enumerate() {
            let koid = (known.koid)(at as Index);
            if thread.waits.len() < LEAST_UNITS || !wanted(koid) {
                continue;
            }
            let (units, is_idle) = self.of_thread(at, koid, known, (&stacks, &processes));
            idle[at] = is_idle;
            for unit in units {
                if all && (unit.call.is_none() || unit.count < LEAST_UNITS_OF_ALL) {
                    continue;
                }
                if !unit.is_wait {
                    served = served.max(thread.last - thread.first);
                }
                match unit.is_unusual() {
                    true => found.push((at, unit)),
                    false => usual = usual.into_iter().chain([unit]).max_by_key(Unit::excess),
                }
            }
        }
        found.retain(|(at, unit)| {
            let in_background = || {
                let others = processes.others((known.koid)(*at as Index), known);
                self.is_in_background(*at, unit, &idle, (others, known))
            };
            unit.is_wait || !self.is_idle_after_all(*at, unit, &idle) && !in_background()
        });
        // The last work of a thread represents the thread only if no other unit of the thread is worse.
        found.sort_by_key(|(at, unit)| (*at, Reverse(unit.excess())));
        let mut others: Vec<(usize, Unit)> = Vec::new();
        found.dedup_by(|other, first| {
            let is_same = (other.0, other.1.is_wait) == (first.0, first.1.is_wait);
            others.extend(is_same.then_some(*other));
            is_same
        });
        // Units take precedence over single waits, whose usual length is known only for their place, unless these are much worse. A long
        // wait for a thread, or a wait during most of a thread's life, is often normal, like that of a main thread.
        let units = found.iter().filter(|(_, unit)| !unit.is_wait);
        if let Some(worst) = units.map(|(_, unit)| unit.excess()).max() {
            let least = worst.saturating_mul(LEAST_RATIO);
            found.retain(|(at, unit)| {
                let life = self.life(*at as Index);
                let may_count =
                    (known.class)(unit.call) != Class::Lock && unit.to - unit.from < life / 2;
                !unit.is_wait || may_count && unit.excess() >= least
            });
        }
        found.sort_by_key(|(_, unit)| Reverse((unit.excess(), unit.from)));
        let (mut units, mut listed) = (Vec::new(), Vec::new());
        while units.len() < most && !found.is_empty() {
            let (mut chosen, mut unit) = found.remove(0);
            // If another thread waited for the chosen one in that time, the other thread was late. No thread is chosen twice.
            while let Some(at) =
                found.iter().position(|(at, it)| self.waits_for((*at, it), (chosen, &unit), known))
            {
                (chosen, unit) = found.remove(at);
            }
            // The thing that it waited for belongs to the same incident.
            found.retain(|(at, it)| !self.waits_for((chosen, &unit), (*at, it), known));
            units.push(unit);
            listed.push(chosen);
        }
        others.retain(|(at, _)| listed.contains(at));
        others.sort_by_key(|(_, unit)| Reverse((unit.excess(), unit.from)));
        let others = others.into_iter().map(|(_, unit)| unit).take(MOST_INCIDENTS).collect();
        Judged { incidents: units, others, usual, served }
    }

    /// The longest units of a thread, and the longest unit that is not unusual; for a thread without idle waits, the same for its single
    /// waits. Also returns which waits are idle.
    fn of_thread(
        &self,
        at: usize,
        koid: u64,
        known: &Known<'_>,
        (stacks, processes): (&StackIds, &Processes),
    ) -> (Vec<Unit>, Vec<bool>) {
        let thread = &self.threads[at];
        let places = self.places(thread, koid, known, stacks);
        let others = processes.others(koid, known);
        let idle = self.idle_places(thread, &places, known, (others, stacks, koid));
        let Some(main) = idle.iter().max_by_key(|it| (*it.1, *it.0)).map(|it| *it.0) else {
            return (self.single_waits(at, koid, &places, known), Vec::new());
        };
        let Divided { mut units, is_idle, last } = self.units(thread, &places, main, &idle);
        if units.len() < LEAST_UNITS {
            return (Vec::new(), is_idle);
        }
        let mut found = compare(false, koid, main.0, units.clone());
        // In its first units, a thread still starts up: it loads code, and a runtime compiles. An unusual one among them counts only if the
        // thread was blocked for at least half of the excess.
        let first = LEAST_WAITS.min(units.len() / LEAST_UNITS);
        let starts = |&(_, from, to): &(u64, u64, u64)| {
            let unit = found.first().map(|any| Unit { from, to, ..*any });
            let blocked = |unit: &Unit| Self::blocked(thread, (unit.from, unit.to));
            unit.is_some_and(|unit| unit.is_unusual() && blocked(&unit) < unit.excess() / 2)
        };
        let work: Vec<(u64, u64, u64)> =
            units[..first].iter().filter(|it| !starts(it)).copied().collect();
        if work.len() < first {
            units.splice(..first, work);
            found = compare(false, koid, main.0, units);
        }
        let last = last.and_then(|at| self.last_work(thread, &places, at, &idle, known));
        if let Some((last, (from, to))) = found.first().copied().zip(last) {
            let last = Unit { is_last: true, from, to, ..last };
            found.extend(Some(last).filter(Unit::is_unusual));
        }
        (found, is_idle)
    }

    /// Divides a thread's life at its idle waits, most of which are at the place `main`.
    fn units(
        &self,
        thread: &Thread,
        places: &[Place],
        main: Place,
        idle: &FxHashMap<Place, usize>,
    ) -> Divided {
        let mut is_idle = vec![false; thread.waits.len()];
        // Earlier waits belong to the thread's start-up.
        let begin = places.iter().position(|place| *place == main).unwrap_or(0);
        let mut units = Vec::new();
        let mut since: Option<u64> = None;
        let mut last = None;
        let mut gaps = Gaps::default();
        for (at, (wait, place)) in thread.waits.iter().zip(places).enumerate().skip(begin) {
            if wait.is_gap() {
                gaps.add(wait);
                continue;
            }
            // If the waker exists only since then, the thread that waited for it earlier was idle.
            let waker = self.threads.get(wait.by as usize);
            is_idle[at] = idle.contains_key(place) || waker.is_some_and(|it| it.first > wait.from);
            if !is_idle[at] {
                continue;
            }
            if let Some(since) = since.filter(|since| gaps.may_be_within((*since, wait.from))) {
                units.push((wait.from.saturating_sub(since), since, wait.from));
            }
            (since, gaps) = (Some(wait.to), Gaps::default());
            // The event that ends an idle wait in an unusual way may be the request to shut down.
            last = idle.get(place).filter(|count| **count >= LEAST_WAITS).map(|_| at);
        }
        Divided { units, is_idle, last }
    }

    /// When a thread worked after its last idle wait, which is `at`: from then until the end of its last wait that counts, or until the end
    /// of the recording. Its shut-down is left out.
    fn last_work(
        &self,
        thread: &Thread,
        places: &[Place],
        at: usize,
        idle: &FxHashMap<Place, usize>,
        known: &Known<'_>,
    ) -> Option<(u64, u64)> {
        let (since, rest) = (thread.waits[at].to, at + 1..thread.waits.len());
        let waits = |range: Range<usize>| range.map(|at| (&thread.waits[at], places[at]));
        let rest: Vec<(&Wait, Place)> = waits(rest).collect();
        let are_usual = |is_one: &dyn Fn(&Place) -> bool| {
            let same = waits(0..at).filter(|(wait, place)| !wait.is_gap() && is_one(place));
            same.take(LEAST_WAITS).count() == LEAST_WAITS
        };
        let class = |call: u32| (known.class)((call != NO_CALL).then(|| u64::from(call)));
        let is_lock = |wait: &Wait| !wait.is_gap() && class(wait.call) == Class::Lock;
        let (mut to, mut blocked, mut unknown, mut is_over) = (since, 0, 0, thread.state.is_over());
        // Whether the thread is in a series of tries.
        let mut tries = false;
        for alike in rest.chunk_by(|a, b| is_lock(a.0) && is_lock(b.0)) {
            let first = alike[0].0;
            if first.is_gap() {
                unknown += first.length();
                continue;
            }
            let by_timer = alike.iter().filter(|it| it.0.by == INTERRUPT).count();
            tries = is_lock(first) && by_timer >= LEAST_TRIES;
            let is_end = |wait: &Wait| match class(wait.call) {
                Class::Child | Class::Sleep | Class::Signal | Class::Other | Class::Unknown => true,
                Class::Poll if wait.by == INTERRUPT => true,
                _ => self.ends_after(wait.by, wait.to),
            };
            let end = alike.iter().position(|it| is_end(it.0)).unwrap_or(alike.len());
            for (wait, place) in &alike[..end] {
                // A server that waits for the request to shut down waits for threads that sleep.
                let is_worked_for = || {
                    matches!(wait.by, INTERRUPT | UNKNOWN)
                        || self.worked(wait, known, MOST_DEEP) >= wait.length() / 2
                };
                let is_usual = || are_usual(&|it| it == place);
                if tries || !is_lock(wait) && is_usual() && is_worked_for() {
                    (to, blocked) = (wait.to, blocked + wait.length());
                }
            }
            if end < alike.len() {
                is_over = true;
                break;
            }
        }
        let is_active = thread.state == State::Running || thread.state.is_waiting();
        if !is_over {
            match thread.blocked.filter(|_| thread.state.is_blocked()) {
                None if is_active => return Some((since, known.end)).filter(|_| unknown == 0),
                Some((from, call)) if idle.keys().any(|place| place.0 == call) => {
                    return Some((since, from)).filter(|_| unknown == 0);
                }
                None => {}
                Some((from, call)) => {
                    let counts = match class(call) {
                        Class::Lock => tries,
                        Class::Disk | Class::Network | Class::Socket | Class::Io => {
                            are_usual(&|place| place.0 == call)
                        }
                        _ => false,
                    };
                    if counts {
                        (to, blocked) = (known.end, blocked + known.end.saturating_sub(from));
                    }
                }
            }
        }
        let length = to - since;
        (blocked > length / 2 && unknown <= length / MOST_UNKNOWN).then_some((since, to))
    }

    /// Whether a thread ended after this time, without waiting for anything before that.
    fn ends_after(&self, thread: Index, time: u64) -> bool {
        self.threads.get(thread as usize).is_some_and(|it| {
            it.state.is_over() && it.waits.last().is_none_or(|wait| wait.from < time)
        })
    }

    /// The longest single waits, compared with those in the same system call, of a thread without idle waits.
    fn single_waits(&self, at: usize, koid: u64, places: &[Place], known: &Known<'_>) -> Vec<Unit> {
        let thread = &self.threads[at];
        let life = thread.last - thread.first;
        let is_lock = |call: u32| (known.class)(Some(u64::from(call))) == Class::Lock;
        let mut found = Vec::new();
        for (call, mut list) in self.comparable(thread, places, known) {
            if is_lock(call) && !self.asks(at, call) {
                continue;
            }
            // The first waits belong to the start-up of the thread, and to the start-up of the threads for which it waits.
            list.drain(..LEAST_WAITS.min(list.len()));
            let (Some(first), Some(last)) = (list.first(), list.last()) else { continue };
            // From the first to the last, the waits must span more than half of the thread's life.
            if list.len() >= LEAST_SINGLE && last.2 - first.1 > life / 2 {
                found.extend(compare(true, koid, call, list));
            }
        }
        found
    }

    /// By system call, the waits of a thread that can be compared with each other, as (length, begin, end).
    fn comparable(
        &self,
        thread: &Thread,
        places: &[Place],
        known: &Known<'_>,
    ) -> BTreeMap<u32, Vec<(u64, u64, u64)>> {
        let life = thread.last - thread.first;
        let mut lists: BTreeMap<u32, Vec<(u64, u64, u64)>> = BTreeMap::new();
        // If a thread ends after a wait at a place where it never waited before, a request to end may have ended that wait.
        let is_killed = thread.state.is_over()
            && places.split_last().is_some_and(|(last, others)| !others.contains(last));
        let counted = thread.waits.len() - usize::from(is_killed);
        let waits = thread.waits.iter().zip(places).take(counted);
        for (wait, place) in waits.filter(|it| !it.0.is_gap()) {
            // A wait for the end of another process takes as long as that process's work.
            let class = (known.class)(wait.call());
            // A long wait for a thread is normal if the other thread is idle most of the time, or if the wait takes more than half of the
            // life, like that of a main thread.
            let is_normal = || {
                class == Class::Lock
                    && wait.length() >= LEAST_EXCESS
                    && (wait.length() > life / 2
                        || self.worked(wait, known, MOST_DEEP) < wait.length() / 2)
            };
            if !matches!(class, Class::Child | Class::Sleep | Class::Signal) && !is_normal() {
                lists.entry(place.0).or_default().push((wait.length(), wait.from, wait.to));
            }
        }
        lists
    }

    /// The places at which the thread waits because it is idle, with the number of waits at each.
    fn idle_places(
        &self,
        thread: &Thread,
        places: &[Place],
        known: &Known<'_>,
        (others, stacks, koid): (&[Index], &StackIds, u64),
    ) -> FxHashMap<Place, usize> {
        let class = |place: &Place| (known.class)((place.0 != NO_CALL).then(|| u64::from(place.0)));
        let mut waits: FxHashMap<Place, Vec<&Wait>> = FxHashMap::default();
        for (wait, place) in thread.waits.iter().zip(places).filter(|it| !it.0.is_gap()) {
            waits.entry(*place).or_default().push(wait);
        }
        let life = (thread.last - thread.first).max(1);
        let tenths = |waits: &[&Wait]| {
            let tenth = |wait: &&Wait| {
                (u128::from(wait.from.saturating_sub(thread.first)) * 10 / u128::from(life)).min(9)
            };
            waits.iter().fold(0_u16, |all, wait| all | 1 << tenth(wait)).count_ones()
        };
        let mut idle = FxHashMap::default();
        // Used only if there are no other idle places. `seldom`: idle places in only a part of the thread's life, for instance because one
        // long delay takes most of it. `perhaps`: places where it is unknown whether another thread works for the waits.
        let (mut seldom, mut perhaps) = (FxHashMap::default(), FxHashMap::default());
        for (place, list) in waits.iter().filter(|(_, list)| list.len() >= LEAST_WAITS) {
            let is_frequent = tenths(list) >= LEAST_TENTHS;
            match self.is_idle(place, list, known, others) {
                Some(true) if is_frequent => drop(idle.insert(*place, list.len())),
                Some(true) => drop(seldom.insert(*place, list.len())),
                None if is_frequent => drop(perhaps.insert(*place, list.len())),
                _ => {}
            }
        }
        if idle.is_empty() {
            // Only the busiest of them: the others may belong to the long delay.
            idle.extend(seldom.into_iter().max_by_key(|(place, count)| (*count, *place)));
        }
        if idle.is_empty() {
            idle = perhaps;
        }
        // A rare waker ends waits that others usually end, such as a new client, or a process that sends the stop signal. An unseen waker
        // counts as rare. Where the stack is the same, the most frequent waker decides.
        let alike = |place: &Place, count: usize| {
            idle.iter().any(|(it, usual)| {
                (it.0, it.2) == (place.0, place.2)
                    && (matches!(it.1, Ender::Thread(_)) || place.1 == Ender::Unknown)
                    && (count < LEAST_WAITS || place.2 != 0 && count < *usual)
            })
        };
        // Code that is compiled while it runs, or called in different ways, waits for the same threads at different places.
        let same = |place: &Place, list: &[&Wait]| {
            matches!(place.1, Ender::Thread(_))
                && idle.keys().any(|it| {
                    // Without stacks, a timed wait may be at the same place as one that a thread ended.
                    let may_be_timed =
                        place.2 == 0 && it.1 == Ender::Interrupt && class(place) == Class::Lock;
                    // An event loop waits for requests of all clients at one place.
                    let is_loop = class(place) == Class::Poll && list.len() >= LEAST_WAITS;
                    it.0 == place.0 && (it.1 == place.1 || may_be_timed || is_loop)
                })
                && self.is_idle(place, list, known, others) == Some(true)
        };
        // A timer ends a wait of an event loop, which also waits for requests there.
        let polls = |list: &[&Wait]| -> Vec<u64> {
            let stacks = list.iter().take(SAMPLES).filter_map(|wait| stacks.find(koid, wait));
            stacks.map(|stack| stack.sleeper).collect()
        };
        let is_loop = |place: &Place, list: &[&Wait]| {
            if place.1 != Ender::Interrupt || class(place) != Class::Poll {
                return false;
            }
            let alike = idle.keys().filter(|it| it.0 == place.0).flat_map(|it| polls(&waits[it]));
            let (own, alike) = (polls(list), alike.collect::<Vec<u64>>());
            !own.is_empty() && own.iter().all(|stack| alike.contains(stack))
        };
        let rare: Vec<(Place, usize)> = waits
            .iter()
            .filter(|(place, list)| {
                !idle.contains_key(place)
                    && (place.1 != Ender::Interrupt && alike(place, list.len())
                        || same(place, list)
                        || is_loop(place, list))
            })
            .map(|(place, list)| (*place, list.len()))
            .collect();
        idle.extend(rare);
        idle
    }

    /// Whether no thread worked for the waits at a place; `None` if that is unknown. `others` are the other threads of the process.
    fn is_idle(
        &self,
        place: &Place,
        waits: &[&Wait],
        known: &Known<'_>,
        others: &[Index],
    ) -> Option<bool> {
        let class = (known.class)((place.0 != NO_CALL).then(|| u64::from(place.0)));
        match (class, place.1) {
            (Class::Sleep | Class::Signal, _)
            | (Class::Poll, Ender::Interrupt | Ender::Unknown) => Some(true),
            // Neither a wait for a disk nor that for a child process, which did what its parent wants, even if it slept.
            (Class::Disk | Class::Child, _) => Some(false),
            // A timer ends it: the thread tries to get a lock that another thread has, unless all others sleep.
            (Class::Lock, Ender::Interrupt) => {
                let share = |wait: &Wait| self.most_awake(others, wait) * 100 / wait.length();
                (others.len() <= MOST_OTHERS && median(waits, share) < 50).then_some(true)
            }
            (Class::Lock | Class::Socket | Class::Network, Ender::Interrupt | Ender::Unknown) => {
                None
            }
            (_, Ender::Interrupt | Ender::Unknown) => Some(false),
            (_, Ender::Thread(_)) => {
                let share = |wait: &Wait| {
                    self.worked(wait, known, MOST_DEEP).saturating_mul(100) / wait.length()
                };
                Some(median(waits, share) < 50)
            }
        }
    }
}

/// A thread's life, divided at its idle waits.
struct Divided {
    /// Length, begin and end of each unit of work.
    units: Vec<(u64, u64, u64)>,
    /// The idle waits of the thread.
    is_idle: Vec<bool>,
    /// The last of these, if the thread often waits at that place.
    last: Option<usize>,
}

/// The unknown times within a unit: they may contain an idle wait.
#[derive(Clone, Copy, Debug, Default)]
struct Gaps {
    all: u64,
    /// When the last one ended.
    last: Option<u64>,
    /// The longest known time that ends with one of them.
    known: u64,
    /// When the first one began.
    first: u64,
}

impl Gaps {
    fn add(&mut self, gap: &Wait) {
        match self.last {
            None => self.first = gap.from,
            Some(last) => self.known = self.known.max(gap.from.saturating_sub(last)),
        }
        (self.all, self.last) = (self.all + gap.length(), Some(gap.to));
    }

    /// Whether the time between two points may count as a unit: little of it is unknown, or at least half of it is known in one piece.
    fn may_be_within(&self, (from, to): (u64, u64)) -> bool {
        let length = to.saturating_sub(from);
        let Some(last) = self.last else { return true };
        let pieces = [self.first.saturating_sub(from), self.known, to.saturating_sub(last)];
        self.all <= length / MOST_UNKNOWN || pieces.iter().any(|piece| *piece >= length / 2)
    }
}

/// For units given as (length, begin, end): the longest if it is unusual, and the longest that is not unusual.
fn compare(is_wait: bool, koid: u64, call: u32, mut units: Vec<(u64, u64, u64)>) -> Vec<Unit> {
    let count = units.len() as u64;
    let middle = units.len() / 2;
    let (median, from, to) = *units.select_nth_unstable(middle).1;
    let usual = (from, to);
    let call = (call != NO_CALL).then(|| u64::from(call));
    let unit = |&(_, from, to): &(u64, u64, u64)| Unit {
        is_wait,
        is_last: false,
        koid,
        from,
        to,
        count,
        median,
        usual,
        call,
    };
    let all = || units.iter().map(&unit);
    let mut found: Vec<Unit> = all().filter(Unit::is_unusual).collect();
    found.sort_by_key(|unit| Reverse((unit.excess(), unit.from)));
    found.truncate(MOST_OF_THREAD);
    found.extend(all().filter(|it| !it.is_unusual()).max_by_key(|it| (it.excess(), it.from)));
    found
}

/// The median of a share of some of the waits.
fn median(waits: &[&Wait], share: impl Fn(&Wait) -> u64) -> u64 {
    let step = waits.len().div_ceil(SAMPLES);
    let mut shares: Vec<u64> = waits.iter().step_by(step).map(|wait| share(wait)).collect();
    let middle = shares.len() / 2;
    *shares.select_nth_unstable(middle).1
}

/// The threads of each process.
#[derive(Debug, Default)]
struct Processes(FxHashMap<u64, Vec<Index>>);

impl Processes {
    fn of(waits: &Waits, known: &Known<'_>) -> Processes {
        let mut processes = Processes::default();
        for at in 0..waits.threads.len() {
            let index = at as Index;
            if let Some(process) = (known.process)((known.koid)(index)) {
                processes.0.entry(process).or_default().push(index);
            }
        }
        processes
    }

    /// All threads of the process of a thread. This includes the thread itself, which is blocked in all relevant cases.
    fn others(&self, koid: u64, known: &Known<'_>) -> &[Index] {
        let threads = (known.process)(koid).and_then(|process| self.0.get(&process));
        threads.map_or(&[], Vec::as_slice)
    }
}

fn hash(what: impl Hash) -> u64 {
    let mut hasher = FxHasher::default();
    what.hash(&mut hasher);
    hasher.finish()
}
