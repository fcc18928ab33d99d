//! A pass over a trace, and a pass that explains intervals: intervals that are known in advance, or one that becomes known only during the
//! pass.

use std::cmp::Reverse;

use fxt_reader::{Cpu, Error, Item, Reader, Visitor};
use rustc_hash::FxHashMap;

use crate::chain::{self, Frame, Wakers};
use crate::log::{Log, Taken};
use crate::threads::Index;
use crate::track::{Begin, Lock, OnCpu, Request, Sink, Tracker};

/// A pass in progress.
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

/// Reports the events of a whole trace to `sink`, or of the part that it requests. Damaged places are gaps.
///
/// # Errors
/// The errors of [`Reader::next`], except for damage.
pub fn run<S: Sink>(mut reader: Reader<'_>, tracker: &mut Tracker, sink: S) -> Result<S, Error> {
    let mut pass = Pass { tracker, sink };
    loop {
        match reader.show_all(&mut pass) {
            Ok(_) => {
                pass.tracker.is_truncated = reader.summary().is_truncated();
                return Ok(pass.sink);
            }
            Err(Error::Damaged(_)) => pass.tracker.damaged(),
            Err(error) => return Err(error),
        }
    }
}

/// An interval of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interval {
    pub koid: u64,
    pub from: u64,
    pub to: u64,
}

/// Data with the lifetime of an interval of a thread.
pub trait Lasting {
    fn interval(&self) -> Interval;
}

impl Lasting for Interval {
    fn interval(&self) -> Interval {
        *self
    }
}

/// Follows intervals: calls `found` for each, with its index in the list, in the order in which they end.
pub struct Follower<'a, T, F> {
    log: Log,
    /// The remaining intervals; the one that ends last is first.
    open: Vec<u32>,
    intervals: &'a [T],
    begin: u64,
    wakers: Wakers,
    late: Vec<Late>,
    found: F,
}

/// An interval that has ended, although the slice in which it ended has not.
#[derive(Debug)]
struct Late {
    thread: Index,
    at: usize,
    frame: Frame,
    /// Whether the slice has ended as well.
    is_reported: bool,
}

impl<T, F> std::fmt::Debug for Follower<'_, T, F> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Follower").field("open", &self.open.len()).finish_non_exhaustive()
    }
}

impl<'a, T: Lasting, F: FnMut(&Tracker, usize, Frame)> Follower<'a, T, F> {
    /// Maximum number of entries that are kept.
    pub fn new(intervals: &'a [T], wakers: Wakers, most: usize, found: F) -> Self {
        let mut open: Vec<u32> = (0..intervals.len() as u32).collect();
        open.sort_unstable_by_key(|&at| (Reverse(intervals[at as usize].interval().to), at));
        let begin = intervals.iter().map(|it| it.interval().from).min().unwrap_or(0);
        Follower { log: Log::new(most), open, intervals, begin, wakers, late: Vec::new(), found }
    }

    /// Follows the intervals that end before `time`. The time taken from a slice is reported when the slice ends, so an interval that ends
    /// within a slice waits for that. This is not done if wakers are only named: there are many of those intervals, and time without a
    /// known cause counts as the thread's own.
    #[cold]
    fn close(&mut self, tracker: &Tracker, time: u64) {
        while let Some(&at) = self.open.last() {
            let at = at as usize;
            let Interval { koid, from, to } = self.intervals[at].interval();
            if to >= time {
                break;
            }
            self.open.pop();
            let Some(thread) = tracker.known_threads.find(koid) else { continue };
            match self.wakers {
                Wakers::Followed => tracker.settle(self),
                Wakers::OnlyNamed => tracker.settle_thread(thread, self),
            }
            let frame = chain::follow(&self.log, thread, (from, to), self.wakers);
            let is_in_slice = self.log.has_cpu_since(thread).is_some_and(|since| since < to);
            match is_in_slice && self.wakers == Wakers::Followed {
                true => self.late.push(Late { thread, at, frame, is_reported: false }),
                false => (self.found)(tracker, at, frame),
            }
        }
        self.tell_late(tracker, false);
    }

    /// Forgets everything before all remaining intervals.
    #[cold]
    fn forget(&mut self) {
        let begins = self.open.iter().map(|&at| self.intervals[at as usize].interval().from);
        self.log.forget_before(begins.min().unwrap_or(u64::MAX));
    }

    /// Reports intervals whose last slice has ended, or all.
    fn tell_late(&mut self, tracker: &Tracker, all: bool) {
        for late in std::mem::take(&mut self.late) {
            match late.is_reported || all {
                true => (self.found)(tracker, late.at, late.frame),
                false => self.late.push(late),
            }
        }
    }

    /// At the end of the trace, follows all remaining intervals.
    pub fn finish(mut self, tracker: &Tracker) {
        self.close(tracker, u64::MAX);
        self.tell_late(tracker, true);
    }
}

