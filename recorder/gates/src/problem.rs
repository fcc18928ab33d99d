//! The reason why a line is not a valid gate, in messages that explain how to correct it.

use std::fmt;
use std::ops::Range;

use super::{Dimension, Metric, SpanPart, Stat, Total};

/// An invalid line, with the position of the error. Its `Display` shows the line and marks under the offending token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseError {
    source: String,
    span: Range<usize>,
    pub problem: Problem,
}

/// The error in a line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Problem {
    /// A character that cannot begin a token.
    #[error("unexpected character {0:?}")]
    Character(char),
    /// A quoted text without its closing quote.
    #[error("unterminated string")]
    OpenText,
    /// A backslash before a character that needs no escape.
    #[error("unknown escape: a backslash escapes a quote or another backslash, not {0:?}")]
    Backslash(char),
    /// A token other than the expected one.
    #[error("expected {expected}, found {found}")]
    Expected { expected: &'static str, found: String },
    /// No metric has this name.
    #[error("unknown metric '{name}'")]
    Metric { name: String, nearest: Option<&'static str> },
    /// No statistic has this name.
    #[error("{metric} has no statistic '{name}'")]
    Stat { metric: &'static str, name: String, nearest: Option<&'static str> },
    /// Spans have no part of this name.
    #[error("a span has no part '{name}'")]
    SpanPart { name: String, nearest: Option<&'static str> },
    /// A condition on the CPU for spans, which may be on several CPUs.
    #[error("a span may be on several CPUs, so a condition on cpu cannot select it")]
    CpuOfSpan,
    /// A condition on the stack for a metric without stacks.
    #[error("only blocked and blocked_d have stacks")]
    NoStack,
    /// Conditions on the CPU and on the stack together. Each needs its own pass over the recording.
    #[error("a condition on stack cannot be combined with one on cpu")]
    CpuOfStack,
    /// A condition on the stack in a trigger: names of functions are not known while recording.
    #[error(
        "names of functions are known when the recording is over, so a trigger cannot test stack"
    )]
    StackOfTrigger,
    /// A condition on COMMAND's threads in a trigger.
    #[error("a trigger cannot test command: record only its threads with --scope app instead")]
    CommandOfTrigger,
    /// A metric with many values without a statistic.
    #[error("{0} needs a statistic")]
    NoStat(&'static str),
    /// A metric that is a single number, with a statistic.
    #[error("{0} is a single number and has no statistics")]
    NeedlessStat(&'static str),
    /// A statistic in a trigger.
    #[error("a trigger tests each {0} value, so it takes no statistic")]
    EachValue(&'static str),
    /// A trigger on a count over the whole recording.
    #[error("{0} is a count of the whole recording, so a trigger cannot test it")]
    NoMoment(&'static str),
    /// No trigger has this name.
    #[error("unknown trigger '{name}'")]
    NoTrigger { name: String, nearest: Option<&'static str> },
    /// A duration without a unit.
    #[error("{0} is a duration and needs a unit")]
    NoUnit(String),
    /// An unknown unit, or a unit of the wrong dimension.
    #[error("{quantity} is {} and does not take the unit '{unit}'", kind_name(*.dimension))]
    Unit { quantity: String, dimension: Dimension, unit: String },
    /// Digits that do not form a number.
    #[error("not a number")]
    Number,
    /// A whole number that is too large for an id.
    #[error("not a valid id: the number is too large")]
    Id,
    /// No condition tests this field.
    #[error("unknown condition '{name}'")]
    Field { name: String, nearest: Option<&'static str> },
    /// A comparison that the field does not have.
    #[error("{field} cannot be compared with {sign}")]
    Comparison { field: &'static str, sign: String },
    /// An invalid pattern.
    #[error("invalid pattern: {0}")]
    Pattern(&'static str),
    /// A condition on a quantity that belongs to no thread.
    #[error("{0} is a figure of the whole recording and takes no condition")]
    NoCondition(&'static str),
    /// Conditions that are nested too deeply.
    #[error("conditions are nested more than {0} levels deep")]
    Deep(usize),
}

fn kind_name(dimension: Dimension) -> &'static str {
    match dimension {
        Dimension::Time => "a duration",
        Dimension::Count => "a count",
        Dimension::Rate => "a number per second",
    }
}

/// The names of the events that a trigger can wait for.
fn triggers() -> String {
    let metrics: Vec<&str> = Metric::every().map(Metric::name).collect();
    format!(
        "expected {}, turn, span(NAME), probe(NAME), lost, probe NAME or alert NAME",
        metrics.join(", ")
    )
}

impl Problem {
    /// A suggestion, if the message itself does not contain one.
    fn help(&self) -> Option<String> {
        let near = |nearest: &Option<&str>| {
            nearest.map(|name| format!("; did you mean {name}?")).unwrap_or_default()
        };
        match self {
            Problem::Metric { nearest, .. } => {
                let metrics = Metric::every().map(Metric::name).collect::<Vec<_>>().join(", ");
                let totals = Total::ALL.map(Total::name).join(", ");
                Some(format!("expected one of {metrics}, {totals}, span(NAME){}", near(nearest)))
            }
            Problem::Stat { nearest, .. } => Some(format!(
                "expected one of {}{}",
                Stat::ALL.map(Stat::name).join(", "),
                near(nearest)
            )),
            Problem::SpanPart { nearest, .. } => {
                let parts = SpanPart::PARTS.iter().map(|part| part.name()).collect::<Vec<_>>();
                Some(format!("expected one of {}{}", parts.join(", "), near(nearest)))
            }
            Problem::CpuOfSpan => Some(
                "conditions on comm, cgroup, pid and tid apply to the thread of the span"
                    .to_owned(),
            ),
            Problem::NoStat("span") => Some("for example span(\"app:request\").p99".to_owned()),
            Problem::NoStat(metric) => Some(format!("for example {metric}.p99 or {metric}.max")),
            Problem::NeedlessStat(metric) => Some(format!("write {metric} alone")),
            Problem::EachValue(metric) => {
                Some(format!("write {metric} alone, as in {metric} > 5ms"))
            }
            Problem::NoMoment(_) => Some(triggers()),
            Problem::NoTrigger { nearest, .. } => Some(format!("{}{}", triggers(), near(nearest))),
            Problem::NoUnit(_) | Problem::Unit { dimension: Dimension::Time, .. } => {
                Some("units are ns, us, ms, s, min and h, as in 2ms".to_owned())
            }
            Problem::Unit { .. } => Some("write the number alone".to_owned()),
            Problem::Field { nearest, .. } => Some(format!(
                "expected comm, cgroup, pid, tid, cpu, stack or command{}",
                near(nearest)
            )),
            Problem::Comparison { field: field @ ("comm" | "cgroup"), .. } => {
                Some(format!("{field} takes = and !=, or ~ and !~ with a pattern"))
            }
            Problem::Comparison { field: "stack", .. } => {
                Some("stack takes ~ and !~ with a part of a function's name".to_owned())
            }
            Problem::NoStack => {
                Some("for example blocked.max > 5ms if stack ~ \"fsync\"".to_owned())
            }
            Problem::Comparison { .. } => Some("ids take = and !=".to_owned()),
            Problem::OpenText => Some("close it with the quote that opened it".to_owned()),
            _ => None,
        }
    }
}

impl ParseError {
    pub(super) fn new(source: &str, span: Range<usize>, problem: Problem) -> ParseError {
        ParseError { source: source.to_owned(), span, problem }
    }

    /// The position, in characters from the beginning of the line.
    pub fn columns(&self) -> Range<usize> {
        let columns = |bytes: usize| self.source[..bytes].chars().count();
        let start = columns(self.span.start);
        start..columns(self.span.end).max(start + 1)
    }
}

impl std::error::Error for ParseError {}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let columns = self.columns();
        // One line in which each character is one column wide.
        let line: String =
            self.source.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
        let mark = "^".repeat(columns.len());
        writeln!(f, "{}\n\n  {line}", self.problem)?;
        write!(f, "  {:indent$}{mark}", "", indent = columns.start)?;
        match self.problem.help() {
            Some(help) => write!(f, "\n  {help}"),
            None => Ok(()),
        }
    }
}
