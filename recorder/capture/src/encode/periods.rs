//! When cgroups were throttled on which CPUs: from the time at which the first thread is switched out for this reason to the release.
//!
//! No tracepoint reports either end of such a period. The beginning is derived from a switch. The end is computed later, when the next
//! thread of the queue is switched in or moved: from the queue's own count of throttled time.
//!
//! ```text
//!   A goes out throttled       released                A comes in: its queue was throttled
//!   |begin                     |end = begin + grown    |for `grown` more than when A went out
//! --+==========================+-----------------------+--> the end is written here, as `late_ns` late
//! ```

use fxtrec_units::{Cpu, Nanos};
use rustc_hash::FxHashMap;

/// How much two clocks may differ over a period.
const TOLERANCE: u64 = 50_000;

/// The maximum number of pairs of a CPU and a cgroup for which the quota's cgroup is remembered.
const MOST_QUOTAS: usize = 1 << 16;

/// A cgroup that is throttled on a CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Period {
    id: u64,
    cgroup: u64,
    cpu: Cpu,
    /// The cgroup of the thread that was switched out first, how long its queue had been throttled at that time, and the time of that
    /// switch.
    own: u32,
    kept: Nanos,
    since: Nanos,
    /// Number of threads that are off the CPU for this reason.
    out: usize,
    /// Whether these threads are of several cgroups, whose queues count separately.
    mixed: bool,
}

/// A completed period.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Over {
    pub id: u64,
    pub cgroup: u64,
    pub cpu: Cpu,
    /// When it ended; `None` if it ended at an unknown time before this was noticed.
    pub end: Option<Nanos>,
}

impl Period {
    fn over(&self, end: Option<Nanos>) -> Over {
        Over { id: self.id, cgroup: self.cgroup, cpu: self.cpu, end }
    }
}

/// The periods that might not be over yet.
#[derive(Debug, Default)]
pub struct OpenPeriods {
    open: Vec<Period>,
    begun: u64,
    /// By CPU and the thread's own cgroup: the cgroup whose quota was used up last.
    quotas: FxHashMap<(Cpu, u32), u64>,
}

/// The effect of a thread that is switched out by throttling.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Out {
    /// The period in which the thread cannot run.
    pub id: u64,
    /// Whether the period begins with this thread.
    pub begins: bool,
    /// An earlier period of the same cgroup and CPU, whose end was not recorded.
    pub over: Option<Over>,
}

impl OpenPeriods {
    /// A thread is switched out by throttling on a CPU. `kept` is how long the queue of its cgroup `own` was throttled up to now.
    pub fn goes_out(&mut self, now: Nanos, cpu: Cpu, cgroup: u64, own: u32, kept: Nanos) -> Out {
        self.note(cpu, own, cgroup);
        let found = self.open.iter().position(|at| at.cgroup == cgroup && at.cpu == cpu);
        let mut over = None;
        if let Some(at) = found {
            let period = &mut self.open[at];
            let expected = period.kept.0.saturating_add(now.0.saturating_sub(period.since.0));
            // The count of a queue that was throttled only part of the time is lower.
            if period.own == own && kept.0.saturating_add(TOLERANCE) < expected {
                over = Some(self.open.swap_remove(at).over(None));
            } else {
                period.mixed |= period.own != own;
                period.out += 1;
                return Out { id: period.id, begins: false, over: None };
            }
        }
        self.begun += 1;
        let id = self.begun;
        self.open.push(Period { id, cgroup, cpu, own, kept, since: now, out: 1, mixed: false });
        Out { id, begins: true, over }
    }

    fn note(&mut self, cpu: Cpu, own: u32, cgroup: u64) {
        if self.quotas.len() >= MOST_QUOTAS {
            self.quotas.clear();
        }
        self.quotas.insert((cpu, own), cgroup);
    }

    /// The cgroup whose quota last held back threads of the cgroup `own` on a CPU.
    pub fn quota(&self, cpu: Cpu, own: u32) -> Option<u64> {
        self.quotas.get(&(cpu, own)).copied()
    }

    /// A queue has been throttled for `kept` so far, without a current period. Returns a completed period.
    pub fn learn(&mut self, now: Nanos, cpu: Cpu, own: u32, kept: Nanos) -> Option<Over> {
        let is_it = |at: &Period| at.cpu == cpu && at.own == own && kept >= at.kept;
        let at = self.open.iter().position(is_it)?;
        let period = self.open.swap_remove(at);
        let end = Nanos(period.since.0.saturating_add(kept.0 - period.kept.0));
        let known = !period.mixed && end.0 <= now.0.saturating_add(TOLERANCE);
        Some(period.over(known.then_some(Nanos(end.0.min(now.0)))))
    }

