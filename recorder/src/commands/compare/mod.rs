//! `fxtrec compare`: compares recordings with earlier ones.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use fxt_reader::{Reader, Record};

use crate::cli::CompareArgs;
use crate::commands::many::{ManyError, each, expand};
use crate::commands::trace_file::{self, ReadError};
use crate::report::compare::ranks::MAX_RUNS;
use crate::report::compare::show::{Text, change, json, why_not_judged};
use crate::report::compare::spans::Shift;
use crate::report::compare::{Comparison, Number, OF_COMMAND, OF_MACHINE, Run, runs_needed};
use crate::report::gates::evaluate::OnTooFew;
use crate::report::gates::evidence::Evidence;
use crate::report::gates::recorded::{Recorded, cpu_groups};
use crate::report::spans::{Room, measure};
use crate::report::{Options, Report, Selection, SpanFigures, analyse};
use fxtrec_gates::Measure;
use fxtrec_gates::Quantity;

/// The reason why recordings cannot be compared.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CompareError {
    /// A trace cannot be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// A directory has no traces or cannot be read.
    #[error(transparent)]
    Many(#[from] ManyError),
    /// A trace without a single switch.
    #[error("{}: nothing to compare: the trace has no context switch", .0.display())]
    Empty(PathBuf),
    /// More traces than the statistical test takes.
    #[error("{0} traces are too many: the maximum is {MAX_RUNS}")]
    TooMany(usize),
    /// Writing the output failed.
    #[error("cannot write the output: {0}")]
    Write(#[from] io::Error),
}

/// Compares the traces of `args` and writes the result to `out`; returns whether no metric is worse than `--fail-if-worse` allows. An
/// output that is closed early is not an error.
///
/// # Errors
/// Returns an error when a trace cannot be read or is empty, there are too many, or the output fails.
pub fn compare(args: &CompareArgs, out: &mut dyn Write) -> Result<bool, CompareError> {
    let (base, new) = (expand(&args.base)?, expand(&args.new)?);
    let traces = base.len() + new.len();
    if traces > MAX_RUNS {
        return Err(CompareError::TooMany(traces));
    }
    base.iter().chain(&new).try_for_each(|path| trace_file::keep(path))?;
    let measures = measures(args, &[&base[..], &new[..]].concat())?;
    let names = span_names(&measures);
    let read = |paths: &[PathBuf]| -> Result<(Vec<Run>, Vec<SpanFigures>), CompareError> {
        let mut read: Vec<Option<(Run, Vec<SpanFigures>)>> = Vec::new();
        read.resize_with(paths.len(), || None);
        let work = |path: &Path| run(path, (&measures, &names), args.include_recorder);
        each(paths, work, |number, numbers| read[number] = Some(numbers))?;
        let mut sums = vec![SpanFigures::default(); names.len()];
        let mut runs = Vec::new();
        for (run, spans) in read.into_iter().flatten() {
            runs.push(run);
            for (sum, figures) in sums.iter_mut().zip(&spans) {
                *sum = SpanFigures::merge([&*sum, figures].into_iter());
            }
        }
        Ok((runs, sums))
    };
    let ((base, before), (new, after)) = (read(&base)?, read(&new)?);
    let shifts: Vec<Shift> = names
        .iter()
        .zip(before.iter().zip(&after))
        .map(|(name, (before, after))| Shift::new(name, before, after))
        .collect();
    let comparison = Comparison::new(&measures, base, new);
    let verdict = verdict(args, &comparison);
    let failed = verdict.as_ref().is_some_and(|verdict| verdict.failed);
    let written = match args.json {
        true => {
            let mut document = json(&comparison, failed);
            document["spans"] = serde_json::json!(shifts);
            writeln!(out, "{document:#}")
        }
        false => {
            let shifts: String = shifts.iter().map(|shift| format!("{shift}\n")).collect();
            write!(out, "{}{shifts}{}", Text(&comparison), lines(verdict))
        }
    };
    match written.and_then(|()| out.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error.into()),
        _ => Ok(!failed),
    }
}

/// The measures to compare: the requested ones, or the defaults for recordings of a COMMAND if every trace is one.
fn measures(args: &CompareArgs, traces: &[PathBuf]) -> Result<Vec<Measure>, CompareError> {
    if !args.measures.is_empty() {
        return Ok(args.measures.clone());
    }
    let mut all = true;
    for path in traces {
        let failed = |source| ReadError::new(path, source);
        all &= has_command(trace_file::read(path).map_err(failed)?).map_err(failed)?;
    }
    let texts: &[&str] = if all { &OF_COMMAND } else { &OF_MACHINE };
    // The test requires that every trace has them.
    Ok(texts.iter().filter_map(|text| text.parse().ok()).collect())
}

/// Whether a trace records a COMMAND, according to its first records.
fn has_command(mut reader: Reader<'_>) -> Result<bool, fxt_reader::Error> {
    loop {
        match reader.next() {
            Ok(Some(item)) => match &item.record {
                Record::Event(event)
                    if (event.category, event.name) == ("fxtrec", "trace_info") =>
                {
                    return Ok(event.args.get("command").is_some());
                }
                Record::ContextSwitch(_) | Record::Wakeup(_) => return Ok(false),
                _ => {}
            },
            Ok(None) => return Ok(false),
            Err(fxt_reader::Error::Damaged(_)) => {}
            Err(error) => return Err(error),
        }
    }
}

