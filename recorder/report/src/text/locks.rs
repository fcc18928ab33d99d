//! The table of locks: how long threads were blocked on each, and which threads held it.

use std::io::{self, Write};
use std::time::Duration;

use fxtrec_units::grid::{Grid, Side, printable};
use fxtrec_units::look::Look;
use fxtrec_units::text::{count, millis, millis_or_dash};

use super::worst::name_and_id;
use crate::ThreadInfo;
use crate::locks::{LockReport, LockRow};

/// The maximum number of holders, and of waiters, that are named.
const MOST_NAMED: usize = 2;

/// The columns that are left out first on a narrow terminal.
const SPARE: [&str; 4] = ["Censored", "p50 ms", "p99 ms", "waited by, ms"];

fn named<'a>(all: impl ExactSizeIterator<Item = (Option<&'a ThreadInfo>, Duration)>) -> String {
    let rest = all.len().saturating_sub(MOST_NAMED);
    let one = |(who, sum): (Option<&ThreadInfo>, Duration)| {
        let who = who.map_or_else(|| "unknown".to_owned(), name_and_id);
        format!("{who} {}", millis(sum))
    };
    let mut words: Vec<String> = all.take(MOST_NAMED).map(one).collect();
    if rest > 0 {
        words.push(format!("{rest} more"));
    }
    words.join(", ")
}

fn name(row: &LockRow) -> String {
    if let Some(kernel) = row.kernel {
        let name = row.name.as_deref().map(|name| printable(name, 40));
        let name = name.unwrap_or_else(|| format!("{:#x}", row.address));
        return format!("kernel {} {name}", kernel.noun());
    }
    let process = printable(&row.process, 24);
    let pid = row.pid.map(|pid| format!("[{pid}]")).unwrap_or_default();
    format!("{process}{pid} futex {:#x}", row.address)
}

/// Writes the table of locks, with at most `rows`; nothing if there are none.
///
/// # Errors
/// The errors of `out`.
pub fn write_locks(
    locks: &LockReport,
    rows: Option<usize>,
    look: Look,
    out: &mut dyn Write,
) -> io::Result<()> {
    if locks.rows.is_empty() {
        return Ok(());
    }
    let uncertain = locks.rows.iter().any(|row| row.waits.censored() > 0);
    let mut headings = vec![("Lock", Side::Left)];
    let numbers = ["Waits", "Sum ms", "p50 ms", "p99 ms", "Max ms"];
    headings.extend(numbers.map(|heading| (heading, Side::Right)));
    headings.extend([("held by, ms", Side::Left), ("waited by, ms", Side::Left)]);
    if uncertain {
        headings.push(("Censored", Side::Right));
    }
    let mut grid = Grid::new(&headings).spare(&SPARE);
    let shown = rows.unwrap_or(usize::MAX).min(locks.rows.len());
    for row in &locks.rows[..shown] {
        let waits = &row.waits;
        let mut cells = vec![name(row), count(waits.count()), millis(waits.sum())];
        cells.extend([50.0, 99.0].map(|percent| millis_or_dash(waits.percentile(percent))));
        cells.push(millis_or_dash(waits.max()));
        let (verb, who) = match row.kernel {
            Some(_) => ("released by ", &row.released_by),
            None => ("", &row.held_by),
        };
        let who = named(who.iter().map(|(who, sum)| (who.as_ref(), *sum)));
        cells.push(if who.is_empty() { who } else { format!("{verb}{who}") });
        cells.push(named(row.waiters.iter().map(|(who, sum)| (Some(who), *sum))));
        if uncertain {
            cells.push(count(waits.censored()));
        }
        grid.row(cells);
    }
    writeln!(out, "{}", look.heading("Locks that threads were blocked on, and who held them:"))?;
    grid.write(look, out)?;
    if shown < locks.rows.len() {
        let rest = count((locks.rows.len() - shown) as u64);
        let note = format!("and {rest} more (--rows 0 shows all)");
        writeln!(out, "  {}", look.note(&note))?;
    }
    if locks.too_many {
        writeln!(out, "  more locks exist than are tracked (limit reached)")?;
    }
    writeln!(out)
}
