//! The quantities that a gate can test: the metrics of `docs/reference/figures.md`, the statistics of each, and their dimensions.

use std::fmt;

use crate::{Metric, SpanMetric};

/// A metric that is a single number for the whole recording, or for the threads that a condition selects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Total {
    /// Events that the kernel dropped.
    Lost,
    /// Context switches; with a condition, those that switch out a selected thread.
    Switches,
    /// Context switches divided by the length of the recording in seconds.
    SwitchesPerSecond,
    /// The number of times that a thread was switched in on a CPU other than the one it last ran on.
    Migrations,
    /// How often a thread changed run queues while it waited.
    Moved,
    /// From COMMAND's start to its end.
    Duration,
    /// The time that threads ran on CPUs.
    CpuTime,
    /// The time that threads were blocked, uninterruptibly or not.
    BlockedTime,
}

impl Total {
    /// All of them, in display order.
    pub const ALL: [Total; 8] = [
        Total::Lost,
        Total::Switches,
        Total::SwitchesPerSecond,
        Total::Migrations,
        Total::Moved,
        Total::Duration,
        Total::CpuTime,
        Total::BlockedTime,
    ];

    /// The name in an expression.
    pub fn name(self) -> &'static str {
        match self {
            Total::Lost => "lost",
            Total::Switches => "switches",
            Total::SwitchesPerSecond => "switches_per_s",
            Total::Migrations => "migrations",
            Total::Moved => "moved",
            Total::Duration => "duration",
            Total::CpuTime => "cpu_time",
            Total::BlockedTime => "blocked_time",
        }
    }

    /// Whether it can be restricted to some threads.
    pub fn takes_condition(self) -> bool {
        !matches!(self, Total::Lost | Total::Duration)
    }
}

/// A statistic of a metric's values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Stat {
    /// How many values there are.
    Count,
    Sum,
    Min,
    Mean,
    P50,
    /// The value that 90 % of the values do not exceed.
    P90,
    /// The value that 99 % of the values do not exceed.
    P99,
    /// The value that 99.9 % of the values do not exceed.
    P999,
    Max,
}

impl Stat {
    /// All of them, in display order.
    pub const ALL: [Stat; 9] = [
        Stat::Count,
        Stat::Sum,
        Stat::Min,
        Stat::Mean,
        Stat::P50,
        Stat::P90,
        Stat::P99,
        Stat::P999,
        Stat::Max,
    ];

    /// The name in an expression.
    pub fn name(self) -> &'static str {
        match self {
            Stat::Count => "count",
            Stat::Sum => "sum",
            Stat::Min => "min",
            Stat::Mean => "mean",
            Stat::P50 => "p50",
            Stat::P90 => "p90",
            Stat::P99 => "p99",
            Stat::P999 => "p99.9",
            Stat::Max => "max",
        }
    }

    /// How many values the statistic needs to be meaningful. A percentile needs enough values that some are likely to exceed it; with
    /// fewer, it would equal the maximum.
    pub fn samples_needed(self) -> u64 {
        match self {
            Stat::Count | Stat::Sum => 0,
            Stat::Min | Stat::Mean | Stat::P50 | Stat::Max => 1,
            Stat::P90 => 10,
            Stat::P99 => 100,
            Stat::P999 => 1000,
        }
    }
}

/// The dimension of a quantity, and so which units its limit takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dimension {
    /// A duration, in nanoseconds.
    Time,
    Count,
    /// Events per second.
    Rate,
}

impl Dimension {
    /// The unit in JSON.
    pub const fn unit(self) -> &'static str {
        match self {
            Dimension::Time => "ns",
            Dimension::Count => "count",
            Dimension::Rate => "1/s",
        }
    }
}

/// A single number that can be read from a recording.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Quantity {
    /// A statistic of a metric with many values.
    Statistic(Metric, Stat),
    Total(Total),
    /// A statistic of spans, or of a part of them.
    Span(SpanMetric, Stat),
}

impl Quantity {
    pub fn dimension(&self) -> Dimension {
        match self {
            Quantity::Statistic(_, Stat::Count)
            | Quantity::Span(_, Stat::Count)
            | Quantity::Total(Total::Lost | Total::Switches | Total::Migrations | Total::Moved) => {
                Dimension::Count
            }
            Quantity::Statistic(..)
            | Quantity::Span(..)
            | Quantity::Total(Total::Duration | Total::CpuTime | Total::BlockedTime) => {
                Dimension::Time
            }
            Quantity::Total(Total::SwitchesPerSecond) => Dimension::Rate,
        }
    }

    /// How many values it needs to be meaningful.
    pub fn samples_needed(&self) -> u64 {
        match self {
            Quantity::Statistic(_, stat) | Quantity::Span(_, stat) => stat.samples_needed(),
            Quantity::Total(_) => 0,
        }
    }
}

impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Quantity::Statistic(metric, stat) => write!(f, "{}.{}", metric.name(), stat.name()),
            Quantity::Total(total) => f.write_str(total.name()),
            Quantity::Span(span, stat) => write!(f, "{span}.{}", stat.name()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_metrics_have_one_name() {
        let mut names: Vec<&str> = Metric::every().map(Metric::name).collect();
        names.extend(Total::ALL.iter().map(|total| total.name()));
        let before = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), before);
    }

    #[test]
    fn the_count_of_a_time_is_a_count_and_its_sum_a_time() {
        let dimension = |stat| Quantity::Statistic(Metric::Wakeup, stat).dimension();
        assert_eq!(dimension(Stat::Count), Dimension::Count);
        for stat in Stat::ALL.into_iter().filter(|&stat| stat != Stat::Count) {
            assert_eq!(dimension(stat), Dimension::Time, "{stat:?}");
        }
    }

    #[test]
    fn a_percentile_needs_enough_values_for_one_beyond_it() {
        let needed = [Stat::P90, Stat::P99, Stat::P999].map(Stat::samples_needed);
        assert_eq!(needed, [10, 100, 1000]);
        assert_eq!(Stat::Max.samples_needed(), 1);
        assert_eq!(Stat::Count.samples_needed(), 0);
    }
}
