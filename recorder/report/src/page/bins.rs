//! The appearance of a lane when time is divided into bins: how each bin was spent, as runs of equal bins.
//!
//! ```text
//!  time     |-- run --|- wait -|-------- sleep ----------------|- run -|
//!  bins     |      |      |      |      |      |      |      |      |
//!  cells     100%r  40%r   70%w    s      s      s     20%r    ...
//!                   60%w   30%s   `---- one run ----'
//! ```

use super::state::State;
use super::threads::ThreadIndex;

/// The value of a full share of a bin.
pub(super) const FULL: u8 = 15;

/// How a thread spent a bin, as shares of [`FULL`]. A share above zero is at least 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct ThreadCell {
    pub(super) running: u8,
    pub(super) waiting: u8,
    pub(super) uninterruptible: u8,
    /// A quota held it back.
    pub(super) throttled: u8,
    /// The host had the CPU that it ran on.
    pub(super) stolen: u8,
    /// Any other known state.
    pub(super) other: u8,
}

/// How a CPU spent a bin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct CpuCell {
    /// The share, of [`FULL`], in which the CPU was not idle.
    pub(super) busy: u8,
    /// The share whose use is known.
    pub(super) known: u8,
    /// The thread that had the largest part.
    pub(super) thread: ThreadIndex,
}

/// A cell that can be merged from finer cells.
pub(super) trait Cell: Copy + Default + PartialEq {
    /// Merges four neighbours into one cell.
    fn merge(four: [Self; MERGED]) -> Self;
}

/// How many bins of a level form one bin of the next coarser level.
pub(super) const MERGED: usize = 4;

/// A run of equal bins, from the end of the previous run to `end`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Run<C> {
    /// The first bin after the run.
    pub(super) end: u32,
    /// The appearance of each bin.
    pub(super) cell: C,
}

/// The bins of one lane.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Runs<C>(pub(super) Vec<Run<C>>);

impl<C: Cell> Runs<C> {
    /// Extends the lane up to `end` with this cell.
    pub(super) fn until(&mut self, end: u32, cell: C) {
        let from = self.0.last().map_or(0, |run| run.end);
        if end <= from {
            return;
        }
        match self.0.last_mut() {
            Some(last) if last.cell == cell => last.end = end,
            _ => self.0.push(Run { end, cell }),
        }
    }

    /// Repeats each bin `times` times.
    pub(super) fn stretched(&self, times: u32) -> Self {
        let longer = |run: &Run<C>| Run { end: run.end.saturating_mul(times), cell: run.cell };
        Self(self.0.iter().map(longer).collect())
    }

    /// Merges groups of four bins into one bin each.
    pub(super) fn merged(&self) -> Self {
        let mut merged = Self::default();
        let mut four = [C::default(); MERGED];
        let width = four.len() as u32;
        let mut at = 0;
        for run in &self.0 {
            // Completes a bin that earlier runs have begun.
            while at < run.end && at % width != 0 {
                four[(at % width) as usize] = run.cell;
                at += 1;
                if at % width == 0 {
                    merged.until(at / width, C::merge(four));
                }
            }
            let whole = run.end / width;
            if at < whole * width {
                merged.until(whole, C::merge([run.cell; MERGED]));
                at = whole * width;
            }
            while at < run.end {
                if at % width == 0 {
                    four = [C::default(); MERGED];
                }
                four[(at % width) as usize] = run.cell;
                at += 1;
            }
        }
        if at % width != 0 {
            for left in four.iter_mut().skip((at % width) as usize) {
                *left = C::default();
            }
            merged.until(at / width + 1, C::merge(four));
        }
        merged
    }
}

impl Cell for ThreadCell {
    fn merge(four: [Self; MERGED]) -> Self {
        let mean = |share: fn(&Self) -> u8| mean(four.each_ref().map(share));
        Self {
            running: mean(|cell| cell.running),
            waiting: mean(|cell| cell.waiting),
            uninterruptible: mean(|cell| cell.uninterruptible),
            throttled: mean(|cell| cell.throttled),
            stolen: mean(|cell| cell.stolen),
            other: mean(|cell| cell.other),
        }
    }
}

impl Cell for CpuCell {
    fn merge(four: [Self; MERGED]) -> Self {
        let of = |thread| -> u32 {
            four.iter().filter(|cell| cell.thread == thread).map(|cell| u32::from(cell.busy)).sum()
        };
        let most = four.iter().map(|cell| cell.thread).max_by_key(|&thread| of(thread));
        Self {
            busy: mean(four.map(|cell| cell.busy)),
            known: mean(four.map(|cell| cell.known)),
            thread: most.unwrap_or_default(),
        }
    }
}

/// The mean, rounded; a mean above zero is at least 1.
fn mean(four: [u8; MERGED]) -> u8 {
    let sum: u16 = four.iter().map(|&share| u16::from(share)).sum();
    let mean = u8::try_from((sum + MERGED as u16 / 2) / MERGED as u16).unwrap_or(FULL);
    if sum == 0 { 0 } else { mean.clamp(1, FULL) }
}

