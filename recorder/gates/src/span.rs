//! Spans of an application, and the parts of their time.

use std::fmt;

/// The measured property of a span. All but the first are the parts that its length consists of, in addition to unknown time;
/// `docs/reference/gates.md` has the definitions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SpanPart {
    Wall,
    /// The time that its thread ran on a CPU, without steal and interrupts where these are known.
    Cpu,
    /// The part of its time on a CPU that the host took.
    Steal,
    /// The part of its time on a CPU that interrupt handlers took.
    Irq,
    /// The time that its thread waited for a CPU.
    RunQueue,
    /// The part of that wait in which a thread that COMMAND did not start had the CPU.
    Strangers,
    /// The time that a quota held its thread back.
    Throttled,
    /// The time that its thread waited for something else.
    Blocked,
}

impl SpanPart {
    /// All of them, in display order.
    pub const ALL: [SpanPart; 8] = [
        SpanPart::Wall,
        SpanPart::Cpu,
        SpanPart::Steal,
        SpanPart::Irq,
        SpanPart::RunQueue,
        SpanPart::Strangers,
        SpanPart::Throttled,
        SpanPart::Blocked,
    ];

    /// All but the length.
    pub const PARTS: &'static [SpanPart] = SpanPart::ALL.split_at(1).1;

    /// The name in gates and JSON. In gates, the name of the length is left out.
    pub const fn name(self) -> &'static str {
        match self {
            SpanPart::Wall => "wall",
            SpanPart::Cpu => "cpu",
            SpanPart::Steal => "steal",
            SpanPart::Irq => "irq",
            SpanPart::RunQueue => "runqueue",
            SpanPart::Strangers => "strangers",
            SpanPart::Throttled => "throttled",
            SpanPart::Blocked => "blocked",
        }
    }

    /// Its index in [`SpanPart::ALL`].
    pub const fn index(self) -> usize {
        self as usize
    }
}

/// A part of the spans that have a name.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SpanMetric {
    /// The name of the spans, or `category:name`.
    pub name: Box<str>,
    pub part: SpanPart,
}

impl fmt::Display for SpanMetric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "span({:?})", self.name)?;
        match self.part {
            SpanPart::Wall => Ok(()),
            part => write!(f, ".{}", part.name()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_stands_where_its_index_says_and_no_two_have_one_name() {
        for (at, part) in SpanPart::ALL.into_iter().enumerate() {
            assert_eq!(part.index(), at);
            assert!(SpanPart::ALL[..at].iter().all(|other| other.name() != part.name()));
        }
    }
}
