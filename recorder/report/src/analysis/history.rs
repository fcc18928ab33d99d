//! Which threads had a CPU since the oldest open wait for it began: the source of a wait's antagonists.
//!
//! A switch appends to a log. When the log is full, it is tidied, which needs the starts of the open waits: everything older than all of
//! them is dropped, and if much remains, it is folded into *segments*. Instead of slices, a segment holds a sum for each thread. It reaches
//! from the beginning of one open wait to the beginning of the next, so every open wait consists of whole segments and of entries of the
//! log.
//!
//! ```text
//!  open waits           w1                w2         w3
//!                        |                 |          |
//!  segments              |A 90 B 40 idle 7 |A 20 C 31 |
//!  log                                                |A 12|B 4|idle 9|A ...
//!
//!  w2 ends: A 20+12.., C 31, B 4, idle 9         w2 has ended: its segment and the one before become one
//! ```
//!
//! A switch costs an entry in the log, and later at most one addition to a sum. There are at most as many segments as open waits. Each
//! segment could have a sum for each thread, so the number of sums is limited too: beyond the limit, the smallest sums of a segment are
//! dropped, and count as time in which it is unknown which thread had the CPU.
//!
//! The end of a wait adds up all of its entries and segments. If thousands of threads wait for one CPU, each of their waits has thousands
//! of sums. So the additions are limited to [`WORK_PER_SWITCH`] on average; time beyond that in a wait is unknown time, too.

use std::cell::Cell;
use std::time::Duration;

use super::sums::{Sums, most_first};

/// The log is tidied at this length, or at a greater length if there are very many threads.
const LOG: usize = 4096;

/// Tidying a log searches all threads for open waits. The log is so long that this examines at most this many threads for each switch.
const THREADS_PER_SWITCH: usize = 4;

/// Maximum number of entries and sums added up for each switch, on average, to find the antagonists of waits.
const WORK_PER_SWITCH: u64 = 256;

/// The initial amount, and the amount after a time in which fewer were needed.
const MOST_WORK_LEFT: u64 = 1 << 22;

/// A segment keeps at least this many sums.
const FEWEST_SUMS: usize = 8;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OnCpu {
    Unknown,
    Idle,
    Thread(u64),
}

/// Which threads had a CPU since the start of the oldest wait that was open at the last tidying.
#[derive(Debug)]
pub(super) struct History {
    /// Contiguous, up to the first entry of the log.
    segments: Vec<Segment>,
    /// The begin of each occupancy, and its occupant. The last entry still has the CPU.
    log: Vec<(u64, OnCpu)>,
    /// The length at which the log is tidied.
    room: usize,
    /// The minimum of `room`.
    least: usize,
    /// How many entries and sums may be added up.
    work_left: Cell<u64>,
}

impl Default for History {
    fn default() -> History {
        let work_left = Cell::new(MOST_WORK_LEFT);
        History { segments: Vec::new(), log: Vec::new(), room: LOG, least: LOG, work_left }
    }
}

/// The open waits for a CPU, and limits for their cost.
#[derive(Debug)]
pub(super) struct OpenWaits {
    /// When they began, in any order.
    pub(super) begins: Vec<u64>,
    /// The number of threads that were examined.
    pub(super) asked: usize,
    /// The maximum number of sums in all segments together.
    pub(super) sums: usize,
}

/// An interval, and how long each thread had the CPU in it, in nanoseconds.
#[derive(Clone, Debug, Default)]
pub(super) struct Segment {
    begin: u64,
    end: u64,
    threads: Sums,
    idle: u64,
    unknown: u64,
}

/// Which threads had a CPU in an interval. All parts together are as long as the interval.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Shares {
    /// Koids and nanoseconds of the threads that had the CPU longest, the longest first.
    pub named: Vec<(u64, u64)>,
    /// The number of other threads.
    pub more: u64,
    /// The total time for which the other threads had the CPU.
    pub others: Duration,
    pub idle: Duration,
    pub unknown: Duration,
}

impl Segment {
    pub(super) fn new(begin: u64) -> Segment {
        Segment { begin, end: begin, ..Segment::default() }
    }

