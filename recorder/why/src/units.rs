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
//! For a thread without idle waits, such as a client that sends one request after the other, single waits are examined: each is compared
//! with the median of those at its place.

use fxt_reader::Koid;
use fxtrec_blame::Class;
use fxtrec_blame::threads::Index;
use fxtrec_blame::track::{About, Begin, By, Reason};
use fxtrec_report::stacks::{LATE, Recorded};
use fxtrec_sched::State;
use fxtrec_sched::backtrace::Kind;
use rustc_hash::{FxHashMap, FxHasher};
use std::cmp::Reverse;
use std::hash::{Hash, Hasher};

/// The maximum number of waits that are kept, of 24 bytes each. If a recording has more, its units of work are not examined for incidents.
const MOST_WAITS: usize = 2_000_000;

/// A thread with fewer units has no usual length.
const LEAST_UNITS: usize = 8;

/// The same for threads of a whole machine, many of which have different tasks at different times.
const LEAST_UNITS_OF_ALL: u64 = 20;

/// A place with fewer waits is not judged by itself, but like others with the same system call.
const LEAST_WAITS: usize = 5;

/// An idle place has waits in at least this many tenths of the thread's life.
const LEAST_TENTHS: u32 = 4;

/// How many waits of a place are examined to decide whether another thread worked for them.
const SAMPLES: usize = 15;

/// How many wakers are followed, from one to the next, and how many waits of each are examined.
const MOST_DEEP: usize = 4;
const MOST_INSIDE: usize = 64;

/// The maximum number of incidents to consider when one is explained: the recorder may be the cause of the first.
pub(crate) const MOST_INCIDENTS: usize = 5;

/// For a thread without idle waits, only system calls with at least this many waits are examined.
const LEAST_SINGLE: usize = 20;

/// The unknown part of a unit is at most its length divided by this.
const MOST_UNKNOWN: u64 = 10;

/// An incident is longer than the median by at least this many nanoseconds, and by at least this many medians.
const LEAST_EXCESS: u64 = 1_000_000;
const LEAST_RATIO: u64 = 5;

/// Values in place of a waker.
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
    /// Since when the thread is blocked, and in which system call.
    blocked: Option<(u64, u32)>,
    /// Since when the thread's state is unknown.
    unknown: Option<u64>,
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
    /// The unit with the largest excess among those that are not unusual.
    pub(crate) usual: Option<Unit>,
    /// The longest life of a thread that does one unit of work after the other, as those of a service and its clients do.
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

