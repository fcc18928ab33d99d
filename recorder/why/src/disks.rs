//! The requests that disks had in some intervals, according to the ends of waits.

use std::cmp::Reverse;
use std::collections::{BTreeMap, VecDeque};

use fxtrec_blame::origins::Origin;
use fxtrec_blame::threads::Index;
use fxtrec_blame::track::{About, Begin, By, Request, Sink, Tracker};

/// The maximum number of requests that are kept; these are the last ones.
const MOST: usize = 8192;

/// A request that some thread waited for, from when it was made until it was done.
#[derive(Clone, Copy, Debug)]
struct Done {
    by: Index,
    origin: Origin,
    bytes: u64,
    from: u64,
    to: u64,
}

/// Collects the requests within a time.
#[derive(Debug)]
pub(crate) struct Collector {
    /// Requests outside of this time are irrelevant.
    within: (u64, u64),
    /// The wakeup that comes before its request.
    woken: Option<(u64, Origin)>,
    done: VecDeque<Done>,
}

/// All that were found.
#[derive(Debug, Default)]
pub(crate) struct Requests(VecDeque<Done>);

impl Collector {
    pub(crate) fn new(within: (u64, u64)) -> Collector {
        Collector { within, woken: None, done: VecDeque::new() }
    }

    pub(crate) fn finish(self) -> Requests {
        Requests(self.done)
    }
}

impl Sink for Collector {
    #[inline]
    fn begin(&mut self, _: Index, begin: Begin) {
        if let About::Woken(By::Interrupt(origin)) = begin.about {
            self.woken = Some((begin.time, origin));
        }
    }

    fn request(&mut self, _: Index, request: Request) {
        let (Some((to, origin)), Some(by)) = (self.woken.take(), request.by) else { return };
        let Some(from) = request.started.or(request.issued) else { return };
        if to > self.within.0 && from < self.within.1 {
            if self.done.len() == MOST {
                self.done.pop_front();
            }
            self.done.push_back(Done { by, origin, bytes: request.bytes, from, to });
        }
    }

    fn advance(&mut self, _: &Tracker, _: u64) -> bool {
        true
    }
}

impl Requests {
    /// The threads other than `by` whose requests were in the disk of `origin` for at least a tenth of the time, each with the bytes of
    /// these requests; the thread with the most bytes first.
    pub(crate) fn beside(
        &self,
        (by, origin): (Option<Index>, Origin),
        (from, to): (u64, u64),
        tracker: &Tracker,
    ) -> Vec<(Index, u64)> {
        let disk = |origin| tracker.origins.operation(origin).map(|it| it.1);
        let Some(disk_of_it) = disk(origin) else { return Vec::new() };
        let mut sums: BTreeMap<Index, u64> = BTreeMap::new();
        for done in self.0.iter().filter(|done| Some(done.by) != by) {
            let shared = done.to.min(to).saturating_sub(done.from.max(from));
            if shared >= ((to - from) / 10).max(1) && disk(done.origin) == Some(disk_of_it) {
                *sums.entry(done.by).or_default() += done.bytes;
            }
        }
        let mut sums: Vec<(Index, u64)> = sums.into_iter().collect();
        sums.sort_by_key(|&(thread, bytes)| (Reverse(bytes), thread));
        sums
    }
}
