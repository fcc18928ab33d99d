//! Blocked times by stack.
//!
//! ```text
//!   trace --> Recorded: stacks, names of functions --+
//!         \                                          +--> Blocked: each long wait with its stack and its waker
//!          --> Waits: blocked times of the report ---+           --> text, JSON, flame graphs
//! ```
//!
//! The trace is read twice. The blocked times are those of the metrics `blocked` and `blocked_d`. A stack belongs to the wait of its thread
//! that contains its time.

#[cfg(any(test, feature = "scene"))]
pub mod example;
mod firefox;
mod json;
mod pprof;
mod profile;
mod recorded;
mod runtime;
mod svg;
#[cfg(test)]
mod tests;
mod text;

use std::time::Duration;

use fxt_reader::{Error, Koid, Reader};
use fxtrec_sched::backtrace::Kind;
use fxtrec_sched::{State, WakeupFacts};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::analysis::{Names, Observer, SwitchedOut, Woken, observe};
use crate::{Options, Report, ThreadInfo};
pub use firefox::write_firefox;
pub use json::write_json;
pub use pprof::write_pprof;
pub use profile::{Profile, Sample, write_folded};
pub use recorded::{Frame, Line, Recorded, Stack};
pub use runtime::Runtime;
pub use svg::write_svg;
pub use text::write_text;

/// How many nanoseconds after its stack a switch may be reported that was seen late.
pub const LATE: u64 = 1_000_000;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Waker {
    Thread(ThreadInfo),
    Interrupt,
    Unknown,
}

/// A time in which a thread was blocked.
#[derive(Clone, Debug)]
pub struct Wait {
    pub thread: ThreadInfo,
    /// When it left its CPU, in nanoseconds.
    pub begin: u64,
    /// How long until it was woken.
    pub blocked: Duration,
    /// How long until it had a CPU.
    pub away: Duration,
    pub waker: Waker,
    /// Whether it counts in the metric `blocked_d`.
    pub is_uninterruptible: bool,
    /// The index of its stack in [`Recorded::all`], if there is one.
    pub stack: Option<usize>,
    /// The index of the waker's stack.
    pub wake_stack: Option<usize>,
}

/// The long waits of a trace.
#[derive(Clone, Debug)]
pub struct Blocked {
    pub recorded: Recorded,
    /// The minimum length of long waits.
    pub over: Duration,
    /// The longest first.
    pub waits: Vec<Wait>,
    /// The number of stacks of chosen threads whose wait has no known length.
    pub censored: u64,
    /// The threads that woke others or were sampled on a CPU, and that are chosen or woke a chosen thread.
    pub running: FxHashMap<u64, ThreadInfo>,
}

/// Waits with the same stack.
#[derive(Debug)]
pub struct StackWaits<'a> {
    /// The index of one of their stacks; `None` if they have none.
    pub stack: Option<usize>,
    /// The missing parts of their stacks, combined.
    pub problems: u32,
    /// The longest first.
    pub waits: Vec<&'a Wait>,
    pub blocked: Duration,
}

/// Reads a trace twice; `None` if no stacks were recorded.
///
/// # Errors
/// The errors of `open` and of the reader.
pub fn blocked<'r, E: From<Error>>(
    mut open: impl FnMut() -> Result<Reader<'r>, E>,
    options: Options,
) -> Result<Option<(Report, Blocked)>, E> {
    let recorded = Recorded::read(&mut open()?)?;
    let Some(over) = recorded.over else { return Ok(None) };
    let observer = Waits { over, ..Waits::default() };
    let (report, waits) = observe(open()?, options, observer)?;
    let shown = report.threads().iter().filter_map(|thread| Some((thread.koid?, &*thread.comm)));
    let shown = shown.collect();
    let mut blocked = waits.join(recorded, &shown);
    for thread in report.threads() {
        let (Some(koid), Some(tid)) = (thread.koid, thread.tid) else { continue };
        let (comm, cgroup) = (thread.comm.clone(), thread.cgroup.clone());
        let host = thread.host.clone();
        let thread_info = ThreadInfo { koid, comm, pid: thread.pid, tid, cgroup, host };
        blocked.running.insert(koid.0, thread_info);
    }
    for wait in &blocked.waits {
        if let Waker::Thread(thread) = &wait.waker {
            blocked.running.entry(thread.koid.0).or_insert_with(|| thread.clone());
        }
    }
    Ok(Some((report, blocked)))
}

