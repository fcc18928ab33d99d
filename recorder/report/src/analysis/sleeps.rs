//! The longest sleeps of each thread.

use fxt_reader::Nanos;
use fxtrec_gates::Metric;
use fxtrec_sched::State;

use super::thread::{BY_INTERRUPT, metric};
use super::thread_figures::ThreadFigures;
use super::{Analysis, Observer};
use crate::groups::KEPT;
use crate::model::{Sleep, Span};

/// A time for which a thread was blocked, until it was woken.
#[derive(Clone, Copy, Debug)]
pub(super) struct Slept {
    pub(super) begin: u64,
    pub(super) end: u64,
    pub(super) state: State,
    pub(super) call: Option<u16>,
    /// The same as [`Live::waker`](super::thread::Live::waker).
    pub(super) waker: u64,
}

impl Slept {
    fn length(&self) -> u64 {
        self.end.saturating_sub(self.begin)
    }
}

/// The longest sleeps of a thread, the longest first.
#[derive(Clone, Debug, Default)]
pub(super) struct Sleeps([Option<Slept>; KEPT]);

impl Sleeps {
    fn take(&mut self, slept: Slept) {
        let longer = |known: &Option<Slept>| known.is_some_and(|it| it.length() >= slept.length());
        let at = self.0.partition_point(longer);
        if at < KEPT {
            self.0[at..].rotate_right(1);
            self.0[at] = Some(slept);
        }
    }

    /// A sleep must be longer than this, in nanoseconds, to be among them.
    fn floor(&self) -> u64 {
        self.0.last().copied().flatten().map_or(0, |last| last.length())
    }

    /// Whether a sleep that began then is one of them.
    pub(super) fn has(&self, begin: u64) -> bool {
        self.0.iter().flatten().any(|slept| slept.begin == begin)
    }

    /// The sleeps of this thread, for the report.
    pub(super) fn reported(&self, koid: u64, thread_figures: &mut ThreadFigures) -> Vec<Sleep> {
        let thread = thread_figures.thread_info(koid);
        let one = |slept: &Slept| Sleep {
            thread: thread.clone(),
            metric: metric(slept.state).unwrap_or(Metric::Blocked),
            span: Span { begin: Nanos(slept.begin), end: Nanos(slept.end) },
            call: slept.call,
            waker: (slept.waker != 0 && slept.waker != BY_INTERRUPT)
                .then(|| thread_figures.thread_info(slept.waker)),
            by_interrupt: slept.waker == BY_INTERRUPT,
            waited_for: None,
        };
        self.0.iter().flatten().map(one).collect()
    }
}

impl<O: Observer> Analysis<O> {
    /// The thread in the slot was blocked for longer than most threads before.
    #[cold]
    pub(super) fn note_sleep(&mut self, slot: u32, slept: Slept) {
        let sleeps = self.thread_figures.live(slot).sleeps.get_or_insert_default();
        sleeps.take(slept);
        let floor = sleeps.floor();
        self.thread_figures.live(slot).blocked_floor = floor;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_are_kept_in_order() {
        let mut sleeps = Sleeps::default();
        let kept = |sleeps: &Sleeps| sleeps.0.map(|it| it.map(|it| it.length()));
        for (length, expected, floor) in [
            (5, [Some(5), None], 0),
            (3, [Some(5), Some(3)], 3),
            (9, [Some(9), Some(5)], 5),
            (4, [Some(9), Some(5)], 5),
            (7, [Some(9), Some(7)], 7),
        ] {
            let state = State::Sleeping;
            sleeps.take(Slept { begin: 100, end: 100 + length, state, call: None, waker: 0 });
            assert_eq!((kept(&sleeps), sleeps.floor()), (expected, floor));
        }
    }
}
