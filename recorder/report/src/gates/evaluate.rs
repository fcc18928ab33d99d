//! From a gate and a recording to a verdict.

use super::evidence::{Doubt, Evidence, Offender};
use crate::SpanFigures;
use fxtrec_gates::{Amount, Comparison, Dimension, Gate, Quantity, SpanPart, Stat, Total};

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

/// What becomes of a gate that failed only since others took time from its spans.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnDisturbed {
    /// It fails.
    #[default]
    Fail,
    Pass,
    /// It neither fails nor passes: the exit status says so, unless another gate failed.
    Exit4,
}

/// What becomes of gates that do not simply pass or fail.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Policy {
    pub on_too_few: OnTooFew,
    pub on_disturbed: OnDisturbed,
}

/// Whether others are to blame that a gate on the length of spans failed.
#[derive(Clone, Debug, PartialEq)]
pub enum Blame {
    /// Without what others took, it would have passed.
    Others(Taken),
    /// Without what others took, it would have failed too.
    Both(Taken),
    /// Events are missing, so that it is not known.
    Lost,
    /// The gate on the CPU time of the same spans failed.
    OwnCpu,
}

/// What others took from spans.
#[derive(Clone, Debug, PartialEq)]
pub struct Taken {
    /// What the gate is about, without that.
    pub undisturbed: Amount,
    /// What was taken of all of the spans: a part, and its sum.
    pub parts: Vec<(SpanPart, Amount)>,
    /// Of so many spans it is not known, and nothing is taken off.
    pub uncertain: u64,
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
    /// Nothing was found, but applications dropped records that may have been otherwise.
    RecordsLost,
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
    /// Whether it counts as neither failed nor passed.
    pub undecided: bool,
    /// Who is to blame, if it is a gate on the length of spans that is broken.
    pub blame: Option<Blame>,
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

impl Verdict<'_> {
    /// Whether it is broken, and only others are to blame.
    pub fn is_disturbed(&self) -> bool {
        matches!(self.blame, Some(Blame::Others(_)))
    }
}

/// Holds a recording against gates.
pub fn judge_all<'g>(
    gates: &'g [Gate],
    evidence: &impl Evidence,
    policy: Policy,
) -> Vec<Verdict<'g>> {
    let mut verdicts: Vec<Verdict<'g>> =
        gates.iter().map(|gate| judge(gate, evidence, policy)).collect();
    // Nobody is to blame for what the code itself took more of.
    let cpu_of = |verdict: &Verdict<'g>| match &verdict.gate.quantity {
        Quantity::Span(span, _) if span.part == SpanPart::Cpu => Some(&*span.name),
        _ => None,
    };
    let grown: Vec<&str> = verdicts
        .iter()
        .filter(|verdict| verdict.finding == Finding::Broken)
        .filter_map(cpu_of)
        .collect();
    for verdict in &mut verdicts {
        let Quantity::Span(span, _) = &verdict.gate.quantity else { continue };
        if verdict.is_disturbed() && grown.contains(&&*span.name) {
            (verdict.blame, verdict.failed, verdict.undecided) = (Some(Blame::OwnCpu), true, false);
        }
    }
    verdicts
}

/// What was found, before it is judged.
struct Measured {
    /// What others took, of the lengths of spans.
    taken: Option<Taken>,
    number: Option<f64>,
    samples: Option<u64>,
    censored: u64,
    doubt: Doubt,
}

/// What others take from a span.
const OTHERS: [SpanPart; 3] = [SpanPart::Strangers, SpanPart::Steal, SpanPart::Throttled];

fn measure(gate: &Gate, evidence: &impl Evidence) -> Option<Measured> {
    let condition = gate.condition.as_ref();
    match &gate.quantity {
        Quantity::Total(total) => evidence.total(*total, condition).map(|number| Measured {
            number: Some(number),
            samples: None,
            censored: 0,
            doubt: if *total == Total::Lost { evidence.doubt() } else { Doubt::default() },
            taken: None,
        }),
        Quantity::Statistic(metric, stat) => {
            evidence.values(*metric, condition).map(|values| Measured {
                number: values.statistic(*stat),
                samples: Some(values.count()),
                censored: values.censored(),
                doubt: Doubt::default(),
                taken: None,
            })
        }
        Quantity::Span(span, stat) => evidence.spans(&span.name, condition).map(|figures| {
            let values = figures.part(span.part);
            let is_length = span.part == SpanPart::Wall && *stat != Stat::Count;
            let undisturbed = figures.undisturbed.statistic(*stat).filter(|_| is_length);
            Measured {
                number: values.statistic(*stat),
                samples: Some(values.count()),
                censored: values.censored(),
                doubt: Doubt::default(),
                taken: undisturbed.map(|undisturbed| taken(undisturbed, &figures)),
            }
        }),
    }
}

