//! The rules that a trace can break.

use std::fmt;

use crate::error::Reason;

/// A rule of the specification, or a guarantee of fxtrec.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Rule {
    /// A trace begins with the magic number ("Magic number record").
    Magic,
    /// Records follow each other without gaps; the length of each record matches its header, and its content fits ("Records").
    Framing,
    /// Strings and threads are in their table before records refer to them.
    Reference,
    /// Reserved bits are zero ("Atoms").
    ReservedBits,
    /// Streams are padded with zeros ("Atoms").
    Padding,
    /// The size of a record or argument matches its content.
    Length,
    /// Types, subtypes and values are defined by the specification.
    Undefined,
    /// Index 0 of the string and thread tables is not set.
    TableIndex,
    /// Strings are at most 32 000 bytes long ("String references").
    StringLength,
    /// Providers are introduced before their sections, events and records.
    Provider,
    /// fxtrec: an initialization record precedes the first timestamp.
    TickLength,
    /// fxtrec: every thread in a scheduling record or a backtrace has been named.
    Named,
    /// fxtrec: a thread's kernel object record has its process.
    Process,
    /// fxtrec: scheduling records are in the order of their times.
    TimeOrder,
    /// fxtrec: events and messages of a thread are in time order; a complete event may be placed where it ends, and `waited_for` and
    /// `lost_records` anywhere.
    ThreadOrder,
    /// fxtrec: both sides of a switch have a weight, as `Int32`; if the trace leaves out usual weights, only the idle
    /// task's.
    Weight,
    /// fxtrec: a side with koid 0 has the idle weight, and no other side has this weight.
    IdleWeight,
    /// fxtrec: the outgoing thread of a switch is the incoming thread of the CPU's switch before.
    Chain,
    /// fxtrec: a mapping refers to a module that a module record of its process has introduced.
    Module,
}

impl Rule {
    /// A short name, for example `reserved_bits`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Magic => "magic",
            Self::Framing => "framing",
            Self::Reference => "reference",
            Self::ReservedBits => "reserved_bits",
            Self::Padding => "padding",
            Self::Length => "length",
            Self::Undefined => "undefined",
            Self::TableIndex => "table_index",
            Self::StringLength => "string_length",
            Self::Provider => "provider",
            Self::TickLength => "tick_length",
            Self::Named => "named",
            Self::Process => "process",
            Self::TimeOrder => "time_order",
            Self::ThreadOrder => "thread_order",
            Self::Weight => "weight",
            Self::IdleWeight => "idle_weight",
            Self::Chain => "chain",
            Self::Module => "module",
        }
    }

    /// The rule that a damaged record breaks.
    pub(super) fn of(reason: Reason) -> Self {
        match reason {
            Reason::UnknownString(_) | Reason::UnknownThread(_) => Self::Reference,
            Reason::NoMagic | Reason::WrongMagic(_) => Self::Magic,
            Reason::TimeOverflow(_) | Reason::ZeroTicks => Self::Undefined,
            _ => Self::Framing,
        }
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// One place where a rule is broken.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Finding {
    /// Where the record begins, in bytes of (decompressed) trace.
    pub offset: u64,
    /// The rule.
    pub rule: Rule,
    /// How it is broken.
    pub detail: String,
}

/// For example `byte 4096: chain: ...`.
impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "byte {}: {}: {}", self.offset, self.rule, self.detail)
    }
}
