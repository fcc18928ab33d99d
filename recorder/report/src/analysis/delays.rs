//! The longest delays of each thread, and the worst of all: see [`fxtrec_blame::worst`].

use fxt_reader::Nanos;
use fxtrec_blame::worst::{self, KEPT};
use fxtrec_sched::Thread;
use rustc_hash::FxHashMap;

use super::thread::{BY_INTERRUPT, Live};
use super::thread_figures::ThreadFigures;
use super::{Analysis, Observer};
use crate::model::{Delay, Span};
use fxtrec_blame::threads::Known;

/// Beyond this number of delays of ended threads, the shorter half is dropped.
const MOST: usize = 16_384;

/// Number of ended threads for which the beginning of their last slice is kept.
const MOST_ENDED: usize = 1 << 20;

/// The definition of a delay.
#[derive(Clone, Copy, Debug)]
enum Counts {
    /// Waits for a CPU: if no threads are selected, most threads sleep because they have nothing to do.
    Waits,
    /// Everything but waits for the end of another process.
    Delays,
    /// All waits, if threads are selected.
    All,
}

#[derive(Clone, Copy, Debug)]
struct Late {
    from: u64,
    able: u64,
    to: u64,
    waker: u64,
    /// Whether the waker is a thread of the same process.
    is_own: bool,
    call: Option<u16>,
}

impl Late {
    fn length(&self) -> u64 {
        self.to - self.from
    }

    fn of(&self, koid: u64) -> worst::Delay {
        let Late { from, able, to, waker, .. } = *self;
        let waker = Some(waker).filter(|&waker| waker != 0 && waker != BY_INTERRUPT);
        worst::Delay { koid, from, able, to, waker }
    }
}

/// The longest delays of a thread, the longest first.
#[derive(Clone, Debug, Default)]
pub(super) struct Longest([Option<Late>; KEPT]);

impl Longest {
    fn take(&mut self, late: Late) {
        let longer = |known: &Option<Late>| known.is_some_and(|it| it.length() >= late.length());
        let at = self.0.partition_point(longer);
        if at < KEPT {
            self.0[at..].rotate_right(1);
            self.0[at] = Some(late);
        }
    }

    /// A delay must be longer than this to be among them, in nanoseconds.
    fn floor(&self) -> u64 {
        self.0.last().copied().flatten().map_or(0, |last| last.length())
    }
}

/// The delays of threads that have ended.
#[derive(Debug, Default)]
pub(super) struct Delays {
    found: Vec<(u64, Late)>,
    /// When the last slice of each began, by koid.
    last_slices: FxHashMap<u64, u64>,
}

impl Delays {
    /// A thread has ended, or the trace has.
    pub(super) fn add(&mut self, live: &Live) {
        // Delays are noted only for selected threads.
        let Some(delays) = &live.delays else { return };
        self.found.extend(delays.0.iter().flatten().map(|&late| (live.koid, late)));
        if self.found.len() > MOST {
            self.found.sort_by_key(|(koid, late)| (u64::MAX - late.length(), late.from, *koid));
            self.found.truncate(MOST / 2);
        }
    }

    pub(super) fn ended(&mut self, koid: u64, last_slice: u64) {
        if self.last_slices.len() < MOST_ENDED {
            self.last_slices.insert(koid, last_slice);
        }
    }

    /// The worst delay of all, in a recording of this length.
    fn worst(&self, recorded: u64, counts: Counts) -> Option<(worst::Delay, Option<u16>)> {
        let delay = |(koid, late): &(u64, Late)| {
            let delay = late.of(*koid);
            let of_others = delay.waker.filter(|_| !late.is_own);
            let ended = of_others.and_then(|waker| self.last_slices.get(&waker)).copied();
            match counts {
                Counts::Waits => worst::Delay { from: delay.able, ..delay },
                Counts::Delays => delay.without_end(ended),
                Counts::All => delay,
            }
        };
        let chosen = worst::worst(self.found.iter().map(delay).collect(), recorded)?;
        let is_it = |(koid, late): &&(u64, Late)| *koid == chosen.koid && late.to == chosen.to;
        let call = self.found.iter().find(is_it).and_then(|(_, late)| late.call);
        Some((chosen, call.filter(|_| chosen.from < chosen.able)))
    }
}

