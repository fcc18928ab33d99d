//! Spans: how long they took, and how their threads spent that time.
//!
//! A span is recorded by instrumented code, and may be anywhere in the file. So the trace is read twice more: for the spans, and for the
//! states of their threads during them.
//!
//! ```text
//!   span    |======================== 7.3 ms ========================|
//!   thread  |- ran -|.. waited, a compiler had the CPU ..|- ran -|zzz|
//!   parts   cpu 1.2 ms    runqueue 5.4 ms, of that strangers 5.4 ms    blocked 0.7 ms
//! ```
//!
//! The parts are those of [`fxtrec_blame`], which `fxtrec why` also uses; `docs/reference/gates.md` describes the comparisons.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use fxt_reader::{Error, Nanos, Reader};
use fxtrec_blame::chain::{Blocked, Frame, Wakers, What};
use fxtrec_blame::parts::{self, EndedBy, Key};
use fxtrec_blame::pass::{self, Follower, Interval, Lasting};
use fxtrec_blame::spans::{self, Spans};
use fxtrec_blame::threads::{Index, KnownThreads};
use fxtrec_blame::track::{Lock, OnCpu, Tracker};
use fxtrec_blame::{Cause, Causes, Class, log};
use fxtrec_gates::SpanPart;
use rustc_hash::{FxHashMap, FxHashSet};

use super::calls::call_name;
use super::distribution::Distribution;
use super::gates::evidence::time;
use super::model::{Report, Span, WorstSpan};
use super::selection::{Selection, Who};
use super::tally::Tally;
use super::text::thread_name;

/// Number of longest spans that each row stores with their parts.
const WORST: usize = 3;

/// Maximum number of wakers that are distinguished for the blocked time of the spans in a row.
const MOST_WAKERS: usize = 64;

/// Maximum number of rows: a name and a thread each.
const MOST_ROWS: usize = 1 << 16;

/// The memory limits for spans.
#[derive(Clone, Copy, Debug)]
pub struct Room {
    /// The limit for all spans, in bytes; `None` for no limit.
    bytes: Option<usize>,
    /// The limit for their figures, by name and thread.
    rows: usize,
}

impl Room {
    /// The limits for a command that reads a trace.
    pub const OF_COMMANDS: Room = Room { bytes: None, rows: MOST_ROWS };

    /// The limits at the end of a recording: the data of a program must not take more memory than the recorder may use.
    pub const OF_RECORDER: Room = Room { bytes: Some(64 << 20), rows: 8192 };

    /// All spans of a trace, or as many as fit.
    ///
    /// # Errors
    /// The errors of [`Reader::next`], except for damage.
    pub fn collect(self, reader: Reader<'_>) -> Result<Spans, Error> {
        spans::collect_within(reader, self.bytes)
    }
}

/// The spans of a recording.
#[derive(Clone, Debug, Default)]
pub struct SpanReport {
    /// One row for each name and thread, ordered by category, name and thread.
    pub rows: Vec<SpanRow>,
    /// Whether there are more than the limit.
    pub too_many: bool,
    /// The worst span of a program.
    pub worst: Option<WorstSpan>,
    causes: Causes,
    /// Whether COMMAND's threads, and so the strangers, are known.
    has_command: bool,
}

/// The spans with one name on one thread.
#[derive(Clone, Debug)]
pub struct SpanRow {
    pub category: Box<str>,
    pub name: Box<str>,
    /// Whether a program recorded them, rather than the kernel.
    pub is_provider: bool,
    pub koid: u64,
    pub tid: u64,
    pub pid: Option<u64>,
    /// Whether they are asynchronous: only their length is known, and `koid` is the thread that ended them.
    pub is_async: bool,
    /// The thread's last name.
    pub comm: Box<str>,
    /// The path of its process's cgroup, if known.
    pub cgroup: Option<Box<str>>,
    pub figures: SpanFigures,
    /// The longest spans, the longest first.
    pub worst: Vec<SpanTime>,
}

/// The figures of several spans.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SpanFigures {
    parts: [Distribution; SpanPart::ALL.len()],
    /// How long the spans would have taken without interference: see [`SpanTime::undisturbed`].
    pub undisturbed: Distribution,
    /// The causes of their blocked time, and the total time for each, the longest first.
    pub blocked_by: Vec<(Class, Duration)>,
    /// Their blocked time by cause and name of the waker, the longest first, up to the maximum number.
    pub woken_by: Vec<((Class, Box<str>), Duration)>,
    /// Their blocked time by cause and name of the thread that held the lock when the wait began, if known.
    pub held_by: Vec<((Class, Box<str>), Duration)>,
    /// How long the states of their threads are unknown.
    pub unknown: Duration,
}

