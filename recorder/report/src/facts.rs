//! What the scheduler did to threads besides letting them wait, as far as a recording tells.
//!
//! Which facts a recording has, it says in the argument `causes` of `trace_info`. A figure whose fact it does not have is
//! absent: nobody knows that it is 0.

use std::sync::LazyLock;
use std::time::Duration;

use fxt_reader::Cpu;

use super::calls::{Call, Calls};
use super::distribution::Distribution;
use super::tally::Tally;
use fxtrec_gates::Metric;

/// A fact that a recording may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// Time in which the virtual CPU did not run.
    Steal,
    /// Time in interrupt handlers.
    Irq,
    /// When cgroups had used up their quota.
    Throttled,
    /// When threads changed queues.
    Migrate,
    /// When the scheduler asked for a switch.
    NeedResched,
    /// Who woke whom, or that an interrupt did.
    Waker,
    /// In which system call a thread blocked.
    Syscall,
}

impl Cause {
    /// All of them.
    pub const ALL: [Cause; 7] = [
        Cause::Steal,
        Cause::Irq,
        Cause::Throttled,
        Cause::Migrate,
        Cause::NeedResched,
        Cause::Waker,
        Cause::Syscall,
    ];

    /// The name in `trace_info`.
    pub const fn name(self) -> &'static str {
        match self {
            Cause::Steal => "steal",
            Cause::Irq => "irq",
            Cause::Throttled => "throttled",
            Cause::Migrate => "migrate",
            Cause::NeedResched => "need_resched",
            Cause::Waker => "waker",
            Cause::Syscall => "syscall",
        }
    }

    /// The fact that a metric is made of; `None` for those that every recording has.
    pub const fn of(metric: Metric) -> Option<Cause> {
        match metric {
            Metric::Steal => Some(Cause::Steal),
            Metric::Throttled => Some(Cause::Throttled),
            Metric::Irq => Some(Cause::Irq),
            Metric::NeedResched => Some(Cause::NeedResched),
            _ => None,
        }
    }
}

/// The facts that a recording has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Causes(u8);

impl Causes {
    /// Those in a list of names with commas between them. Names of others are left out.
    pub fn parse(list: &str) -> Causes {
        let named = |name: &str| Cause::ALL.into_iter().find(|cause| cause.name() == name.trim());
        let bits = list.split(',').filter_map(named).map(Causes::bit);
        Causes(bits.fold(0, |all, bit| all | bit))
    }

    fn bit(cause: Cause) -> u8 {
        1 << cause as u8
    }

    /// Whether this is one of them.
    pub fn has(self, cause: Cause) -> bool {
        self.0 & Causes::bit(cause) != 0
    }

    /// Whether there are figures of this metric.
    pub fn knows(self, metric: Metric) -> bool {
        Cause::of(metric).is_none_or(|cause| self.has(cause))
    }

    /// The facts that both have.
    #[must_use]
    pub fn and(self, other: Causes) -> Causes {
        Causes(self.0 & other.0)
    }

    /// The names of those that it has.
    pub fn names(self) -> impl Iterator<Item = &'static str> {
        Cause::ALL.into_iter().filter(move |&cause| self.has(cause)).map(Cause::name)
    }
}

/// What the host took of a CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostSteal {
    pub cpu: Cpu,
    /// How long the virtual CPU did not run though it was able to, by the kernel's own count.
    pub stolen: Duration,
    /// In which time.
    pub during: Duration,
}

impl HostSteal {
    /// The part of the time that the host took, from 0 to 1.
    pub fn share(&self) -> f64 {
        let during = self.during.as_secs_f64();
        if during > 0.0 { self.stolen.as_secs_f64() / during } else { 0.0 }
    }
}

/// The figures of a thread or a CPU that come from facts; most have none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    pub(super) metrics: [Distribution; 4],
    /// Interrupt handlers within its slices.
    pub irqs: u64,
    /// How often a thread changed queues while it waited.
    pub moved: u64,
    pub(super) calls: Calls,
}

/// Without samples.
static NOTHING: LazyLock<Distribution> = LazyLock::new(Distribution::default);

impl Facts {
    /// The system calls that it was blocked in, those that took longest first.
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

/// The same while the trace goes on.
#[derive(Debug, Default)]
pub(super) struct FactTallies {
    tallies: [Tally; 4],
    pub(super) irqs: u64,
    pub(super) moved: u64,
    /// For how long a quota held the thread back in the wait before the slice that it is in.
    pub(super) held: u64,
    pub(super) calls: Calls,
}

impl FactTallies {
    /// The samples of one of [`Metric::FACTS`].
    pub(super) fn tally(&mut self, metric: Metric) -> &mut Tally {
        // The others have tallies of their own.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_of_causes_has_those_that_it_names() {
        let causes = Causes::parse("steal, waker,something new,irq");
        let names: Vec<&str> = causes.names().collect();
        assert_eq!(names, ["steal", "irq", "waker"]);
        assert!(causes.knows(Metric::Steal) && !causes.knows(Metric::Throttled));
        assert!(Causes::default().knows(Metric::Wakeup));
        assert_eq!(Causes::parse(""), Causes::default());
        let both = causes.and(Causes::parse("irq,throttled"));
        assert_eq!(both, Causes::parse("irq"));
    }

    #[test]
    fn every_metric_that_is_made_of_a_fact_says_which() {
        for metric in Metric::FACTS {
            assert_eq!(Cause::of(metric).map(Cause::name), Some(metric.name()));
        }
        for metric in Metric::ALL {
            assert_eq!(Cause::of(metric), None);
        }
    }
}