/// The long waits of each thread, in order of time.
#[derive(Debug, Default)]
struct Waits {
    over: u64,
    of: FxHashMap<Koid, Vec<Wait>>,
    /// The last waker of each thread; `None` for an interrupt.
    wakers: FxHashMap<Koid, Option<Koid>>,
    /// Whether each thread last left its CPU to wait uninterruptibly.
    uninterruptible: FxHashMap<Koid, bool>,
}

fn thread_info(koid: Koid, names: Names<'_>) -> ThreadInfo {
    let (comm, pid) = names.of(koid);
    let cgroup = names.cgroup(koid).map(Into::into);
    let host = names.host(koid).map(Into::into);
    ThreadInfo {
        koid,
        comm: comm.unwrap_or_default().into(),
        pid,
        tid: names.tid(koid),
        cgroup,
        host,
    }
}

impl Observer for Waits {
    fn woken(&mut self, woken: &Woken<'_>) {
        // A thread that was awake already was not woken.
        if woken.next.is_none() {
            return;
        }
        let said = WakeupFacts::of(woken.args);
        match (said.interrupt, said.waker) {
            (true, _) => drop(self.wakers.insert(woken.thread, None)),
            (false, Some(waker)) => drop(self.wakers.insert(woken.thread, Some(waker))),
            (false, None) => drop(self.wakers.remove(&woken.thread)),
        }
    }

    fn switched_out(&mut self, out: &SwitchedOut<'_>, names: Names<'_>) {
        let next = State::after(out.state, out.detail) == State::Uninterruptible;
        let is_uninterruptible = self.uninterruptible.insert(out.koid, next).unwrap_or(false);
        let (Some(blocked), Some(latency), Some(ran)) = (out.blocked, out.latency, out.ran) else {
            return;
        };
        // The time in which a quota held it back does not count as latency.
        let away = blocked + latency + out.throttled;
        if away < self.over {
            return;
        }
        let waker = match self.wakers.get(&out.koid) {
            Some(Some(koid)) => Waker::Thread(thread_info(*koid, names)),
            Some(None) => Waker::Interrupt,
            None => Waker::Unknown,
        };
        self.of.entry(out.koid).or_default().push(Wait {
            thread: thread_info(out.koid, names),
            begin: out.time.0.saturating_sub(ran + away),
            blocked: Duration::from_nanos(blocked),
            away: Duration::from_nanos(away),
            waker,
            is_uninterruptible,
            stack: None,
            wake_stack: None,
        });
    }
}