/// One span, and the parts of its time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SpanTime {
    pub from: Nanos,
    pub to: Nanos,
    parts: [u64; SpanPart::ALL.len()],
    /// How long the thread's state is unknown.
    pub unknown: u64,
    blocked_by: Vec<(Class, u64)>,
    wakers: Vec<((Class, Option<EndedBy>), u64)>,
    owners: Vec<((Class, Index), u64)>,
}

impl SpanTime {
    /// A part of it, in nanoseconds.
    pub fn part(&self, part: SpanPart) -> u64 {
        self.parts[part.index()]
    }

    /// Its length without the time that others took: the host, quotas, and strangers that had the CPU. If any part of it is unknown,
    /// nothing is subtracted, because the thread itself may have used that time.
    pub fn undisturbed(&self) -> u64 {
        let others = [SpanPart::Steal, SpanPart::Throttled, SpanPart::Strangers];
        let taken = match self.unknown {
            0 => others.into_iter().map(|part| self.part(part)).sum(),
            _ => 0,
        };
        self.part(SpanPart::Wall).saturating_sub(taken)
    }

    /// Only its length is known.
    fn unknown(interval: &Interval) -> SpanTime {
        let mut time =
            SpanTime { from: Nanos(interval.from), to: Nanos(interval.to), ..SpanTime::default() };
        let length = interval.to - interval.from;
        time.parts[SpanPart::Wall.index()] = length;
        time.unknown = length;
        time
    }

    /// Without `strangers`, no thread counts as one.
    fn of(interval: &Interval, frame: &Frame, tracker: &Tracker, strangers: bool) -> SpanTime {
        let mut time = SpanTime { unknown: 0, ..SpanTime::unknown(interval) };
        for step in &frame.steps {
            if let What::Blocked(blocked) = &step.what
                && let Some(owner) = blocked.lock.and_then(Lock::holder)
            {
                add(&mut time.owners, (class(blocked, tracker), owner), step.length());
            }
        }
        for (key, (nanos, _)) in parts::sums(frame, |blocked| class(blocked, tracker)) {
            let part = match key {
                // Time without a known cause may be the thread's own.
                Key::OnCpu | Key::OnCpuUndivided => SpanPart::Cpu,
                Key::Stolen => SpanPart::Steal,
                Key::Interrupts => SpanPart::Irq,
                Key::Waiting(tenant) => {
                    if let OnCpu::Thread(thread) = tenant
                        && strangers
                        && tracker.is_stranger(thread)
                    {
                        time.parts[SpanPart::Strangers.index()] += nanos;
                    }
                    SpanPart::RunQueue
                }
                Key::Throttled(_) => SpanPart::Throttled,
                Key::Blocked { class, ended, .. } => {
                    add(&mut time.blocked_by, class, nanos);
                    add(&mut time.wakers, (class, ended), nanos);
                    SpanPart::Blocked
                }
                Key::Underway | Key::Packet | Key::Request | Key::Unknown(_) => {
                    time.unknown += nanos;
                    continue;
                }
            };
            time.parts[part.index()] += nanos;
        }
        time
    }
}

/// Its parts, the longest first: `runqueue 5.90 ms (strangers 5.80 ms), cpu 1.10 ms, blocked 300 us (lock)`.
impl fmt::Display for SpanTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let amount = |nanos: u64| time(Duration::from_nanos(nanos));
        let mut parts: Vec<(u64, String)> = Vec::new();
        for part in SpanPart::PARTS {
            let nanos = self.part(*part);
            let mut text = format!("{} {}", part.name(), amount(nanos));
            match part {
                SpanPart::Strangers => continue,
                SpanPart::RunQueue if self.part(SpanPart::Strangers) > 0 => {
                    text += &format!(" (strangers {})", amount(self.part(SpanPart::Strangers)));
                }
                SpanPart::Blocked => {
                    if let Some((class, _)) = self.blocked_by.iter().max_by_key(|it| it.1) {
                        text += &format!(" ({})", class.name());
                    }
                }
                _ => {}
            }
            parts.push((nanos, text));
        }
        parts.push((self.unknown, format!("unknown {}", amount(self.unknown))));
        parts.retain(|part| part.0 > 0);
        parts.sort_by_key(|part| Reverse(part.0));
        let parts: Vec<String> = parts.into_iter().map(|part| part.1).collect();
        f.write_str(&parts.join(", "))
    }
}

