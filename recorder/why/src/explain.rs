//! Two passes over a trace: which intervals, and why.

use std::collections::HashMap;

use fxt_reader::{Cpu, Error, Item, Reader, Visitor};
use fxtrec_report::Cause;

use crate::advice;
use crate::answer::{Answer, Explanation, Link, Part, Share, Trace, VERSION, Who};
use crate::cause::Class;
use crate::chain::{self, Blocked, Ended, Frame, Step, What};
use crate::choose::{Choice, Finder, choose};
use crate::log::{self, Log, Taken};
use crate::sentence;
use crate::threads::{Index, Roster};
use crate::track::{Begin, By, Sink, Tenant, Tracker};
use crate::{Query, Subject, WhyError};

/// A pass that is under way.
struct Pass<'a, S> {
    tracker: &'a mut Tracker,
    sink: S,
}

impl<S: Sink> Visitor for Pass<'_, S> {
    #[inline(always)]
    fn visit(&mut self, item: &Item<'_>) -> bool {
        self.tracker.take(item, &mut self.sink)
    }
}

fn pass<S: Sink>(mut reader: Reader<'_>, tracker: &mut Tracker, sink: S) -> Result<S, WhyError> {
    let mut pass = Pass { tracker, sink };
    loop {
        match reader.show_all(&mut pass) {
            Ok(_) => return Ok(pass.sink),
            Err(Error::Damaged(_)) => pass.tracker.damaged(),
            Err(error) => return Err(error.into()),
        }
    }
}

/// What a trace is explained with: who is called how.
pub(crate) struct Names<'a> {
    pub(crate) tracker: &'a Tracker,
    pub(crate) syscall: &'a dyn Fn(&str, u64) -> Option<&'static str>,
}

impl Names<'_> {
    pub(crate) fn who(&self, thread: Index) -> Who {
        self.who_of(self.tracker.roster.koid(thread))
    }

    pub(crate) fn who_of(&self, koid: u64) -> Who {
        let roster = &self.tracker.roster;
        let comm = roster.comm(koid).unwrap_or_default().to_owned();
        Who { koid, tid: roster.tid(koid), comm }
    }

    /// The name of a system call, or its number.
    pub(crate) fn syscall(&self, number: u64) -> String {
        let name = (self.syscall)(&self.tracker.origin.machine, number);
        name.map_or_else(|| format!("system call {number}"), str::to_owned)
    }

    pub(crate) fn cgroup(&self, number: u32) -> Option<String> {
        self.tracker.cgroup(number).map(str::to_owned)
    }

    /// What a thread waited for while it was blocked.
    pub(crate) fn class(&self, blocked: &Blocked) -> Class {
        let name = blocked.syscall.map(|number| self.syscall(number));
        let known = self.tracker.origin.causes.has(Cause::Syscall) || blocked.syscall.is_some();
        Class::of(blocked.state, known.then_some(name.as_deref()))
    }
}

/// Follows the intervals of the choices.
struct Follower<'a> {
    log: Log,
    /// Those that are still to come, the one that ends last first.
    open: Vec<usize>,
    choices: &'a [Choice],
    begin: u64,
    frames: Vec<Option<Frame>>,
}

impl Follower<'_> {
    fn new(choices: &[Choice], most: usize) -> Follower<'_> {
        let mut open: Vec<usize> = (0..choices.len()).collect();
        open.sort_by_key(|&at| u64::MAX - choices[at].to);
        let begin = choices.iter().map(|choice| choice.from).min().unwrap_or(0);
        let frames = vec![None; choices.len()];
        Follower { log: Log::new(most), open, choices, begin, frames }
    }

    /// Explains those that end before `time`.
    #[cold]
    fn close(&mut self, tracker: &Tracker, time: u64) {
        while let Some(&at) = self.open.last() {
            let choice = &self.choices[at];
            if choice.to >= time {
                return;
            }
            self.open.pop();
            let Some(thread) = tracker.roster.find(choice.koid) else { continue };
            tracker.settle(self);
            self.frames[at] = Some(chain::follow(&self.log, thread, (choice.from, choice.to)));
        }
    }
}

impl Sink for Follower<'_> {
    #[inline]
    fn begin(&mut self, thread: Index, begin: Begin) {
        self.log.begin(thread, begin);
    }

    fn taken(&mut self, thread: Index, steal: u64, irq: u64) {
        self.log.taken(thread, Taken { steal, irq });
    }

    fn quota(&mut self, thread: Index, cgroup: u32) {
        self.log.quota(thread, cgroup);
    }

    #[inline]
    fn tenant(&mut self, cpu: Cpu, time: u64, tenant: Tenant) {
        self.log.tenant(cpu, time, tenant);
    }

    #[inline]
    fn advance(&mut self, tracker: &Tracker, time: u64) -> bool {
        if time >= self.begin && !self.log.is_on() {
            self.log.switch_on();
        }
        match self.open.last() {
            Some(&at) if self.choices[at].to < time => {
                self.close(tracker, time);
                !self.open.is_empty()
            }
            Some(_) => true,
            None => false,
        }
    }
}

