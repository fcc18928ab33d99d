//! Which interval to explain: the first pass over the trace.

use fxt_reader::record::Event;
use fxtrec_sched::State;
use rustc_hash::{FxHashMap, FxHashSet};

use crate::units::{self, Judged, Normal, Unit, Waits};
use crate::{Compared, Metric, Pick, Query, Subject, Triggered, WhyError};
use fxtrec_blame::chain::{Frame, Step, What};
use fxtrec_blame::spans::Spans;
use fxtrec_blame::threads::Index;
use fxtrec_blame::track::{About, Begin, By, OnCpu, Sink, Tracker};
use fxtrec_blame::trigger::Fired;
use fxtrec_blame::worst::{self, Delay};
use fxtrec_blame::{Cause, Class};

/// Maximum number of longest intervals kept for each thread.
const MOST_EACH: usize = 1000;

/// A shorter wait for a CPU is not an incident, in nanoseconds.
const LEAST_WAIT: u64 = 1_000_000;

/// A part of COMMAND's life that is a smaller fraction of it than this does not explain how long a build or a script takes.
const LEAST_SHARE: u64 = 10;

/// An interval of a thread that may be the requested one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Candidate {
    from: u64,
    /// When it was woken or preempted, if that is within the interval.
    able: u64,
    to: u64,
    waker: Option<Index>,
}

impl Candidate {
    fn length(&self) -> u64 {
        self.to - self.from
    }
}

/// The longest intervals of one kind.
#[derive(Clone, Debug, Default)]
struct Longest(Vec<Candidate>);

impl Longest {
    #[inline]
    fn add(&mut self, candidate: Candidate, most: usize) {
        let length = candidate.length();
        if self.0.len() >= most && self.0.last().is_some_and(|last| last.length() >= length) {
            return;
        }
        let place = self.0.partition_point(|known| known.length() >= length);
        self.0.insert(place, candidate);
        self.0.truncate(most);
    }
}

/// The state of a thread, and its longest intervals so far.
#[derive(Clone, Debug, Default)]
struct ThreadHistory {
    state: State,
    since: u64,
    /// When it left the CPU, if that is known, and the time from which it counts as late: not while it slept until a time that it had
    /// chosen.
    off: Option<u64>,
    blocked: Option<u64>,
    /// When it began to wait for a CPU.
    waits: Option<u64>,
    /// Whether a wakeup of it is recorded.
    woken: bool,
    /// When it was woken, if it has not slept since.
    turn: Option<u64>,
    /// Its last waker.
    waker: Option<Index>,
    /// The waker that ended its first sleep, and when that sleep began and ended. The waker before the wakeup that began its life.
    first_woken: Option<(Option<Index>, u64, u64)>,
    first: u64,
    last: u64,
    /// When its last slice began, if the thread ended in that slice.
    ended: Option<u64>,
    /// How long it had a CPU in slices that have ended.
    ran: u64,
    /// How long it waited for a CPU.
    waited: u64,
    /// Whether it has waited in a system call, which kernel threads do not.
    calls: bool,
    lists: Option<Box<[Longest; 4]>>,
}

impl ThreadHistory {
    /// Whether the thread belongs to a program and is not busy.
    fn sleeps(&self) -> bool {
        self.calls && !self.is_busy()
    }

    /// Whether the thread has a CPU, or waits for one, for more than two thirds of its life: it is not late because others have the CPU.
    fn is_busy(&self) -> bool {
        let life = self.last.saturating_sub(self.first);
        self.ran + self.waited > life / 3 * 2
    }
}

const LATE: usize = 0;
const RUNQUEUE: usize = 1;
const BLOCKED: usize = 2;
const TURN: usize = 3;

/// Follows the states of threads, and keeps the longest intervals of each.
#[derive(Debug, Default)]
pub(crate) struct Finder {
    lives: Vec<ThreadHistory>,
    pub(crate) spans: Spans,
    /// The data about units of work, if the query may be about one.
    waits: Option<Waits>,
    /// Whether the query is about intervals of threads, not about spans or a single interval.
    candidates: bool,
    /// The number of intervals that are kept of each kind.
    most: usize,
    from: u64,
    to: u64,
}