impl<T: Lasting, F: FnMut(&Tracker, usize, Frame)> Sink for Follower<'_, T, F> {
    #[inline]
    fn begin(&mut self, thread: Index, begin: Begin) {
        self.log.begin(thread, begin);
        for late in self.late.iter_mut().filter(|late| late.thread == thread) {
            late.is_reported = true;
        }
    }

    fn was_blocked(&mut self, thread: Index) {
        self.log.was_blocked(thread);
    }

    fn taken(&mut self, thread: Index, steal: u64, irq: u64) {
        let taken = Taken { steal, irq };
        self.log.taken(thread, taken);
        let waits = |late: &&mut Late| late.thread == thread && !late.is_reported;
        for late in self.late.iter_mut().filter(waits) {
            late.is_reported = true;
            late.frame.end_in_slice(taken);
        }
    }

    fn quota(&mut self, thread: Index, cgroup: u32) {
        self.log.quota(thread, cgroup);
    }

    fn lock(&mut self, thread: Index, time: u64, lock: Lock) {
        self.log.lock(thread, time, lock);
    }

    fn sent(&mut self, thread: Index, ago: u64) {
        self.log.sent(thread, ago);
    }

    fn request(&mut self, thread: Index, request: Request) {
        self.log.request(thread, request);
    }

    #[inline]
    fn on_cpu(&mut self, cpu: Cpu, time: u64, on_cpu: OnCpu) {
        self.log.set_on_cpu(cpu, time, on_cpu);
    }

    #[inline]
    fn advance(&mut self, tracker: &Tracker, time: u64) -> bool {
        if time >= self.begin && !self.log.is_on() {
            self.log.switch_on();
        }
        let ends = |&at: &u32| self.intervals[at as usize].interval().to < time;
        let is_over = self.open.last().is_some_and(ends);
        if is_over || !self.late.is_empty() {
            self.close(tracker, time);
        }
        if self.log.is_crowded() {
            self.forget();
        }
        !self.open.is_empty() || !self.late.is_empty()
    }
}

/// Keeps the data that is needed to follow an interval whose thread is known only after the pass.
///
/// ```text
///   a Follower   knows whose interval it is, and follows it as soon as it is over: a second pass over the trace
///   a Keeper     is asked when the trace is over: the only pass, if what it keeps is what a Follower would have had
/// ```
#[derive(Debug)]
pub struct Keeper {
    log: Log,
    from: u64,
    to: u64,
    /// Whether later entries exist that are not kept.
    is_over: bool,
    /// The time taken from the current slices of threads; `None` for threads that have changed state since.
    late: FxHashMap<Index, Option<Taken>>,
}

impl Keeper {
    /// Events before `from` and after `to` are irrelevant. Maximum number of entries that are kept.
    pub fn new((from, to): (u64, u64), most: usize) -> Keeper {
        let late = FxHashMap::default();
        Keeper { log: Log::new(most), from, to, is_over: false, late }
    }

    /// What the thread did in an interval; called after the whole trace was read. `None` if a second pass is needed.
    pub fn follow(mut self, tracker: &Tracker, interval: Interval) -> Option<Frame> {
        let Interval { koid, from, to } = interval;
        // Later records may show that the interval is doubtful.
        if to < tracker.now && tracker.losses > 0 {
            return None;
        }
        let thread = tracker.known_threads.find(koid)?;
        if let Some(Some(taken)) = self.late.get(&thread) {
            self.log.taken(thread, *taken);
        }
        // May replace the state from before the log was turned on.
        tracker.settle(&mut self);
        let is_same = match self.log.is_rolling_since() {
            None => true,
            // Until the end of the trace, a Follower would have recorded exactly the same.
            Some(since) => to >= tracker.now && since > from,
        };
        if !is_same || self.is_over && to != self.to {
            return None;
        }
        Some(chain::follow(&self.log, thread, (from, to), Wakers::Followed))
    }
}

impl Sink for Keeper {
    #[inline]
    fn begin(&mut self, thread: Index, begin: Begin) {
        if !self.is_over {
            self.log.begin(thread, begin);
        } else {
            self.late.entry(thread).or_insert(None);
        }
    }

    fn was_blocked(&mut self, thread: Index) {
        if !self.is_over {
            self.log.was_blocked(thread);
        }
    }

    fn taken(&mut self, thread: Index, steal: u64, irq: u64) {
        let taken = Taken { steal, irq };
        if !self.is_over {
            self.log.taken(thread, taken);
        } else {
            self.late.entry(thread).or_insert(Some(taken));
        }
    }

    fn quota(&mut self, thread: Index, cgroup: u32) {
        if !self.is_over {
            self.log.quota(thread, cgroup);
        }
    }

    fn lock(&mut self, thread: Index, time: u64, lock: Lock) {
        if !self.is_over {
            self.log.lock(thread, time, lock);
        }
    }

    fn sent(&mut self, thread: Index, ago: u64) {
        if !self.is_over {
            self.log.sent(thread, ago);
        }
    }

    fn request(&mut self, thread: Index, request: Request) {
        if !self.is_over {
            self.log.request(thread, request);
        }
    }

    #[inline]
    fn on_cpu(&mut self, cpu: Cpu, time: u64, on_cpu: OnCpu) {
        if !self.is_over {
            self.log.set_on_cpu(cpu, time, on_cpu);
        }
    }

    #[inline]
    fn advance(&mut self, _: &Tracker, time: u64) -> bool {
        if time >= self.from && !self.log.is_on() {
            self.log.switch_on();
        }
        self.is_over |= time > self.to;
        true
    }
}
