//! The cause in a sentence.
//!
//! The activity of a thread in an interval is summed up, and the sentence names the largest sum. If the thread was mostly blocked, and one
//! thread ended most of that time, the sentence also describes the activity of that thread in that time.

mod critical_path;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use fxt_reader::Koid;
use fxtrec_report::stacks::{Frame as StackFrame, Recorded, Stack};
use fxtrec_sched::State;
use fxtrec_sched::backtrace::Kind;
use fxtrec_units::convention::stand_in;
use fxtrec_units::text::{counted, percent, short};
use rustc_hash::FxHashMap;

use crate::answer::{Object, Who};
use crate::choose::Choice;
use crate::explain::{Meanwhile, Names};
use crate::text::until_done;
use crate::units::Normal;
use crate::{Compared, Metric, Subject, Triggered};
use fxtrec_blame::Class;
use fxtrec_blame::chain::{Blocked, Ended, Frame, Step, What};
use fxtrec_blame::origins::Origin;
use fxtrec_blame::parts::divide;
use fxtrec_blame::threads::Index;
use fxtrec_blame::track::{By, Lock, OnCpu, Reason};

/// Maximum number of wakers that are named one after another.
const MOST_DEEP: usize = 6;

/// Maximum number of threads that had the CPU and are named.
const MOST_NAMED: usize = 2;

/// Text for a thread that is blocked outside of system calls.
pub(crate) const OUTSIDE: &str = "outside of system calls (a page fault, or a kernel thread)";

/// The number of waits ended by timers from which on the sentence counts them: the program is retrying something.
const RETRIED: usize = 3;

/// Prefixes of the names of the C library's files.
const C_LIBRARY: [&str; 4] = ["libc.", "libc-", "libpthread", "ld-"];

/// Parts below this share of the longest are left out.
const SHARE: u64 = 4;

/// Minimum time and number of samples for naming the function in which a thread ran.
const LEAST_RAN: u64 = 10_000_000;
const LEAST_SAMPLES: usize = 3;

pub(crate) fn nanos(nanos: u64) -> String {
    short(Duration::from_nanos(nanos))
}

/// The name of a thread in sentences: `cc1[1234]`, or `cc1[1234]@host` in a merged trace.
pub(crate) fn name_and_id(who: &Who) -> String {
    if let Some(name) = stand_in(&who.comm, who.tid) {
        return name.to_owned();
    }
    let comm = fxtrec_units::escape::line(&who.comm);
    let short: String = comm.chars().take(32).collect();
    let host = who.host.as_deref().map(fxtrec_units::escape::line);
    format!("{short}[{}]{}", who.tid, host.map_or_else(String::new, |host| format!("@{host}")))
}

/// Time in which threads were blocked for the same reason.
#[derive(Debug, Default)]
struct Group<'a> {
    nanos: u64,
    count: usize,
    /// What all of them were about.
    object: Option<Object>,
    /// How many of them an interrupt ended.
    tries: usize,
    /// The last of them: whose it was, and when it began.
    wait: Option<(Index, u64)>,
    /// The longest of them, and its thread.
    longest: Option<(Index, &'a Step)>,
    frames: Vec<&'a Frame>,
    /// The activity of the owner of the lock, if it did not end the wait.
    holders: Vec<&'a Frame>,
    /// The reason why a waker is not followed.
    stopped: Option<Reason>,
}

/// The properties that identify a reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Why {
    class: Class,
    uninterruptible: bool,
    syscall: Option<u64>,
    lock: Option<Lock>,
    /// Whether the class was determined from its stack.
    by_stack: bool,
    by: Option<Waker>,
    by_packet: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Waker {
    Thread(Index),
    Interrupt(Origin),
    Unknown,
}

/// The activity of threads in frames, summed up.
#[derive(Debug, Default)]
struct Sums<'a> {
    ran: u64,
    /// Whose slices these were, and when.
    slices: Vec<(Index, u64, u64)>,
    stolen: u64,
    irq: u64,
    waited: u64,
    woken: u64,
    waiters: BTreeSet<Index>,
    cpus: FxHashMap<u16, u64>,
    tenants: FxHashMap<OnCpu, u64>,
    throttled: u64,
    packet: u64,
    request: u64,
    quotas: FxHashMap<Option<u32>, u64>,
    blocked: FxHashMap<Why, Group<'a>>,
    unknown: FxHashMap<Reason, u64>,
}