fn class(blocked: &Blocked, tracker: &Tracker) -> Class {
    let machine = &tracker.origin.machine;
    // A span without a name counts as well.
    let name = |number| u16::try_from(number).ok().and_then(|it| call_name(machine, it));
    blocked.class(tracker.origin.causes, blocked.syscall.map(|number| name(number).unwrap_or("")))
}

fn add<K: PartialEq, T: std::ops::AddAssign>(sums: &mut Vec<(K, T)>, key: K, more: T) {
    match sums.iter_mut().find(|sum| sum.0 == key) {
        Some(sum) => sum.1 += more,
        None => sums.push((key, more)),
    }
}

/// The longest spans, the longest first.
fn longest_first<K: Ord, T: Ord + Copy>(mut sums: Vec<(K, T)>) -> Vec<(K, T)> {
    sums.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    sums
}

/// The wakers that ended blocked time, by name, because threads have other ids in another recording.
fn waker_name(ended: Option<EndedBy>, tracker: &Tracker) -> Box<str> {
    let known_threads = &tracker.known_threads;
    match ended {
        Some(EndedBy::Thread(thread)) => {
            known_threads.comm(known_threads.koid(thread)).unwrap_or("?").into()
        }
        Some(EndedBy::Interrupt(origin)) => tracker.origins.text(origin).into(),
        Some(EndedBy::Unknown) => "nobody known".into(),
        None => "nobody yet".into(),
    }
}

impl SpanFigures {
    /// Spans with only their lengths known.
    #[cfg(test)]
    pub(crate) fn of_lengths(lengths: Distribution) -> SpanFigures {
        let mut figures = SpanFigures::merge(std::iter::empty());
        figures.parts[SpanPart::Wall.index()] = lengths;
        figures
    }

    /// The samples of a part: one per span, censored if any of it is unknown. All samples of the length are known.
    pub fn part(&self, part: SpanPart) -> &Distribution {
        &self.parts[part.index()]
    }

    /// The combined figures of several spans.
    pub fn merge<'a>(all: impl Iterator<Item = &'a SpanFigures> + Clone) -> SpanFigures {
        let mut blocked_by = Vec::new();
        for (class, length) in all.clone().flat_map(|figures| figures.blocked_by.iter().copied()) {
            add(&mut blocked_by, class, length);
        }
        let mut woken_by = Vec::new();
        for (waker, length) in all.clone().flat_map(|figures| figures.woken_by.iter().cloned()) {
            add(&mut woken_by, waker, length);
        }
        woken_by = longest_first(woken_by);
        woken_by.truncate(MOST_WAKERS);
        let mut held_by = Vec::new();
        for (owner, length) in all.clone().flat_map(|figures| figures.held_by.iter().cloned()) {
            add(&mut held_by, owner, length);
        }
        held_by = longest_first(held_by);
        held_by.truncate(MOST_WAKERS);
        SpanFigures {
            parts: SpanPart::ALL
                .map(|part| Distribution::merge(all.clone().map(|figures| figures.part(part)))),
            undisturbed: Distribution::merge(all.clone().map(|figures| &figures.undisturbed)),
            blocked_by: longest_first(blocked_by),
            woken_by,
            held_by,
            unknown: all.map(|figures| figures.unknown).sum(),
        }
    }
}

impl SpanRow {
    /// Whether a gate names this span: by its name, or by category and name.
    pub fn is_called(&self, text: &str) -> bool {
        spans::is_called((&self.category, &self.name), text)
    }
}

impl SpanReport {
    /// Whether the recording contains this part.
    pub fn knows(&self, part: SpanPart) -> bool {
        match part {
            SpanPart::Wall | SpanPart::Cpu | SpanPart::RunQueue | SpanPart::Blocked => true,
            SpanPart::Steal => self.causes.has(Cause::Steal),
            SpanPart::Irq => self.causes.has(Cause::Irq),
            SpanPart::Throttled => self.causes.has(Cause::Throttled),
            SpanPart::Strangers => self.has_command && self.causes.has(Cause::Waker),
        }
    }

