//! One pass over a trace, or two: finds intervals, and explains them.

use std::cmp::Reverse;
use std::collections::{BTreeMap, VecDeque};

use fxt_reader::{Error, Koid, Reader};
use fxtrec_blame::Cause;
use fxtrec_blame::chain::{self, Blocked, Ended, Frame, Step, Wakers, What};
use fxtrec_blame::origins::Origin;
use fxtrec_blame::parts::{self, EndedBy, Key, divide, ended_by};
use fxtrec_blame::pass::{self, Follower, Interval, Keeper};
use fxtrec_blame::threads::{Index, KnownThreads};
use fxtrec_blame::track::{Begin, By, Lock, OnCpu, Request, Sink, Tracker};
use fxtrec_blame::{Class, log};
use fxtrec_report::stacks::Recorded;
use fxtrec_sched::State;
use fxtrec_sched::waited::WaitedFor;
use fxtrec_units::convention::stand_in;
use fxtrec_units::text;
use rustc_hash::FxHashMap;

use crate::answer::{
    Answer, Explanation, Interrupt, Link, Object, OtherRequests, Part, Share, Trace, VERSION, Who,
};
use crate::choose::{Choice, Finder, behind, choose};
use crate::disks::{Collector, Requests};
use crate::places::Places;
use crate::sentence;
use crate::sentence::{name_and_id, nanos};
use crate::{Compared, Query, Subject, WhyError, units, waits};
use crate::{advice, answer};

/// The names that explanations of a trace need.
pub(crate) struct Names<'a> {
    pub(crate) tracker: &'a Tracker,
    pub(crate) syscall: &'a dyn Fn(&str, u64) -> Option<&'static str>,
    /// For threads that have ended, by koid, when their last slice began.
    pub(crate) last_slices: FxHashMap<u64, u64>,
    /// The stacks of the trace, if it has any.
    pub(crate) stacks: Option<Recorded>,
    /// The requests of disks.
    pub(crate) requests: Requests,
}