fn taken(undisturbed: f64, figures: &SpanFigures) -> Taken {
    let amount = |number| Amount { number, dimension: Dimension::Time };
    let parts = OTHERS.map(|part| (part, figures.part(part).sum().as_nanos() as f64));
    let parts = parts.into_iter().filter(|(_, sum)| *sum > 0.0);
    Taken {
        undisturbed: amount(undisturbed),
        parts: parts.map(|(part, sum)| (part, amount(sum))).collect(),
        uncertain: figures.part(SpanPart::Cpu).censored(),
    }
}

/// Who is to blame that a gate is broken.
fn blame(gate: &Gate, measured: &Measured, evidence: &impl Evidence) -> Option<Blame> {
    let taken = measured.taken.clone().filter(|_| is_about_more(gate))?;
    if !evidence.is_whole() {
        return Some(Blame::Lost);
    }
    Some(match gate.comparison.holds(taken.undisturbed.number, gate.limit.number) {
        true => Blame::Both(taken),
        false => Blame::Others(taken),
    })
}

/// Holds a recording against a gate.
pub fn judge<'g>(gate: &'g Gate, evidence: &impl Evidence, policy: Policy) -> Verdict<'g> {
    let condition = gate.condition.as_ref();
    let knows = evidence.knows(&gate.quantity)
        && condition.is_none_or(|condition| evidence.can_tell(condition));
    let measured = if knows { measure(gate, evidence) } else { None };
    let nothing = if knows { Finding::Nobody } else { Finding::NotRecorded };
    let finding = match measured.as_ref().map_or(nothing, |measured| find(gate, measured)) {
        // Values that are not known may be beyond the limit.
        Finding::Kept
            if matches!(gate.quantity, Quantity::Statistic(_, Stat::Max))
                && condition.is_some_and(|it| evidence.least(it) > gate.limit.number) =>
        {
            Finding::NotRecorded
        }
        finding => finding,
    };
    let passes = finding == Finding::Kept
        || matches!(finding, Finding::TooFew { .. } | Finding::Nobody)
            && policy.on_too_few == OnTooFew::Pass;
    let is_about_spans = matches!(gate.quantity, Quantity::Span(..));
    let finding = match passes && is_about_spans && evidence.lacks_records() {
        true => Finding::RecordsLost,
        false => finding,
    };
    let offenders = match (finding, gate.comparison) {
        (Finding::Broken, Comparison::Above | Comparison::AtLeast) => {
            evidence.offenders(&gate.quantity, condition, OFFENDERS)
        }
        _ => Vec::new(),
    };
    let blame = match finding {
        Finding::Broken => measured.as_ref().and_then(|it| blame(gate, it, evidence)),
        _ => None,
    };
    let disturbed = matches!(blame, Some(Blame::Others(_)));
    let dimension = gate.quantity.dimension();
    let amount = |number| Amount { number, dimension };
    Verdict {
        gate,
        finding,
        failed: match finding {
            Finding::Kept | Finding::RecordsLost => false,
            Finding::Broken if disturbed => policy.on_disturbed == OnDisturbed::Fail,
            Finding::Broken => true,
            _ => policy.on_too_few == OnTooFew::Fail,
        },
        undecided: finding == Finding::RecordsLost
            || disturbed && policy.on_disturbed == OnDisturbed::Exit4,
        blame,
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
    let stat = match &gate.quantity {
        Quantity::Statistic(_, stat) | Quantity::Span(_, stat) => *stat,
        Quantity::Total(_) => return false,
    };
    let from_above = is_about_more(gate);
    let from_below = matches!(gate.comparison, Comparison::Below | Comparison::AtMost);
    stat == Stat::Max && from_above || stat == Stat::Min && from_below
}

fn is_about_more(gate: &Gate) -> bool {
    matches!(gate.comparison, Comparison::Above | Comparison::AtLeast)
}

#[cfg(test)]
mod tests;
