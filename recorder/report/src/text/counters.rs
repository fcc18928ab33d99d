//! The table of counters.

use std::io::{self, Write};

use fxtrec_units::grid::{Grid, Side, printable};
use fxtrec_units::look::Look;
use fxtrec_units::text::count;

use crate::counters::{CounterReport, CounterRow};
use fxtrec_blame::spans::full_name;

/// A value with its significant digits.
fn value(number: f64) -> String {
    match number.fract() == 0.0 && number.abs() < 1e15 {
        true => format!("{number:.0}"),
        false => {
            let text = format!("{number:.3}");
            text.trim_end_matches('0').to_owned()
        }
    }
}

fn called(row: &CounterRow) -> String {
    let CounterRow { category, name, id, .. } = row;
    let name = printable(&full_name(category, name), 40);
    if *id == 0 { name } else { format!("{name} #{id}") }
}

/// Writes the table of counters, with a row for each series and at most `rows`; nothing if there are none.
///
/// # Errors
/// The errors of `out`.
pub fn write_counters(
    counters: &CounterReport,
    rows: Option<usize>,
    look: Look,
    out: &mut dyn Write,
) -> io::Result<()> {
    let all = &counters.rows;
    if all.is_empty() {
        return Ok(());
    }
    let mut grid = Grid::new(&[
        ("Counter", Side::Left),
        ("Series", Side::Left),
        ("Samples", Side::Right),
        ("Min", Side::Right),
        ("Avg", Side::Right),
        ("Max", Side::Right),
        ("Last", Side::Right),
    ])
    .spare(&["Avg"]);
    let shown = rows.unwrap_or(usize::MAX).min(all.len());
    for row in &all[..shown] {
        grid.row(vec![
            called(row),
            printable(&row.series, 32),
            count(row.samples),
            value(row.min),
            value(row.mean),
            value(row.max),
            value(row.last),
        ]);
    }
    writeln!(out, "{}", look.heading("Counters of programs:"))?;
    grid.write(look, out)?;
    if shown < all.len() {
        let rest = count((all.len() - shown) as u64);
        writeln!(out, "  {}", look.note(&format!("and {rest} more (--rows 0 shows all)")))?;
    }
    if counters.too_many {
        writeln!(out, "  more counters exist than are tracked (limit reached)")?;
    }
    writeln!(out)
}
