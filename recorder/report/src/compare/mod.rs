//! Two groups of recordings side by side: is the new one worse, or is that noise?
//!
//! [`ranks`] says whether two sides can be told apart at all, [`effect`] by how much they differ and how well that is
//! known. A [`Comparison`] puts several numbers beside each other, and asks all of them together no more of chance than
//! it would ask one. Numbers that cannot be judged, since too few runs have them, are left out of that: they neither
//! fail the others nor make them harder to judge. `docs/reference/gates.md` has the formulas.

pub mod effect;
pub mod ranks;
pub mod show;
pub mod spans;

use std::time::Duration;

use crate::gates::evidence::Doubt;
use effect::{ALPHA, Effect};
use fxtrec_gates::Measure;

/// What is compared unless told otherwise, of recordings of a COMMAND: what it took, and then the latencies of its threads.
pub const OF_COMMAND: [&str; 5] = [
    "duration",
    "cpu_time if command",
    "runqueue.sum if command",
    "blocked_time if command",
    "runqueue.p99 if command",
];

/// The same of recordings without COMMAND.
pub const OF_MACHINE: [&str; 5] =
    ["wakeup.p50", "wakeup.p99", "wakeup.max", "preempt.p99", "runqueue.p99"];

/// What a run says to a measure.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Number {
    Is(f64),
    /// The statistic needs more values than there are.
    TooFew {
        values: u64,
        needed: u64,
    },
    /// The recording does not tell.
    NotRecorded,
}

/// One run: its file, and what it says to each measure.
#[derive(Clone, Debug, PartialEq)]
pub struct Run {
    pub name: String,
    /// In the order of the measures.
    pub numbers: Vec<Number>,
    /// How many events it lacks, as far as that is known.
    pub lost: u64,
    /// How well it is known.
    pub doubt: Doubt,
    /// The CPU time of fxtrec's own threads, where they are left out.
    pub recorder: Option<Duration>,
}

/// How two sides stand to each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finding {
    /// The new side is larger, and not by chance.
    Larger,
    /// The new side is smaller, and not by chance.
    Smaller,
    /// They cannot be told apart.
    Same,
    /// Nobody can say: so few runs have a number that no difference, however large, could have shown.
    Unknown,
}

/// One number of both sides.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    pub measure: Measure,
    /// The numbers of the base runs that have one.
    pub base: Vec<f64>,
    /// The numbers of the new runs that have one.
    pub new: Vec<f64>,
    /// The fewest values that a run has which has too few, and how many it needs.
    pub fewest: Option<(u64, u64)>,
    /// How many runs do not tell the number.
    pub not_recorded: usize,
    /// How they differ; `None` when one side has no number. Its bound holds together with those of all other rows.
    pub effect: Option<Effect>,
    /// The p value, with allowance for the other rows.
    pub p: f64,
    pub finding: Finding,
}

/// Two groups of runs side by side.
#[derive(Clone, Debug, PartialEq)]
pub struct Comparison {
    /// The runs to compare with.
    pub base: Vec<Run>,
    pub new: Vec<Run>,
    /// A row for each measure.
    pub rows: Vec<Row>,
}

impl Comparison {
    /// Compares runs, whose numbers are those of `measures`.
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
            // Each of so many rows may be wrong with so small a chance that all together are as seldom as one alone.
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

    /// The rows that could not be judged, since no difference, however large, could have shown: too few runs have a number.
    pub fn not_judged(&self) -> Vec<&Row> {
        self.rows.iter().filter(|row| row.finding == Finding::Unknown).collect()
    }
}

impl Row {
    /// The least p value that its runs can come to.
    fn least_p(&self) -> f64 {
        ranks::least_p(self.base.len(), self.new.len())
    }
}

/// The numbers of the runs that have one.
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

/// How many rows can be judged together, and the largest [`Row::least_p`] of one of them.
///
/// The more rows, the more each must ask of chance. So those that need the fewest runs come first, and as many follow as
/// still can show a difference among so many. Which these are, does not depend on what the numbers are.
fn judged(rows: &[Row]) -> (usize, f64) {
    let mut least: Vec<f64> = rows.iter().map(Row::least_p).collect();
    least.sort_by(f64::total_cmp);
    let together = |least_p: f64| least.partition_point(|&other| other <= least_p);
    let fits = |&least_p: &f64| least_p * together(least_p) as f64 <= ALPHA;
    least.iter().copied().rev().find(fits).map_or((0, 0.0), |least_p| (together(least_p), least_p))
}

/// What follows for one row: something only if its bound, which is printed, excludes that nothing has changed.
fn find(effect: &Effect, p: f64) -> Finding {
    match effect.bound {
        // Where runs are equal to each other, the bound is not exact, and the p value is.
        _ if p > ALPHA => Finding::Same,
        Some((low, _)) if low > 1.0 => Finding::Larger,
        Some((_, high)) if high < 1.0 => Finding::Smaller,
        _ => Finding::Same,
    }
}

/// With how many runs a side a difference can show among so many rows.
pub fn runs_needed(rows: usize) -> usize {
    let rows = rows.max(1) as f64;
    (1..ranks::MAX_RUNS).find(|&runs| ranks::least_p(runs, runs) * rows <= ALPHA).unwrap_or(1)
}

#[cfg(test)]
mod tests;