/// Answers `query` about the trace that `open` opens, which it does twice. `syscall` names the system calls of a machine's
/// architecture.
///
/// # Errors
/// [`WhyError`]
pub fn explain<'r>(
    query: &Query,
    open: impl FnMut() -> Result<Reader<'r>, Error>,
    syscall: impl Fn(&str, u64) -> Option<&'static str>,
) -> Result<Answer, WhyError> {
    explain_keeping(query, open, syscall, log::MOST)
}

/// The same, with so many entries kept at most.
pub(crate) fn explain_keeping<'r>(
    query: &Query,
    mut open: impl FnMut() -> Result<Reader<'r>, Error>,
    syscall: impl Fn(&str, u64) -> Option<&'static str>,
    most: usize,
) -> Result<Answer, WhyError> {
    let mut tracker = Tracker::new(Roster::default());
    let finder = pass(open()?, &mut tracker, Finder::new(query))?;
    let choices = choose(query, &tracker, &finder)?;
    let spans_left_out = finder.spans.too_many;
    drop(finder);
    let origin = tracker.origin.clone();
    let (begin, end) = (tracker.first.unwrap_or(0), tracker.now);
    let gaps = tracker.losses;
    let mut roster = Roster::default();
    roster.with_names_of(tracker.roster);
    let mut tracker = Tracker::new(roster);
    // An interval may be over before there is any record of its thread.
    for choice in &choices {
        tracker.roster.index(choice.koid);
    }
    let mut follower = pass(open()?, &mut tracker, Follower::new(&choices, most))?;
    follower.close(&tracker, u64::MAX);
    // The pass may have ended before all that the recording says of itself.
    tracker.origin = origin;
    let names = Names { tracker: &tracker, syscall: &syscall };
    let frames = follower.frames.into_iter().zip(&choices);
    let tell = |(frame, choice): (Option<Frame>, &Choice)| {
        let mut why = tell(choice, &frame?, &names);
        if spans_left_out && matches!(choice.subject, Subject::Span { .. }) {
            why.missing
                .push("spans beyond the first two million, which are not looked at".to_owned());
        }
        Some(why)
    };
    let explanations = frames.filter_map(tell).collect();
    let origin = &tracker.origin;
    let text = |text: &String| origin.is_known.then(|| text.clone());
    let trace = Trace {
        begin_ns: begin,
        end_ns: end,
        command_line: text(&origin.command_line),
        source: text(&origin.source),
        scope: text(&origin.scope),
        causes: origin.causes.names().collect(),
        gaps,
    };
    Ok(Answer { format: "fxtrec-why", version: VERSION, trace, explanations })
}

fn tell(choice: &Choice, frame: &Frame, names: &Names<'_>) -> Explanation {
    let (subject, span) = match &choice.subject {
        Subject::Span { name, count, median } => ("span", Some((name.clone(), *count, *median))),
        Subject::Metric(metric) => (metric.name(), None),
        Subject::Life => ("life", None),
        Subject::Range => ("range", None),
    };
    Explanation {
        subject,
        spans: span.as_ref().map(|span| span.1),
        median_ns: span.as_ref().map(|span| span.2),
        span: span.map(|span| span.0),
        thread: names.who_of(choice.koid),
        from_ns: choice.from,
        to_ns: choice.to,
        length_ns: choice.to - choice.from,
        sentence: sentence::sentence(choice, frame, names),
        blame: blame(frame, names),
        chain: links(frame, names),
        advice: advice::advice(frame, names),
        missing: advice::missing(frame, names),
    }
}

/// What makes parts one.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Key {
    OnCpu,
    Stolen,
    Interrupts,
    OnCpuUndivided,
    Waiting(Tenant),
    Throttled(Option<u32>),
    Blocked { class: Class, syscall: Option<u64>, ended: Option<EndedBy>, uninterruptible: bool },
    Underway,
    Unknown(crate::Reason),
}

/// Who woke a thread, as far as parts tell them apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum EndedBy {
    Thread(Index),
    Interrupt,
    Unknown,
}

impl EndedBy {
    fn of(ended: Ended) -> Option<EndedBy> {
        match ended {
            Ended::NotYet => None,
            Ended::Woken(By::Thread(thread)) => Some(EndedBy::Thread(thread)),
            Ended::Woken(By::Interrupt) => Some(EndedBy::Interrupt),
            Ended::Woken(By::Unknown) => Some(EndedBy::Unknown),
        }
    }
}

pub(crate) fn ended_by(ended: Ended) -> &'static str {
    match EndedBy::of(ended) {
        None => "not_yet",
        Some(EndedBy::Thread(_)) => "thread",
        Some(EndedBy::Interrupt) => "interrupt",
        Some(EndedBy::Unknown) => "unknown",
    }
}

fn tenant_name(tenant: Tenant) -> &'static str {
    match tenant {
        Tenant::Thread(_) => "thread",
        Tenant::Idle => "idle",
        Tenant::OutOfScope => "out_of_scope",
        Tenant::Unknown => "unknown",
    }
}