/// The names of spans in the measures, each once.
fn span_names(measures: &[Measure]) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for measure in measures {
        if let Quantity::Span(span, _) = &measure.quantity
            && names.iter().all(|name| **name != *span.name)
        {
            names.push(span.name.to_string());
        }
    }
    names
}

/// The numbers of one trace, and the lengths of its spans of these names.
fn run(
    path: &Path,
    (measures, names): (&[Measure], &[String]),
    recorder: bool,
) -> Result<(Run, Vec<SpanFigures>), CompareError> {
    let failed = |source| ReadError::new(path, source);
    let report_of = |selection: Selection| -> Result<Report, CompareError> {
        let options = Options { selection, worst: 0 };
        Ok(analyse(trace_file::read(path).map_err(failed)?, options).map_err(failed)?)
    };
    let whole = Selection { recorder, ..Selection::default() };
    let report = report_of(whole.clone())?;
    if report.switches() == 0 {
        return Err(CompareError::Empty(path.to_owned()));
    }
    let mut recorded = Recorded::new(&report);
    let conditions = measures.iter().filter_map(|measure| measure.condition.as_ref());
    for group in cpu_groups(&report, conditions) {
        let selection = Selection { cpus: group.clone(), ..whole.clone() };
        recorded.add(&group, report_of(selection)?);
    }
    if !names.is_empty() {
        let spans = measure(|| trace_file::read(path), &whole, &report, Room::OF_COMMANDS);
        recorded.add_spans(spans.map_err(failed)?);
    }
    let spans = names.iter().map(|name| recorded.spans(name, None).unwrap_or_default()).collect();
    let numbers = measures.iter().map(|measure| number(measure, &recorded)).collect();
    let (lost, doubt) = (recorded.lost(), recorded.doubt());
    let recorder = report.recorder.as_ref().map(|own| own.stats.cpu_time);
    Ok((Run { name: path.display().to_string(), numbers, lost, doubt, recorder }, spans))
}

/// The value of a measure.
fn number(measure: &Measure, recorded: &Recorded<'_>) -> Number {
    let can_tell = measure.condition.as_ref().is_none_or(|condition| recorded.can_tell(condition));
    if !recorded.knows(&measure.quantity) || !can_tell {
        return Number::NotRecorded;
    }
    let condition = measure.condition.as_ref();
    let (values, number) = match &measure.quantity {
        Quantity::Total(total) => (0, recorded.total(*total, condition)),
        Quantity::Statistic(metric, stat) => match recorded.values(*metric, condition) {
            Some(values) => (values.count(), values.statistic(*stat)),
            None => (0, None),
        },
        Quantity::Span(span, stat) => match recorded.spans(&span.name, condition) {
            Some(figures) => {
                let values = figures.part(span.part);
                (values.count(), values.statistic(*stat))
            }
            None => (0, None),
        },
    };
    let needed = measure.quantity.samples_needed();
    match number {
        Some(number) if values >= needed => Number::Is(number),
        // A condition that matches no thread leaves at least one value missing.
        _ => Number::TooFew { values, needed: needed.max(1) },
    }
}

/// The result of `--fail-if-worse`.
struct Verdict {
    failed: bool,
    lines: Vec<String>,
}

fn verdict(args: &CompareArgs, comparison: &Comparison) -> Option<Verdict> {
    let limit = args.fail_if_worse?;
    let percent = limit.share() * 100.0;
    let unjudged = comparison.not_judged();
    let worse = comparison.worse_than(limit.share());
    let not_judged: Vec<String> =
        unjudged.iter().map(|row| format!("{} ({})", row.measure, why_not_judged(row))).collect();
    let mut lines: Vec<String> = worse
        .iter()
        .map(|row| {
            let by = row.effect.map(|effect| change(effect.ratio)).unwrap_or_default();
            format!("FAILED: {} is larger by more than {percent} %: {by}", row.measure)
        })
        .collect();
    if unjudged.len() == comparison.rows.len() {
        let failed = args.on_too_few.0 == OnTooFew::Fail;
        let word = if failed { "FAILED" } else { "passed" };
        let advice = match unjudged.iter().all(|row| row.fewest.is_some() || row.not_recorded > 0) {
            true => String::new(),
            false => format!("record {} runs per side; ", runs_needed(comparison.rows.len())),
        };
        let lets = "--on-too-few pass accepts this";
        lines.push(format!(
            "{word}: no metric could be judged: {}; {advice}{lets}",
            not_judged.join(", ")
        ));
        return Some(Verdict { failed, lines });
    }
    let noisy = comparison.maybe_worse_than(limit.share());
    lines.extend(noisy.iter().filter_map(|row| {
        let effect = row.effect?;
        let (by, (low, high)) = (change(effect.ratio), effect.bound?);
        let bound = format!("{} .. {}", change(low), change(high));
        let advice = "record more runs per side, or compare a part such as cpu";
        Some(format!(
            "undecided: {} is larger by {by}, which may be noise ({bound}): {advice}",
            row.measure
        ))
    }));
    if worse.is_empty() {
        let line = format!("passed: nothing is larger by more than {percent} %");
        lines.push(format!("{line}, as far as these runs can show"));
    }
    if !not_judged.is_empty() {
        lines.push(format!("not judged: {}", not_judged.join(", ")));
    }
    Some(Verdict { failed: !worse.is_empty(), lines })
}

fn lines(verdict: Option<Verdict>) -> String {
    verdict.map(|verdict| verdict.lines.join("\n") + "\n").unwrap_or_default()
}

#[cfg(test)]
mod tests;
