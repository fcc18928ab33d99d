//! The data that is missing from one or many traces.

use std::io::{self, Write};

use crate::Report;
use crate::model::ProviderLosses;
use fxtrec_units::grid::printable;
use fxtrec_units::look::Look;
use fxtrec_units::text::{count, counted, some};

/// Writes how much was lost and why, and the losses outside gaps. Writes nothing if no events are missing.
///
/// # Errors
/// The errors of `out`.
pub(super) fn write_losses(report: &Report, look: Look, out: &mut dyn Write) -> io::Result<()> {
    let losses = &report.losses;
    if losses.gaps > 0 {
        let at_most = if losses.at_most { "at most " } else { "" };
        let of = match report.traces.iter().filter(|row| row.gaps > 0).count() {
            0 => String::new(),
            traces => format!(" of {}", counted(traces as u64, "trace", "traces")),
        };
        let unknown = match losses.unknown {
            0 => String::new(),
            unknown => format!(", an unknown number more in {} of them", count(unknown)),
        };
        writeln!(
            out,
            "{} {at_most}{} in {}{of}{unknown}; values that span a gap are censored",
            look.bad("LOST"),
            counted(losses.events, "event", "events"),
            counted(losses.gaps, "gap", "gaps")
        )?;
    }
    if losses.others > 0 {
        let at_most = if losses.others_at_most { "at most " } else { "" };
        writeln!(
            out,
            "{} {at_most}{} of system calls, probes and interrupts; no switches or wakeups are missing there, but calls may be missing or too long",
            look.bad("LOST"),
            counted(losses.others, "event", "events")
        )?;
    }
    write_records(&losses.providers, look, out)?;
    if let Some(text) = super::brief::names_line(report) {
        writeln!(out, "left out {text}")?;
    }
    for cause in &losses.causes {
        writeln!(out, "  {}", printable(cause, 250))?;
    }
    if losses.unreported > 0 {
        let events = counted(losses.unreported, "event is", "events are");
        let [them, times] = match losses.unreported {
            1 => ["it", "its time is"],
            _ => ["them", "their times are"],
        };
        writeln!(
            out,
            "{events} missing: the kernel counted but never wrote {them}; {times} unknown"
        )?;
    }
    if losses.damaged > 0 {
        writeln!(
            out,
            "{} in {}; values that span one are censored",
            look.bad("DAMAGED"),
            counted(losses.damaged, "place", "places")
        )?;
    }
    if losses.truncated {
        let cut = report.traces.iter().filter(|row| row.truncated);
        let names: Vec<String> = cut.map(|row| printable(&row.name, 100)).collect();
        match names.len() {
            0 => writeln!(out, "the file is truncated: it ends before the recording did")?,
            1 => writeln!(out, "{} is truncated: it ends before the recording did", names[0])?,
            _ => writeln!(
                out,
                "{} are truncated: they end before the recordings did",
                some(&names, MOST_FILES)
            )?,
        }
    }
    Ok(())
}

/// The maximum number of files that are named.
const MOST_FILES: usize = 8;

/// The maximum number of applications that are named.
const NAMED: usize = 4;

/// Writes how many of their own records applications dropped.
fn write_records(providers: &[ProviderLosses], look: Look, out: &mut dyn Write) -> io::Result<()> {
    for one in providers.iter().take(NAMED) {
        let unknown = match (one.unknown, one.gaps) {
            (0, _) => String::new(),
            (unknown, gaps) if unknown == gaps => String::new(),
            (unknown, _) => format!(", an unknown number more in {} of them", count(unknown)),
        };
        let records = match one.unknown == one.gaps {
            true => "an unknown number of records".to_owned(),
            false => counted(one.records, "record", "records"),
        };
        writeln!(
            out,
            "{} {records} of {} in {}{unknown}: its buffer was full; spans may be missing or wrong, but not switches and wakeups",
            look.bad("LOST"),
            printable(&one.name, 64),
            counted(one.gaps, "gap", "gaps"),
        )?;
    }
    if let Some(rest) = providers.get(NAMED..).filter(|rest| !rest.is_empty()) {
        let records = rest.iter().fold(0_u64, |sum, one| sum.saturating_add(one.records));
        writeln!(
            out,
            "{} {} of {}",
            look.bad("LOST"),
            counted(records, "record", "records"),
            counted(rest.len() as u64, "more application", "more applications"),
        )?;
    }
    Ok(())
}
