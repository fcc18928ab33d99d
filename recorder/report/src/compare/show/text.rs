//! A comparison on a terminal.
//!
//! ```text
//! 5 base runs, 5 new runs
//!                     base        new      change     noise bound            p
//!   wakeup.p50     12.1 us    12.3 us     +1.7 %     -3.0 % .. +5.1 %       1
//!   wakeup.p99     1.20 ms    2.41 ms      +101 %     +80 % .. +130 %    0.016  larger
//!   preempt.p99          -          -           -                   -        -  too few values: 37 of 100 needed
//! ```

use std::fmt;

use super::super::effect::Ratio;
use super::super::{Comparison, Finding, Row, Run, runs_needed};
use fxtrec_gates::Amount;
use fxtrec_units::text::{counted, noun, short};

#[derive(Clone, Copy, Debug)]
pub struct Text<'a>(pub &'a Comparison);

impl fmt::Display for Text<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let comparison = self.0;
        writeln!(
            f,
            "{}, {}",
            runs(comparison.base.len(), "base"),
            runs(comparison.new.len(), "new")
        )?;
        let is_partial = |run: &&Run| run.lost > 0 || run.doubt.unknown_gaps > 0;
        for run in comparison.base.iter().chain(&comparison.new).filter(is_partial) {
            let at_most = if run.doubt.at_most { "at most " } else { "" };
            let unknown = match run.doubt.unknown_gaps {
                0 => String::new(),
                gaps => format!(", and an unknown number more in {}", counted(gaps, "gap", "gaps")),
            };
            writeln!(
                f,
                "{} lost {at_most}{} {}{unknown}: its figures may be wrong",
                run.name,
                run.lost,
                noun(run.lost, "event", "events")
            )?;
        }
        let both = || comparison.base.iter().chain(&comparison.new);
        let own: Vec<_> = both().filter_map(|run| run.recorder).collect();
        if let (Some(least), Some(most)) = (own.iter().min(), own.iter().max()) {
            let (least, most) = (short(*least), short(*most));
            writeln!(
                f,
                "left out: threads of fxtrec, CPU time {least} to {most} a run (--include-recorder)"
            )?;
        }
        write_table(&comparison.rows, f)?;
        for row in &comparison.rows {
            write_left_out(comparison, row, f)?;
        }
        let different = comparison
            .rows
            .iter()
            .any(|row| matches!(row.finding, Finding::Larger | Finding::Smaller));
        if !different && comparison.not_judged().len() < comparison.rows.len() {
            writeln!(f, "no difference is larger than the noise of these runs")?;
        }
        write_not_judged(comparison, f)
    }
}

/// Lists which rows have too few runs for any difference to be found, and how many runs are needed.
fn write_not_judged(comparison: &Comparison, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let unjudged = comparison.not_judged();
    let is_short = |row: &&&Row| row.fewest.is_none() && row.not_recorded == 0;
    let unjudged: Vec<&&Row> = unjudged.iter().filter(is_short).collect();
    if unjudged.is_empty() {
        return Ok(());
    }
    let rows = comparison.rows.len();
    let names: Vec<String> = unjudged.iter().map(|row| row.measure.to_string()).collect();
    let (names, needed, least) = (names.join(", "), runs_needed(rows), runs_needed(1));
    write!(f, "too few runs to show any difference in {names}: record {needed} runs per side")?;
    match needed > least {
        true => writeln!(f, ", or {least} with a single --metric"),
        false => writeln!(f),
    }
}

/// The reason why a row could not be judged.
pub fn why_not_judged(row: &Row) -> String {
    match row.fewest {
        _ if row.not_recorded > 0 => format!("not recorded in {}", runs(row.not_recorded, "")),
        Some((values, needed)) => format!("too few values: {values} of {needed} needed"),
        None => "too few runs".to_owned(),
    }
}

fn runs(count: usize, side: &str) -> String {
    let side = if side.is_empty() { String::new() } else { format!("{side} ") };
    format!("{count} {side}run{}", if count == 1 { "" } else { "s" })
}

fn write_table(rows: &[Row], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let heads = ["", "base", "new", "change", "noise bound", "p", ""].map(str::to_owned);
    let mut table = vec![heads];
    table.extend(rows.iter().map(cells));
    let width = |column: usize| table.iter().map(|row| row[column].chars().count()).max();
    let widths: Vec<usize> = (0..heads_len(&table)).map(|at| width(at).unwrap_or(0)).collect();
    for row in &table {
        let mut line = String::new();
        for (at, (cell, width)) in row.iter().zip(&widths).enumerate() {
            // Names are left-aligned, numbers right-aligned.
            match at {
                0 => line += &format!("  {cell:<width$}"),
                6 => line += &format!("  {cell}"),
                _ => line += &format!("  {cell:>width$}"),
            }
        }
        writeln!(f, "{}", line.trim_end())?;
    }
    Ok(())
}

fn heads_len(table: &[[String; 7]]) -> usize {
    table.first().map_or(0, |row| row.len())
}

fn cells(row: &Row) -> [String; 7] {
    let name = row.measure.to_string();
    let finding = match row.finding {
        Finding::Larger => "larger".to_owned(),
        Finding::Smaller => "smaller".to_owned(),
        Finding::Same => String::new(),
        Finding::Unknown => why_not_judged(row),
    };
    let none = || "-".to_owned();
    let Some(effect) = row.effect else {
        return [name, none(), none(), none(), none(), none(), finding];
    };
    let dimension = row.measure.quantity.dimension();
    let amount = |number| Amount { number, dimension }.to_string();
    let bound = match effect.bound {
        Some((low, high)) => format!("{} .. {}", change(low), change(high)),
        None => "unknown".to_owned(),
    };
    let p = match row.finding {
        Finding::Unknown => none(),
        _ if row.p >= 0.9995 => "1".to_owned(),
        _ => format!("{:.3}", row.p),
    };
    [name, amount(effect.base), amount(effect.new), change(effect.ratio), bound, p, finding]
}

/// A ratio as a change: `+12 %`, or `x 15` if a percentage would be hard to read.
pub fn change(ratio: Ratio) -> String {
    let percent = (ratio - 1.0) * 100.0;
    if ratio.is_infinite() {
        "from nothing".to_owned()
    } else if ratio >= 9.95 {
        format!("x {ratio:.0}")
    } else if percent.abs() < 9.95 {
        format!("{percent:+.1} %")
    } else {
        format!("{percent:+.0} %")
    }
}

/// Lists which runs had too few values for a row.
fn write_left_out(comparison: &Comparison, row: &Row, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let base = comparison.base.len() - row.base.len();
    let new = comparison.new.len() - row.new.len();
    if base + new == 0 {
        return Ok(());
    }
    if row.not_recorded > 0 {
        let lacking = runs(row.not_recorded, "");
        return writeln!(f, "{}: {lacking} left out: not recorded there", row.measure);
    }
    let (measure, base, new) = (&row.measure, runs(base, "base"), runs(new, "new"));
    let (values, needed) = row.fewest.unwrap_or_default();
    writeln!(
        f,
        "{measure}: {base} and {new} have too few values and are left out (at worst {values}, of {needed} needed)"
    )
}