    /// The combined rows of all threads, by category and name; asynchronous spans have separate rows.
    pub fn by_name(&self) -> Vec<(SpanName<'_>, SpanFigures)> {
        let mut names = BTreeMap::<SpanName<'_>, Vec<&SpanFigures>>::new();
        for row in &self.rows {
            let name =
                SpanName { category: &row.category, name: &row.name, is_async: row.is_async };
            names.entry(name).or_default().push(&row.figures);
        }
        let merged = |(name, figures): (_, Vec<&SpanFigures>)| {
            (name, SpanFigures::merge(figures.into_iter()))
        };
        names.into_iter().map(merged).collect()
    }
}

/// The name of the spans in one row of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SpanName<'a> {
    pub category: &'a str,
    pub name: &'a str,
    pub is_async: bool,
}

/// A row while the trace is read.
#[derive(Debug, Default)]
struct Growing {
    parts: [Tally; SpanPart::ALL.len()],
    undisturbed: Tally,
    blocked_by: Vec<(Class, u64)>,
    wakers: FxHashMap<(Class, Option<EndedBy>), u64>,
    owners: FxHashMap<(Class, Index), u64>,
    unknown: u64,
    worst: Vec<SpanTime>,
}

impl Growing {
    fn add(&mut self, time: SpanTime) {
        self.parts[SpanPart::Wall.index()].record(time.part(SpanPart::Wall), time.to);
        for part in SpanPart::PARTS {
            let tally = &mut self.parts[part.index()];
            match time.unknown {
                0 => tally.record(time.part(*part), time.to),
                _ => tally.censor(),
            }
        }
        self.undisturbed.record(time.undisturbed(), time.to);
        self.unknown = self.unknown.saturating_add(time.unknown);
        if time.unknown == 0 {
            for &(class, nanos) in &time.blocked_by {
                add(&mut self.blocked_by, class, nanos);
            }
            for &(waker, nanos) in &time.wakers {
                *self.wakers.entry(waker).or_default() += nanos;
            }
            for &(owner, nanos) in &time.owners {
                *self.owners.entry(owner).or_default() += nanos;
            }
        }
        let rank = |time: &SpanTime| (Reverse(time.part(SpanPart::Wall)), time.from);
        let place = self.worst.partition_point(|known| rank(known) <= rank(&time));
        if place < WORST {
            self.worst.insert(place, time);
            self.worst.truncate(WORST);
        }
    }

    fn figures(self, tracker: &Tracker) -> (SpanFigures, Vec<SpanTime>) {
        let lengths = |(class, nanos)| (class, Duration::from_nanos(nanos));
        let mut named = FxHashMap::<(Class, Box<str>), Duration>::default();
        for ((class, ended), nanos) in self.wakers {
            *named.entry((class, waker_name(ended, tracker))).or_default() +=
                Duration::from_nanos(nanos);
        }
        let mut woken_by = longest_first(named.into_iter().collect());
        woken_by.truncate(MOST_WAKERS);
        let mut named = FxHashMap::<(Class, Box<str>), Duration>::default();
        for ((class, owner), nanos) in self.owners {
            let name = waker_name(Some(EndedBy::Thread(owner)), tracker);
            *named.entry((class, name)).or_default() += Duration::from_nanos(nanos);
        }
        let mut held_by = longest_first(named.into_iter().collect());
        held_by.truncate(MOST_WAKERS);
        let figures = SpanFigures {
            parts: self.parts.map(Tally::freeze),
            undisturbed: self.undisturbed.freeze(),
            blocked_by: longest_first(self.blocked_by).into_iter().map(lengths).collect(),
            woken_by,
            held_by,
            unknown: Duration::from_nanos(self.unknown),
        };
        (figures, self.worst)
    }
}

/// The span of a program that most exceeds the median of its name, among those that `fits` accepts; this is the span that `fxtrec why`
/// explains.
pub fn worst(
    spans: &Spans,
    report: &Report,
    fits: impl Fn(&spans::Span) -> bool,
) -> Option<WorstSpan> {
    let (worst, (count, median)) = spans.worst(fits)?;
    let name = spans.name_of(worst.name);
    let thread = report.threads().iter().find(|it| it.koid.is_some_and(|it| it.0 == worst.koid));
    Some(WorstSpan {
        name: spans::full_name(&name.category, &name.name),
        thread: thread.map_or_else(|| format!("[{}]", worst.koid), thread_name),
        span: Span { begin: Nanos(worst.from), end: Nanos(worst.to) },
        count,
        median: Duration::from_nanos(median),
    })
}

