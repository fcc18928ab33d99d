//! The recorded effects of the scheduler on threads, other than waits.
//!
//! The argument `causes` of `trace_info` lists the facts of a recording. A figure whose fact is missing is absent, since it is unknown, not
//! 0.

use std::sync::LazyLock;
use std::time::Duration;

use fxt_reader::Cpu;
use fxtrec_gates::Metric;

pub use fxtrec_blame::{Cause, Causes};

use super::calls::{Call, Calls};
use super::distribution::Distribution;
use super::tally::Tally;

/// The time that the host took from a CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostSteal {
    pub cpu: Cpu,
    /// How long the virtual CPU was able to run but did not, by the kernel's own count.
    pub stolen: Duration,
    /// The length of the period over which that was counted.
    pub during: Duration,
}

impl HostSteal {
    /// The fraction of the time that the host took, from 0 to 1.
    pub fn share(&self) -> f64 {
        let during = self.during.as_secs_f64();
        if during > 0.0 { self.stolen.as_secs_f64() / during } else { 0.0 }
    }
}

/// How long a quota stopped a cgroup, by the kernel's own counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Quota {
    /// Its path below the root of the hierarchy.
    pub cgroup: String,
    /// How long its queues were throttled, summed over CPUs.
    pub throttled: Duration,
    /// The number of ended periods in which the quota was used up.
    pub throttled_periods: u64,
    pub periods: u64,
    /// The length of the period over which that was counted.
    pub during: Duration,
}

/// The figures of a thread or a CPU that belong to facts; most threads and CPUs have none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    pub(super) metrics: [Distribution; 4],
    /// The number of interrupt handlers within its slices.
    pub irqs: u64,
    /// How often a thread changed queues while it waited.
    pub moved: u64,
    pub(super) calls: Calls,
}

/// A distribution without samples.
static NOTHING: LazyLock<Distribution> = LazyLock::new(Distribution::default);

impl Facts {
    /// The system calls in which it was blocked, by total time, the longest first.
    pub fn calls(&self) -> Vec<Call> {
        self.calls.sorted()
    }

    /// The samples of one of [`Metric::FACTS`].
    pub(super) fn metric(facts: Option<&Facts>, metric: Metric) -> &Distribution {
        let found = facts.zip(metric.fact_index()).and_then(|(facts, at)| facts.metrics.get(at));
        found.unwrap_or(&NOTHING)
    }

    pub(super) fn merge<'a>(parts: impl IntoIterator<Item = &'a Facts>) -> Option<Box<Facts>> {
        let parts: Vec<&Facts> = parts.into_iter().collect();
        (!parts.is_empty()).then(|| {
            let metrics = Metric::FACTS.map(|metric| {
                Distribution::merge(parts.iter().map(|part| Facts::metric(Some(part), metric)))
            });
            let irqs = parts.iter().map(|part| part.irqs).sum();
            let moved = parts.iter().map(|part| part.moved).sum();
            let mut calls = Calls::default();
            parts.iter().for_each(|part| calls.merge(&part.calls));
            Box::new(Facts { metrics, irqs, moved, calls })
        })
    }
}

/// [`Facts`] during the pass.
#[derive(Debug, Default)]
pub(super) struct FactTallies {
    tallies: [Tally; 4],
    pub(super) irqs: u64,
    pub(super) moved: u64,
    /// How long a quota held the thread back in the wait before its current slice.
    pub(super) held: u64,
    pub(super) calls: Calls,
}

impl FactTallies {
    /// The samples of one of [`Metric::FACTS`].
    pub(super) fn tally(&mut self, metric: Metric) -> &mut Tally {
        // The other metrics have separate tallies.
        &mut self.tallies[metric.fact_index().unwrap_or(0)]
    }

    pub(super) fn add(&mut self, facts: &Facts) {
        for (tally, distribution) in self.tallies.iter_mut().zip(&facts.metrics) {
            tally.add(distribution);
        }
        self.irqs += facts.irqs;
        self.moved += facts.moved;
        self.calls.merge(&facts.calls);
    }

    pub(super) fn freeze(self) -> Facts {
        let metrics = self.tallies.map(Tally::freeze);
        Facts { metrics, irqs: self.irqs, moved: self.moved, calls: self.calls }
    }
}