impl Finder {
    pub(crate) fn new(query: &Query) -> Finder {
        // One more, because the wait for the recorder does not count.
        let most = match query.pick {
            Pick::Worst(number) => (number.clamp(1, MOST_EACH) + 1).max(worst::KEPT),
            Pick::Incidents(_) => worst::KEPT,
            Pick::Over(_) | Pick::At(_) => MOST_EACH,
        };
        Finder {
            waits: query.may_be_unit().then(Waits::default),
            candidates: query.span.is_none() && query.interval().is_none(),
            most,
            from: query.from.unwrap_or(0),
            to: query.to.unwrap_or(u64::MAX),
            ..Finder::default()
        }
    }

    /// For each thread that ended in its last slice, by koid, when that slice began.
    pub(crate) fn last_slices(&self, tracker: &Tracker) -> FxHashMap<u64, u64> {
        let lives = self.lives.iter().enumerate();
        let ended = |(index, life): (usize, &ThreadHistory)| {
            Some((tracker.known_threads.koid(index as Index), life.ended?))
        };
        lives.filter_map(ended).collect()
    }

    /// How long the recorder's own threads had CPUs, if the query leaves them out.
    pub(crate) fn left_out(&self, query: &Query, tracker: &Tracker) -> Option<u64> {
        let all = query.thread.is_none() && tracker.family.process.is_none() && !query.recorder;
        if !all || !self.candidates {
            return None;
        }
        let lives = self.lives.iter().enumerate();
        let is_own = |index: usize| {
            let koid = tracker.known_threads.koid(index as Index);
            tracker.family.is_recorder(&tracker.known_threads, koid)
        };
        let ran = lives.filter(|(index, _)| is_own(*index)).map(|(_, life)| life.ran).sum();
        Some(ran).filter(|ran| *ran > 0)
    }

    #[inline]
    fn life(&mut self, thread: Index) -> &mut ThreadHistory {
        let at = thread as usize;
        if at >= self.lives.len() {
            self.lives.resize(at + 1, ThreadHistory::default());
        }
        &mut self.lives[at]
    }
}

impl Sink for Finder {
    #[inline]
    fn begin(&mut self, thread: Index, begin: Begin) {
        if let Some(waits) = &mut self.waits {
            waits.begin(thread, &begin);
        }
        let (most, window) = (self.most, (self.from, self.to));
        let candidates = self.candidates;
        let life = self.life(thread);
        let Begin { time, state, about, .. } = begin;
        let add = |life: &mut ThreadHistory, list: usize, from: u64, able: u64| {
            if from < time && from >= window.0 && time <= window.1 {
                let lists = life.lists.get_or_insert_default();
                lists[list].add(Candidate { from, able, to: time, waker: life.waker }, most);
            }
        };
        if life.first == 0 {
            life.first = time;
        }
        life.last = time;
        match life.state {
            State::Running => life.ran += time.saturating_sub(life.since),
            state if state.is_waiting() => life.waited += time.saturating_sub(life.since),
            _ => {}
        }
        life.calls |= matches!(about, About::Syscall(Some(_)));
        life.ended = (state.is_over() && life.state == State::Running).then_some(life.since);
        if !candidates {
            (life.state, life.since) = (state, time);
            return;
        }
        match state {
            State::Running => {
                let able = life.waits.take();
                if let Some(from) = able {
                    add(life, RUNQUEUE, from, from);
                }
                if let Some(from) = life.off.take() {
                    add(life, LATE, from, able.unwrap_or(from));
                }
                life.blocked = None;
            }
            State::Woken | State::WokenThrottled => {
                if let About::Woken(by) = about {
                    life.woken = true;
                    life.waker = match by {
                        By::Thread(waker) => Some(waker),
                        By::Interrupt(_) | By::Unknown => None,
                    };
                    let blocked = life.blocked.take();
                    if let Some(from) = blocked {
                        life.first_woken.get_or_insert((life.waker, from, time));
                    }
                    if let Some(from) = blocked {
                        add(life, BLOCKED, from, time);
                    }
                    // A thread that slept until a chosen time is late from that time on.
                    let by_thread = matches!(by, By::Thread(_));
                    life.off = blocked.filter(|_| by_thread).or(Some(time));
                    (life.waits, life.turn) = (Some(time), Some(time));
                }
            }
            State::Preempted | State::Throttled => {
                if !life.state.is_waiting() {
                    (life.waits, life.off, life.waker) = (Some(time), Some(time), None);
                }
            }
            state if state.is_blocked() => {
                if let Some(from) = life.turn.take() {
                    add(life, TURN, from, from);
                }
                (life.blocked, life.waits, life.off) = (Some(time), None, None);
            }
            _ => {
                (life.blocked, life.waits, life.off, life.turn) = (None, None, None, None);
            }
        }
        (life.state, life.since) = (state, time);
    }