impl Names<'_> {
    pub(crate) fn who(&self, thread: Index) -> Who {
        self.who_of(self.tracker.known_threads.koid(thread))
    }

    pub(crate) fn who_of(&self, koid: u64) -> Who {
        let known_threads = &self.tracker.known_threads;
        let comm = known_threads.comm(koid).unwrap_or_default().to_owned();
        let host = known_threads.process(koid).and_then(|process| known_threads.host(process));
        Who { koid, tid: known_threads.tid(koid), comm, host: host.map(str::to_owned) }
    }

    /// Whether the recording is of one user's processes, with stand-ins for threads of others.
    pub(crate) fn has_stand_ins(&self) -> bool {
        let known_threads = &self.tracker.known_threads;
        known_threads.koids().any(|koid| self.stand_in_of(koid).is_some())
    }

    /// The name of the kind of threads that this one stands for.
    pub(crate) fn stand_in(&self, thread: Index) -> Option<&'static str> {
        self.stand_in_of(self.tracker.known_threads.koid(thread))
    }

    fn stand_in_of(&self, koid: u64) -> Option<&'static str> {
        let known_threads = &self.tracker.known_threads;
        stand_in(known_threads.comm(koid)?, known_threads.tid(koid))
    }

    /// The cgroup of the thread's process, unless that has moved.
    pub(crate) fn cgroup_of(&self, thread: Index) -> Option<&str> {
        let known_threads = &self.tracker.known_threads;
        known_threads.only_cgroup(known_threads.process(known_threads.koid(thread))?)
    }

    /// The cgroup of a thread that had a CPU, if it is not that of the thread that waited for it. Kernel threads have none.
    pub(crate) fn other_cgroup(&self, tenant: OnCpu, waiter: Index) -> Option<&str> {
        let OnCpu::Thread(thread) = tenant else { return None };
        let (own, other) = (self.cgroup_of(waiter)?, self.cgroup_of(thread)?);
        (own != other).then_some(other)
    }

    /// Whether the thread belongs to the recorder.
    pub(crate) fn is_recorder(&self, thread: Index) -> bool {
        let known_threads = &self.tracker.known_threads;
        self.tracker.family.is_recorder(known_threads, known_threads.koid(thread))
    }

    /// Whether the recording has stacks of this thread, if it waited for long.
    pub(crate) fn has_stacks_of(&self, thread: Index) -> bool {
        let koid = Koid(self.tracker.known_threads.koid(thread));
        self.stacks.as_ref().is_some_and(|stacks| stacks.is_about(koid))
    }

    /// Whether the recording has samples of what threads ran.
    pub(crate) fn has_samples(&self) -> bool {
        self.stacks.as_ref().is_some_and(|stacks| stacks.frequency > 0)
    }

    /// The cause of the interrupt that woke a thread.
    pub(crate) fn interrupt(&self, origin: Origin) -> Interrupt {
        let origins = &self.tracker.origins;
        Interrupt {
            kind: origins.kind(origin).map(str::to_owned),
            name: origins.name(origin).map(str::to_owned),
            text: origins.text(origin),
        }
    }

    /// The request whose completion this interrupt reported at the end of a wait, and how long it took until then.
    pub(crate) fn request(
        &self,
        request: Request,
        origin: Origin,
        (since, done): (u64, u64),
    ) -> answer::Request {
        let origins = &self.tracker.origins;
        let operation = origins.operation(origin);
        let Request { bytes, by, started, issued } = request;
        // A full queue holds a thread up before it can make its request.
        let began = started.or(issued).map(|began| began.min(since));
        let began = began.filter(|began| done.saturating_sub(*began) >= LEAST_SHARED);
        let beside =
            began.map(|began| self.requests.beside((by, origin), (began, done), self.tracker));
        let beside = beside.unwrap_or_default();
        let of_all: u64 = beside.iter().map(|it| it.1).sum();
        // Small requests do not delay a large one, and are irrelevant if there are large ones too.
        let matters = |it: &(Index, u64)| it.1 >= bytes && it.1 >= of_all / 10;
        let beside = beside.into_iter().filter(matters).take(MOST_BESIDE);
        let beside: Vec<OtherRequests> =
            beside.map(|(by, bytes)| OtherRequests { thread: self.who(by), bytes }).collect();
        let length = |from: Option<u64>, to: Option<u64>| to?.checked_sub(from?);
        let queued_ns = length(started, issued);
        let device_ns = length(issued, Some(done));
        let length_ns = length(started, Some(done));
        let times = match (queued_ns, device_ns, length_ns) {
            (Some(queued), Some(device), _) => {
                format!("{} queued, {} in the device", nanos(queued), nanos(device))
            }
            (None, Some(device), _) => format!("{} in the device", nanos(device)),
            (_, None, Some(length)) => format!("{} queued and in the device", nanos(length)),
            (_, None, None) => String::new(),
        };
        let whose = |it: &OtherRequests| {
            format!("{} of {}", text::bytes(it.bytes), name_and_id(&it.thread))
        };
        let whose: Vec<String> = beside.iter().map(whose).collect();
        let times = match (whose.is_empty(), operation) {
            (false, Some((_, disk))) => {
                let disk = fxtrec_units::escape::line(disk);
                format!("{times}; meanwhile {disk} also had {}", sentence::list(&whose))
            }
            _ => times,
        };
        answer::Request {
            operation: operation.map(|it| it.0.to_owned()),
            disk: operation.map(|it| it.1.to_owned()),
            bytes,
            thread: by.map(|by| self.who(by)),
            queued_ns,
            device_ns,
            length_ns,
            beside,
            text: origins.request(origin, bytes),
            times,
        }
    }

    /// The file or socket that the system call in which a thread was blocked referred to.
    pub(crate) fn object(&self, koid: u64, step: &Step, blocked: &Blocked) -> Option<Object> {
        let stacks = self.stacks.as_ref()?;
        let until = match blocked.ended {
            Ended::NotYet => u64::MAX,
            Ended::Woken(_) => step.to,
        };
        // Only long waits have a stack.
        if until.saturating_sub(blocked.since) < stacks.over.unwrap_or(0) {
            return None;
        }
        let (stack, _) = stacks.of_wait(Koid(koid), (blocked.since, until))?;
        let waited = stacks.waited_for(stack)?;
        let process = |koid: u64| self.tracker.known_threads.process(koid);
        // Hosts may have the same addresses and ids.
        let host = self.who_of(koid).host;
        let other = waited.peer.filter(|pid| host.is_none() && process(koid) != Some(*pid));
        let end = stacks.other_end(waited).filter(|end| self.who_of(end.0).host == host);
        let peer = end.map(|end| end.0).or(other);
        let peer = peer.map(|koid| self.who_of(koid)).filter(|who| !who.comm.is_empty());
        let waker = match blocked.ended {
            Ended::Woken(By::Thread(waker)) => process(self.tracker.known_threads.koid(waker)),
            _ => None,
        };
        let mut text = fxtrec_units::escape::line(&waited.to_string()).into_owned();
        if let Some(who) = peer.as_ref().filter(|who| waker.is_none() || process(who.koid) != waker)
        {
            text += &format!(" ({})", name_and_id(who));
        }
        let WaitedFor { descriptor, kind, path, device, local, remote, .. } = waited.clone();
        Some(Object { kind, fd: descriptor, path, device, local, remote, peer, text })
    }

    /// The name of a system call, or its number.
    pub(crate) fn syscall(&self, number: u64) -> String {
        let name = (self.syscall)(&self.tracker.origin.machine, number);
        name.map_or_else(|| format!("system call {number}"), str::to_owned)
    }

    pub(crate) fn cgroup(&self, number: u32) -> Option<String> {
        self.tracker.cgroup(number).map(str::to_owned)
    }

    /// The name of the kernel lock that a thread waited for.
    pub(crate) fn kernel_lock(&self, blocked: &Blocked) -> Option<String> {
        let id = blocked.lock.and_then(Lock::kernel_id)?;
        self.tracker.known_lock_name(id).map(str::to_owned)
    }

    /// Whether a thread that woke another at this time ended then, without having left its CPU in between.
    pub(crate) fn ended_then(&self, thread: Index, time: u64) -> bool {
        let koid = self.tracker.known_threads.koid(thread);
        self.last_slices.get(&koid).is_some_and(|begin| *begin <= time)
    }

    /// The object that a thread waited for while it was blocked.
    pub(crate) fn class(&self, blocked: &Blocked) -> Class {
        let name = blocked.syscall.map(|number| self.syscall(number));
        blocked.class(self.tracker.origin.causes, name.as_deref())
    }
}