/// `part` of `whole` as a share of [`FULL`], rounded; a part above zero is at least 1.
pub(super) fn share(part: u64, whole: u64) -> u8 {
    if part == 0 || whole == 0 {
        return 0;
    }
    let scaled = (u128::from(part) * u128::from(FULL) + u128::from(whole / 2)) / u128::from(whole);
    u8::try_from(scaled).unwrap_or(FULL).clamp(1, FULL)
}

/// How long a thread was in each state within one bin, in nanoseconds.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ThreadTimes([u64; 6]);

impl ThreadTimes {
    /// Adds time in a state.
    pub(super) fn add(&mut self, state: State, time: u64) {
        let way = match state {
            State::Running => 0,
            State::Woken | State::Preempted => 1,
            State::Uninterruptible => 2,
            State::Throttled | State::WokenThrottled => 4,
            _ => 3,
        };
        self.0[way] += time;
    }

    /// The host took this much of the time that the thread ran.
    pub(super) fn steal(&mut self, time: u64) {
        self.0[0] = self.0[0].saturating_sub(time);
        self.0[5] += time;
    }

    /// The times as shares of a bin of `width` nanoseconds.
    pub(super) fn cell(self, width: u64) -> ThreadCell {
        let shares = self.0.map(|time| share(time, width));
        let [running, waiting, uninterruptible, other, throttled, stolen] = shares;
        ThreadCell { running, waiting, uninterruptible, throttled, stolen, other }
    }
}

/// How long each thread had a CPU within one bin, in nanoseconds.
#[derive(Clone, Debug, Default)]
pub(super) struct CpuTimes(Vec<(ThreadIndex, u64)>);

impl CpuTimes {
    /// Adds time of a thread.
    pub(super) fn add(&mut self, thread: ThreadIndex, time: u64) {
        if time == 0 {
            return;
        }
        match self.0.iter_mut().find(|known| known.0 == thread) {
            Some(known) => known.1 += time,
            None => self.0.push((thread, time)),
        }
    }

    /// The times as shares of a bin of `width` nanoseconds; starts the next bin.
    pub(super) fn take(&mut self, width: u64) -> CpuCell {
        let busy = |&&(thread, _): &&(ThreadIndex, u64)| !thread.is_idle();
        let known: u64 = self.0.iter().map(|known| known.1).sum();
        let used: u64 = self.0.iter().filter(busy).map(|known| known.1).sum();
        let most = self.0.iter().filter(busy).max_by_key(|known| known.1);
        let thread = most.map(|known| known.0).unwrap_or_default();
        self.0.clear();
        CpuCell { busy: share(used, width), known: share(known, width), thread }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cell(running: u8) -> ThreadCell {
        ThreadCell { running, ..ThreadCell::default() }
    }

    fn runs(list: &[(u32, u8)]) -> Runs<ThreadCell> {
        Runs(list.iter().map(|&(end, share)| Run { end, cell: cell(share) }).collect())
    }

    #[test]
    fn equal_bins_are_one_run() {
        let mut lane = Runs::default();
        for (end, share) in [(3, 15), (8, 15), (8, 2), (9, 0)] {
            lane.until(end, cell(share));
        }
        assert_eq!(lane, runs(&[(8, 15), (9, 0)]));
    }

    #[test]
    fn four_bins_become_one_wherever_runs_end() {
        assert_eq!(runs(&[(12, 15)]).merged(), runs(&[(3, 15)]));
        assert_eq!(runs(&[(2, 15), (4, 1), (9, 8)]).merged(), runs(&[(2, 8), (3, 2)]));
        assert_eq!(runs(&[(1, 0), (2, 15), (3, 0), (40, 15)]).merged(), runs(&[(1, 8), (10, 15)]));
        assert_eq!(runs(&[(6, 15)]).merged(), runs(&[(1, 15), (2, 8)]));
    }

    #[test]
    fn something_never_becomes_nothing() {
        assert_eq!(share(1, 1_000_000_000), 1);
        assert_eq!(share(0, 10), 0);
        assert_eq!(share(5, 10), 8);
        assert_eq!(share(10, 10), FULL);
        assert_eq!(mean([0, 0, 0, 1]), 1);
        assert_eq!(mean([FULL; 4]), FULL);
    }

    #[test]
    fn a_cpu_bin_is_of_the_thread_that_had_most_of_it() {
        let mut times = CpuTimes::default();
        times.add(ThreadIndex::IDLE, 60);
        for (thread, time) in [(1, 10), (2, 15), (1, 10)] {
            times.add(ThreadIndex(thread), time);
        }
        let cell = times.take(100);
        assert_eq!((cell.busy, cell.known, cell.thread), (5, 14, ThreadIndex(1)));
        assert_eq!(times.take(100), CpuCell::default());
    }
}