/// Divides what a thread had a CPU for: its own, stolen, by interrupts.
pub(crate) fn divide(length: u64, taken: Taken) -> (u64, u64, u64) {
    let stolen = taken.steal.min(length);
    let irq = taken.irq.min(length - stolen);
    (length - stolen - irq, stolen, irq)
}

/// The parts of a thread's own time, the longest first.
fn blame(frame: &Frame, names: &Names<'_>) -> Vec<Part> {
    let mut sums: HashMap<Key, (u64, u64)> = HashMap::new();
    let mut add = |key: Key, ns: u64| {
        if ns > 0 {
            let sum = sums.entry(key).or_default();
            *sum = (sum.0 + ns, sum.1 + 1);
        }
    };
    for step in &frame.steps {
        let length = step.length();
        match &step.what {
            What::Ran { taken: Some(taken), .. } => {
                let (own, stolen, irq) = divide(length, *taken);
                add(Key::OnCpu, own);
                add(Key::Stolen, stolen);
                add(Key::Interrupts, irq);
            }
            What::Ran { taken: None, all_taken, .. } => {
                // So much at most: the rest is its own, wherever that was.
                let taken = length.min(*all_taken);
                add(Key::OnCpu, length - taken);
                add(Key::OnCpuUndivided, taken);
            }
            What::Waited { shares, .. } => {
                shares.iter().for_each(|&(tenant, ns)| add(Key::Waiting(tenant), ns));
            }
            What::Throttled { cgroup } => add(Key::Throttled(*cgroup), length),
            What::Blocked(blocked) => {
                let class = names.class(blocked);
                let uninterruptible = blocked.state == fxtrec_sched::State::Uninterruptible;
                let (syscall, ended) = (blocked.syscall, EndedBy::of(blocked.ended));
                add(Key::Blocked { class, syscall, ended, uninterruptible }, length);
            }
            What::Underway => add(Key::Underway, length),
            What::Unknown(reason) => add(Key::Unknown(*reason), length),
        }
    }
    let mut sums: Vec<(Key, (u64, u64))> = sums.into_iter().collect();
    sums.sort_by(|a, b| b.1.0.cmp(&a.1.0).then(a.0.cmp(&b.0)));
    sums.into_iter().map(|(key, sum)| part(&key, sum, names)).collect()
}

fn part(key: &Key, (ns, times): (u64, u64), names: &Names<'_>) -> Part {
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
            if let Tenant::Thread(thread) = tenant {
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
            part.ended_by = Some(match ended {
                None => "not_yet",
                Some(EndedBy::Thread(_)) => "thread",
                Some(EndedBy::Interrupt) => "interrupt",
                Some(EndedBy::Unknown) => "unknown",
            });
            if let Some(EndedBy::Thread(thread)) = ended {
                part.thread = Some(names.who(*thread));
            }
            part.uninterruptible = Some(*uninterruptible);
        }
        Key::Underway => part.part = "underway",
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
        links.push(link(step, path.len() - 1, names.who(thread), names));
    });
    links
}

fn link(step: &Step, depth: usize, thread: Who, names: &Names<'_>) -> Link {
    let mut link = Link {
        from_ns: step.from,
        to_ns: step.to,
        depth,
        thread,
        state: "",
        cpu: None,
        tenants: Vec::new(),
        woken_by: None,
        cgroup: None,
        class: None,
        syscall: None,
        ended_by: None,
        waker: None,
        steal_ns: None,
        irq_ns: None,
        reason: None,
    };
    match &step.what {
        What::Ran { cpu, taken, .. } => {
            (link.state, link.cpu) = ("on_cpu", Some(cpu.0));
            let taken = taken.map(|taken| divide(step.length(), taken));
            link.steal_ns = taken.map(|taken| taken.1);
            link.irq_ns = taken.map(|taken| taken.2);
        }
        What::Waited { cpu, woken, shares } => {
            (link.state, link.cpu) = ("waiting", Some(cpu.0));
            link.woken_by = woken.map(|by| ended_by(Ended::Woken(by)));
            let (named, rest) = chain::longest(shares);
            link.tenants = named
                .iter()
                .map(|&(tenant, ns)| Share {
                    tenant: tenant_name(tenant),
                    thread: match tenant {
                        Tenant::Thread(thread) => Some(names.who(thread)),
                        _ => None,
                    },
                    ns,
                })
                .collect();
            if rest > 0 {
                link.tenants.push(Share { tenant: "others", thread: None, ns: rest });
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
            link.ended_by = Some(ended_by(blocked.ended));
            if let Ended::Woken(By::Thread(waker)) = blocked.ended {
                link.waker = Some(names.who(waker));
            }
            link.reason = blocked.stopped.map(crate::Reason::name);
        }
        What::Underway => link.state = "underway",
        What::Unknown(reason) => {
            link.state = "unknown";
            link.reason = Some(reason.name());
        }
    }
    link
}
