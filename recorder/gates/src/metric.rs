//! The durations that are measured, and their names in gates, JSON and CSV.

use std::fmt;
use std::str::FromStr;

/// A duration that is measured for each thread; `docs/reference/figures.md` has the definitions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Metric {
    /// From the wakeup of a thread that was not able to run to its next switch in.
    Wakeup,
    /// From a switch out in a state that can run to the next switch in.
    Preemption,
    RunQueue,
    /// From a switch in to the next switch out.
    Slice,
    /// From a switch out in a waiting state other than `D` to the wakeup.
    Blocked,
    /// From a switch out in the state `D` to the wakeup.
    BlockedUninterruptible,
    /// The part of a slice in which the virtual CPU did not run.
    Steal,
    /// The part of a wait in which the cgroup's quota was used up.
    Throttled,
    /// The part of a slice that interrupt handlers took.
    Irq,
    /// From the scheduler's request for a switch to the switch.
    NeedResched,
}

impl Metric {
    /// The metrics that every recording has, in display order.
    pub const ALL: [Metric; 6] = [
        Metric::Wakeup,
        Metric::Preemption,
        Metric::RunQueue,
        Metric::Slice,
        Metric::Blocked,
        Metric::BlockedUninterruptible,
    ];

    /// The metrics that only a recording with the fact of the same name has, in display order.
    pub const FACTS: [Metric; 4] =
        [Metric::Steal, Metric::Throttled, Metric::Irq, Metric::NeedResched];

    /// All of them.
    pub fn every() -> impl Iterator<Item = Metric> + Clone {
        Metric::ALL.into_iter().chain(Metric::FACTS)
    }

    /// Its index in [`Metric::FACTS`], if it is one of them.
    pub const fn fact_index(self) -> Option<usize> {
        self.index().checked_sub(Metric::ALL.len())
    }

    /// The name in gates, JSON and CSV.
    pub const fn name(self) -> &'static str {
        match self {
            Metric::Wakeup => "wakeup",
            Metric::Preemption => "preempt",
            Metric::RunQueue => "runqueue",
            Metric::Slice => "slice",
            Metric::Blocked => "blocked",
            Metric::BlockedUninterruptible => "blocked_d",
            Metric::Steal => "steal",
            Metric::Throttled => "throttled",
            Metric::Irq => "irq",
            Metric::NeedResched => "need_resched",
        }
    }

    pub const fn title(self) -> &'static str {
        match self {
            Metric::Wakeup => "wakeup latency",
            Metric::Preemption => "preemption wait",
            Metric::RunQueue => "run-queue wait",
            Metric::Slice => "slice",
            Metric::Blocked => "blocked",
            Metric::BlockedUninterruptible => "blocked, uninterruptible",
            Metric::Steal => "steal",
            Metric::Throttled => "throttled",
            Metric::Irq => "interrupts in slices",
            Metric::NeedResched => "need_resched delay",
        }
    }

    /// Its index in [`Metric::ALL`]; the metrics of [`Metric::FACTS`] follow.
    pub const fn index(self) -> usize {
        self as usize
    }
}

impl fmt::Display for Metric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A name that is not the name of a metric.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "unknown metric; expected wakeup, preempt, runqueue, slice, blocked, blocked_d, steal, throttled, irq or need_resched"
)]
pub struct NoSuchMetric;

impl FromStr for Metric {
    type Err = NoSuchMetric;

    fn from_str(name: &str) -> Result<Metric, NoSuchMetric> {
        Metric::every().find(|metric| metric.name() == name).ok_or(NoSuchMetric)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_metric_is_found_by_the_name_it_prints_and_stands_where_its_index_says() {
        for (at, metric) in Metric::every().enumerate() {
            assert_eq!(metric.to_string().parse(), Ok(metric));
            assert_eq!(metric.index(), at);
        }
        for (at, metric) in Metric::FACTS.into_iter().enumerate() {
            assert_eq!(metric.fact_index(), Some(at));
        }
        assert_eq!(Metric::BlockedUninterruptible.fact_index(), None);
        assert_eq!("latency".parse::<Metric>(), Err(NoSuchMetric));
    }
}