    fn event(&mut self, event: &Event<'_>, is_provider: bool) {
        self.spans.event(event, is_provider);
    }

    fn advance(&mut self, _: &Tracker, _: u64) -> bool {
        true
    }
}

/// An interval of a thread, and why it was chosen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Choice {
    pub(crate) koid: u64,
    pub(crate) from: u64,
    pub(crate) to: u64,
    pub(crate) subject: Subject,
}

impl Choice {
    fn length(&self) -> u64 {
        self.to - self.from
    }

    /// By how much it is longer than usual, if known.
    fn excess(&self) -> u64 {
        match &self.subject {
            Subject::Unit(compared) => self.length().saturating_sub(compared.median),
            _ => self.length(),
        }
    }

    fn is_incident(&self) -> bool {
        !matches!(self.subject, Subject::Unit(Compared { is_unusual: false, .. }))
    }
}

/// The intervals that the query may refer to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Choices {
    pub(crate) list: Vec<Choice>,
    /// If these are candidates, how many of them to explain: see [`Choices::explained`].
    most: Option<usize>,
    /// Whether a thread is explained once.
    one_each: bool,
    /// The wait that the report calls the worst, if the query leaves the choice to fxtrec, and why it is not an incident, if known.
    longest: Option<(Choice, Option<Normal>)>,
}

impl From<Vec<Choice>> for Choices {
    fn from(list: Vec<Choice>) -> Choices {
        Choices { list, ..Choices::default() }
    }
}

impl Choices {
    /// Which intervals to explain. Among candidates: the first that are at most half unknown or delayed by the recorder; otherwise only the
    /// last candidate, which in most cases is not an incident.
    pub(crate) fn explained(
        &self,
        frames: &[Option<Frame>],
        is_recorder: impl Fn(Index) -> bool,
    ) -> Vec<usize> {
        let Some(most) = self.most else { return (0..self.list.len()).collect() };
        let is_own = |at: &usize| {
            let half = self.list[*at].length() / 2;
            let beside_the_point = |frame: &Frame| behind(frame, &is_recorder) + unknown(frame);
            frames[*at].as_ref().is_some_and(|frame| beside_the_point(frame) <= half)
        };
        let mut own: Vec<usize> = (0..self.list.len()).filter(is_own).collect();
        if most > 1 && own.iter().any(|at| self.list[*at].is_incident()) {
            own.retain(|at| self.list[*at].is_incident());
        }
        if self.one_each {
            let mut seen = FxHashSet::default();
            own.retain(|at| seen.insert(self.list[*at].koid));
        }
        own.truncate(most);
        if own.is_empty() {
            own.extend(self.list.len().checked_sub(1));
        }
        own
    }

    /// The wait that the report calls the worst, and why it is not an incident, if that is known and the explanation does not show the
    /// wait.
    pub(crate) fn passed_over(
        &self,
        explained: &[usize],
        frames: &[Option<Frame>],
        is_recorder: impl Fn(Index) -> bool,
    ) -> Option<(&Choice, Normal)> {
        let (longest, normal) = self.longest.as_ref()?;
        let holds =
            |it: &Choice| it.koid == longest.koid && it.from <= longest.from && longest.to <= it.to;
        let first = &self.list[*explained.first()?];
        if first.is_incident() && first.length() >= longest.length()
            || explained.iter().any(|at| holds(&self.list[*at]))
        {
            return None;
        }
        let candidate = self.list.iter().position(holds).and_then(|at| frames[at].as_ref());
        let Some(frame) = candidate else { return Some((longest, (*normal)?)) };
        let half = (frame.to - frame.from) / 2;
        match () {
            () if behind(frame, &is_recorder) > half => Some((longest, Normal::Recorder)),
            () if unknown(frame) > half => Some((longest, Normal::Unknown)),
            () => Some((longest, (*normal)?)),
        }
    }
}

