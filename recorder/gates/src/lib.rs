//! The language of gates and triggers: a measured quantity, a comparison with a limit, and a condition on threads and CPUs.
//!
//! This crate measures nothing: the report evaluates gates after a recording, and the recorder checks each value against its triggers while
//! it records.
//!
//! ```text
//! gate       = measure OP VALUE [ "if" condition ]
//! measure    = METRIC [ "." STAT ] | "span" "(" TEXT ")" [ "." PART ] "." STAT
//! OP         = ">" | ">=" | "<" | "<=" | "=" | "!="
//! VALUE      = NUMBER [ UNIT ]
//! condition  = all { "or" all }
//! all        = one { "and" one }
//! one        = "not" one | "(" condition ")" | test
//! test       = ( "comm" | "cgroup" ) ( "=" | "!=" | "~" | "!~" ) TEXT
//!            | ( "pid" | "tid" | "cpu" ) ( "=" | "!=" ) NUMBER
//!            | "stack" ( "~" | "!~" ) TEXT
//!            | "command"
//! ```
//!
//! `~` matches a pattern with `*`, `?` and `[...]`. TEXT is in double or single quotes. A condition selects the values to test. `and` binds
//! tighter than `or`.
//!
//! [`Trigger`]s, which check each value while recording, use the same comparisons and conditions.
//!
//! An invalid line is rejected; the error points at the offending token:
//!
//! ```text
//! wakeup has no statistic 'p98'
//!
//!   wakeup.p98 > 2ms
//!          ^^^
//!   expected one of count, sum, min, mean, p50, p90, p99, p99.9, max; did you mean p90?
//! ```

#![forbid(unsafe_code)]

mod amount;
mod condition;
mod lexer;
mod metric;
mod parser;
mod problem;
mod quantity;
mod span;
mod trigger;

use std::fmt;
use std::str::FromStr;

pub use amount::Amount;
pub use condition::{Condition, Subject};
pub use metric::{Metric, NoSuchMetric};
pub use problem::{ParseError, Problem};
pub use quantity::{Dimension, Quantity, Stat, Total};
pub use span::{SpanMetric, SpanPart};
pub use trigger::{Lasting, Trigger, What};

/// How a measured value is compared with a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Comparison {
    Above,
    AtLeast,
    Below,
    AtMost,
    Equal,
    NotEqual,
}

impl Comparison {
    /// Whether the comparison holds for `measured` and `limit`.
    pub fn holds(self, measured: f64, limit: f64) -> bool {
        match self {
            Comparison::Above => measured > limit,
            Comparison::AtLeast => measured >= limit,
            Comparison::Below => measured < limit,
            Comparison::AtMost => measured <= limit,
            Comparison::Equal => measured == limit,
            Comparison::NotEqual => measured != limit,
        }
    }

    pub fn sign(self) -> &'static str {
        match self {
            Comparison::Above => ">",
            Comparison::AtLeast => ">=",
            Comparison::Below => "<",
            Comparison::AtMost => "<=",
            Comparison::Equal => "=",
            Comparison::NotEqual => "!=",
        }
    }
}

/// A number to read from a recording, and for which threads: `wakeup.p99 if comm = "app"`.
#[derive(Clone, Debug, PartialEq)]
pub struct Measure {
    text: String,
    pub quantity: Quantity,
    /// The threads whose values count; `None` for all.
    pub condition: Option<Condition>,
}

impl FromStr for Measure {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Measure, ParseError> {
        parser::measure(text)
    }
}

/// The text it was made from.
impl fmt::Display for Measure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// A statement that must not be true of a recording.
#[derive(Clone, Debug, PartialEq)]
pub struct Gate {
    text: String,
    /// The number to compare with the limit.
    pub quantity: Quantity,
    /// The comparison that must not hold.
    pub comparison: Comparison,
    pub limit: Amount,
    /// The threads whose values count; `None` for all.
    pub condition: Option<Condition>,
}

impl FromStr for Gate {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Gate, ParseError> {
        parser::gate(text)
    }
}

/// The text from which it was parsed.
impl fmt::Display for Gate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests;
