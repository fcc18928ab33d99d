//! The running and waiting times of threads and the busy times of CPUs, for the order and the labels of lanes.

use super::lanes::Observer;
use super::state::State;
use super::threads::ThreadIndex;

/// A sum of intervals; some intervals began before the trace, at 0.
#[derive(Clone, Copy, Debug, Default)]
struct Sum {
    nanos: u128,
    early: u64,
}

impl Sum {
    fn add(&mut self, from: u64, to: u64) {
        self.nanos += u128::from(to.saturating_sub(from));
        self.early += u64::from(from == 0);
    }

    /// The sum in nanoseconds, if the trace begins at `begin`.
    fn since(self, begin: u64) -> u64 {
        let early = u128::from(self.early) * u128::from(begin);
        u64::try_from(self.nanos.saturating_sub(early)).unwrap_or(u64::MAX)
    }
}

/// Sums by thread and CPU.
#[derive(Debug, Default)]
pub(super) struct Usage {
    running: Vec<Sum>,
    waiting: Vec<Sum>,
    busy: Vec<Sum>,
    begin: u64,
}

impl Usage {
    /// Sets the start of the trace, at which intervals from before the trace are cut.
    pub(super) fn clip(&mut self, begin: u64) {
        self.begin = begin;
    }

    /// How long the thread was on a CPU, in nanoseconds.
    pub(super) fn running(&self, thread: ThreadIndex) -> u64 {
        self.running.get(thread.index()).map_or(0, |sum| sum.since(self.begin))
    }

    /// How long the thread waited for a CPU, in nanoseconds.
    pub(super) fn waiting(&self, thread: ThreadIndex) -> u64 {
        self.waiting.get(thread.index()).map_or(0, |sum| sum.since(self.begin))
    }

    /// How long the CPU was not idle, in nanoseconds.
    pub(super) fn busy(&self, cpu: u16) -> u64 {
        self.busy.get(usize::from(cpu)).map_or(0, |sum| sum.since(self.begin))
    }
}

fn add(sums: &mut Vec<Sum>, at: usize, from: u64, to: u64) {
    if sums.len() <= at {
        sums.resize(at + 1, Sum::default());
    }
    sums[at].add(from, to);
}

impl Observer for Usage {
    fn on_cpu(&mut self, cpu: u16, thread: ThreadIndex, from: u64, to: u64) {
        if !thread.is_idle() {
            add(&mut self.busy, usize::from(cpu), from, to);
        }
    }

    fn in_state(&mut self, thread: ThreadIndex, state: State, from: u64, to: u64) {
        if state == State::Running {
            add(&mut self.running, thread.index(), from, to);
        } else if state.is_waiting() && !state.is_throttled() {
            add(&mut self.waiting, thread.index(), from, to);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_began_before_the_trace_counts_from_its_begin() {
        let mut usage = Usage::default();
        let thread = ThreadIndex(3);
        usage.in_state(thread, State::Running, 0, 1_100);
        usage.in_state(thread, State::Woken, 1_100, 1_150);
        usage.in_state(thread, State::Running, 1_150, 1_160);
        usage.on_cpu(1, thread, 0, 1_100);
        usage.on_cpu(1, ThreadIndex::IDLE, 0, 1_150);
        usage.clip(1_000);
        assert_eq!((usage.running(thread), usage.waiting(thread)), (110, 50));
        assert_eq!([0, 1].map(|cpu| usage.busy(cpu)), [0, 100]);
    }
}