/// The wait that the report calls the worst, and why it is not an incident, if known.
fn longest_wait(
    query: &Query,
    tracker: &Tracker,
    finder: &Finder,
    (threads, known): (&Chosen<'_>, &units::Known<'_>),
    recorded: u64,
) -> Option<(Choice, Option<Normal>)> {
    let query = Query { pick: Pick::Worst(1), ..query.clone() };
    let longest = longest(&query, tracker, finder, threads, recorded).ok()?.into_iter().next()?;
    let index = tracker.known_threads.find(longest.koid)?;
    let life = finder.lives.get(index as usize)?;
    let normal = match threads.threads {
        Threads::All if life.is_busy() => {
            let wanted = life.ran + life.waited;
            Some(Normal::Busy { wanted, life: life.last.saturating_sub(life.first) })
        }
        Threads::All => {
            (!life.calls && tracker.origin.causes.has(Cause::Syscall)).then_some(Normal::NoCalls)
        }
        _ => finder
            .waits
            .as_ref()
            .and_then(|waits| waits.normal(index, (longest.from, longest.to), known)),
    };
    Some((longest, normal))
}

/// Chooses the intervals that `query` requests.
pub(crate) fn choose(
    query: &Query,
    tracker: &Tracker,
    finder: &Finder,
    known: &units::Known<'_>,
) -> Result<Choices, WhyError> {
    let first = tracker.first.ok_or(WhyError::Empty)?;
    let end = tracker.now;
    let is_open = query.may_be_unit();
    if is_open
        && query.pick == Pick::Worst(1)
        && query.thread.is_none()
        && let Some(choice) = tracker.fired().and_then(|fired| triggered(fired, first, end))
    {
        return Ok(vec![choice].into());
    }
    let threads = threads(query, tracker, finder)?;
    if query.critical_path {
        let choice = batch(tracker, finder).ok_or(WhyError::NoCommand)?;
        return Ok(vec![choice].into());
    }
    if let Some(name) = &query.span {
        return spans(query, finder, name, &threads).map(Choices::from);
    }
    if query.interval().is_some() {
        let koid = the_one(query, tracker, &threads)?;
        let index = tracker.known_threads.find(koid);
        let life = index.and_then(|index| finder.lives.get(index as usize));
        let life = life.ok_or(WhyError::Nothing)?;
        let (from, to) = match query.life {
            true => (life.first, if life.state.is_over() { life.last } else { end }),
            false => (first, end),
        };
        let from = query.from.unwrap_or(from).max(first);
        let to = query.to.unwrap_or(to).min(end);
        if from >= to {
            return Err(WhyError::Range);
        }
        let subject = if query.life { Subject::Life } else { Subject::Range };
        return Ok(vec![Choice { koid, from, to, subject }].into());
    }
    if query.metric.is_none()
        && query.pick == Pick::Worst(1)
        && let Some(choice) = worst_span(query, finder, &threads)
    {
        return Ok(vec![choice].into());
    }
    let wanted = match query.pick {
        Pick::Incidents(number) => number.clamp(1, crate::MOST_EXPLAINED),
        _ => 1,
    };
    let all = matches!(threads.threads, Threads::All);
    let Judged { incidents, others, usual, served } = match &finder.waits {
        None => Judged::default(),
        Some(waits) => {
            let most = wanted + units::MOST_INCIDENTS - 1;
            waits.judge(known, most, all, |koid| threads.has(koid))
        }
    };
    let usual = usual.filter(|_| !all);
    let mut list: Vec<Choice> =
        incidents.iter().map(|unit| of_unit(unit, incidents.len())).collect();
    if wanted > 1 || all && is_open {
        let mut waits = candidates(query, tracker, finder, &threads, &[RUNQUEUE]);
        waits.retain(|wait| {
            let index = tracker.known_threads.find(wait.koid);
            let life = index.and_then(|index| finder.lives.get(index as usize));
            life.is_some_and(ThreadHistory::sleeps)
        });
        // The first is what is explained without a number.
        let first = if all && is_open { 0 } else { list.len() };
        add_waits(&mut list, first, waits, wanted + units::MOST_INCIDENTS);
    }
    let batch = match threads.threads {
        Threads::Command if is_open => batch(tracker, finder),
        _ => None,
    };
    let is_of_batch = |all: &Choice| {
        let worst = incidents.first().or(usual.as_ref());
        let is_step = worst.is_none_or(|unit| is_step(unit, all.length(), finder, tracker, known));
        served < all.length() / 2 && is_step && is_batch(all, finder, tracker, known)
    };
    if let Some(choice) = batch.as_ref().filter(|it| wanted == 1 && is_of_batch(it)) {
        return Ok(vec![choice.clone()].into());
    }
    if !list.is_empty() || usual.is_some_and(|usual| !usual.is_wait) {
        // In place of those that the recorder delayed.
        list.extend(others.iter().map(|unit| of_unit(unit, incidents.len())));
        list.extend(usual.iter().map(|unit| of_unit(unit, incidents.len())));
        let longest = match is_open {
            true => longest_wait(query, tracker, finder, (&threads, known), end - first),
            false => None,
        };
        let one_each = query.thread.is_none();
        return Ok(Choices { list, most: Some(wanted), one_each, longest });
    }
    let is_whole = |it: &Choice| {
        is_batch(it, finder, tracker, known) || is_one_request(it, finder, tracker, known)
    };
    if let Some(choice) = batch.filter(is_whole) {
        return Ok(vec![choice].into());
    }
    longest(query, tracker, finder, &threads, end - first).map(Choices::from)
}