impl<'a> Sums<'a> {
    fn of(frames: &[&'a Frame], names: &Names<'_>) -> Sums<'a> {
        let mut sums = Sums::default();
        let steps = frames.iter().flat_map(|frame| frame.steps.iter().map(|it| (frame.thread, it)));
        for (thread, step) in steps {
            let length = step.length();
            match &step.what {
                What::Ran { taken, .. } => {
                    let (_, stolen, irq) = divide(length, taken.unwrap_or_default());
                    sums.ran += length;
                    sums.slices.push((thread, step.from, step.to));
                    sums.stolen += stolen;
                    sums.irq += irq;
                }
                What::Waited { cpu, woken, shares } => {
                    sums.waited += length;
                    sums.waiters.insert(thread);
                    sums.woken += if woken.is_some() { length } else { 0 };
                    *sums.cpus.entry(cpu.0).or_default() += length;
                    for &(tenant, nanos) in shares {
                        *sums.tenants.entry(tenant).or_default() += nanos;
                    }
                }
                What::Throttled { cgroup } => {
                    sums.throttled += length;
                    *sums.quotas.entry(*cgroup).or_default() += length;
                }
                What::Blocked(blocked) => {
                    let by = match blocked.ended {
                        Ended::NotYet => None,
                        Ended::Woken(By::Thread(thread)) => Some(Waker::Thread(thread)),
                        // A thread that ended a later try.
                        Ended::Woken(By::Interrupt(origin))
                            if origin.is_own_timer() && blocked.inside.is_some() =>
                        {
                            blocked.inside.as_ref().map(|frame| Waker::Thread(frame.thread))
                        }
                        Ended::Woken(By::Interrupt(origin)) => Some(Waker::Interrupt(origin)),
                        Ended::Woken(By::Unknown) => Some(Waker::Unknown),
                    };
                    let class = names.class(blocked);
                    let uninterruptible = blocked.state == State::Uninterruptible;
                    let Blocked { syscall, lock, .. } = *blocked;
                    let by_stack = blocked.by_stack == Some(class);
                    let by_packet = blocked.sent.is_some();
                    let why =
                        Why { class, uninterruptible, syscall, lock, by_stack, by, by_packet };
                    let group = sums.blocked.entry(why).or_default();
                    let object =
                        names.object(names.tracker.known_threads.koid(thread), step, blocked);
                    if group.count == 0 {
                        group.object = object;
                    } else if group.object != object {
                        group.object = None;
                    }
                    group.nanos += length;
                    // One wait may have parts in several frames.
                    let wait = Some((thread, blocked.since));
                    if std::mem::replace(&mut group.wait, wait) != wait {
                        let is_try = matches!(blocked.ended, Ended::Woken(By::Interrupt(_)));
                        group.count += 1;
                        group.tries += usize::from(is_try);
                    }
                    if group.longest.is_none_or(|(_, longest)| longest.length() < length) {
                        group.longest = Some((thread, step));
                    }
                    group.frames.extend(blocked.inside.as_deref());
                    group.holders.extend(blocked.holder.as_deref());
                    group.stopped = blocked.stopped.or(group.stopped);
                }
                // The wakeup is part of the wait that it ends.
                What::Underway => {}
                What::Packet => sums.packet += length,
                What::Request(..) => sums.request += length,
                What::Unknown(reason) => *sums.unknown.entry(*reason).or_default() += length,
            }
        }
        sums
    }

