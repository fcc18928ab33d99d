//! What a verdict is based on.

use std::fmt;
use std::time::Duration;

use crate::{Distribution, Metric, SpanFigures};
use fxtrec_gates::Amount;
use fxtrec_gates::Condition;
use fxtrec_gates::{Quantity, Total};

/// What can be asked of a recording. A condition narrows the question to those it is true of.
pub trait Evidence {
    /// The values of a metric; `None` when the condition is true of no thread at all.
    fn values(&self, metric: Metric, condition: Option<&Condition>) -> Option<Distribution>;

    /// A metric that is one number; `None` when the condition is true of no thread at all.
    fn total(&self, total: Total, condition: Option<&Condition>) -> Option<f64>;

    /// The spans of a name; `None` when there are none, or the condition is true of no thread that has one.
    fn spans(&self, _name: &str, _: Option<&Condition>) -> Option<SpanFigures> {
        None
    }

    /// Whether nothing is missing from the recording, as far as anybody can tell.
    fn is_whole(&self) -> bool {
        true
    }

    /// Who contributed most to a quantity, worst first, at most so many.
    fn offenders(
        &self,
        quantity: &Quantity,
        condition: Option<&Condition>,
        at_most: usize,
    ) -> Vec<Offender>;

    /// Whether the recording has what a quantity is made of.
    fn knows(&self, _: &Quantity) -> bool {
        true
    }

    /// Whether it has what a condition asks for.
    fn can_tell(&self, _: &Condition) -> bool {
        true
    }

    /// Of values below this, in nanoseconds, nothing is known to a condition.
    fn least(&self, _: &Condition) -> f64 {
        0.0
    }

    /// How many events are missing from the recording.
    fn lost(&self) -> u64;

    /// Whether applications dropped records of their own: spans may be missing, and be shorter or longer than they seem.
    fn lacks_records(&self) -> bool {
        false
    }

    /// How well that is known.
    fn doubt(&self) -> Doubt {
        Doubt::default()
    }
}

/// How well it is known how many events are missing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Doubt {
    /// Whether they may be fewer.
    pub at_most: bool,
    /// Gaps of which nobody knows how many are missing there, and which are not in the sum.
    pub unknown_gaps: u64,
    /// How many in the sum are records that applications dropped of their own.
    pub records: u64,
}

/// A thread that has a large part in a failed gate, or a gap.
#[derive(Clone, Debug, PartialEq)]
pub struct Offender {
    /// Its own figure.
    pub amount: Amount,
    /// Who it is, and what more is known.
    pub what: String,
}

impl fmt::Display for Offender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}  {}", self.amount, self.what)
    }
}

/// A length of time, as it is printed.
pub(crate) fn time(length: Duration) -> Amount {
    Amount { number: length.as_nanos() as f64, dimension: fxtrec_gates::Dimension::Time }
}