impl Waits {
    /// Finds the wait of each stack. `shown` has the chosen threads and their names.
    fn join(mut self, recorded: Recorded, shown: &FxHashMap<Koid, &str>) -> Blocked {
        let mut censored = 0;
        self.of.retain(|koid, _| shown.contains_key(koid));
        let mut linked: FxHashMap<_, Vec<usize>> = FxHashMap::default();
        for (number, stack) in recorded.all.iter().enumerate() {
            if stack.kind == Kind::Wake {
                linked.entry((stack.provider, stack.link)).or_default().push(number);
            }
        }
        for (number, stack) in recorded.all.iter().enumerate() {
            if stack.kind != Kind::OffCpu || !shown.contains_key(&stack.thread) {
                continue;
            }
            let wait = self.of.get_mut(&stack.thread).and_then(|waits| {
                let next = waits.partition_point(|wait| wait.begin <= stack.time);
                let holds = |wait: &Wait| stack.time < wait.begin + nanos(wait.away);
                let within = next.checked_sub(1).filter(|&at| holds(&waits[at]));
                let is_late = |wait: &&Wait| wait.begin - stack.time < LATE;
                let at = within.or_else(|| waits.get(next).filter(is_late).map(|_| next))?;
                Some(&mut waits[at]).filter(|wait| wait.stack.is_none())
            });
            let Some(wait) = wait else {
                censored += 1;
                continue;
            };
            wait.stack = Some(number);
            let end = wait.begin + nanos(wait.away);
            let wakes = linked.get(&(stack.provider, stack.link)).filter(|_| stack.link != 0);
            // The link numbers start over from time to time.
            wait.wake_stack = wakes.and_then(|wakes| {
                let during = |&&at: &&usize| (stack.time..=end).contains(&recorded.all[at].time);
                wakes.iter().find(during).copied()
            });
        }
        let mut waits: Vec<Wait> = self.of.into_values().flatten().collect();
        if recorded.of_some {
            // The stacks show which processes those are.
            let with = waits.iter().filter(|wait| wait.stack.is_some());
            let with: FxHashSet<_> = with.map(|wait| wait.thread.pid).collect();
            waits.retain(|wait| with.contains(&wait.thread.pid));
        }
        for wait in &mut waits {
            // The thread may have had another name during the wait.
            if let Some(comm) = shown.get(&wait.thread.koid) {
                wait.thread.comm = (*comm).into();
            }
        }
        waits.sort_unstable_by_key(|wait| {
            (std::cmp::Reverse(wait.blocked), wait.begin, wait.thread.tid)
        });
        let over = Duration::from_nanos(self.over);
        Blocked { recorded, over, waits, censored, running: FxHashMap::default() }
    }
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

impl Blocked {
    /// The total blocked time of all waits.
    pub fn total(&self) -> Duration {
        self.waits.iter().map(|wait| wait.blocked).sum()
    }

    /// The waits by stack, the longest total first. Stacks are equal if their functions are.
    pub fn places(&self) -> Vec<StackWaits<'_>> {
        let mut places: FxHashMap<Option<Vec<String>>, StackWaits<'_>> = FxHashMap::default();
        for wait in &self.waits {
            let of = |number: usize| self.labels(&self.recorded.all[number]);
            let place = places.entry(wait.stack.map(of)).or_insert_with(|| StackWaits {
                stack: wait.stack,
                problems: 0,
                waits: Vec::new(),
                blocked: Duration::ZERO,
            });
            place.problems |= wait.stack.map_or(0, |number| self.recorded.all[number].problems);
            place.blocked += wait.blocked;
            place.waits.push(wait);
        }
        let mut places: Vec<StackWaits<'_>> = places.into_values().collect();
        places.sort_by_key(|place| (std::cmp::Reverse(place.blocked), place.waits[0].begin));
        places
    }

    /// The known names of the functions of a stack.
    pub fn functions(&self, stack: &Stack) -> Vec<String> {
        let name = |frame: Frame<'_>| frame.function.map(str::to_owned);
        self.recorded.frames(stack).filter_map(name).collect()
    }

    /// For each stack, whether it has functions without names in a file none of whose functions is named in the recording, such as a
    /// program that fxtrec was not allowed to read.
    pub fn unreadable(&self) -> Vec<bool> {
        let path = |frame: &Frame<'_>| frame.module.map(|(path, _)| path.to_owned());
        let in_programs =
            |stack| self.recorded.frames(stack).filter(|frame: &Frame<'_>| !frame.in_kernel);
        let all = self.recorded.all.iter().flat_map(in_programs);
        let named: FxHashSet<String> =
            all.filter(|frame| frame.function.is_some()).filter_map(|frame| path(&frame)).collect();
        let is_nameless = |frame: Frame<'_>| {
            frame.function.is_none() && frame.module.is_some_and(|it| !named.contains(it.0))
        };
        self.recorded.all.iter().map(|stack| in_programs(stack).any(is_nameless)).collect()
    }

    /// The names of the functions of a stack, the innermost first; kernel functions end in `_[k]`.
    pub fn labels(&self, stack: &Stack) -> Vec<String> {
        self.recorded.frames(stack).map(|frame| profile::label(&frame)).collect()
    }
}