/// Measures the spans of a trace, which `open` opens twice: the spans of the threads and the time range that `selection` selects and
/// `report` covers, while there is space.
///
/// # Errors
/// The errors of [`Reader::next`], except for damage.
pub fn measure<'r>(
    mut open: impl FnMut() -> Result<Reader<'r>, Error>,
    selection: &Selection,
    report: &Report,
    room: Room,
) -> Result<SpanReport, Error> {
    let mut found = SpanReport { causes: report.causes, ..SpanReport::default() };
    let range = selection.range;
    let is_cut = range.from.is_some() || range.to.is_some();
    let mut spans = room.collect(open()?)?;
    found.too_many = spans.too_many;
    if is_cut {
        let Span { begin, end } = report.span;
        spans.list.retain(|span| span.from >= begin.0 && span.to <= end.0);
    }
    if spans.list.is_empty() {
        return Ok(found);
    }
    let all = selection.threads.is_everything();
    let chosen: FxHashSet<u64> = match all {
        true => FxHashSet::default(),
        false => report.threads().iter().filter_map(|thread| Some(thread.koid?.0)).collect(),
    };
    found.worst = worst(&spans, report, |span| all || chosen.contains(&span.koid));
    // No single thread accounts for the time of an asynchronous span. These come last.
    spans.list.sort_by_key(|span| span.begun_on.is_some());
    let sync = spans.list.partition_point(|span| span.begun_on.is_none());
    let (intervals, of_tasks) = spans.list.split_at(sync);
    let most = room.rows;
    let mut rows = Rows { spans: &spans, rows: FxHashMap::default(), most, too_many: false };
    // Without wakers, it is unknown which thread created which.
    let strangers = report.causes.has(Cause::Waker);
    let mut reported = vec![false; intervals.len()];
    let mut tracker = Tracker::new(KnownThreads::default());
    let follower = Follower::new(intervals, Wakers::OnlyNamed, log::MOST, |tracker, at, frame| {
        reported[at] = true;
        let interval = intervals[at].interval();
        rows.add(&intervals[at], SpanTime::of(&interval, &frame, tracker, strangers));
    });
    let follower = pass::run(open()?, &mut tracker, follower)?;
    follower.finish(&tracker);
    // Spans of threads about which the trace has no other records.
    let unreported =
        intervals.iter().zip(&reported).filter(|(_, reported)| !**reported).map(|(span, _)| span);
    for span in unreported.chain(of_tasks) {
        rows.add(span, SpanTime::unknown(&span.interval()));
    }
    found.too_many |= rows.too_many;
    found.has_command = tracker.family.process.is_some();
    found.rows = rows.finish(&tracker, selection);
    Ok(found)
}

struct Rows<'a> {
    spans: &'a Spans,
    /// By name and thread, and whether they are asynchronous.
    rows: FxHashMap<(u32, u64, bool), Growing>,
    most: usize,
    too_many: bool,
}

impl Rows<'_> {
    fn add(&mut self, span: &spans::Span, time: SpanTime) {
        let key = (span.name, span.koid, span.begun_on.is_some());
        if self.rows.len() >= self.most && !self.rows.contains_key(&key) {
            self.too_many = true;
            return;
        }
        self.rows.entry(key).or_default().add(time);
    }

    fn finish(self, tracker: &Tracker, selection: &Selection) -> Vec<SpanRow> {
        let known_threads = &tracker.known_threads;
        let spans = self.spans;
        let mut rows: Vec<SpanRow> = Vec::new();
        for ((number, koid, is_async), growing) in self.rows {
            let comm = known_threads.comm(koid).unwrap_or_default();
            let process = known_threads.process(koid);
            let (pid, tid) =
                (process.map(|process| known_threads.tid(process)), known_threads.tid(koid));
            let cgroup = process.and_then(|process| known_threads.cgroup(process));
            if !selection.threads.admits(Who { comm, pid, tid: Some(tid), cgroup }) {
                continue;
            }
            let name = spans.name_of(number);
            let (figures, worst) = growing.figures(tracker);
            rows.push(SpanRow {
                category: name.category.clone(),
                name: name.name.clone(),
                is_provider: name.is_provider,
                is_async,
                koid,
                tid,
                pid,
                comm: comm.into(),
                cgroup: cgroup.map(Into::into),
                figures,
                worst,
            });
        }
        rows.sort_by(|a, b| {
            let key = |row: &SpanRow| (row.tid, row.koid, row.is_async);
            (&a.category, &a.name, key(a)).cmp(&(&b.category, &b.name, key(b)))
        });
        rows
    }
}

#[cfg(test)]
mod tests;