impl<O: Observer> Analysis<O> {
    /// The threads whose delays count: the selected ones, else COMMAND's, else all threads that the recording is about.
    fn asks_about(&self, koid: u64, chosen: bool) -> bool {
        match (self.selection.threads.is_everything(), self.family.process) {
            (false, _) => chosen,
            (true, Some(_)) => self.family.has(&self.thread_figures, koid),
            (true, None) => {
                let is_left_out = self.selection.leaves_out_recorder()
                    && self.family.is_recorder(&self.thread_figures, koid);
                !is_left_out && (!self.narrow || self.thread_figures.is_in_scope(koid))
            }
        }
    }

    fn counts(&self) -> Counts {
        match (self.selection.threads.is_everything(), self.family.process) {
            (false, _) => Counts::All,
            (true, Some(_)) => Counts::Delays,
            (true, None) if self.narrow => Counts::Delays,
            (true, None) => Counts::Waits,
        }
    }

    /// A thread got a CPU after a delay that is among its longest: it has been runnable since `before.since`.
    #[cold]
    pub(super) fn note_delay(&mut self, slot: u32, before: Thread, length: u64) {
        let live = self.thread_figures.live(slot);
        let (koid, chosen, waker, call) = (live.koid, live.chosen, live.waker, live.woken_from);
        let able = before.since.0;
        let process = self.thread_figures.process(koid);
        let is_own = process.is_some() && process == self.thread_figures.process(waker);
        let from = self.now.saturating_sub(length);
        let late = Late { from, able, to: self.now, waker, is_own, call };
        let is_asked = self.asks_about(koid, chosen);
        let live = self.thread_figures.live(slot);
        if !is_asked {
            // The thread may turn out to be COMMAND's, so this is not final.
            live.delay_floor = live.delay_floor.max(length);
            return;
        }
        let delays = live.delays.get_or_insert_default();
        delays.take(late);
        live.delay_floor = delays.floor();
    }

    /// The worst delay of all, once all delays are known.
    pub(super) fn worst_delay(&mut self, recorded: u64) -> Option<Delay> {
        let counts = self.counts();
        let ThreadFigures { delays, .. } = &mut self.thread_figures;
        let (chosen, call) = delays.worst(recorded, counts)?;
        let worst::Delay { koid, from, able, to, waker } = chosen;
        Some(Delay {
            thread: self.thread_figures.thread_info(koid),
            span: Span { begin: Nanos(from), end: Nanos(to) },
            able: Nanos(able),
            waker: waker.map(|waker| self.thread_figures.thread_info(waker)),
            call,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_are_kept_in_order_and_those_of_ended_threads_are_bounded() {
        let late = |length| Late {
            from: 100,
            able: 100,
            to: 100 + length,
            waker: 0,
            is_own: false,
            call: None,
        };
        let mut longest = Longest::default();
        for (length, floor) in [(5, 0), (3, 0), (9, 0), (4, 3), (2, 3), (7, 4)] {
            longest.take(late(length));
            assert_eq!(longest.floor(), floor, "after {length}");
        }
        let mut delays = Delays::default();
        for koid in 0..MOST as u64 {
            let longest = Longest([Some(late(koid + 1)), None, None, None]);
            let delays_of = Some(Box::new(longest));
            delays.add(&Live { koid, delays: delays_of, ..Live::default() });
        }
        assert_eq!(delays.found.len(), MOST);
        let one = Some(Box::new(Longest([Some(late(1)), None, None, None])));
        delays.add(&Live { koid: 1 << 40, delays: one, ..Live::default() });
        assert_eq!(delays.found.len(), MOST / 2);
        let chosen = delays.worst(1 << 40, Counts::Delays).map(|it| it.0.koid);
        assert_eq!(chosen, Some(MOST as u64 - 1), "the longest is never forgotten");
    }
}