    /// A thread that a period kept from running runs again. If this was the last thread, the period has ended.
    pub fn comes_in(&mut self, id: u64) -> Option<Over> {
        let at = self.open.iter().position(|period| period.id == id)?;
        let period = &mut self.open[at];
        period.out = period.out.saturating_sub(1);
        (period.out == 0).then(|| self.open.swap_remove(at).over(None))
    }

    /// Events were lost: any period may be over.
    pub fn lose(&mut self) -> Vec<Over> {
        self.open.drain(..).map(|period| period.over(None)).collect()
    }

    pub fn is_empty(&self) -> bool {
        self.open.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;
    const QUOTA: u64 = 7;

    fn out(periods: &mut OpenPeriods, now: u64, own: u32, kept: u64) -> Out {
        periods.goes_out(Nanos(now), Cpu(1), QUOTA, own, Nanos(kept))
    }

    fn over(id: u64, end: Option<u64>) -> Over {
        Over { id, cgroup: QUOTA, cpu: Cpu(1), end: end.map(Nanos) }
    }

    #[test]
    fn a_period_lasts_from_the_first_that_goes_out_as_long_as_its_queue_counts() {
        let mut periods = OpenPeriods::default();
        let first = Out { id: 1, begins: true, over: None };
        assert_eq!(out(&mut periods, 100 * MS, 8, 5 * MS), first);
        let second = Out { id: 1, begins: false, over: None };
        assert_eq!(out(&mut periods, 101 * MS, 8, 6 * MS), second);
        // A thread that still runs in the kernel is switched in while the queue is throttled.
        assert_eq!(periods.learn(Nanos(102 * MS), Cpu(1), 8, Nanos(5 * MS - 300)), None);
        assert_eq!(periods.learn(Nanos(190 * MS), Cpu(0), 8, Nanos(85 * MS)), None, "another CPU");
        assert_eq!(
            periods.learn(Nanos(190 * MS), Cpu(1), 9, Nanos(85 * MS)),
            None,
            "another queue"
        );
        let reported = periods.learn(Nanos(190 * MS), Cpu(1), 8, Nanos(85 * MS));
        assert_eq!(reported, Some(over(1, Some(180 * MS))));
        assert!(periods.is_empty());
        assert_eq!(periods.comes_in(1), None);
        assert_eq!(out(&mut periods, 200 * MS, 8, 85 * MS).id, 2);
    }

    #[test]
    fn a_period_of_which_the_queue_reports_nothing_ends_with_the_last_thread_that_is_out() {
        let mut periods = OpenPeriods::default();
        out(&mut periods, 100 * MS, 8, 0);
        out(&mut periods, 110 * MS, 8, 10 * MS);
        assert_eq!(periods.comes_in(1), None);
        assert_eq!(periods.comes_in(1), Some(over(1, None)));
    }

    #[test]
    fn a_queue_that_was_not_throttled_all_along_is_in_another_period() {
        let mut periods = OpenPeriods::default();
        out(&mut periods, 100 * MS, 8, 0);
        let next = Out { id: 2, begins: true, over: Some(over(1, None)) };
        assert_eq!(out(&mut periods, 200 * MS, 8, 70 * MS), next);
    }

    #[test]
    fn where_several_cgroups_below_one_quota_are_out_the_end_is_not_known() {
        let mut periods = OpenPeriods::default();
        out(&mut periods, 100 * MS, 8, 0);
        out(&mut periods, 101 * MS, 9, 30 * MS);
        let reported = periods.learn(Nanos(190 * MS), Cpu(1), 8, Nanos(80 * MS));
        assert_eq!(reported, Some(over(1, None)));
    }

    #[test]
    fn two_quotas_and_two_cpus_are_apart_and_a_loss_ends_all() {
        let mut periods = OpenPeriods::default();
        out(&mut periods, 100 * MS, 8, 0);
        assert!(periods.goes_out(Nanos(100 * MS), Cpu(0), QUOTA, 8, Nanos(0)).begins);
        assert!(periods.goes_out(Nanos(100 * MS), Cpu(1), 6, 5, Nanos(0)).begins);
        let lost: Vec<u64> = periods.lose().iter().map(|over| over.id).collect();
        assert_eq!(lost, [1, 2, 3]);
        assert!(periods.is_empty());
    }
}