/// Answers `query` about the trace that `open` opens, which is called once for each pass. `syscall` names the system calls of a machine's
/// architecture.
///
/// # Errors
/// [`WhyError`]
pub fn explain<'r>(
    query: &Query,
    open: impl FnMut() -> Result<Reader<'r>, Error>,
    syscall: impl Fn(&str, u64) -> Option<&'static str>,
) -> Result<Answer, WhyError> {
    explain_keeping(query, open, syscall, Keep { most: log::MOST, at_once: true })
}

/// The data that is kept about an interval to follow.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Keep {
    /// Maximum number of entries.
    pub(crate) most: usize,
    /// Whether the log is kept in the first pass, if the query gives the interval.
    pub(crate) at_once: bool,
}

/// Explains with a limit on the size of the log.
pub(crate) fn explain_keeping<'r>(
    query: &Query,
    mut open: impl FnMut() -> Result<Reader<'r>, Error>,
    syscall: impl Fn(&str, u64) -> Option<&'static str>,
    keep: Keep,
) -> Result<Answer, WhyError> {
    let mut tracker = Tracker::new(KnownThreads::default());
    let finder = Finder::new(query);
    let mut requests = Requests::default();
    let (finder, keeper) = match query.interval().filter(|_| keep.at_once) {
        Some(interval) => {
            let keeper = Keeper::new(interval, keep.most);
            let all = (finder, (keeper, Collector::new(interval)));
            let (finder, (keeper, collector)) = pass::run(open()?, &mut tracker, all)?;
            requests = collector.finish();
            (finder, Some(keeper))
        }
        None => (pass::run(open()?, &mut tracker, finder)?, None),
    };
    let stacks = match tracker.has_stacks {
        true => Some(Recorded::read(&mut open()?)?),
        false => None,
    };
    let places = stacks.as_ref().map(Places::of);
    let choices = {
        let (known_threads, origin) = (&tracker.known_threads, &tracker.origin);
        let known = units::Known {
            end: tracker.now,
            koid: &|thread| known_threads.koid(thread),
            comm: &|koid| known_threads.comm(koid),
            process: &|koid| known_threads.process(koid),
            class: &|call| {
                let name = call.map(|number| syscall(&origin.machine, number));
                match (origin.causes.has(Cause::Syscall), name) {
                    (false, _) => Class::Unknown,
                    (true, None) => Class::NoSyscall,
                    (true, Some(name)) => name.map_or(Class::Other, Class::of_syscall),
                }
            },
            stacks: stacks.as_ref(),
            by_stack: &|koid, wait| places.as_ref()?.find(Koid(koid), wait),
        };
        choose(query, &tracker, &finder, &known)?
    };
    let chosen = choices;
    let choices = &chosen.list;
    let spans_left_out = finder.spans.too_many;
    let last_slices = finder.last_slices(&tracker);
    let recorder_ns = finder.left_out(query, &tracker);
    drop(finder);
    let (origin, cpus) = (tracker.origin.clone(), tracker.cpus.clone());
    let (begin, end) = (tracker.first.unwrap_or(0), tracker.now);
    let (gaps, truncated) = (tracker.losses, tracker.is_truncated);
    let mut intervals: Vec<Interval> = choices
        .iter()
        .map(|choice| Interval { koid: choice.koid, from: choice.from, to: choice.to })
        .collect();
    // The parts of a typical unit, by the index of its interval.
    let mut usual = vec![None; choices.len()];
    for (choice, usual) in choices.iter().zip(&mut usual) {
        if let Subject::Unit(Compared { usual: (from, to), is_unusual: true, .. }) = choice.subject
        {
            *usual = Some(intervals.len());
            intervals.push(Interval { koid: choice.koid, from, to });
        }
    }
    let kept = match (keeper, &intervals[..]) {
        (Some(keeper), &[interval]) => keeper.follow(&tracker, interval),
        _ => None,
    };
    let is_unit = |choice: &Choice| matches!(choice.subject, Subject::Unit(_));
    let mut frames = vec![kept; intervals.len()];
    let mut meanwhile = Vec::new();
    if frames.iter().any(Option::is_none) {
        let mut known_threads = KnownThreads::default();
        known_threads.with_names_of(tracker.known_threads);
        // The first pass has found the threads of COMMAND and of the recorder; this pass might not contain the records of which thread
        // created another.
        let family = tracker.family;
        tracker = Tracker::new(known_threads);
        tracker.family = family;
        // An interval may be over before there is any record of its thread.
        for choice in choices {
            tracker.known_threads.index(choice.koid);
        }
        let follower = Follower::new(&intervals, Wakers::Followed, keep.most, |_, at, frame| {
            frames[at] = Some(frame);
        });
        let of_units = match choices.iter().any(is_unit) {
            true => &intervals[..choices.len()],
            false => &[],
        };
        let from = intervals.iter().map(|interval| interval.from).min().unwrap_or(u64::MAX);
        let to = intervals.iter().map(|interval| interval.to).max().unwrap_or(0);
        let both = (Ran::new(of_units), Collector::new((from, to)));
        let (follower, (ran, collector)) = pass::run(open()?, &mut tracker, (follower, both))?;
        follower.finish(&tracker);
        requests = collector.finish();
        meanwhile = ran.finish(&tracker);
        // The pass may have ended before all of the recording's facts about itself were read.
        (tracker.origin, tracker.cpus) = (origin, cpus);
    }
    if let Some(places) = &places {
        for frame in frames.iter_mut().flatten() {
            places.tell(frame, &|thread| tracker.known_threads.koid(thread));
        }
    }
    let names = Names { tracker: &tracker, syscall: &syscall, last_slices, stacks, requests };
    meanwhile.resize(choices.len(), Meanwhile::default());
    let is_recorder = |thread| !query.recorder && names.is_recorder(thread);
    let explained = chosen.explained(&frames, is_recorder);
    let passed_over = chosen.passed_over(&explained, &frames, is_recorder);
    let passed_over =
        passed_over.map(|(wait, normal)| sentence::passed_over(wait, &normal, &names));
    let tell = |at: usize| {
        let (choice, frame) = (&choices[at], frames[at].as_ref()?);
        let mut why = tell(choice, frame, &meanwhile[at], &names);
        let usual = usual[at].and_then(|at| frames[at].as_ref());
        why.usual = usual.map(|frame| blame(frame, &names));
        if spans_left_out && matches!(choice.subject, Subject::Span { .. }) {
            why.missing.push("spans beyond the first two million".to_owned());
        }
        Some(why)
    };
    let explanations = explained.into_iter().filter_map(tell).collect();
    let is_part = |choice: &Choice| choice.subject != Subject::Batch;
    let command =
        names.tracker.family.process.filter(|_| {
            query.may_be_unit() && query.thread.is_none() && choices.iter().all(is_part)
        });
    let part_of = command.map(|koid| names.who_of(koid).comm).filter(|comm| !comm.is_empty());
    let origin = &tracker.origin;
    let text = |text: &String| origin.is_known.then(|| text.clone());
    let trace = Trace {
        begin_ns: begin,
        end_ns: end,
        command_line: text(&origin.command_line),
        source: text(&origin.source),
        scope: text(&origin.scope),
        causes: origin.causes.names().collect(),
        wall_clock_offset_ns: origin.wall_clock_offset,
        gaps,
        truncated,
        recorder_ns,
    };
    Ok(Answer { format: "fxtrec-why", version: VERSION, trace, explanations, part_of, passed_over })
}