    /// The parts of the sentence about them, the longest first.
    fn reported(self, names: &Names<'_>, depth: usize) -> Vec<(u64, Clause)> {
        let mut reported = Vec::new();
        if self.ran > 0 {
            reported.push((self.ran, self.ran_clause(names)));
        }
        if self.waited > 0 {
            reported.push((self.waited, self.waited_clause(names)));
        }
        if self.throttled > 0 {
            reported.push((self.throttled, self.throttled_clause(names)));
        }
        if self.packet > 0 {
            let text = format!("sent a packet that was on its way for {}", nanos(self.packet));
            reported.push((self.packet, Clause { passive: false, text }));
        }
        if self.request > 0 {
            let text = format!("began a request to a disk that took {}", nanos(self.request));
            reported.push((self.request, Clause { passive: false, text }));
        }
        let mut unknown: Vec<(Reason, u64)> = self.unknown.iter().map(|(a, b)| (*a, *b)).collect();
        unknown.sort_unstable();
        for (reason, length) in unknown {
            let text = format!("unknown for {} ({})", nanos(length), reason.text());
            reported.push((length, Clause { passive: true, text }));
        }
        let mut groups: Vec<(Why, Group<'_>)> = self.blocked.into_iter().collect();
        groups.sort_by_key(|(why, group)| (u64::MAX - group.nanos, why.syscall, why.lock));
        let longest = reported.iter().map(|reported| reported.0).max().unwrap_or(0);
        for (at, (why, group)) in groups.iter().enumerate() {
            // Only for the longest activity, the sentence describes the activity of the waker.
            let follow = at == 0 && group.nanos >= longest && depth < MOST_DEEP;
            reported
                .push((group.nanos, blocked_clause(why, group, names, follow.then_some(depth))));
        }
        // The sort is stable: equal lengths keep their order.
        reported.sort_by_key(|reported| u64::MAX - reported.0);
        reported
    }

    fn ran_clause(&self, names: &Names<'_>) -> Clause {
        let mut text = format!("ran for {}", nanos(self.ran));
        if let Some((function, within, all)) = self.sampled(names) {
            text += &format!(" ({within} of {all} samples in {function})");
        }
        for (what, length) in [("the host", self.stolen), ("interrupts", self.irq)] {
            if length > self.ran / SHARE {
                text += &format!(", of which {what} took {}", nanos(length));
            }
        }
        Clause { passive: false, text }
    }

    /// The function in which most of the samples of these slices are, how many are in it, and how many there are.
    fn sampled(&self, names: &Names<'_>) -> Option<(String, usize, usize)> {
        let recorded = names.stacks.as_ref().filter(|_| self.ran >= LEAST_RAN)?;
        let mut slices: FxHashMap<u64, Vec<(u64, u64)>> = FxHashMap::default();
        for &(thread, from, to) in &self.slices {
            slices.entry(names.tracker.known_threads.koid(thread)).or_default().push((from, to));
        }
        for list in slices.values_mut() {
            list.sort_unstable();
        }
        let is_inside = |stack: &&Stack| {
            stack.kind == Kind::Cpu
                && slices.get(&stack.thread.0).is_some_and(|list| {
                    let begun = list.partition_point(|slice| slice.0 <= stack.time);
                    begun > 0 && stack.time <= list[begun - 1].1
                })
        };
        let mut counts: BTreeMap<Option<String>, usize> = BTreeMap::new();
        for stack in recorded.all.iter().filter(is_inside) {
            *counts.entry(function(recorded, stack)).or_default() += 1;
        }
        let all: usize = counts.values().sum();
        let (function, most) = counts.into_iter().max_by_key(|it| it.1)?;
        (all >= LEAST_SAMPLES && most > all / 4).then_some((function?, most, all))
    }

    fn waited_clause(&self, names: &Names<'_>) -> Clause {
        let mut tenants: Vec<(OnCpu, u64)> = self.tenants.iter().map(|(a, b)| (*a, *b)).collect();
        tenants.sort_unstable_by_key(|&(tenant, length)| (u64::MAX - length, tenant));
        let threads: u64 =
            tenants.iter().filter(|it| matches!(it.0, OnCpu::Thread(_))).map(|it| it.1).sum();
        let length = nanos(self.waited);
        let (cpu, which, ran_on) = match self.cpus.keys().collect::<Vec<_>>()[..] {
            [cpu] => (format!("CPU {}", names.tracker.cpus.name(*cpu)), ", which", "where"),
            _ => ("a CPU".to_owned(), " that", "while"),
        };
        let largest = tenants.first().map(|it| it.0);
        match largest {
            Some(OnCpu::Thread(_)) => {
                let by = antagonists(&tenants, threads, &self.waiters, names);
                match self.woken > self.waited / 2 {
                    true => Clause {
                        passive: false,
                        text: format!("waited {length} for {cpu}, {ran_on} {by} ran"),
                    },
                    false => {
                        Clause { passive: true, text: format!("preempted for {length} by {by}") }
                    }
                }
            }
            Some(OnCpu::Idle) => Clause {
                passive: false,
                text: format!("waited {length} for {cpu}{which} was idle"),
            },
            // This is rare in a recording of some threads, except in older recordings, which name only the first thread that took the CPU.
            Some(OnCpu::OutOfScope) => Clause {
                passive: false,
                text: match threads {
                    0 => format!(
                        "waited {length} for {cpu} (the scope of the recording excludes what ran there)"
                    ),
                    _ => format!(
                        "waited {length} for {cpu}: {} ran on it for {}, and threads outside the scope of the recording for {}",
                        antagonists(&tenants, threads, &self.waiters, names),
                        nanos(threads),
                        nanos(tenants[0].1)
                    ),
                },
            },
            Some(OnCpu::Unknown) | None => Clause {
                passive: false,
                text: format!("waited {length} for {cpu} (what ran there is unknown)"),
            },
        }
    }

    fn throttled_clause(&self, names: &Names<'_>) -> Clause {
        let most = self.quotas.iter().max_by_key(|(cgroup, length)| (**length, **cgroup));
        let cgroup = most.and_then(|(cgroup, _)| names.cgroup((*cgroup)?));
        let of = match cgroup {
            Some(cgroup) => format!("the quota of {}", fxtrec_units::escape::line(&cgroup)),
            None => "a quota".to_owned(),
        };
        Clause { passive: true, text: format!("throttled for {} by {of}", nanos(self.throttled)) }
    }
}

/// Threads, with the cgroup that they are in, if it is not that of the thread that they disturb.
pub(crate) fn in_cgroup(threads: String, cgroup: Option<&str>) -> String {
    match cgroup {
        Some(cgroup) => format!("{threads} (cgroup {})", fxtrec_units::escape::line(cgroup)),
        None => threads,
    }
}

/// The threads that had the CPU for which `waiters` waited, as text.
pub(super) fn antagonists(
    tenants: &[(OnCpu, u64)],
    threads: u64,
    waiters: &BTreeSet<Index>,
    names: &Names<'_>,
) -> String {
    let all: Vec<(Index, u64)> = tenants
        .iter()
        .filter_map(|&(tenant, length)| match tenant {
            OnCpu::Thread(thread) => Some((thread, length)),
            _ => None,
        })
        .collect();
    // In a recording of a user's own processes, others have one name for each kind: each is named, however short it had the CPU.
    let mut kinds: Vec<&str> = all.iter().filter_map(|it| names.stand_in(it.0)).collect();
    kinds.sort_unstable_by(|a, b| b.cmp(a));
    kinds.dedup();
    let all: Vec<(Index, u64)> =
        all.into_iter().filter(|it| names.stand_in(it.0).is_none()).collect();
    let worth = all.iter().take_while(|it| it.1 >= threads / 10).count();
    let worth = worth.clamp(usize::from(kinds.is_empty()), MOST_NAMED).min(all.len());
    let cgroup = |thread: Index| {
        let mut waiters = waiters.iter();
        let of = |waiter: &Index| names.other_cgroup(OnCpu::Thread(thread), *waiter);
        let first = waiters.next().and_then(of)?;
        waiters.all(|waiter| of(waiter).is_some()).then_some(first)
    };
    let cgroups: Vec<Option<&str>> = all[..worth].iter().map(|it| cgroup(it.0)).collect();
    let of_all =
        cgroups.first().copied().flatten().filter(|it| cgroups.iter().all(|of| *of == Some(*it)));
    let mut named: Vec<String> = Vec::new();
    for ((thread, _), cgroup) in all[..worth].iter().zip(&cgroups) {
        let cgroup = cgroup.filter(|_| of_all.is_none());
        named.push(in_cgroup(name_and_id(&names.who(*thread)), cgroup));
    }
    if let Some(last) = named.pop() {
        named.push(in_cgroup(last, of_all));
    }
    named.extend(kinds.iter().map(|&kind| kind.to_owned()));
    // Parts that are too small are not named as causes.
    let rest: u64 = all[worth..].iter().map(|it| it.1).sum();
    match all.len() - worth {
        _ if rest < threads / 10 => {}
        0 => {}
        1 => named.push("another".to_owned()),
        others => named.push(format!("{others} others")),
    }
    list(&named)
}

/// `a`, `a and b`, `a, b and c`.
pub(crate) fn list(words: &[String]) -> String {
    match words {
        [] => String::new(),
        [one] => one.clone(),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
}

fn blocked_clause(
    why: &Why,
    group: &Group<'_>,
    names: &Names<'_>,
    follow: Option<usize>,
) -> Clause {
    let length = nanos(group.nanos);
    let call = why.syscall.map(|number| format!(" in {}", names.syscall(number)));
    let owner = why.lock.and_then(|lock| lock.owner);
    let kernel = why.lock.and_then(|lock| lock.kernel);
    let call = match (why.lock, why.class) {
        (Some(lock @ Lock { kernel: Some(kernel), .. }), _) => {
            let call = call.unwrap_or_else(|| format!(" {OUTSIDE}"));
            let (noun, name, access) =
                (kernel.noun(), names.tracker.lock_name(lock), kernel.access());
            format!(" on a kernel lock ({noun} {name}{access}){call}")
        }
        (Some(lock), _) => on_lock(&lock, names),
        (None, Class::NoSyscall) => format!(" {OUTSIDE}"),
        (None, class @ (Class::Disk | Class::Network))
            if why.by_stack && group.object.is_none() =>
        {
            format!("{} ({})", call.unwrap_or_else(|| format!(" {OUTSIDE}")), class.name())
        }
        (None, _) => call.unwrap_or_default(),
    };
    let object = group.object.as_ref().filter(|_| why.lock.is_none());
    let call = match object {
        Some(object) => format!("{call} on {}", object.text),
        None => call,
    };
    let is_retried = group.tries > 0 && group.count >= RETRIED;
    let how = match is_retried {
        true => {
            let place = group.longest.and_then(|(thread, step)| place(thread, step, names));
            let within = place.map(|function| format!(", called by {function}"));
            let count = group.count;
            format!(" {count} times{call}{}, {length} in all,", within.unwrap_or_default())
        }
        false => format!(" {length}{call}"),
    };
    let (begin, is_counted) = match why.class {
        Class::Sleep => (format!("slept{how}"), is_retried),
        Class::Stopped => (format!("stopped for {length}"), false),
        Class::Ended => (format!("had exited {length} before"), false),
        // The kernel waits for its locks in this state.
        _ if why.uninterruptible && kernel.is_none() => {
            (format!("blocked {length} uninterruptibly{call}"), false)
        }
        _ => (format!("blocked{how}"), is_retried),
    };
    let passive = !matches!(why.class, Class::Sleep | Class::Ended);
    let mut text = begin;
    match why.by {
        None => {
            text += match why.class {
                Class::Stopped => ", and was still stopped at the end",
                Class::Sleep => ", and was still asleep at the end",
                Class::Ended => "",
                _ => ", and was still waiting at the end",
            }
        }
        Some(Waker::Interrupt(origin)) => {
            let each = if is_counted { " each time" } else { "" };
            let longest = group.longest.map_or(0, |(_, step)| step.length());
            // A request that took nearly all of the time represents all of them.
            let done =
                the_request(group, origin, names).filter(|_| longest >= group.nanos / 10 * 9);
            text += &match done {
                Some(done) if group.count == 1 => format!(" until {done}"),
                Some(done) => format!(", {} of it until {done}", nanos(longest)),
                None => format!("{each} until woken by {}", names.tracker.origins.text(origin)),
            };
            let reported = match follow {
                Some(depth) => phrase(&group.frames, names, depth + 1),
                None => String::new(),
            };
            if let (false, Some(frame)) = (reported.is_empty(), group.frames.first()) {
                text +=
                    &format!("; until then {} {reported}", name_and_id(&names.who(frame.thread)));
            }
        }
        Some(Waker::Unknown) => text += "; its waker is unknown",
        Some(Waker::Thread(waker)) => {
            if owner != Some(waker) {
                let likely = match kernel {
                    Some(_) => ", probably the lock's owner",
                    None if why.by_packet => " (by a packet)",
                    None => "",
                };
                let last = if is_counted { "finally " } else { "" };
                text +=
                    &format!(" until {last}woken by {}{likely}", name_and_id(&names.who(waker)));
            }
            let reported = match follow {
                Some(depth) => phrase(&group.frames, names, depth + 1),
                None => String::new(),
            };
            if !reported.is_empty() {
                text += &format!(", which {reported}");
            } else if let (Some(_), Some(reason)) = (follow, group.stopped) {
                text += &format!(" ({})", reason.text());
            }
        }
    }
    if let (Some(depth), Some(owner)) = (follow, owner) {
        let reported = phrase(&group.holders, names, depth + 1);
        if !reported.is_empty() {
            text += &format!("; meanwhile {} {reported}", name_and_id(&names.who(owner)));
        }
    }
    Clause { passive, text }
}

/// The request whose completion ended the longest of them.
fn the_request(group: &Group<'_>, origin: Origin, names: &Names<'_>) -> Option<String> {
    let (thread, step) = group.longest?;
    let What::Blocked(Blocked { request: Some(request), .. }) = step.what else { return None };
    Some(until_done(&names.request(request, origin, (step.from, step.to)), &names.who(thread)))
}

/// The function of the program in which a thread waited, other than those of the C library.
fn place(thread: Index, step: &Step, names: &Names<'_>) -> Option<String> {
    let What::Blocked(blocked) = &step.what else { return None };
    let recorded = names.stacks.as_ref()?;
    let koid = Koid(names.tracker.known_threads.koid(thread));
    let (stack, _) = recorded.of_wait(koid, (blocked.since, step.to))?;
    function(recorded, stack)
}

/// The innermost function of the program in a stack, other than those of the C library, and that of an interpreted program.
fn function(recorded: &Recorded, stack: &Stack) -> Option<String> {
    let is_library = |frame: &StackFrame<'_>| {
        let file = frame.file().map_or("", |(name, _)| name);
        C_LIBRARY.iter().any(|prefix| file.starts_with(prefix))
    };
    let name =
        |frame: StackFrame<'_>| Some(fxtrec_units::escape::line(frame.function?).into_owned());
    let mut own = recorded.frames(stack).filter(|frame| !frame.in_kernel && !is_library(frame));
    let function = own.find_map(name)?;
    // The interpreter's own function does not show where in the program the thread is.
    match recorded.frames(stack).find(StackFrame::is_interpreted).and_then(name) {
        Some(interpreted) if interpreted != function => {
            Some(format!("{function} in {interpreted}"))
        }
        _ => Some(function),
    }
}

/// A phrase for a thread that is blocked on a lock.
fn on_lock(lock: &Lock, names: &Names<'_>) -> String {
    let address = lock.address;
    match lock.owner {
        Some(thread) if lock.is_end => format!(" joining {}", name_and_id(&names.who(thread))),
        Some(owner) => {
            format!(" on a lock (futex {address:#x}) held by {}", name_and_id(&names.who(owner)))
        }
        // The object may be something other than a lock.
        None => format!(" in futex ({address:#x}, unknown owner)"),
    }
}

/// The activity of a thread, to follow its name or `which was`.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Clause {
    passive: bool,
    text: String,
}

