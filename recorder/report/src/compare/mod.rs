//! Compares two groups of recordings: is the new group worse, or is the difference noise?
//!
//! [`ranks`] determines whether two sides differ at all; [`effect`] determines by how much, and how precisely this is known. A
//! [`Comparison`] has several numbers, and the risk of a false alarm in any of them is that of a single number. Numbers that cannot be
//! judged because too few runs have them are ignored: they neither fail the other numbers nor make them harder to judge.
//! `docs/reference/gates.md` has the formulas.

pub mod effect;
pub mod ranks;
pub mod show;
pub mod spans;

use std::time::Duration;

use crate::gates::evidence::Doubt;
use effect::{ALPHA, Effect};
use fxtrec_gates::Measure;

/// The default measures for recordings of a COMMAND: its totals, and then the latency of its threads.
pub const OF_COMMAND: [&str; 5] = [
    "duration",
    "cpu_time if command",
    "runqueue.sum if command",
    "blocked_time if command",
    "runqueue.p99 if command",
];

/// The default measures for recordings without COMMAND.
pub const OF_MACHINE: [&str; 5] =
    ["wakeup.p50", "wakeup.p99", "wakeup.max", "preempt.p99", "runqueue.p99"];

/// The value of a measure in a run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Number {
    Is(f64),
    /// The statistic needs more values than there are.
    TooFew {
        values: u64,
        needed: u64,
    },
    /// The recording does not have the metric.
    NotRecorded,
}

/// A run: its file, and its values.
#[derive(Clone, Debug, PartialEq)]
pub struct Run {
    pub name: String,
    /// In the order of the measures.
    pub numbers: Vec<Number>,
    /// The known number of missing events.
    pub lost: u64,
    /// How reliable `lost` is.
    pub doubt: Doubt,
    /// The CPU time of fxtrec's own threads, if they are left out.
    pub recorder: Option<Duration>,
}

/// How two sides compare.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finding {
    /// The new side is larger, and not by chance.
    Larger,
    /// The new side is smaller, and not by chance.
    Smaller,
    /// No difference was found.
    Same,
    /// Unknown: so few runs have a number that not even the largest difference could have been found.
    Unknown,
}

/// The numbers of one measure on both sides.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    pub measure: Measure,
    /// The numbers of the base runs that have the metric.
    pub base: Vec<f64>,
    /// The numbers of the new runs that have the metric.
    pub new: Vec<f64>,
    /// The smallest number of values among the runs with too few, and the number that is needed.
    pub fewest: Option<(u64, u64)>,
    /// The number of runs whose recording does not have the metric.
    pub not_recorded: usize,
    /// How the sides differ; `None` if one side has no number. Its bound holds together with those of all other rows.
    pub effect: Option<Effect>,
    /// The p value, corrected for the number of rows.
    pub p: f64,
    pub finding: Finding,
}

/// A comparison of two groups of runs.
#[derive(Clone, Debug, PartialEq)]
pub struct Comparison {
    /// The runs to compare with.
    pub base: Vec<Run>,
    pub new: Vec<Run>,
    /// A row for each measure.
    pub rows: Vec<Row>,
}

impl Comparison {
    /// Compares runs that have numbers for `measures`.
    pub fn new(measures: &[Measure], base: Vec<Run>, new: Vec<Run>) -> Comparison {
        let mut rows: Vec<Row> = measures
            .iter()
            .enumerate()
            .map(|(at, measure)| {
                let fewest = fewest(base.iter().chain(&new), at);
                let lacks = |run: &&Run| run.numbers.get(at) == Some(&Number::NotRecorded);
                let not_recorded = base.iter().chain(&new).filter(lacks).count();
                let (base, new) = (numbers(&base, at), numbers(&new, at));
                let (effect, p, finding) = (None, 1.0, Finding::Unknown);
                let measure = measure.clone();
                Row { measure, base, new, fewest, not_recorded, effect, p, finding }
            })
            .collect();
        let (judged, least) = judged(&rows);
        for row in &mut rows {
            let is_judged = row.least_p() <= least;
            // Each row gets only a part of the risk, so that a false alarm in any row is as unlikely as for a single row.
            let alpha = if is_judged { ALPHA / judged as f64 } else { 0.0 };
            row.effect = Effect::of(&row.base, &row.new, alpha);
            if let (true, Some(effect)) = (is_judged, row.effect) {
                row.p = (effect.p * judged as f64).min(1.0);
                row.finding = find(&effect, row.p);
            }
        }
        Comparison { base, new, rows }
    }