/// The minimum length of a request, in nanoseconds, for which others of the same disk are named; and the maximum number of others.
const LEAST_SHARED: u64 = 1_000_000;
const MOST_BESIDE: usize = 2;

/// Maximum number of listed threads that ran during the unit.
const MOST_MEANWHILE: usize = 3;

/// The maximum number of slices kept for an interval; the last ones are kept.
const MOST_SLICES: usize = 4096;

/// The activity of other threads in an interval.
#[derive(Clone, Debug, Default)]
pub(crate) struct Meanwhile {
    /// The threads that ran or were runnable longest, with the time for which they ran and the time for which they waited for a CPU.
    pub(crate) longest: Vec<(Index, u64, u64)>,
    /// The last slices, in order of their ends.
    slices: VecDeque<(Index, u64, u64)>,
    /// Whether there were more of them.
    cut: bool,
}

impl Meanwhile {
    /// Whether slices since `from` may be missing.
    pub(crate) fn is_cut(&self, from: u64) -> bool {
        self.cut && self.slices.front().is_none_or(|slice| slice.2 > from)
    }

    /// The threads that ran between two times, and for how long.
    pub(crate) fn within(&self, from: u64, to: u64) -> Vec<(Index, u64)> {
        let mut sums: BTreeMap<Index, u64> = BTreeMap::new();
        for &(thread, begin, end) in &self.slices {
            let length = end.min(to).saturating_sub(begin.max(from));
            if length > 0 {
                *sums.entry(thread).or_default() += length;
            }
        }
        sums.into_iter().collect()
    }
}