    /// Empties it, but keeps the allocated memory.
    #[inline]
    pub(super) fn reset(&mut self, begin: u64) {
        (self.begin, self.end, self.idle, self.unknown) = (begin, begin, 0, 0);
        self.threads.clear();
    }

    /// `on_cpu` has the CPU from the end of the segment until `end`, which becomes its new end.
    #[inline]
    pub(super) fn extend(&mut self, on_cpu: OnCpu, end: u64) {
        let length = end.saturating_sub(self.end);
        if length == 0 {
            return;
        }
        match on_cpu {
            OnCpu::Unknown => self.unknown += length,
            OnCpu::Idle => self.idle += length,
            OnCpu::Thread(koid) => self.threads.add(koid, length),
        }
        self.end = end;
    }

    /// Adds the segment that follows.
    pub(super) fn append(&mut self, next: &Segment) {
        for (koid, nanos) in next.threads.iter() {
            self.threads.add(koid, nanos);
        }
        self.idle += next.idle;
        self.unknown += next.unknown;
        self.end = next.end;
    }

    /// Adds unknown time, without a position: the end of the log is unchanged.
    pub(super) fn add_unknown(&mut self, nanos: u64) {
        self.unknown += nanos;
    }

    /// The next addition starts at `time`.
    pub(super) fn skip_to(&mut self, time: u64) {
        self.end = self.end.max(time);
    }

    /// Keeps the `most` largest sums.
    pub(super) fn trim(&mut self, most: usize) {
        self.unknown += self.threads.trim(most);
    }

    /// The threads that had the CPU, except the given thread, which cannot have had it; the `named` threads that had it longest are listed.
    pub(super) fn shares(&self, except: u64, named: usize, shares: &mut Shares) {
        let first = &mut shares.named;
        first.clear();
        let (mut impossible, mut more, mut others) = (0, 0, 0);
        for sum in self.threads.iter() {
            if sum.0 == except {
                impossible = sum.1;
                continue;
            }
            let mut rest = sum;
            let is_among = |last: &(u64, u64)| most_first(&sum) < most_first(last);
            if first.len() < named || first.last().is_some_and(is_among) {
                let at = first.partition_point(|known| most_first(known) < most_first(&sum));
                first.insert(at, sum);
                if first.len() <= named {
                    continue;
                }
                rest = first.pop().unwrap_or(sum);
            }
            more += 1;
            others += rest.1;
        }
        shares.more = more;
        shares.others = Duration::from_nanos(others);
        shares.idle = Duration::from_nanos(self.idle);
        shares.unknown = Duration::from_nanos(self.unknown + impossible);
    }
}

impl History {
    /// From `time` on, `on_cpu` has the CPU. True when the log should be tidied.
    #[inline]
    #[must_use]
    pub(super) fn push(&mut self, time: u64, on_cpu: OnCpu) -> bool {
        self.log.push((time, on_cpu));
        self.work_left.set((self.work_left.get() + WORK_PER_SWITCH).min(MOST_WORK_LEFT));
        self.log.len() >= self.room
    }

    /// Corrects which thread has the CPU now.
    pub(super) fn correct(&mut self, on_cpu: OnCpu) {
        if let Some(last) = self.log.last_mut() {
            last.1 = on_cpu;
        }
    }

    /// Drops entries that no open wait needs, and folds the log if that is not enough.
    #[cold]
    pub(super) fn tidy(&mut self, mut open: OpenWaits) {
        // Afterwards, at least half of the log is free again.
        self.room = self.least.max(2 * open.asked / THREADS_PER_SWITCH);
        let Some(&(last, _)) = self.log.last() else { return };
        // Waits that begin at the last entry or later are within the last occupant's time.
        open.begins.retain(|&begin| begin < last);
        open.begins.sort_unstable();
        open.begins.dedup();
        let oldest = open.begins.first().copied().unwrap_or(last);
        let gone = self.segments.partition_point(|segment| segment.end <= oldest);
        self.segments.drain(..gone);
        if self.segments.is_empty() {
            // The entry that was in force when the oldest wait began is kept.
            let later = self.log.partition_point(|&(from, _)| from <= oldest);
            self.log.drain(..later.saturating_sub(1));
        }
        self.merge(&open.begins);
        if self.log.len() > self.room / 2 {
            self.fold(&open.begins);
        }
        self.trim(open.sums);
    }