/// The main activity of the thread in these frames; empty if there are no frames.
fn phrase(frames: &[&Frame], names: &Names<'_>, depth: usize) -> String {
    let reported = Sums::of(frames, names).reported(names, depth);
    let with_was = |clause: &Clause| match clause.passive && depth > 0 {
        true => format!("was {}", clause.text),
        false => clause.text.clone(),
    };
    let Some((longest, first)) = reported.first() else { return String::new() };
    let mut text = with_was(first);
    // A second clause precedes the first in the sentence if the first continues with other threads.
    if let Some((length, second)) = reported.get(1)
        && *length > longest / SHARE
    {
        text = match first.text.contains(", ") {
            true if second.text.contains(", ") => format!("{}, and {text}", with_was(second)),
            true => format!("{} and {text}", with_was(second)),
            false => format!("{text} and {}", with_was(second)),
        };
    }
    text
}

/// The reason for the length, in a sentence.
pub(crate) fn sentence(
    choice: &Choice,
    frame: &Frame,
    meanwhile: &Meanwhile,
    names: &Names<'_>,
) -> String {
    let who = name_and_id(&names.who_of(choice.koid));
    let length = nanos(choice.to - choice.from);
    let begin = match &choice.subject {
        Subject::Span { name, count, median, begun_on } => {
            let mut name = format!("'{}'", fxtrec_units::escape::line(name));
            if let Some(begun_on) = begun_on.filter(|begun_on| *begun_on != choice.koid) {
                name += &format!(", which {} began", name_and_id(&names.who_of(begun_on)));
            }
            let more = (choice.to - choice.from).saturating_sub(*median);
            match *count > 1 && more > 0 {
                true => format!(
                    "{who} took {length} for {name}, {} more than the median of {count}",
                    nanos(more)
                ),
                false => format!("{who} took {length} for {name}"),
            }
        }
        Subject::Metric(Metric::Late | Metric::RunQueue) => format!("{who} was {length} late"),
        Subject::Metric(Metric::Blocked) => format!("{who} made no progress for {length}"),
        Subject::Metric(Metric::Turn) => {
            format!("{who} needed {length} from its wakeup to its next sleep")
        }
        Subject::Unit(compared) => compare(compared, &who, choice.to - choice.from, names),
        Subject::Batch => return critical_path::sentence(&who, frame, names),
        Subject::Trigger { expression, what } => {
            let did = match what {
                Triggered::Blocked => format!("made no progress for {length}"),
                Triggered::Late => format!("was {length} late"),
                Triggered::Slice => format!("had a CPU for {length}"),
                Triggered::Turn => format!("needed {length} from its wakeup to its next sleep"),
                Triggered::Span => format!("took {length}"),
            };
            format!("{who} {did} (trigger '{}')", fxtrec_units::escape::line(expression))
        }
        Subject::Life => format!("{who} lived {length}"),
        Subject::Range => format!("{who}, in {length}"),
    };
    let reported = phrase(&[frame], names, 0);
    let reported =
        if reported.is_empty() { "nothing is known about that time".to_owned() } else { reported };
    format!("{begin}: {reported}{}.", ran_meanwhile(frame, meanwhile, names))
}