/// How long each thread ran in some intervals, and waited for a CPU.
struct Ran<'a> {
    intervals: &'a [Interval],
    /// When each thread began to run, or to wait for a CPU.
    since: FxHashMap<Index, (u64, bool)>,
    /// By interval.
    sums: Vec<FxHashMap<Index, (u64, u64)>>,
    slices: Vec<Meanwhile>,
}

impl<'a> Ran<'a> {
    fn new(intervals: &'a [Interval]) -> Ran<'a> {
        let sums = vec![FxHashMap::default(); intervals.len()];
        let slices = vec![Meanwhile::default(); intervals.len()];
        Ran { intervals, since: FxHashMap::default(), sums, slices }
    }

    fn add(&mut self, thread: Index, (from, to): (u64, u64), has_cpu: bool) {
        let kept = self.sums.iter_mut().zip(&mut self.slices);
        for (interval, (sums, kept)) in self.intervals.iter().zip(kept) {
            let length = to.min(interval.to).saturating_sub(from.max(interval.from));
            if length > 0 {
                let sums = sums.entry(thread).or_default();
                *(if has_cpu { &mut sums.0 } else { &mut sums.1 }) += length;
            }
            if length > 0 && has_cpu {
                if kept.slices.len() == MOST_SLICES {
                    kept.slices.pop_front();
                    kept.cut = true;
                }
                kept.slices.push_back((thread, from, to));
            }
        }
    }

    /// For each interval, the activity of threads other than its own: those of COMMAND or, without COMMAND, all except the recorder's.
    fn finish(mut self, tracker: &Tracker) -> Vec<Meanwhile> {
        for (thread, (from, has_cpu)) in std::mem::take(&mut self.since) {
            self.add(thread, (from, tracker.now), has_cpu);
        }
        let known_threads = &tracker.known_threads;
        type Sums = FxHashMap<Index, (u64, u64)>;
        let list = |((interval, sums), kept): ((&Interval, Sums), Meanwhile)| {
            let counts = |thread: Index| {
                let koid = known_threads.koid(thread);
                let family = &tracker.family;
                koid != interval.koid
                    && match family.process {
                        Some(_) => family.has(known_threads, koid),
                        None => !family.is_recorder(known_threads, koid),
                    }
            };
            let mut longest: Vec<(Index, u64, u64)> = sums
                .into_iter()
                .filter(|(thread, _)| counts(*thread))
                .map(|(thread, (ran, waited))| (thread, ran, waited))
                .collect();
            longest.sort_unstable_by_key(|&(thread, ran, waited)| (Reverse(ran + waited), thread));
            longest.truncate(MOST_MEANWHILE);
            let slices = kept.slices.into_iter().filter(|slice| counts(slice.0)).collect();
            Meanwhile { longest, slices, ..kept }
        };
        self.intervals.iter().zip(self.sums).zip(self.slices).map(list).collect()
    }
}

impl Sink for Ran<'_> {
    #[inline]
    fn begin(&mut self, thread: Index, begin: Begin) {
        if self.intervals.is_empty() {
            return;
        }
        if let Some((from, has_cpu)) = self.since.remove(&thread) {
            self.add(thread, (from, begin.time), has_cpu);
        }
        let has_cpu = begin.state == State::Running;
        if has_cpu || begin.state.is_waiting() {
            self.since.insert(thread, (begin.time, has_cpu));
        }
    }