    /// The rows that are larger by more than `share` (0.1 for 10 %), and not by chance.
    pub fn worse_than(&self, share: f64) -> Vec<&Row> {
        let worse = |row: &&Row| {
            let ratio = row.effect.map_or(1.0, |effect| effect.ratio);
            row.finding == Finding::Larger && ratio - 1.0 > share
        };
        self.rows.iter().filter(worse).collect()
    }

    /// The rows that are larger by more than `share` in these runs, but perhaps by chance.
    pub fn maybe_worse_than(&self, share: f64) -> Vec<&Row> {
        let maybe = |row: &&Row| {
            let ratio = row.effect.map_or(1.0, |effect| effect.ratio);
            row.finding == Finding::Same && ratio - 1.0 > share
        };
        self.rows.iter().filter(maybe).collect()
    }

    /// The rows that could not be judged because too few runs have a number: not even the largest difference could have been found.
    pub fn not_judged(&self) -> Vec<&Row> {
        self.rows.iter().filter(|row| row.finding == Finding::Unknown).collect()
    }
}

impl Row {
    /// The smallest possible p value with its runs.
    fn least_p(&self) -> f64 {
        ranks::least_p(self.base.len(), self.new.len())
    }
}

/// The numbers of the runs that have the metric.
fn numbers(runs: &[Run], at: usize) -> Vec<f64> {
    let number = |run: &Run| match run.numbers.get(at) {
        Some(Number::Is(number)) => Some(*number),
        _ => None,
    };
    runs.iter().filter_map(number).collect()
}

fn fewest<'r>(runs: impl Iterator<Item = &'r Run>, at: usize) -> Option<(u64, u64)> {
    let too_few = |run: &Run| match run.numbers.get(at) {
        Some(Number::TooFew { values, needed }) => Some((*values, *needed)),
        _ => None,
    };
    runs.filter_map(too_few).min()
}

/// The number of rows that can be judged together, and the largest [`Row::least_p`] among them.
///
/// The more rows, the stricter the test of each. So rows that need the fewest runs are judged first, and others follow as long as a
/// difference can still be found among that many rows. The choice does not depend on the numbers themselves.
fn judged(rows: &[Row]) -> (usize, f64) {
    let mut least: Vec<f64> = rows.iter().map(Row::least_p).collect();
    least.sort_by(f64::total_cmp);
    let together = |least_p: f64| least.partition_point(|&other| other <= least_p);
    let fits = |&least_p: &f64| least_p * together(least_p) as f64 <= ALPHA;
    least.iter().copied().rev().find(fits).map_or((0, 0.0), |least_p| (together(least_p), least_p))
}

/// The finding for one row: a difference only if the printed bound excludes "no change".
fn find(effect: &Effect, p: f64) -> Finding {
    match effect.bound {
        // If runs have equal numbers, the bound is not exact, but the p value is.
        _ if p > ALPHA => Finding::Same,
        Some((low, _)) if low > 1.0 => Finding::Larger,
        Some((_, high)) if high < 1.0 => Finding::Smaller,
        _ => Finding::Same,
    }
}

/// How many runs each side needs so that a difference can be found among `rows` rows.
pub fn runs_needed(rows: usize) -> usize {
    let rows = rows.max(1) as f64;
    (1..ranks::MAX_RUNS).find(|&runs| ranks::least_p(runs, runs) * rows <= ALPHA).unwrap_or(1)
}

#[cfg(test)]
mod tests;
