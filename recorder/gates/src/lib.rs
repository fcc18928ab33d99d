//! The language of gates and triggers: which values, how they are compared with a limit, and whose they are.
//!
//! Nothing in this crate measures: the report evaluates gates when a recording is over, and the recorder looks at every
//! value as it comes when it has a trigger.
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
//! `~` matches a pattern with `*`, `?` and `[...]`. TEXT stands in double or single quotes. A condition says whose
//! values are looked at. The language has no precedence to remember beyond `and` before `or`, as everywhere.
//!
//! [`Trigger`]s, which look at each value as it comes, have the same comparisons and conditions.
//!
//! A line that is not of the language is refused with the place where it stops being so:
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
pub use trigger::{Trigger, What};

/// How a measured value is held against a limit.
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
    /// Whether `measured` and `limit` stand to each other so.
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

/// A number to ask a recording for, and whose: `wakeup.p99 if comm = "app"`.
#[derive(Clone, Debug, PartialEq)]
pub struct Measure {
    text: String,
    pub quantity: Quantity,
    /// Whose; `None` for everybody's.
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

/// Something that must not be true of a recording.
#[derive(Clone, Debug, PartialEq)]
pub struct Gate {
    text: String,
    /// The number that is looked at.
    pub quantity: Quantity,
    /// How it must not stand to the limit.
    pub comparison: Comparison,
    pub limit: Amount,
    /// Whose values are looked at; `None` for everybody's.
    pub condition: Option<Condition>,
}

impl FromStr for Gate {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Gate, ParseError> {
        parser::gate(text)
    }
}

/// The text it was made from.
impl fmt::Display for Gate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests;