/// How a unit of work or a wait compares with others of its thread.
fn compare(compared: &Compared, who: &str, length: u64, names: &Names<'_>) -> String {
    let &Compared { is_wait, is_last, count, median, is_unusual, others, .. } = compared;
    let call = compared.call.map(|call| format!(" in {}", names.syscall(call)));
    let call = call.unwrap_or_default();
    let (long, more) = (nanos(length), nanos(length.saturating_sub(median)));
    match (is_unusual, is_wait) {
        (true, true) => {
            format!("{who} waited {long}{call}, {more} more than the median of {count} such waits")
        }
        (true, false) if is_last => format!(
            "{who} took {long} after its last idle wait{call}, {more} more than the median of {count}"
        ),
        (true, false) => format!(
            "{who} took {long} from one idle wait{call} to the next, {more} more than the median of {count}"
        ),
        (false, _) => {
            let but = match others {
                0 => String::new(),
                _ => format!(
                    ", apart from {} that fxtrec delayed or of which most is unknown",
                    counted(others, "unit", "units")
                ),
            };
            let noun = if is_wait { "waits" } else { "units of work" };
            let between = if is_wait { call } else { format!(" (between idle waits{call})") };
            let times = match median {
                0 => String::new(),
                _ => format!(
                    ", {:.1} times the median",
                    Duration::from_nanos(length).as_secs_f64()
                        / Duration::from_nanos(median).as_secs_f64()
                ),
            };
            format!(
                "Nothing unusual{but}: the longest of {count} {noun} of {who}{between} took {long}{times}"
            )
        }
    }
}