/// The known facts about threads and system calls, apart from waits.
pub(crate) struct Known<'a> {
    pub(crate) koid: &'a dyn Fn(Index) -> u64,
    pub(crate) comm: &'a dyn Fn(u64) -> Option<&'a str>,
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
            // The thread was blocked until shortly before it has a CPU again; only the wake-up is missing from the file.
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

    /// Judges the threads that `wanted` accepts, and finds at most this many incidents. `all`: these are the threads of a whole machine,
    /// and kernel threads, which wait in no system call, are left out.
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
        let mut found: Vec<(usize, Unit)> = Vec::new();
        let mut usual: Option<Unit> = None;
        let mut served = 0;
        for (at, thread) in self.threads.iter().enumerate() {
            let koid = (known.koid)(at as Index);
            if thread.waits.len() < LEAST_UNITS || !wanted(koid) {
                continue;
            }
            for unit in self.of_thread(thread, koid, known, &stacks) {
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
        // Units take precedence over single waits, whose usual length is known only for their place.
        if found.iter().any(|(_, unit)| !unit.is_wait) {
            found.retain(|(_, unit)| !unit.is_wait);
        }
        found.sort_by_key(|(_, unit)| Reverse((unit.excess(), unit.from)));
        let mut units = Vec::new();
        while units.len() < most && !found.is_empty() {
            let (mut chosen, mut unit) = found.remove(0);
            // A thread that waited for the chosen one in that time is the one that was late. No thread is chosen twice.
            while let Some(at) =
                found.iter().position(|(at, it)| self.waits_for(*at, it, chosen, &unit))
            {
                (chosen, unit) = found.remove(at);
            }
            // The object that it waited for belongs to the same incident.
            found.retain(|(at, it)| !self.waits_for(chosen, &unit, *at, it));
            units.push(unit);
        }
        Judged { incidents: units, usual, served }
    }

    /// Whether the thread waited, during its unit, for most of the other's unit.
    fn waits_for(&self, at: usize, unit: &Unit, other_at: usize, other: &Unit) -> bool {
        let waits = &self.threads[at].waits;
        let first = waits.partition_point(|wait| wait.to <= unit.from);
        let inside = waits[first..].iter().take_while(|wait| wait.from < unit.to);
        let most = (other.to - other.from) / 5 * 4;
        at != other_at
            && inside
                .filter(|wait| wait.by as usize == other_at)
                .any(|wait| wait.to.min(other.to).saturating_sub(wait.from.max(other.from)) >= most)
    }

    /// The longest unit of a thread, and the longest that is not unusual; the same of single waits if the thread has no idle waits.
    fn of_thread(
        &self,
        thread: &Thread,
        koid: u64,
        known: &Known<'_>,
        stacks: &StackIds,
    ) -> Vec<Unit> {
        let places: Vec<Place> =
            thread.waits.iter().map(|wait| self.place(wait, koid, known, stacks)).collect();
        let idle = self.idle_places(thread, &places, known);
        let Some(main) = idle.iter().max_by_key(|it| (*it.1, *it.0)).map(|it| *it.0) else {
            return self.single_waits(thread, koid, &places, known);
        };
        // Earlier waits belong to the thread's start-up.
        let begin = places.iter().position(|place| *place == main).unwrap_or(0);
        let mut units = Vec::new();
        let mut since = None;
        let mut unknown = 0;
        for (wait, place) in thread.waits.iter().zip(&places).skip(begin) {
            if wait.is_gap() {
                unknown += wait.length();
                continue;
            }
            // The waker exists only since then: a thread that waited for it earlier was idle.
            let waker = self.threads.get(wait.by as usize);
            let is_idle = idle.contains_key(place) || waker.is_some_and(|it| it.first > wait.from);
            if !is_idle {
                continue;
            }
            if let Some(since) = since {
                let length = wait.from.saturating_sub(since);
                // The unknown time may contain an idle wait.
                if unknown <= length / MOST_UNKNOWN {
                    units.push((length, since, wait.from));
                }
            }
            (since, unknown) = (Some(wait.to), 0);
        }
        if units.len() < LEAST_UNITS {
            return Vec::new();
        }
        compare(false, koid, main.0, units)
    }

    /// The longest single waits, compared with those in the same system call, of a thread without idle waits.
    fn single_waits(
        &self,
        thread: &Thread,
        koid: u64,
        places: &[Place],
        known: &Known<'_>,
    ) -> Vec<Unit> {
        let mut lists: FxHashMap<u32, Vec<(u64, u64, u64)>> = FxHashMap::default();
        for (wait, place) in thread.waits.iter().zip(places).filter(|it| !it.0.is_gap()) {
            // A wait for the end of another process takes as long as that process's work.
            let class = (known.class)(wait.call());
            if !matches!(class, Class::Child | Class::Sleep | Class::Signal) {
                lists.entry(place.0).or_default().push((wait.length(), wait.from, wait.to));
            }
        }
        let mut calls: Vec<u32> = lists.keys().copied().collect();
        calls.sort_unstable();
        let life = thread.last - thread.first;
        let mut found = Vec::new();
        for call in calls {
            let list = lists.remove(&call).unwrap_or_default();
            let (Some(first), Some(last)) = (list.first(), list.last()) else { continue };
            // From the first to the last, the waits must span more than half of the thread's life.
            if list.len() >= LEAST_SINGLE && last.2 - first.1 > life / 2 {
                found.extend(compare(true, koid, call, list));
            }
        }
        found
    }

    fn place(&self, wait: &Wait, koid: u64, known: &Known<'_>, stacks: &StackIds) -> Place {
        let ender = match wait.by {
            INTERRUPT => Ender::Interrupt,
            UNKNOWN => Ender::Unknown,
            by => Ender::Thread(hash((known.comm)((known.koid)(by)).unwrap_or_default())),
        };
        // Only longer waits have stacks. For classes other than these, a stack would separate long waits from short ones.
        let has_place = matches!((known.class)(wait.call()), Class::Sleep | Class::Lock);
        let stack = if has_place { stacks.find(koid, wait) } else { 0 };
        (wait.call, ender, stack)
    }

    /// The places at which the thread waits because it is idle, with the number of waits at each.
    fn idle_places(
        &self,
        thread: &Thread,
        places: &[Place],
        known: &Known<'_>,
    ) -> FxHashMap<Place, usize> {
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
        // These count only if there are no others. `seldom`: idle places in only a part of the thread's life, for instance because one long
        // delay takes most of it. `perhaps`: places where it is unknown whether another thread works for the waits.
        let (mut seldom, mut perhaps) = (FxHashMap::default(), FxHashMap::default());
        for (place, list) in waits.iter().filter(|(_, list)| list.len() >= LEAST_WAITS) {
            let is_frequent = tenths(list) >= LEAST_TENTHS;
            match self.is_idle(place, list, known) {
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
        // A rare waker ends waits that others usually end, such as a new client, or a process that sends the stop signal. A waker that was
        // not recorded may have worked, too.
        let alike = |place: &Place| {
            idle.keys().any(|it| {
                (it.0, it.2) == (place.0, place.2)
                    && (matches!(it.1, Ender::Thread(_)) || place.1 == Ender::Unknown)
            })
        };
        let rare: Vec<(Place, usize)> = waits
            .iter()
            .filter(|(place, list)| list.len() < LEAST_WAITS && place.1 != Ender::Interrupt)
            .filter(|(place, _)| alike(place))
            .map(|(place, list)| (*place, list.len()))
            .collect();
        idle.extend(rare);
        idle
    }

    /// Whether no thread worked for the waits at a place; `None` if that is unknown.
    fn is_idle(&self, place: &Place, waits: &[&Wait], known: &Known<'_>) -> Option<bool> {
        let class = (known.class)((place.0 != NO_CALL).then(|| u64::from(place.0)));
        match (class, place.1) {
            (Class::Sleep | Class::Signal, _)
            | (Class::Poll, Ender::Interrupt | Ender::Unknown) => Some(true),
            (Class::Lock | Class::Socket | Class::Network, Ender::Interrupt | Ender::Unknown) => {
                None
            }
            (_, Ender::Interrupt | Ender::Unknown) => Some(false),
            (_, Ender::Thread(_)) => {
                let step = waits.len().div_ceil(SAMPLES);
                let sampled = waits.iter().step_by(step);
                let mut shares: Vec<u64> = sampled
                    .map(|wait| {
                        self.worked(wait, known, MOST_DEEP).saturating_mul(100) / wait.length()
                    })
                    .collect();
                let middle = shares.len() / 2;
                Some(*shares.select_nth_unstable(middle).1 < 50)
            }
        }
    }

    /// How long, during this wait, the waker or a thread that it waited for was active.
    fn worked(&self, wait: &Wait, known: &Known<'_>, deep: usize) -> u64 {
        let class = (known.class)(wait.call());
        if matches!(wait.by, INTERRUPT | UNKNOWN) {
            let is_work = matches!(class, Class::Disk | Class::Io | Class::NoSyscall);
            return if is_work { wait.length() } else { 0 };
        }
        let Some(waker) = self.threads.get(wait.by as usize) else { return 0 };
        let began = wait.from.max(waker.first).min(wait.to);
        let mut worked = wait.to - began;
        let end = waker.waits.partition_point(|it| it.from < wait.to);
        for inside in waker.waits[..end].iter().rev().take(MOST_INSIDE) {
            if inside.to <= began {
                break;
            }
            if inside.is_gap() {
                continue;
            }
            let (from, to) = (inside.from.max(began), inside.to.min(wait.to));
            let clipped = Wait { from, to, ..*inside };
            let of_others = match deep {
                0 => 0,
                // A sleep ends at a time that the thread itself chose.
                _ if matches!((known.class)(inside.call()), Class::Sleep) => 0,
                _ if from < to => self.worked(&clipped, known, deep - 1),
                _ => 0,
            };
            worked = worked.saturating_sub((to - from).saturating_sub(of_others));
        }
        worked
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
        koid,
        from,
        to,
        count,
        median,
        usual,
        call,
    };
    let all = || units.iter().map(&unit);
    let first = all().max_by_key(|unit| (unit.excess(), unit.from)).filter(Unit::is_unusual);
    let second = all().filter(|it| !it.is_unusual()).max_by_key(|it| (it.excess(), it.from));
    first.into_iter().chain(second).collect()
}

fn hash(what: impl Hash) -> u64 {
    let mut hasher = FxHasher::default();
    what.hash(&mut hasher);
    hasher.finish()
}

/// By thread, in order of time: when a wait with a stack began, and a hash of the stack.
#[derive(Default)]
struct StackIds(FxHashMap<u64, Vec<(u64, u64)>>);

impl StackIds {
    fn of(recorded: &Recorded) -> StackIds {
        let mut ids = StackIds::default();
        for stack in recorded.all.iter().filter(|stack| stack.kind == Kind::OffCpu) {
            ids.0.entry(stack.thread.0).or_default().push((stack.time, hash(stack.addresses())));
        }
        for list in ids.0.values_mut() {
            list.sort_unstable();
        }
        ids
    }

    /// The stack of a wait; 0 if it has none.
    fn find(&self, koid: u64, wait: &Wait) -> u64 {
        let found = self.0.get(&Koid(koid).0).and_then(|list| {
            let before = list.partition_point(|it| it.0 < wait.to).checked_sub(1)?;
            Some(list[before]).filter(|it| it.0.saturating_add(LATE) >= wait.from)
        });
        found.map_or(0, |it| it.1)
    }
}