/// Adds the run-queue waits of threads that are not in the list yet, after its `first` elements where they belong by their length, and
/// leaves the first `most`.
fn add_waits(list: &mut Vec<Choice>, first: usize, mut waits: Vec<Delay>, most: usize) {
    waits.sort_by_key(|wait| (u64::MAX - wait.length(), wait.from, wait.koid));
    waits.retain(|wait| wait.length() >= LEAST_WAIT);
    for Delay { koid, from, to, .. } in waits {
        let at = first + list[first..].partition_point(|choice| choice.excess() >= to - from);
        if at >= most {
            break;
        }
        if list.iter().all(|choice| choice.koid != koid) {
            let subject = Subject::Metric(Metric::RunQueue);
            list.insert(at, Choice { koid, from, to, subject });
        }
    }
    list.truncate(most);
}

fn of_unit(unit: &Unit, incidents: usize) -> Choice {
    let &Unit { is_wait, is_last, koid, from, to, count, median, usual, call } = unit;
    let is_unusual = unit.is_unusual();
    let others = incidents as u64 - u64::from(is_unusual);
    let compared = Compared { is_wait, is_last, count, median, usual, call, is_unusual, others };
    let subject = Subject::Unit(compared);
    Choice { koid, from, to, subject }
}

/// COMMAND from its start to its end.
fn batch(tracker: &Tracker, finder: &Finder) -> Option<Choice> {
    let koid = tracker.family.process?;
    let life = &finder.lives[tracker.known_threads.find(koid)? as usize];
    let begin = gate(life, koid, tracker).map_or(life.first, |gate| gate.1);
    let end = if life.state.is_over() { life.last } else { tracker.now };
    let subject = Subject::Batch;
    (begin < end).then_some(Choice { koid, from: begin, to: end, subject })
}

/// Whether COMMAND waits for its child processes for most of its life: a build, or a script.
fn is_batch(choice: &Choice, finder: &Finder, tracker: &Tracker, known: &units::Known<'_>) -> bool {
    let Some(index) = tracker.known_threads.find(choice.koid) else { return false };
    let is_child = |call| (known.class)(call) == Class::Child;
    let waits = finder.waits.as_ref().map_or(0, |waits| waits.in_calls(index, is_child));
    waits > choice.length() / 2
}

/// Whether a unit is only a step of a batch that takes `all`: one program of a pipeline waited for the next one, or the unit is a small
/// part of it, and its program is one of many.
fn is_step(
    unit: &Unit,
    all: u64,
    finder: &Finder,
    tracker: &Tracker,
    known: &units::Known<'_>,
) -> bool {
    let is_local = || (known.by_stack)(unit.koid, (unit.from, unit.to)) != Some(Class::Network);
    if unit.is_wait && (known.class)(unit.call) == Class::Io && is_local() {
        return true;
    }
    let index = tracker.known_threads.find(unit.koid);
    let life = index.zip(finder.waits.as_ref()).map_or(0, |(index, waits)| waits.life(index));
    life < all / 2 && (!unit.is_unusual() || unit.to - unit.from < all / LEAST_SHARE)
}

/// Whether COMMAND is a single thread that waits for others over the network for most of its life: a client with one request.
fn is_one_request(
    choice: &Choice,
    finder: &Finder,
    tracker: &Tracker,
    known: &units::Known<'_>,
) -> bool {
    let koid = |index: usize| tracker.known_threads.koid(index as Index);
    let lives = finder.lives.iter().enumerate().filter(|(_, life)| life.last > 0);
    let mut own =
        lives.map(|it| it.0).filter(|&at| tracker.family.has(&tracker.known_threads, koid(at)));
    let (Some(only), None) = (own.next(), own.next()) else { return false };
    let is_remote =
        |call| matches!((known.class)(call), Class::Poll | Class::Network | Class::Socket);
    let waits = finder.waits.as_ref().map_or(0, |it| it.in_calls(only as Index, is_remote));
    waits > choice.length() / 2
}