    fn advance(&mut self, _: &Tracker, _: u64) -> bool {
        true
    }
}

/// The facts about an asynchronous span that are not recorded.
const UNLINKED: &str = "which threads worked on an asynchronous span between its beginning and its end: the time is that of \
                        the thread that ended it";

fn tell(choice: &Choice, frame: &Frame, meanwhile: &Meanwhile, names: &Names<'_>) -> Explanation {
    let (subject, span) = match &choice.subject {
        Subject::Span { name, count, median, .. } => {
            ("span", Some((name.clone(), *count, *median)))
        }
        Subject::Metric(metric) => (metric.name(), None),
        Subject::Unit(compared) if compared.is_wait => ("wait", None),
        Subject::Unit(_) => ("unit", None),
        Subject::Batch => ("critical_path", None),
        Subject::Trigger { .. } => ("trigger", None),
        Subject::Life => ("life", None),
        Subject::Range => ("range", None),
    };
    let unit = match &choice.subject {
        Subject::Unit(compared) => Some(compared),
        _ => None,
    };
    let trigger = match &choice.subject {
        Subject::Trigger { expression, .. } => Some(expression.clone()),
        _ => None,
    };
    let begun_on = match &choice.subject {
        Subject::Span { begun_on, .. } => begun_on.map(|koid| names.who_of(koid)),
        _ => None,
    };
    let mut missing = advice::missing(frame, names);
    if begun_on.is_some() {
        missing.push(UNLINKED.to_owned());
    }
    let mut advice = advice::advice(frame, names);
    let nameless = waits::nameless_runtimes(frame, names).into_iter();
    advice.extend(nameless.map(|runtime| runtime.advice().to_owned()));
    Explanation {
        subject,
        trigger,
        begun_on,
        spans: span.as_ref().map(|span| span.1),
        units: unit.map(|unit| unit.count),
        is_unusual: unit.map(|unit| unit.is_unusual),
        usual: None,
        idle_in: unit
            .filter(|unit| !unit.is_wait)
            .and_then(|unit| unit.call)
            .map(|call| names.syscall(call)),
        median_ns: span.as_ref().map(|span| span.2).or(unit.map(|unit| unit.median)),
        span: span.map(|span| span.0),
        thread: names.who_of(choice.koid),
        from_ns: choice.from,
        to_ns: choice.to,
        length_ns: choice.to - choice.from,
        sentence: sentence::sentence(choice, frame, meanwhile, names),
        meanwhile: meanwhile
            .longest
            .iter()
            .filter(|it| it.1 > 0)
            .map(|&(thread, ns, _)| {
                let cgroup = names.other_cgroup(OnCpu::Thread(thread), frame.thread);
                let (thread, cgroup) = (Some(names.who(thread)), cgroup.map(str::to_owned));
                Share { tenant: "thread", thread, cgroup, ns }
            })
            .collect(),
        recorder_ns: behind(frame, |thread| names.is_recorder(thread)),
        blame: blame(frame, names),
        chain: links(frame, names),
        waits: waits::waits(frame, names),
        advice,
        missing,
    }
}

