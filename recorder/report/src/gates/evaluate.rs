//! Evaluates gates against a recording.

use super::evidence::{Doubt, Evidence, Offender};
use crate::{Distribution, SpanFigures};
use fxtrec_gates::{Amount, Comparison, Dimension, Gate, Quantity, SpanPart, Stat, Total};

/// The number of worst offenders that are named.
const OFFENDERS: usize = 3;

/// The result of a gate with too few values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnTooFew {
    /// It fails: a value that was not measured may be bad.
    #[default]
    Fail,
    Pass,
}

/// The result of a gate that failed only because the spans include time that others took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnDisturbed {
    /// It fails.
    #[default]
    Fail,
    Pass,
    /// It neither fails nor passes; the exit status shows that, unless another gate failed.
    Exit4,
}

/// The results of gates that do not simply pass or fail.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Policy {
    pub on_too_few: OnTooFew,
    pub on_disturbed: OnDisturbed,
}

/// Whether others caused the failure of a gate on the length of spans.
#[derive(Clone, Debug, PartialEq)]
pub enum Blame {
    /// Without the time that others took, it would have passed.
    Others(Taken),
    /// Without the time that others took, it would have failed too.
    Both(Taken),
    /// Unknown, because events are missing.
    Lost,
    /// The gate on the CPU time of the same spans failed.
    OwnCpu,
}

/// The time that others took from spans.
#[derive(Clone, Debug, PartialEq)]
pub struct Taken {
    /// The gate's value without that time.
    pub undisturbed: Amount,
    /// The time that was taken from all of the spans: each part, and its sum.
    pub parts: Vec<(SpanPart, Amount)>,
    /// The number of spans for which that time is unknown; nothing is subtracted for them.
    pub uncertain: u64,
}

/// The finding for a gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finding {
    /// The gate is violated.
    Kept,
    Broken,
    /// There are too few values.
    TooFew {
        /// The number that the statistic needs.
        needed: u64,
    },
    /// No thread of the recording meets the condition.
    NoThread,
    /// The recording does not have the data that the gate needs.
    NotRecorded,
    /// The gate passes, but applications dropped records that could have made it fail.
    RecordsLost,
    /// The gate passes, but waits in functions without names, or without their stacks, could have made it fail.
    NamesMissing,
}

impl Finding {
    /// Whether there was no value to compare with the limit.
    pub fn is_open(self) -> bool {
        matches!(self, Finding::TooFew { .. } | Finding::NoThread | Finding::NotRecorded)
    }
}

/// The result of a gate for a recording.
#[derive(Clone, Debug, PartialEq)]
pub struct Verdict<'g> {
    pub gate: &'g Gate,
    pub finding: Finding,
    /// Whether it counts as failed.
    pub failed: bool,
    /// Whether it counts as neither failed nor passed.
    pub undecided: bool,
    /// The cause, if a gate on the length of spans is violated.
    pub blame: Option<Blame>,
    /// The value, if there is one.
    pub measured: Option<Amount>,
    /// The number of values that the result is based on; `None` for a single number.
    pub samples: Option<u64>,
    /// The number of further values whose beginning or end was not recorded.
    pub censored: u64,
    /// How reliable the value is, if it is the number of lost events.
    pub doubt: Doubt,
    /// The worst offenders, if it is violated.
    pub offenders: Vec<Offender>,
}

impl Verdict<'_> {
    /// Whether the gate is violated only because of others.
    pub fn is_disturbed(&self) -> bool {
        matches!(self.blame, Some(Blame::Others(_)))
    }
}

/// Evaluates gates against a recording.
pub fn judge_all<'g>(
    gates: &'g [Gate],
    evidence: &impl Evidence,
    policy: Policy,
) -> Vec<Verdict<'g>> {
    let mut verdicts: Vec<Verdict<'g>> =
        gates.iter().map(|gate| judge(gate, evidence, policy)).collect();
    // Other threads are not the cause if the code itself needed more CPU time.
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

/// The measured values, before the evaluation.
struct Measured {
    /// The time that others took, for lengths of spans.
    taken: Option<Taken>,
    number: Option<f64>,
    samples: Option<u64>,
    censored: u64,
    doubt: Doubt,
}

/// The parts of a span that others take.
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
            evidence.values(*metric, condition).map(|values| of_values(&values, *stat))
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

fn of_values(values: &Distribution, stat: Stat) -> Measured {
    Measured {
        number: values.statistic(stat),
        samples: Some(values.count()),
        censored: values.censored(),
        doubt: Doubt::default(),
        taken: None,
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

/// The cause of a violated gate.
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

/// Evaluates a gate against a recording.
pub fn judge<'g>(gate: &'g Gate, evidence: &impl Evidence, policy: Policy) -> Verdict<'g> {
    let condition = gate.condition.as_ref();
    let knows = evidence.knows(&gate.quantity)
        && condition.is_none_or(|condition| evidence.can_tell(condition));
    let measured = if knows { measure(gate, evidence) } else { None };
    let nothing = if knows { Finding::NoThread } else { Finding::NotRecorded };
    let finding = match measured.as_ref().map_or(nothing, |measured| find(gate, measured)) {
        // Unknown values may be beyond the limit.
        Finding::Kept
            if matches!(gate.quantity, Quantity::Statistic(_, Stat::Max))
                && condition.is_some_and(|it| evidence.least(it) > gate.limit.number) =>
        {
            Finding::NotRecorded
        }
        finding => finding,
    };
    let passes = finding == Finding::Kept
        || matches!(finding, Finding::TooFew { .. } | Finding::NoThread)
            && policy.on_too_few == OnTooFew::Pass;
    let is_about_spans = matches!(gate.quantity, Quantity::Span(..));
    let may_be_broken = || match (&gate.quantity, condition) {
        (Quantity::Statistic(metric, stat), Some(condition)) => {
            let possible = evidence.possible(*metric, condition);
            possible.is_some_and(|values| find(gate, &of_values(&values, *stat)) == Finding::Broken)
        }
        _ => false,
    };
    let finding = match passes {
        true if is_about_spans && evidence.lacks_records() => Finding::RecordsLost,
        true if may_be_broken() => Finding::NamesMissing,
        _ => finding,
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
            Finding::Kept | Finding::RecordsLost | Finding::NamesMissing => false,
            Finding::Broken if disturbed => policy.on_disturbed == OnDisturbed::Fail,
            Finding::Broken => true,
            _ => policy.on_too_few == OnTooFew::Fail,
        },
        undecided: matches!(finding, Finding::RecordsLost | Finding::NamesMissing)
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
        // A violation cannot be excluded.
        Some(_) if measured.doubt.unknown_gaps > 0 && is_about_more(gate) => Finding::Broken,
        Some(number) if enough => match gate.comparison.holds(number, gate.limit.number) {
            true => Finding::Broken,
            false => Finding::Kept,
        },
        None if is_about_any(gate) => Finding::Kept,
        _ => Finding::TooFew { needed },
    }
}

/// Whether a gate forbids any single value beyond the limit, which also holds without values: `blocked_d.max > 1s` should not fail because
/// no thread was ever blocked uninterruptibly.
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
