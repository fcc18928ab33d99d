//! What each thread is in the middle of, and since when.
//!
//! The lengths of time that come out are those of the report, by the same rules: after a loss nothing is known about
//! anybody's waits, and what begins or ends with an inferred switch has no length.
//!
//! ```text
//!   woken          in             out, can run      in           out, waits      woken
//!     |--- wakeup ---|--- slice -----|--- preempt ----|-- slice ----|--- blocked ---|
//! ```

use fxtrec_gates::Metric;
use fxtrec_units::{Cpu, Nanos};

/// What a thread is in the middle of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Doing {
    /// Nothing that is known, or it was stopped.
    #[default]
    Unknown,
    /// It was woken, and waits for a CPU.
    Woken,
    /// It was preempted, and waits for a CPU.
    Preempted,
    /// It has a CPU.
    Running,
    /// It waits for something.
    Blocked,
    /// The same, uninterruptibly.
    BlockedUninterruptible,
}

/// One thread.
#[derive(Clone, Copy, Debug, Default)]
struct Entry {
    doing: Doing,
    /// Whether `since` is when that began, and not only when it was seen first.
    whole: bool,
    since: Nanos,
    /// The CPU that it has, is queued on, or had last.
    cpu: Cpu,
    /// How many losses there had been when it was written down.
    losses: u32,
}

/// A length of time that has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Length {
    /// Of what.
    pub metric: Metric,
    /// How long.
    pub nanos: Nanos,
    /// The CPU that it belongs to.
    pub cpu: Cpu,
}

/// All threads, by the place where they are kept.
#[derive(Clone, Debug, Default)]
pub struct Ledger {
    entries: Vec<Entry>,
    losses: u32,
}

impl Ledger {
    fn entry(&mut self, thread: usize) -> &mut Entry {
        if thread >= self.entries.len() {
            // Places are given out one after the other, so this grows as the table of threads does.
            self.entries.resize(thread + 1, Entry::default());
        }
        &mut self.entries[thread]
    }

    fn enter(&mut self, thread: usize, doing: Doing, cpu: Cpu, since: Nanos) {
        let losses = self.losses;
        *self.entry(thread) = Entry { doing, whole: true, since, cpu, losses };
    }

    /// A thread comes in on a CPU. The wait that ends with it, if it was seen to begin.
    pub fn comes_in(&mut self, thread: usize, cpu: Cpu, time: Nanos) -> Option<Length> {
        let losses = self.losses;
        let before = *self.entry(thread);
        self.enter(thread, Doing::Running, cpu, time);
        let metric = match before.doing {
            Doing::Woken => Metric::Wakeup,
            Doing::Preempted => Metric::Preemption,
            _ => return None,
        };
        let known = before.losses == losses;
        known.then(|| Length { metric, nanos: since(before.since, time), cpu })
    }

    /// A thread goes out of a CPU. The slice that ends with it, if it was seen to begin there.
    pub fn goes_out(
        &mut self,
        thread: usize,
        next: Doing,
        cpu: Cpu,
        time: Nanos,
    ) -> Option<Length> {
        let before = *self.entry(thread);
        self.enter(thread, next, cpu, time);
        let known = before.doing == Doing::Running && before.whole && before.cpu == cpu;
        let nanos = since(before.since, time);
        known.then_some(Length { metric: Metric::Slice, nanos, cpu })
    }

    /// A thread that was not able to run is put on the queue of a CPU. The blocked time that ends with it, if it was
    /// seen to begin.
    pub fn is_woken(&mut self, thread: usize, cpu: Cpu, time: Nanos) -> Option<Length> {
        let losses = self.losses;
        let before = *self.entry(thread);
        self.enter(thread, Doing::Woken, cpu, time);
        let metric = match before.doing {
            Doing::Blocked => Metric::Blocked,
            Doing::BlockedUninterruptible => Metric::BlockedUninterruptible,
            _ => return None,
        };
        let (known, nanos) = (before.losses == losses, since(before.since, time));
        known.then_some(Length { metric, nanos, cpu: before.cpu })
    }

    /// A thread turns out to have a CPU, and nobody knows since when.
    pub fn is_running(&mut self, thread: usize, cpu: Cpu, time: Nanos) {
        self.enter(thread, Doing::Running, cpu, time);
        self.entry(thread).whole = false;
    }