/// The reason why the wait that the report calls the worst is not an incident.
pub(crate) fn passed_over(wait: &Choice, normal: &Normal, names: &Names<'_>) -> String {
    let who = name_and_id(&names.who_of(wait.koid));
    let call = |call: Option<u64>| match call {
        Some(call) => format!(" in {}", names.syscall(call)),
        None => " there".to_owned(),
    };
    let why = match *normal {
        Normal::Busy { wanted, life } => {
            let seconds = |nanos| Duration::from_nanos(nanos).as_secs_f64();
            let share = percent(seconds(wanted) / seconds(life.max(1)));
            format!("the thread had a CPU or waited for one most of the time ({share})")
        }
        Normal::NoCalls => {
            "the thread never waits in a system call: it is a kernel thread, or only computes"
                .to_owned()
        }
        Normal::Idle { call: number } => format!("the thread is idle{}", call(number)),
        Normal::Usual(unit) => {
            let (length, median) = (nanos(unit.to - unit.from), nanos(unit.median));
            match unit.is_wait {
                true => format!("the median of {} such waits is {median}", unit.count),
                false => format!(
                    "the unit of work around it took {length}, and the median of {} is {median}",
                    unit.count
                ),
            }
        }
        Normal::Few { is_wait, count } => {
            let what = match is_wait {
                true => counted(count, "such wait", "such waits"),
                false => counted(count, "unit of work", "units of work"),
            };
            format!("the trace has only {what} of the thread: too few to know the usual length")
        }
        Normal::Child => "it ended when a child process did".to_owned(),
        Normal::Recorder => "fxtrec ran on the CPU for most of it".to_owned(),
        Normal::Unknown => "most of it is unknown".to_owned(),
    };
    let length = nanos(wait.to - wait.from);
    format!("The longest wait, {length} of {who}, is not an incident because {why}.")
}

