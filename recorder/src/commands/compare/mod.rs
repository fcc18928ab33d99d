//! `fxtrec compare`: holds recordings against earlier ones.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use fxt_reader::Reader;

use crate::cli::CompareArgs;
use crate::commands::trace_file::ReadError;
use crate::report::compare::ranks::MAX_RUNS;
use crate::report::compare::show::{Text, json};
use crate::report::compare::{Comparison, Run, runs_needed};
use crate::report::gates::evaluate::OnTooFew;
use crate::report::gates::evidence::Evidence;
use crate::report::gates::expr::Measure;
use crate::report::gates::metric::Quantity;
use crate::report::gates::recorded::{Recorded, cpu_groups};
use crate::report::{Options, Report, Selection, analyse};

/// Why recordings cannot be compared.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CompareError {
    /// A trace cannot be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// A trace without a single switch.
    #[error("{}: there is no context switch in this trace, so there is nothing to compare", .0.display())]
    Empty(PathBuf),
    /// More traces than the test takes.
    #[error("{0} traces are more than can be compared at once ({MAX_RUNS})")]
    TooMany(usize),
    /// The output does not take any more.
    #[error("cannot write the output: {0}")]
    Write(#[from] io::Error),
}

/// Compares what `args` name and writes the result to `out`; says whether nothing is worse than `--fail-if-worse` lets
/// it be. An output that is closed early ends it quietly.
///
/// # Errors
/// When a trace cannot be read or is empty, there are too many, or the output fails.
pub fn compare(args: &CompareArgs, out: &mut dyn Write) -> Result<bool, CompareError> {
    let traces = args.base.len() + args.new.len();
    if traces > MAX_RUNS {
        return Err(CompareError::TooMany(traces));
    }
    let read = |paths: &[PathBuf]| -> Result<Vec<Run>, CompareError> {
        paths.iter().map(|path| run(path, &args.measures)).collect()
    };
    let comparison = Comparison::new(&args.measures, read(&args.base)?, read(&args.new)?);
    let verdict = verdict(args, &comparison);
    let failed = verdict.as_ref().is_some_and(|verdict| verdict.failed);
    let written = match args.json {
        true => writeln!(out, "{:#}", json(&comparison, failed)),
        false => write!(out, "{}{}", Text(&comparison), lines(verdict)),
    };
    match written.and_then(|()| out.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error.into()),
        _ => Ok(!failed),
    }
}

/// The numbers of one trace.
fn run(path: &Path, measures: &[Measure]) -> Result<Run, CompareError> {
    let failed = |source| ReadError::new(path, source);
    let report_of = |selection: Selection| -> Result<Report, CompareError> {
        let options = Options { selection, worst: 0 };
        Ok(analyse(Reader::open(path).map_err(failed)?, options).map_err(failed)?)
    };
    let report = report_of(Selection::default())?;
    if report.switches() == 0 {
        return Err(CompareError::Empty(path.to_owned()));
    }
    let mut recorded = Recorded::new(&report);
    let conditions = measures.iter().filter_map(|measure| measure.condition.as_ref());
    for group in cpu_groups(&report, conditions) {
        let selection = Selection { cpus: group.clone(), ..Selection::default() };
        recorded.add(&group, report_of(selection)?);
    }
    let numbers = measures.iter().map(|measure| number(measure, &recorded)).collect();
    Ok(Run { name: path.display().to_string(), numbers, lost: recorded.lost() })
}

/// What a measure comes to; `None` when there are too few values.
fn number(measure: &Measure, recorded: &Recorded<'_>) -> Option<f64> {
    let condition = measure.condition.as_ref();
    match measure.quantity {
        Quantity::Total(total) => recorded.total(total, condition),
        Quantity::Statistic(metric, stat) => {
            let values = recorded.values(metric, condition)?;
            if values.count() < stat.samples_needed() { None } else { stat.of(&values) }
        }
    }
}

/// What `--fail-if-worse` came to.
struct Verdict {
    failed: bool,
    lines: Vec<String>,
}

fn verdict(args: &CompareArgs, comparison: &Comparison) -> Option<Verdict> {
    let limit = args.fail_if_worse?;
    let worse = comparison.worse_than(limit.share());
    let percent = limit.share() * 100.0;
    if !worse.is_empty() {
        let line = |row: &&crate::report::compare::Row| {
            format!("FAILED: {} is larger by more than {percent} %", row.measure)
        };
        return Some(Verdict { failed: true, lines: worse.iter().map(line).collect() });
    }
    let blind = comparison.blind();
    if blind.is_empty() {
        let line = format!(
            "passed: nothing is larger by more than {percent} %, as far as these runs show"
        );
        return Some(Verdict { failed: false, lines: vec![line] });
    }
    let failed = args.on_too_few == OnTooFew::Fail;
    let names: Vec<String> = blind.iter().map(|row| row.measure.to_string()).collect();
    let needed = runs_needed(comparison.rows.len());
    let word = if failed { "FAILED" } else { "passed" };
    let line = format!(
        "{word}: too few runs to judge {}; give {needed} a side (--on-too-few pass lets it pass)",
        names.join(", ")
    );
    Some(Verdict { failed, lines: vec![line] })
}

fn lines(verdict: Option<Verdict>) -> String {
    verdict.map(|verdict| verdict.lines.join("\n") + "\n").unwrap_or_default()
}

#[cfg(test)]
mod tests;
