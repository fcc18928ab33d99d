//! Which facts a recording has in addition to switches; it lists them in the argument `causes` of `trace_info`.

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
    /// When the scheduler requested a switch.
    NeedResched,
    /// The waker of each wakeup, a thread or an interrupt.
    Waker,
    /// The system call in which a thread blocked.
    Syscall,
    /// How long quotas stopped each cgroup altogether, by the kernel's own counts.
    Quotas,
    /// The futex on which a thread blocked. Recorded only if requested.
    Futex,
    /// The kernel lock that a thread waited for; the same applies.
    KernelLock,
    /// The cause of the interrupt that woke a thread.
    InterruptKind,
    /// The sender of the packet that woke a thread.
    Packets,
    /// The disk request whose completion woke a thread.
    Requests,
}

impl Cause {
    /// All of them.
    pub const ALL: [Cause; 13] = [
        Cause::Steal,
        Cause::Irq,
        Cause::Throttled,
        Cause::Migrate,
        Cause::NeedResched,
        Cause::Waker,
        Cause::Syscall,
        Cause::Quotas,
        Cause::Futex,
        Cause::KernelLock,
        Cause::InterruptKind,
        Cause::Packets,
        Cause::Requests,
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
            Cause::Quotas => "quotas",
            Cause::Futex => "futex",
            Cause::KernelLock => "kernel_lock",
            Cause::InterruptKind => "interrupt_kind",
            Cause::Packets => "packets",
            Cause::Requests => "requests",
        }
    }

    /// The fact that a metric is based on; `None` for metrics that every recording has.
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
pub struct Causes(u16);

impl Causes {
    /// The facts in a comma-separated list of names. Names of other facts are left out.
    pub fn parse(list: &str) -> Causes {
        let named = |name: &str| Cause::ALL.into_iter().find(|cause| cause.name() == name.trim());
        let bits = list.split(',').filter_map(named).map(Causes::bit);
        Causes(bits.fold(0, |all, bit| all | bit))
    }

    fn bit(cause: Cause) -> u16 {
        1 << cause as u8
    }

    /// Whether the fact is one of these.
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

    /// The names of the facts that it has.
    pub fn names(self) -> impl Iterator<Item = &'static str> {
        Cause::ALL.into_iter().filter(move |&cause| self.has(cause)).map(Cause::name)
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
