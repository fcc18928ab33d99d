//! Spans of an application, and the parts of the time that they take.

use std::fmt;

/// What of a span is looked at. All but the first are the parts that its length consists of, with what is not known;
/// `docs/reference/gates.md` has the definitions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SpanPart {
    Wall,
    /// What its thread had a CPU for, without what is known to have been taken of that.
    Cpu,
    /// What the host took of that.
    Steal,
    /// What interrupt handlers took of it.
    Irq,
    /// Its thread waited for a CPU.
    RunQueue,
    /// The part of that in which a thread that COMMAND did not start had the CPU.
    Strangers,
    /// A quota held its thread back.
    Throttled,
    /// Its thread waited for something else.
    Blocked,
}

impl SpanPart {
    /// All of them, in the order in which they are shown.
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

    /// The name in gates and JSON. That of the length is left out in gates.
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

    /// Its place in [`SpanPart::ALL`].
    pub const fn index(self) -> usize {
        self as usize
    }
}

/// A part of the spans of a name.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SpanMetric {
    /// The name of the spans, or their category and name with a colon between them.
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
