//! Verdicts for people, for a CI's summary page, and as JUnit XML.

mod json;
mod junit;
mod markdown;
mod text;

pub use json::JsonVerdict;
pub use junit::write_junit;
pub use markdown::markdown;
pub use text::Text;

use super::evaluate::{Blame, Finding, Taken, Verdict};
use fxtrec_gates::Amount;
use fxtrec_gates::{Dimension, Quantity};
use fxtrec_units::text::{counted, noun};

/// The data that the recording does not contain.
fn no_thread(verdict: &Verdict<'_>) -> String {
    let Quantity::Span(span, _) = &verdict.gate.quantity else {
        return "no thread of the recording matches the condition".to_owned();
    };
    let of = verdict.gate.condition.as_ref().map(|_| " of a thread that matches the condition");
    format!("the recording has no span {:?}{}", span.name, of.unwrap_or_default())
}

/// The measured value and its number of samples: `wakeup.p99 is 3.41 ms, of 12 345 values`.
fn finding(verdict: &Verdict<'_>) -> String {
    let quantity = &verdict.gate.quantity;
    let values = values(verdict);
    match (verdict.finding, verdict.measured) {
        (Finding::NoThread, _) => no_thread(verdict),
        (Finding::NotRecorded, _) => {
            format!(
                "{} was not recorded: docs/reference/trace.md says what it needs",
                metric(quantity)
            )
        }
        (Finding::TooFew { needed }, _) => {
            let are = if verdict.samples == Some(1) { "is" } else { "are" };
            format!(
                "{quantity} needs {}, but there {are} {values}",
                counted(needed, "value", "values")
            )
        }
        (_, None) => format!("the recording contains no values of {}", metric(quantity)),
        (_, Some(measured)) if verdict.samples.is_none() => {
            let at_most = if verdict.doubt.at_most { "at most " } else { "" };
            let unknown = match verdict.doubt.unknown_gaps {
                0 => String::new(),
                gaps => format!(", and an unknown number more in {}", counted(gaps, "gap", "gaps")),
            };
            let records = match verdict.doubt.records {
                0 => String::new(),
                records => format!(" ({} of applications)", counted(records, "record", "records")),
            };
            format!("{quantity} is {at_most}{measured}{records}{unknown}")
        }
        (_, Some(measured)) => {
            let of = noun(verdict.samples.unwrap_or(0), "value", "values");
            format!("{quantity} is {measured}, of {values} {of}")
        }
    }
}

fn values(verdict: &Verdict<'_>) -> String {
    number(verdict.samples.unwrap_or(0))
}

fn metric(quantity: &Quantity) -> String {
    match quantity {
        Quantity::Statistic(metric, _) => metric.name().to_owned(),
        Quantity::Total(total) => total.name().to_owned(),
        Quantity::Span(span, _) => span.to_string(),
    }
}

/// Reports that records are missing that could violate the gate.
const RECORDS_LOST: &str =
    "applications dropped records, because their buffers were full: spans may be missing";

/// Reports that the names of functions are missing in which the gate could be violated.
const NAMES_MISSING: &str = "waits without their stacks, or in programs without function names, could violate it: fxtrec report --stacks shows them";

/// The reason why spans took too long, if known.
fn blame(verdict: &Verdict<'_>) -> Option<String> {
    let without = |taken: &Taken| {
        let parts = taken.parts.iter().map(|(part, sum)| format!("{} {sum}", part.name()));
        let parts = parts.collect::<Vec<_>>().join(", ");
        (format!("without the time that others took it is {}", taken.undisturbed), parts)
    };
    match verdict.finding {
        Finding::RecordsLost => return Some(RECORDS_LOST.to_owned()),
        Finding::NamesMissing => return Some(NAMES_MISSING.to_owned()),
        _ => {}
    }
    match verdict.blame.as_ref()? {
        Blame::Others(taken) => {
            let (without, parts) = without(taken);
            Some(format!("disturbed: {without} (taken from all spans: {parts})"))
        }
        Blame::Both(taken) => {
            let uncertain = match taken.uncertain {
                0 if taken.parts.is_empty() => return None,
                0 => String::new(),
                1 => "; unknown for 1 span".to_owned(),
                many => format!("; unknown for {} spans", number(many)),
            };
            Some(format!("{} still{uncertain}", without(taken).0))
        }
        Blame::Lost => Some("events were lost: whether it was disturbed is unknown".to_owned()),
        Blame::OwnCpu => Some("disturbed, but its own CPU time is over a limit too".to_owned()),
    }
}

fn number(count: u64) -> String {
    Amount { number: count as f64, dimension: Dimension::Count }.to_string()
}

/// A remark about values that are not among the measured ones.
fn censored(verdict: &Verdict<'_>) -> Option<String> {
    let count = verdict.censored;
    (count > 0).then(|| match count {
        1 => "1 more is censored, and not counted".to_owned(),
        _ => format!("{} more are censored, and not counted", number(count)),
    })
}

/// One line that summarises all verdicts.
fn headline(verdicts: &[Verdict<'_>]) -> String {
    let failed = verdicts.iter().filter(|verdict| verdict.failed).count();
    let disturbed = verdicts.iter().filter(|verdict| verdict.is_disturbed()).count();
    let line = match (failed, verdicts.len()) {
        (0, _) if verdicts.iter().any(|verdict| verdict.undecided) => "no gate failed".to_owned(),
        (0, 1) => "the gate passed".to_owned(),
        (0, all) => format!("all {all} gates passed"),
        (1, 1) => "the gate failed".to_owned(),
        (failed, all) => format!("{failed} of {all} gates failed"),
    };
    match (disturbed, verdicts.len()) {
        (0, _) => line,
        (1, 1) => format!("{line}, disturbed by others"),
        _ => format!("{line}, {disturbed} disturbed by others"),
    }
}

#[cfg(test)]
mod tests;