/// The threads that ran while this thread was blocked, if the waker is unknown: an observation, not a cause. A thread that ran most of the
/// time or, if something was retried, the only thread of the process that ran before the attempt that succeeded.
fn ran_meanwhile(frame: &Frame, meanwhile: &Meanwhile, names: &Names<'_>) -> String {
    let unexplained = |step: &&Step| match &step.what {
        What::Blocked(blocked) => {
            blocked.inside.is_none() && !matches!(blocked.ended, Ended::Woken(By::Thread(_)))
        }
        _ => false,
    };
    let blocked: u64 = frame.steps.iter().filter(unexplained).map(Step::length).sum();
    if blocked <= (frame.to - frame.from) / 2 {
        return String::new();
    }
    if let Some(&(thread, ran, waited)) = meanwhile.longest.first()
        && ran + waited > blocked / 2
    {
        let who = name_and_id(&names.who(thread));
        return match waited > ran / SHARE {
            true if ran == 0 => format!("; meanwhile {who} waited {} for a CPU", nanos(waited)),
            true => format!(
                "; meanwhile {who} ran for {} and waited {} for a CPU",
                nanos(ran),
                nanos(waited)
            ),
            false => format!("; meanwhile {who} ran for {}", nanos(ran)),
        };
    }
    let call = |step: &Step| match &step.what {
        What::Blocked(blocked) => blocked.syscall,
        _ => None,
    };
    let longest = frame.steps.iter().filter(unexplained).max_by_key(|step| step.length());
    let mut tries =
        frame.steps.iter().filter(unexplained).filter(|it| call(it) == longest.and_then(call));
    let Some(last) = tries.clone().nth(RETRIED - 1).and(tries.next_back()) else {
        return String::new();
    };
    let process = |thread: Index| {
        names.tracker.known_threads.process(names.tracker.known_threads.koid(thread))
    };
    let own = process(frame.thread).filter(|_| !meanwhile.is_cut(last.from));
    let mut others = meanwhile.within(last.from, last.to);
    others.retain(|(thread, _)| own.is_some() && process(*thread) == own);
    match others[..] {
        [(thread, ran)] => format!(
            "; the only other thread of its process that ran during the last of these was {}, for {}",
            name_and_id(&names.who(thread)),
            nanos(ran)
        ),
        _ => String::new(),
    }
}
