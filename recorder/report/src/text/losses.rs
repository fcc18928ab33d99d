//! What is missing from a trace, or from many.

use std::io::{self, Write};

use crate::Report;
use fxtrec_units::grid::printable;
use fxtrec_units::look::Look;
use fxtrec_units::text::count;

/// Writes what was lost, why, and what of it is in no gap; nothing if nothing is missing.
///
/// # Errors
/// Those of `out`.
pub(super) fn write_losses(report: &Report, look: Look, out: &mut dyn Write) -> io::Result<()> {
    let losses = &report.losses;
    if losses.gaps > 0 {
        let at_most = if losses.at_most { "at most " } else { "" };
        let of = match report.traces.iter().filter(|row| row.gaps > 0).count() {
            0 => String::new(),
            traces => format!(" of {} traces", count(traces as u64)),
        };
        let unknown = match losses.unknown {
            0 => String::new(),
            unknown => format!(", an unknown number more in {} of them", count(unknown)),
        };
        writeln!(
            out,
            "{} {at_most}{} events in {} gaps{of}{unknown}; values that span a gap are censored",
            look.bad("LOST"),
            count(losses.events),
            count(losses.gaps)
        )?;
    }
    if losses.others > 0 {
        let at_most = if losses.others_at_most { "at most " } else { "" };
        writeln!(
            out,
            "{} {at_most}{} events of system calls, probes and interrupts, with all switches and wake-ups there; calls may be \
             missing or too long",
            look.bad("LOST"),
            count(losses.others)
        )?;
    }
    for cause in &losses.causes {
        writeln!(out, "  {}", printable(cause, 250))?;
    }
    if losses.unreported > 0 {
        let events = count(losses.unreported);
        writeln!(
            out,
            "{events} events are missing: the kernel counted but never wrote them; their times are unknown"
        )?;
    }
    if losses.damaged > 0 {
        writeln!(
            out,
            "{} in {} places; values that span one are censored",
            look.bad("DAMAGED"),
            count(losses.damaged)
        )?;
    }
    if losses.truncated {
        let what = if report.is_fleet() { "at least one file" } else { "the file" };
        writeln!(out, "{what} is truncated: it ends before the recording did")?;
    }
    Ok(())
}