    /// Nothing is known of a thread, or it has ended.
    pub fn forget(&mut self, thread: usize) {
        *self.entry(thread) = Entry::default();
    }

    /// Events were lost: what threads wait for is doubtful.
    pub fn doubt(&mut self) {
        self.losses = self.losses.wrapping_add(1);
    }

    /// The CPU that a thread has, as far as was seen.
    pub fn runs_on(&self, thread: usize) -> Option<Cpu> {
        let entry = self.entries.get(thread)?;
        (entry.doing == Doing::Running).then_some(entry.cpu)
    }

    /// The CPU on whose queue a thread waits, where that is known.
    pub fn queued_on(&self, thread: usize) -> Option<Cpu> {
        let entry = self.entries.get(thread)?;
        let waits = matches!(entry.doing, Doing::Woken | Doing::Preempted);
        (waits && entry.losses == self.losses).then_some(entry.cpu)
    }
}

fn since(begin: Nanos, end: Nanos) -> Nanos {
    Nanos(end.0.saturating_sub(begin.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    const CPU: Cpu = Cpu(3);
    const T: usize = 5;

    fn length(metric: Metric, nanos: u64) -> Option<Length> {
        Some(Length { metric, nanos: Nanos(nanos), cpu: CPU })
    }

    #[test]
    fn the_picture_holds() {
        let mut ledger = Ledger::default();
        assert_eq!(ledger.is_woken(T, CPU, Nanos(10)), None, "what was before is not known");
        assert_eq!(ledger.queued_on(T), Some(CPU));
        assert_eq!(ledger.comes_in(T, CPU, Nanos(15)), length(Metric::Wakeup, 5));
        assert_eq!(ledger.queued_on(T), None);
        let out = ledger.goes_out(T, Doing::Preempted, CPU, Nanos(22));
        assert_eq!(out, length(Metric::Slice, 7));
        assert_eq!(ledger.comes_in(T, CPU, Nanos(31)), length(Metric::Preemption, 9));
        let out = ledger.goes_out(T, Doing::Blocked, CPU, Nanos(42));
        assert_eq!(out, length(Metric::Slice, 11));
        assert_eq!(ledger.is_woken(T, Cpu(0), Nanos(55)), length(Metric::Blocked, 13));
    }

    #[test]
    fn blocked_time_belongs_to_the_cpu_that_was_left_and_waits_to_the_one_that_was_got() {
        let mut ledger = Ledger::default();
        ledger.goes_out(T, Doing::BlockedUninterruptible, Cpu(1), Nanos(1));
        let blocked = ledger.is_woken(T, Cpu(2), Nanos(2)).expect("it was seen to begin");
        assert_eq!((blocked.metric, blocked.cpu), (Metric::BlockedUninterruptible, Cpu(1)));
        assert_eq!(ledger.comes_in(T, CPU, Nanos(3)), length(Metric::Wakeup, 1));
    }

    #[test]
    fn a_loss_censors_waits_that_are_open_and_slices_only_where_the_cpu_lost() {
        let mut ledger = Ledger::default();
        ledger.is_woken(T, CPU, Nanos(1));
        ledger.comes_in(T + 1, CPU, Nanos(1));
        ledger.doubt();
        assert_eq!(ledger.queued_on(T), None);
        assert_eq!(ledger.comes_in(T, CPU, Nanos(2)), None);
        let other = ledger.goes_out(T + 1, Doing::Blocked, CPU, Nanos(4));
        assert_eq!(other, length(Metric::Slice, 3), "all switches of a CPU are in its own ring");
        ledger.is_running(T, CPU, Nanos(5));
        assert_eq!(ledger.goes_out(T, Doing::Blocked, CPU, Nanos(6)), None);
    }

    #[test]
    fn a_thread_that_comes_in_though_it_was_blocked_has_waited_for_an_unknown_time() {
        let mut ledger = Ledger::default();
        ledger.goes_out(T, Doing::Blocked, CPU, Nanos(1));
        assert_eq!(ledger.comes_in(T, CPU, Nanos(9)), None);
        ledger.forget(T);
        assert_eq!(ledger.goes_out(T, Doing::Blocked, CPU, Nanos(10)), None);
    }
}