    /// Merges neighbouring segments if no open wait begins between them.
    fn merge(&mut self, begins: &[u64]) {
        let mut merged: Vec<Segment> = Vec::with_capacity(begins.len() + 1);
        for segment in self.segments.drain(..) {
            match merged.last_mut() {
                Some(before) if begins.binary_search(&segment.begin).is_err() => {
                    before.append(&segment);
                }
                _ => merged.push(segment),
            }
        }
        self.segments = merged;
    }

    /// Folds the log, except its last entry, into the last segment and into new ones that begin at `begins`.
    fn fold(&mut self, begins: &[u64]) {
        let Some(&last) = self.log.last() else { return };
        let first = self.log.first().map_or(last.0, |&(from, _)| from);
        let mut segment = self.segments.pop().unwrap_or_else(|| Segment::new(first));
        let mut next = begins.partition_point(|&begin| begin <= segment.begin);
        for pair in self.log.windows(2) {
            let ((_, on_cpu), (until, _)) = (pair[0], pair[1]);
            while let Some(&begin) = begins.get(next)
                && begin < until
            {
                segment.extend(on_cpu, begin);
                self.segments.push(std::mem::replace(&mut segment, Segment::new(begin)));
                next += 1;
            }
            segment.extend(on_cpu, until);
        }
        self.segments.push(segment);
        self.log.clear();
        self.log.push(last);
    }

    /// Drops the smallest sums if there are more than `most`, or more than eight for each segment if that is larger.
    fn trim(&mut self, most: usize) {
        let sums: usize = self.segments.iter().map(|segment| segment.threads.len()).sum();
        let segments = self.segments.len().max(1);
        if sums <= most.max(2 * FEWEST_SUMS * segments) {
            return;
        }
        // Reduces them to half, so that this is not repeated soon.
        let each = (most / 2 / segments).max(FEWEST_SUMS);
        for segment in &mut self.segments {
            segment.trim(each);
        }
    }

    /// Takes this much of the remaining work. If the remaining budget is not enough, returns false and keeps the rest for a later wait.
    #[inline]
    fn may_add(&self, work: usize) -> bool {
        let left = self.work_left.get().checked_sub(work as u64);
        left.inspect(|left| self.work_left.set(*left)).is_some()
    }

    /// Adds the occupants of the CPU from the end of the sum until `end`, within the remaining budget of work.
    pub(super) fn add_until(&self, end: u64, sum: &mut Segment) {
        let begin = sum.end;
        let since = self.segments.partition_point(|segment| segment.end <= begin);
        for segment in self.segments[since..].iter().take_while(|segment| segment.begin < end) {
            if !self.may_add(1 + segment.threads.len()) {
                return sum.extend(OnCpu::Unknown, end);
            }
            // The occupants in a part of a segment, or in dropped time, are unknown.
            if segment.begin < begin || segment.end > end {
                sum.extend(OnCpu::Unknown, segment.end.min(end));
                continue;
            }
            sum.extend(OnCpu::Unknown, segment.begin);
            sum.append(segment);
        }
        let log = self.log_since(begin);
        if !self.may_add(log.len()) {
            return sum.extend(OnCpu::Unknown, end);
        }
        if let Some(&(first, _)) = log.first() {
            sum.extend(OnCpu::Unknown, first.min(end));
        }
        let until = log.iter().skip(1).map(|&(from, _)| from.min(end)).chain([end]);
        for (&(_, on_cpu), until) in log.iter().zip(until) {
            sum.extend(on_cpu, until);
        }
        sum.extend(OnCpu::Unknown, end);
    }

    /// The log from the entry that was in force at `time`. Most waits began only a few entries ago.
    #[inline]
    fn log_since(&self, time: u64) -> &[(u64, OnCpu)] {
        let mut back = 4;
        while back < self.log.len() && self.log[self.log.len() - back].0 > time {
            back *= 4;
        }
        let last = &self.log[self.log.len().saturating_sub(back)..];
        let since = last.partition_point(|&(from, _)| from <= time).saturating_sub(1);
        &last[since..]
    }
}

#[cfg(test)]
mod tests;