/// The interval for which the file was written, if it ended when the trigger fired.
fn triggered(fired: &Fired, first: u64, end: u64) -> Option<Choice> {
    let name = fired.expression.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').next();
    let what = match name.unwrap_or_default() {
        "wakeup" | "preempt" | "runqueue" | "throttled" => Triggered::Late,
        "blocked" | "blocked_d" => Triggered::Blocked,
        "turn" => Triggered::Turn,
        "span" | "probe" => Triggered::Span,
        _ => Triggered::Slice,
    };
    let from = fired.from.max(first);
    let subject = Subject::Trigger { expression: fired.expression.clone(), what };
    (from < fired.at && fired.at <= end).then_some(Choice {
        koid: fired.koid,
        from,
        to: fired.at,
        subject,
    })
}

/// How long the state of a frame's thread is unknown.
fn unknown(frame: &Frame) -> u64 {
    let steps = frame.steps.iter().filter(|step| matches!(step.what, What::Unknown(_)));
    steps.map(Step::length).sum()
}

/// How long a frame's thread, or the threads that it waited for, waited for CPUs that the threads selected by `is_one` had.
pub(crate) fn behind(frame: &Frame, is_one: impl Fn(Index) -> bool) -> u64 {
    let mut sum = 0;
    frame.leaves(&mut |_, step| {
        let What::Waited { shares, .. } = &step.what else { return };
        let of_these = shares.iter().filter_map(|&(tenant, nanos)| match tenant {
            OnCpu::Thread(thread) if is_one(thread) => Some(nanos),
            _ => None,
        });
        sum += of_these.sum::<u64>();
    });
    sum
}

/// The koids of the requested threads; all if empty.
#[derive(Debug)]
enum Threads {
    All,
    /// COMMAND's threads.
    Command,
    /// The threads that a recording of some processes covers. The recording contains other threads while they have a CPU, but not their
    /// wakeups.
    Recorded(FxHashSet<u64>),
    These(Vec<u64>),
}

/// The facts that determine whether the query includes a thread.
struct Chosen<'a> {
    threads: Threads,
    tracker: &'a Tracker,
    /// Whether a query for all threads includes the recorder's own.
    recorder: bool,
}

impl Chosen<'_> {
    fn has(&self, koid: u64) -> bool {
        match &self.threads {
            Threads::All => {
                self.recorder || !self.tracker.family.is_recorder(&self.tracker.known_threads, koid)
            }
            Threads::Command => self.tracker.family.has(&self.tracker.known_threads, koid),
            Threads::Recorded(koids) => {
                let is_own = || self.tracker.family.is_recorder(&self.tracker.known_threads, koid);
                koids.contains(&koid) && (self.recorder || !is_own())
            }
            Threads::These(koids) => koids.contains(&koid),
        }
    }
}

/// The threads that the recording is about.
fn recorded<'a>(query: &Query, tracker: &'a Tracker, finder: &Finder) -> Chosen<'a> {
    let of_processes = || {
        let koid = |index: usize| tracker.known_threads.koid(index as Index);
        let process = |index| tracker.known_threads.process(koid(index)).unwrap_or(koid(index));
        let woken = finder.lives.iter().enumerate().filter(|(_, life)| life.woken);
        let processes: FxHashSet<u64> = woken.map(|(index, _)| process(index)).collect();
        let all = (0..finder.lives.len()).filter(|&index| processes.contains(&process(index)));
        all.map(koid).collect::<FxHashSet<_>>()
    };
    let threads = match tracker.family.process {
        Some(_) => Threads::Command,
        None if tracker.narrow => match of_processes() {
            koids if koids.is_empty() => Threads::All,
            koids => Threads::Recorded(koids),
        },
        None => Threads::All,
    };
    Chosen { threads, tracker, recorder: query.recorder }
}

