//! The data that verdicts are based on.

use std::fmt;
use std::time::Duration;

use crate::{Distribution, Metric, SpanFigures};
use fxtrec_gates::Amount;
use fxtrec_gates::Condition;
use fxtrec_gates::{Quantity, Total};

/// Answers queries about a recording. A condition restricts a query to the threads that meet it.
pub trait Evidence {
    /// The values of a metric; `None` if no thread meets the condition.
    fn values(&self, metric: Metric, condition: Option<&Condition>) -> Option<Distribution>;

    /// For a condition on stacks: the values, including those of waits that might meet it in functions without names.
    fn possible(&self, _: Metric, _: &Condition) -> Option<Distribution> {
        None
    }

    /// A metric that is a single number; `None` if no thread meets the condition.
    fn total(&self, total: Total, condition: Option<&Condition>) -> Option<f64>;

    /// The spans with a name; `None` if no such span exists, or none of a thread that meets the condition.
    fn spans(&self, _name: &str, _: Option<&Condition>) -> Option<SpanFigures> {
        None
    }

    /// Whether the recording reports no losses.
    fn is_whole(&self) -> bool {
        true
    }

    /// The threads that contributed most to a quantity, the worst first; `at_most` of them.
    fn offenders(
        &self,
        quantity: &Quantity,
        condition: Option<&Condition>,
        at_most: usize,
    ) -> Vec<Offender>;

    /// Whether the recording has the data for a quantity.
    fn knows(&self, _: &Quantity) -> bool {
        true
    }

    /// Whether the recording has the data for a condition.
    fn can_tell(&self, _: &Condition) -> bool {
        true
    }

    /// For values below this, in nanoseconds, the condition cannot be checked.
    fn least(&self, _: &Condition) -> f64 {
        0.0
    }

    /// The number of events that are missing from the recording.
    fn lost(&self) -> u64;

    /// Whether applications dropped some of their records: spans may be missing, or be shorter or longer than they seem.
    fn lacks_records(&self) -> bool {
        false
    }

    /// How reliable that number is.
    fn doubt(&self) -> Doubt {
        Doubt::default()
    }
}

/// How reliable the number of missing events is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Doubt {
    /// Whether the true number may be smaller.
    pub at_most: bool,
    /// The number of gaps with an unknown number of events; they are not included.
    pub unknown_gaps: u64,
    /// How many of the missing events are records that applications dropped themselves.
    pub records: u64,
}

/// A thread or a gap with a large part in a failed gate.
#[derive(Clone, Debug, PartialEq)]
pub struct Offender {
    /// Its own figure.
    pub amount: Amount,
    /// A description of the value.
    pub what: String,
}

impl fmt::Display for Offender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}  {}", self.amount, self.what)
    }
}

/// A duration, for output.
pub(crate) fn time(length: Duration) -> Amount {
    Amount { number: length.as_nanos() as f64, dimension: fxtrec_gates::Dimension::Time }
}
