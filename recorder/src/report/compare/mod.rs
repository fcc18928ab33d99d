//! Two groups of recordings side by side: is the new one worse, or is that noise?
//!
//! [`ranks`] says whether two sides can be told apart at all, [`effect`] by how much they differ and how well that is
//! known. A [`Comparison`] puts several numbers beside each other, and asks all of them together no more of chance than
//! it would ask one. `docs/gates.md` has the formulas.

pub mod effect;
pub mod ranks;
pub mod show;

use crate::report::gates::expr::Measure;
use effect::{ALPHA, Effect};

/// What is compared unless told otherwise.
pub const DEFAULT_MEASURES: [&str; 5] =
    ["wakeup.p50", "wakeup.p99", "wakeup.max", "preempt.p99", "runqueue.p99"];

/// One run: its file, and a number for each measure; `None` where it has too few values.
#[derive(Clone, Debug, PartialEq)]
pub struct Run {
    /// Where it is from.
    pub name: String,
    /// In the order of the measures.
    pub numbers: Vec<Option<f64>>,
    /// How many events it lacks.
    pub lost: u64,
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
    /// One side has no number.
    Unknown,
}

/// One number of both sides.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// What is compared.
    pub measure: Measure,
    /// The numbers of the base runs that have one.
    pub base: Vec<f64>,
    /// The numbers of the new runs that have one.
    pub new: Vec<f64>,
    /// How they differ; `None` when one side has no number.
    pub effect: Option<Effect>,
    /// The p value, with allowance for the other rows.
    pub p: f64,
    /// What follows.
    pub finding: Finding,
}

/// Two groups of runs side by side.
#[derive(Clone, Debug, PartialEq)]
pub struct Comparison {
    /// The runs to compare with.
    pub base: Vec<Run>,
    /// The runs to judge.
    pub new: Vec<Run>,
    /// A row for each measure.
    pub rows: Vec<Row>,
}

impl Comparison {
    /// Compares runs, whose numbers are those of `measures`.
    pub fn new(measures: &[Measure], base: Vec<Run>, new: Vec<Run>) -> Comparison {
        let numbers = |runs: &[Run], at: usize| -> Vec<f64> {
            runs.iter().filter_map(|run| run.numbers.get(at).copied().flatten()).collect()
        };
        let mut rows: Vec<Row> = measures
            .iter()
            .enumerate()
            .map(|(at, measure)| {
                let (base, new) = (numbers(&base, at), numbers(&new, at));
                let effect = Effect::of(&base, &new);
                let measure = measure.clone();
                Row { measure, base, new, effect, p: 1.0, finding: Finding::Unknown }
            })
            .collect();
        let alone: Vec<f64> = rows.iter().filter_map(|row| Some(row.effect?.p)).collect();
        let compared = rows.iter_mut().filter(|row| row.effect.is_some());
        for (row, p) in compared.zip(ranks::allow_for_many(&alone)) {
            row.p = p;
            row.finding = match row.effect {
                Some(effect) if p <= ALPHA && effect.ratio > 1.0 => Finding::Larger,
                Some(effect) if p <= ALPHA && effect.ratio < 1.0 => Finding::Smaller,
                _ => Finding::Same,
            };
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

    /// The rows that no difference, however large, could have shown in: there are too few runs.
    pub fn blind(&self) -> Vec<&Row> {
        let compared = self.rows.iter().filter(|row| row.effect.is_some()).count();
        let blind = |row: &&Row| {
            let least = ranks::least_p(row.base.len(), row.new.len());
            // The smallest p of all is multiplied by the number of rows.
            row.effect.is_none() || least * compared as f64 > ALPHA
        };
        self.rows.iter().filter(blind).collect()
    }
}

/// With how many runs a side a difference can show among so many rows.
pub fn runs_needed(rows: usize) -> usize {
    let rows = rows.max(1) as f64;
    (1..ranks::MAX_RUNS).find(|&runs| ranks::least_p(runs, runs) * rows <= ALPHA).unwrap_or(1)
}

#[cfg(test)]
mod tests;