/// The requested threads.
fn threads<'a>(
    query: &Query,
    tracker: &'a Tracker,
    finder: &Finder,
) -> Result<Chosen<'a>, WhyError> {
    let recorded = recorded(query, tracker, finder);
    let Some(wanted) = &query.thread else { return Ok(recorded) };
    let known_threads = &tracker.known_threads;
    let of_host =
        |koid: u64| known_threads.process(koid).and_then(|process| known_threads.host(process));
    let is_called = |koid: u64, name: &str| {
        known_threads.comm(koid) == Some(name) || name.parse() == Ok(known_threads.tid(koid))
    };
    // As `client@web-1` in a merged trace.
    let at_host = wanted.rsplit_once('@');
    let fits = |koid: &u64| {
        let is_there =
            |(name, host): (&str, &str)| of_host(*koid) == Some(host) && is_called(*koid, name);
        is_called(*koid, wanted) || at_host.is_some_and(is_there)
    };
    let mut found: Vec<u64> = known_threads.koids().filter(fits).collect();
    // Among several threads with the name, those that the recording is about.
    if found.len() > 1 && found.iter().any(|koid| recorded.has(*koid)) {
        found.retain(|koid| recorded.has(*koid));
    }
    if found.is_empty() {
        let names: Vec<&str> =
            known_threads.koids().filter_map(|koid| known_threads.comm(koid)).collect();
        let near = fxtrec_units::nearest::nearest(wanted, names, 3);
        let near = near.into_iter().map(str::to_owned).collect();
        return Err(WhyError::NoThread { name: wanted.clone(), near });
    }
    Ok(Chosen { threads: Threads::These(found), tracker, recorder: true })
}

/// The only thread of an interval whose query names no thread.
fn the_one(query: &Query, tracker: &Tracker, chosen: &Chosen<'_>) -> Result<u64, WhyError> {
    match &chosen.threads {
        Threads::These(koids) => match koids[..] {
            [koid] => Ok(koid),
            _ => {
                let known_threads = &tracker.known_threads;
                let id = |koid: &u64| {
                    let tid = known_threads.tid(*koid);
                    // Another host of a merged trace may have the same id.
                    match known_threads
                        .process(*koid)
                        .and_then(|process| known_threads.host(process))
                    {
                        Some(host) => format!("{tid}@{}", fxtrec_units::escape::line(host)),
                        None => tid.to_string(),
                    }
                };
                let ids = koids.iter().map(id).collect();
                let name = query.thread.clone().unwrap_or_default();
                Err(WhyError::Several { name, ids })
            }
        },
        // The main thread.
        Threads::Command => tracker.family.process.ok_or(WhyError::NeedsThread),
        Threads::All | Threads::Recorded(_) => Err(WhyError::NeedsThread),
    }
}

fn spans(
    query: &Query,
    finder: &Finder,
    name: &str,
    threads: &Chosen<'_>,
) -> Result<Vec<Choice>, WhyError> {
    let spans = &finder.spans;
    let numbers = spans.find(name);
    if numbers.is_empty() {
        let near = fxtrec_units::nearest::nearest(name, spans.names(), 3);
        let near = near.into_iter().map(str::to_owned).collect();
        return Err(WhyError::NoSpan { name: name.to_owned(), near });
    }
    let (count, median) = spans.median(&numbers);
    let all = query.thread.is_none();
    let mut found: Vec<Choice> = spans
        .list
        .iter()
        .filter(|span| numbers.contains(&span.name) && span.from < span.to)
        .filter(|span| all || threads.has(span.koid))
        .filter(|span| span.from >= finder.from && span.to <= finder.to)
        .map(|span| Choice {
            koid: span.koid,
            from: span.from,
            to: span.to,
            subject: Subject::Span {
                name: name.to_owned(),
                count,
                median,
                begun_on: span.begun_on,
            },
        })
        .collect();
    pick(query, &mut found);
    if found.is_empty() { Err(WhyError::Nothing) } else { Ok(found) }
}

/// Keeps the intervals that the query selects, the longest first.
fn pick(query: &Query, found: &mut Vec<Choice>) {
    found.sort_by_key(|choice| (u64::MAX - choice.length(), choice.from, choice.koid));
    match query.pick {
        Pick::Worst(number) | Pick::Incidents(number) => found.truncate(number.max(1)),
        Pick::Over(nanos) => found.retain(|choice| choice.length() > nanos),
        Pick::At(time) => found.retain(|choice| choice.from <= time && time <= choice.to),
    }
    found.truncate(crate::MOST_EXPLAINED);
}