fn tenant_name(tenant: OnCpu) -> &'static str {
    match tenant {
        OnCpu::Thread(_) => "thread",
        OnCpu::Idle => "idle",
        OnCpu::OutOfScope => "out_of_scope",
        OnCpu::Unknown => "unknown",
    }
}

/// The parts of a thread's own time, the longest first.
pub(crate) fn blame(frame: &Frame, names: &Names<'_>) -> Vec<Part> {
    let sums = parts::sums(frame, |blocked| names.class(blocked));
    sums.into_iter().map(|(key, sum)| part(&key, sum, frame.thread, names)).collect()
}

fn part(key: &Key, (ns, times): (u64, u64), waiter: Index, names: &Names<'_>) -> Part {
    let mut part = Part {
        part: "",
        ns,
        times,
        tenant: None,
        thread: None,
        cgroup: None,
        class: None,
        syscall: None,
        ended_by: None,
        interrupt: None,
        uninterruptible: None,
        reason: None,
    };
    match key {
        Key::OnCpu => part.part = "on_cpu",
        Key::Stolen => part.part = "stolen",
        Key::Interrupts => part.part = "interrupts",
        Key::OnCpuUndivided => part.part = "on_cpu_undivided",
        Key::Waiting(tenant) => {
            part.part = "waiting";
            part.tenant = Some(tenant_name(*tenant));
            part.cgroup = names.other_cgroup(*tenant, waiter).map(str::to_owned);
            if let OnCpu::Thread(thread) = tenant {
                part.thread = Some(names.who(*thread));
            }
        }
        Key::Throttled(cgroup) => {
            part.part = "throttled";
            part.cgroup = cgroup.and_then(|cgroup| names.cgroup(cgroup));
        }
        Key::Blocked { class, syscall, ended, uninterruptible } => {
            part.part = "blocked";
            part.class = Some(class.name());
            part.syscall = syscall.map(|number| names.syscall(number));
            part.ended_by = Some(ended_by(*ended));
            if let Some(EndedBy::Thread(thread)) = ended {
                part.thread = Some(names.who(*thread));
            }
            if let Some(EndedBy::Interrupt(origin)) = ended {
                part.interrupt = Some(names.interrupt(*origin));
            }
            part.uninterruptible = Some(*uninterruptible);
        }
        Key::Underway => part.part = "underway",
        Key::Packet => part.part = "packet",
        Key::Request => part.part = "request",
        Key::Unknown(reason) => {
            part.part = "unknown";
            part.reason = Some(reason.name());
        }
    }
    part
}

