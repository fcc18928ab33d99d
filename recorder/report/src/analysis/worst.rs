//! The longest waits, and the threads that caused them.

use std::time::Duration;

use fxt_reader::{Cpu, Koid};
use fxtrec_sched::{Held, SwitchArgs};

use super::history::OpenWaits;
use super::thread::{BY_INTERRUPT, Live};
use super::{Analysis, Observer, Waited};
use crate::model::{Antagonist, Span, Wait};
use crate::selection::ThreadFilter;
use fxtrec_gates::Metric;

/// The maximum number of antagonists that are named for a wait.
const NAMED: usize = 5;

/// The maximum number of sums for open waits, shared by all CPUs.
const SUMS: usize = 1 << 20;

/// Each CPU may have this many, regardless of the number of CPUs.
const FEWEST_SUMS: usize = 4096;

/// The longest waits so far.
#[derive(Debug)]
pub(super) struct Worst {
    most: usize,
    everyone: bool,
    /// The longest first.
    waits: Vec<Wait>,
    /// A wait must be longer than this, in nanoseconds, to be among them.
    floor: u64,
}

impl Worst {
    pub(super) fn new(most: usize, filter: &ThreadFilter) -> Worst {
        let everyone = filter.is_everything();
        // If no waits are requested, none is long enough.
        let floor = if most == 0 { u64::MAX } else { 0 };
        Worst { most, everyone, waits: Vec::new(), floor }
    }

    /// Whether a wait of this thread would be among the longest.
    #[inline]
    pub(super) fn wants(&self, live: &Live, nanos: u64) -> bool {
        nanos > self.floor && (self.everyone || live.chosen)
    }

    fn take(&mut self, wait: Wait) {
        let at = self.waits.partition_point(|known| known.length() >= wait.length());
        self.waits.insert(at, wait);
        self.waits.truncate(self.most);
        if let (true, Some(last)) = (self.waits.len() == self.most, self.waits.last()) {
            self.floor = u64::try_from(last.length().as_nanos()).unwrap_or(u64::MAX);
        }
    }

    pub(super) fn most(&self) -> usize {
        self.most
    }

    pub(super) fn finish(self) -> Vec<Wait> {
        self.waits
    }
}

impl<O: Observer> Analysis<O> {
    /// Handles the end of a wait that is the thread's longest, or among the longest of all, or requested by the observer.
    #[cold]
    pub(super) fn note_wait(
        &mut self,
        slot: u32,
        metric: Metric,
        span: Span,
        (queued_on, ran_on): (Cpu, Cpu),
        (said, at_begin): (Option<&SwitchArgs<'_>>, bool),
    ) {
        let live = self.thread_figures.live(slot);
        let (koid, waker) = (live.koid, live.waker);
        let earlier_queues = live
            .earlier_queues
            .take()
            .filter(|earlier_queues| earlier_queues.begin == span.begin.0);
        let whole = span.end.0.saturating_sub(span.begin.0);
        let by = said.and_then(|said| said.held_by);
        let throttled = said.map_or(0, |said| said.held).min(whole);
        let nanos = whole - throttled;
        let among_worst = self.worst.wants(live, nanos);
        let own_longest = nanos > live.longest;
        let wait = (span.begin, span.end);
        let held = Held { wait, cpu: queued_on, nanos: throttled, at_begin, by };
        let held = (throttled > 0).then_some(held);
        self.sum_antagonists(wait, queued_on, earlier_queues.as_deref(), held);
        self.meanwhile.shares(koid, NAMED, &mut self.shares);
        let shares = &self.shares;
        let moves = earlier_queues.map_or_else(Vec::new, |earlier_queues| earlier_queues.moves);
        let queued_on = moves.first().map_or(queued_on, |first| first.from);
        let (by_interrupt, woken_by) = (waker == BY_INTERRUPT, Some(Koid(waker)));
        self.observer.waited(&Waited {
            thread: Koid(koid),
            metric,
            span,
            queued_on,
            ran_on,
            throttled,
            throttled_by: held.and(by),
            waker: woken_by.filter(|_| waker != 0 && !by_interrupt),
            by_interrupt,
            shares,
        });
        if !own_longest && !among_worst {
            return;
        }
        let antagonist = |&(other, ran): &(u64, u64)| Antagonist {
            thread: self.thread_figures.thread_info(other),
            ran: Duration::from_nanos(ran),
        };
        let antagonists: Vec<Antagonist> = shares.named.iter().map(antagonist).collect();
        let wait = Wait {
            trace: None,
            thread: self.thread_figures.thread_info(koid),
            metric,
            span,
            queued_on,
            ran_on,
            moves,
            throttled: Duration::from_nanos(throttled),
            throttled_by: held.and(by).map(Into::into),
            waker: (waker != 0 && waker != BY_INTERRUPT)
                .then(|| self.thread_figures.thread_info(waker)),
            by_interrupt,
            antagonists,
            more_antagonists: shares.more,
            others: shares.others,
            idle: shares.idle,
            unknown: shares.unknown,
        };
        if own_longest {
            let live = self.thread_figures.live(slot);
            live.longest = nanos;
            live.worst = Some(Box::new(wait.clone()));
        }
        let is_left_out = self.selection.leaves_out_recorder()
            && self.family.is_recorder(&self.thread_figures, koid);
        if among_worst && !is_left_out {
            self.worst.take(wait);
        }
    }

    /// Drops the entries of a CPU's history that no open wait needs.
    #[cold]
    pub(super) fn tidy_history(&mut self, cpu: u16) {
        let mut begins = self.thread_figures.waits_for(Cpu(cpu), &self.cpus.machine);
        self.cpus.get(cpu).add_marks(&mut begins);
        let open = OpenWaits {
            begins,
            asked: self.thread_figures.places(),
            sums: FEWEST_SUMS.max(SUMS / self.cpus.count().max(1)),
        };
        self.cpus.get(cpu).history.tidy(open);
    }
}
