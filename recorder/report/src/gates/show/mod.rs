//! Verdicts for people, for a CI's summary page, and for programs that read JUnit's XML.

mod junit;
mod markdown;
mod text;

pub use junit::write_junit;
pub use markdown::markdown;
pub use text::Text;

use super::evaluate::{Finding, Verdict};
use fxtrec_gates::Amount;
use fxtrec_gates::{Dimension, Quantity};

/// The measured value and what it is from: `wakeup.p99 is 3.41 ms, of 12 345 values`.
fn finding(verdict: &Verdict<'_>) -> String {
    let quantity = verdict.gate.quantity;
    let values = values(verdict);
    match (verdict.finding, verdict.measured) {
        (Finding::Nobody, _) => "no thread of the recording matches the condition".to_owned(),
        (Finding::NotRecorded, _) => {
            format!("the recording does not tell {}: docs/trace.md says which do", metric(quantity))
        }
        (Finding::TooFew { needed }, _) => {
            format!("{quantity} needs {} values, but there are {}", number(needed), values)
        }
        (_, None) => format!("there are no values of {}", metric(quantity)),
        (_, Some(measured)) if verdict.samples.is_none() => {
            let at_most = if verdict.doubt.at_most { "at most " } else { "" };
            let unknown = match verdict.doubt.unknown_gaps {
                0 => String::new(),
                gaps => format!(", and an unknown number more in {} gaps", number(gaps)),
            };
            format!("{quantity} is {at_most}{measured}{unknown}")
        }
        (_, Some(measured)) => {
            let of = if verdict.samples == Some(1) { "value" } else { "values" };
            format!("{quantity} is {measured}, of {values} {of}")
        }
    }
}

fn values(verdict: &Verdict<'_>) -> String {
    number(verdict.samples.unwrap_or(0))
}

fn metric(quantity: Quantity) -> &'static str {
    match quantity {
        Quantity::Statistic(metric, _) => metric.name(),
        Quantity::Total(total) => total.name(),
    }
}

fn number(count: u64) -> String {
    Amount { number: count as f64, dimension: Dimension::Count }.to_string()
}

/// What is to be known about values that are not among those measured.
fn censored(verdict: &Verdict<'_>) -> Option<String> {
    let count = verdict.censored;
    (count > 0).then(|| match count {
        1 => "1 more is censored, and not counted".to_owned(),
        _ => format!("{} more are censored, and not counted", number(count)),
    })
}

/// One line about all of them.
fn headline(verdicts: &[Verdict<'_>]) -> String {
    let failed = verdicts.iter().filter(|verdict| verdict.failed).count();
    match (failed, verdicts.len()) {
        (0, 1) => "the gate passed".to_owned(),
        (0, all) => format!("all {all} gates passed"),
        (1, 1) => "the gate failed".to_owned(),
        (failed, all) => format!("{failed} of {all} gates failed"),
    }
}

#[cfg(test)]
mod tests;