/// The innermost steps.
fn links(frame: &Frame, names: &Names<'_>) -> Vec<Link> {
    let mut links = Vec::new();
    frame.leaves(&mut |path: &[Index], step: &Step| {
        let thread = path.last().copied().unwrap_or(frame.thread);
        links.push(link(step, path.len() - 1, thread, names));
    });
    links
}

fn link(step: &Step, depth: usize, index: Index, names: &Names<'_>) -> Link {
    let mut link = Link {
        from_ns: step.from,
        to_ns: step.to,
        depth,
        thread: names.who(index),
        state: "",
        cpu: None,
        cpu_name: None,
        tenants: Vec::new(),
        woken_by: None,
        cgroup: None,
        class: None,
        syscall: None,
        object: None,
        ended_by: None,
        interrupt: None,
        futex: None,
        kernel_lock: None,
        kernel_lock_kind: None,
        kernel_lock_name: None,
        owner: None,
        end_of: None,
        waker: None,
        via: None,
        request: None,
        steal_ns: None,
        irq_ns: None,
        reason: None,
    };
    match &step.what {
        What::Ran { cpu, taken, .. } => {
            (link.state, link.cpu) = ("on_cpu", Some(cpu.0));
            link.cpu_name = Some(names.tracker.cpus.name(cpu.0));
            let taken = taken.map(|taken| divide(step.length(), taken));
            link.steal_ns = taken.map(|taken| taken.1);
            link.irq_ns = taken.map(|taken| taken.2);
        }
        What::Waited { cpu, woken, shares } => {
            (link.state, link.cpu) = ("waiting", Some(cpu.0));
            link.cpu_name = Some(names.tracker.cpus.name(cpu.0));
            link.woken_by = woken.map(|by| ended_by(EndedBy::of(Ended::Woken(by))));
            let (named, rest) = chain::longest(shares);
            link.tenants = named
                .iter()
                .map(|&(tenant, ns)| Share {
                    tenant: tenant_name(tenant),
                    thread: match tenant {
                        OnCpu::Thread(thread) => Some(names.who(thread)),
                        _ => None,
                    },
                    cgroup: names.other_cgroup(tenant, index).map(str::to_owned),
                    ns,
                })
                .collect();
            if rest > 0 {
                link.tenants.push(Share { tenant: "others", thread: None, cgroup: None, ns: rest });
            }
        }
        What::Throttled { cgroup } => {
            link.state = "throttled";
            link.cgroup = cgroup.and_then(|cgroup| names.cgroup(cgroup));
        }
        What::Blocked(blocked) => {
            link.state = "blocked";
            link.class = Some(names.class(blocked).name());
            link.syscall = blocked.syscall.map(|number| names.syscall(number));
            link.object = names.object(link.thread.koid, step, blocked);
            link.futex = blocked.lock.and_then(Lock::futex).map(|address| format!("{address:#x}"));
            link.kernel_lock = blocked.lock.and_then(Lock::kernel_id).map(|id| format!("{id:#x}"));
            link.kernel_lock_kind = blocked.lock.and_then(|lock| Some(lock.kernel?.name()));
            link.kernel_lock_name = names.kernel_lock(blocked);
            link.owner = blocked.lock.and_then(Lock::holder).map(|owner| names.who(owner));
            link.end_of = blocked.lock.and_then(Lock::ending).map(|thread| names.who(thread));
            link.ended_by = Some(ended_by(EndedBy::of(blocked.ended)));
            if let Ended::Woken(By::Thread(waker)) = blocked.ended {
                link.waker = Some(names.who(waker));
            }
            if let Ended::Woken(By::Interrupt(origin)) = blocked.ended {
                link.interrupt = Some(names.interrupt(origin));
                let request = blocked.request;
                link.request = request.map(|it| names.request(it, origin, (step.from, step.to)));
            }
            link.via = blocked.sent.map(|_| "packet");
            link.reason = blocked.stopped.map(crate::Reason::name);
        }
        What::Underway => link.state = "underway",
        What::Packet => link.state = "packet",
        What::Request(request, origin) => {
            link.state = "request";
            link.request = Some(names.request(*request, *origin, (step.from, step.to)));
        }
        What::Unknown(reason) => {
            link.state = "unknown";
            link.reason = Some(reason.name());
        }
    }
    link
}
