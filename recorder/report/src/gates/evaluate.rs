//! From a gate and a recording to a verdict.

use super::evidence::{Doubt, Evidence, Offender};
use fxtrec_gates::{Amount, Comparison, Gate, Quantity, Stat, Total};

/// So many of the worst are named.
const OFFENDERS: usize = 3;

/// What becomes of a gate that there are too few values for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnTooFew {
    /// It fails: what was not measured is not known to be well.
    #[default]
    Fail,
    Pass,
}

/// How a gate came out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finding {
    /// What must not be is not so.
    Kept,
    Broken,
    /// There are too few values to tell.
    TooFew {
        /// How many the statistic needs.
        needed: u64,
    },
    /// The condition is true of no thread of the recording.
    Nobody,
    /// The recording does not tell.
    NotRecorded,
}

impl Finding {
    /// Whether nothing was found that could be held against the limit.
    pub fn is_open(self) -> bool {
        matches!(self, Finding::TooFew { .. } | Finding::Nobody | Finding::NotRecorded)
    }
}

/// What a recording says to a gate.
#[derive(Clone, Debug, PartialEq)]
pub struct Verdict<'g> {
    pub gate: &'g Gate,
    pub finding: Finding,
    /// Whether it counts as failed.
    pub failed: bool,
    /// The value; `None` when there is none.
    pub measured: Option<Amount>,
    /// How many values that is from; `None` for what is one number.
    pub samples: Option<u64>,
    /// How many more values there would be, had their beginning and their end been seen.
    pub censored: u64,
    /// How well the value is known, when it is what was lost.
    pub doubt: Doubt,
    /// The worst, when it is broken.
    pub offenders: Vec<Offender>,
}

/// What was found, before it is judged.
struct Measured {
    number: Option<f64>,
    samples: Option<u64>,
    censored: u64,
    doubt: Doubt,
}

/// Holds a recording against a gate.
pub fn judge<'g>(gate: &'g Gate, evidence: &impl Evidence, on_too_few: OnTooFew) -> Verdict<'g> {
    let condition = gate.condition.as_ref();
    let knows = evidence.knows(gate.quantity);
    let measured = match gate.quantity {
        _ if !knows => None,
        Quantity::Total(total) => evidence.total(total, condition).map(|number| Measured {
            number: Some(number),
            samples: None,
            censored: 0,
            doubt: if total == Total::Lost { evidence.doubt() } else { Doubt::default() },
        }),
        Quantity::Statistic(metric, stat) => {
            evidence.values(metric, condition).map(|values| Measured {
                number: values.statistic(stat),
                samples: Some(values.count()),
                censored: values.censored(),
                doubt: Doubt::default(),
            })
        }
    };
    let nothing = if knows { Finding::Nobody } else { Finding::NotRecorded };
    let finding = measured.as_ref().map_or(nothing, |measured| find(gate, measured));
    let offenders = match (finding, gate.comparison) {
        (Finding::Broken, Comparison::Above | Comparison::AtLeast) => {
            evidence.offenders(gate.quantity, condition, OFFENDERS)
        }
        _ => Vec::new(),
    };
    let dimension = gate.quantity.dimension();
    let amount = |number| Amount { number, dimension };
    Verdict {
        gate,
        finding,
        failed: match finding {
            Finding::Kept => false,
            Finding::Broken => true,
            _ => on_too_few == OnTooFew::Fail,
        },
        measured: measured.as_ref().and_then(|measured| measured.number).map(amount),
        samples: measured.as_ref().and_then(|measured| measured.samples),
        censored: measured.as_ref().map_or(0, |measured| measured.censored),
        doubt: measured.map_or_else(Doubt::default, |measured| measured.doubt),
        offenders,
    }
}

fn find(gate: &Gate, measured: &Measured) -> Finding {
    let needed = gate.quantity.samples_needed();
    let enough = measured.samples.is_none_or(|samples| samples >= needed);
    match measured.number {
        // Nobody knows that it is not so.
        Some(_) if measured.doubt.unknown_gaps > 0 && is_about_more(gate) => Finding::Broken,
        Some(number) if enough => match gate.comparison.holds(number, gate.limit.number) {
            true => Finding::Broken,
            false => Finding::Kept,
        },
        None if is_about_any(gate) => Finding::Kept,
        _ => Finding::TooFew { needed },
    }
}

/// Whether a gate says that no single value must be beyond the limit, which is so when there is no value: nobody who
/// writes `blocked_d.max > 1s` wants it to fail since no thread was ever blocked so.
fn is_about_any(gate: &Gate) -> bool {
    let Quantity::Statistic(_, stat) = gate.quantity else { return false };
    let from_above = is_about_more(gate);
    let from_below = matches!(gate.comparison, Comparison::Below | Comparison::AtMost);
    stat == Stat::Max && from_above || stat == Stat::Min && from_below
}

fn is_about_more(gate: &Gate) -> bool {
    matches!(gate.comparison, Comparison::Above | Comparison::AtLeast)
}

#[cfg(test)]
mod tests;