/// The span that exceeds the median of its name the most.
fn worst_span(query: &Query, finder: &Finder, threads: &Chosen<'_>) -> Option<Choice> {
    let spans = &finder.spans;
    let all = query.thread.is_none();
    let (worst, (count, median)) = spans.worst(|span| {
        (all || threads.has(span.koid)) && span.from >= finder.from && span.to <= finder.to
    })?;
    let name = spans.name_of(worst.name).name.to_string();
    let subject = Subject::Span { name, count, median, begun_on: worst.begun_on };
    Some(Choice { koid: worst.koid, from: worst.from, to: worst.to, subject })
}

/// From when to when COMMAND waited for the recorder to begin: its process is created earlier, and runs the program once everything is
/// ready. Without a recorder, COMMAND does not wait like this.
fn gate(life: &ThreadHistory, koid: u64, tracker: &Tracker) -> Option<(u64, u64)> {
    let (waker, since, until) = life.first_woken?;
    let by_recorder =
        tracker.family.is_recorder(&tracker.known_threads, tracker.known_threads.koid(waker?));
    (by_recorder && tracker.family.is_command(koid)).then_some((since, until))
}

/// The intervals of the lists, as delays.
fn candidates(
    query: &Query,
    tracker: &Tracker,
    finder: &Finder,
    threads: &Chosen<'_>,
    lists: &[usize],
) -> Vec<Delay> {
    let last_slices = finder.last_slices(tracker);
    let mut found = Vec::new();
    for (index, life) in finder.lives.iter().enumerate() {
        let koid = tracker.known_threads.koid(index as Index);
        let Some(kept) = life.lists.as_ref().filter(|_| threads.has(koid)) else { continue };
        let gate = gate(life, koid, tracker);
        for &Candidate { from, able, to, waker } in lists.iter().flat_map(|&list| &kept[list].0) {
            if gate.is_some_and(|gate| gate.0 == from) {
                continue;
            }
            let waker = waker.map(|waker| tracker.known_threads.koid(waker));
            let delay = Delay { koid, from, able, to, waker };
            let process = |koid| tracker.known_threads.process(koid);
            let is_own = |waker| process(koid).is_some() && process(waker) == process(koid);
            let of_others = waker.filter(|waker| !is_own(*waker));
            let ended = of_others.and_then(|waker| last_slices.get(&waker)).copied();
            // A query for one thread shows the whole wait, whatever the thread waited for.
            found.push(match query.metric.is_none() && query.thread.is_none() {
                true => delay.without_end(ended),
                false => delay,
            });
        }
    }
    found
}

/// The longest intervals of the requested kind, or of the first kind that has any.
fn longest(
    query: &Query,
    tracker: &Tracker,
    finder: &Finder,
    threads: &Chosen<'_>,
    recorded: u64,
) -> Result<Vec<Choice>, WhyError> {
    let metrics: &[(&[usize], Metric)] = match query.metric {
        Some(Metric::Late) => &[(&[LATE], Metric::Late)],
        Some(Metric::RunQueue) => &[(&[RUNQUEUE], Metric::RunQueue)],
        Some(Metric::Blocked) => &[(&[BLOCKED], Metric::Blocked)],
        Some(Metric::Turn) => &[(&[TURN], Metric::Turn)],
        // Without COMMAND, the query is about all threads, and most of them sleep because they have nothing to do.
        None if matches!(threads.threads, Threads::All) => &[(&[RUNQUEUE], Metric::RunQueue)],
        None => &[
            (&[LATE, RUNQUEUE], Metric::Late),
            (&[BLOCKED], Metric::Blocked),
            (&[TURN], Metric::Turn),
        ],
    };
    for &(lists, metric) in metrics {
        let mut found = candidates(query, tracker, finder, threads, lists);
        // The rest of a wait for the end of another thread is in both lists.
        found.sort_by_key(|delay| (delay.koid, delay.from, delay.to));
        found.dedup_by_key(|delay| (delay.koid, delay.from, delay.to));
        if query.metric.is_none() {
            if query.pick == Pick::Worst(1) && query.thread.is_none() {
                found = worst::worst(found, recorded).into_iter().collect();
            } else {
                worst::leave_incidents(&mut found, recorded);
            }
        }
        let choice = |Delay { koid, from, to, .. }: Delay| Choice {
            koid,
            from,
            to,
            subject: Subject::Metric(metric),
        };
        let mut found: Vec<Choice> =
            found.into_iter().filter(|it| it.from < it.to).map(choice).collect();
        pick(query, &mut found);
        if !found.is_empty() {
            return Ok(found);
        }
    }
    Err(WhyError::Nothing)
}
