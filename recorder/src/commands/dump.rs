//! `fxtrec dump`: prints, counts or checks the records of a trace.
//!
//! Everything is written to one output. Lines that begin with `#` are remarks about the file: damage, an incomplete last record, totals.
//! With `--json`, every line is an object.

mod filter;
mod json;
mod line;
mod stats;

use std::io::{self, BufWriter, Write};

use fxt_reader::check::{MAX_FINDINGS, Promises, check};
use fxt_reader::{Error, Summary};

use crate::cli::DumpArgs;
use crate::commands::trace_file::{ReadError, open, refuse_outside};
use crate::convert::ConvertError;
use crate::convert::{redact::texts, traces};
use crate::units::escape;
use crate::units::look::Look;
use crate::units::text::noun;
use filter::Filter;
use line::Lines;
use stats::Stats;

/// The reason why a trace cannot be printed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DumpError {
    /// The trace cannot be read, or not to its end.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The strings of the trace cannot be read.
    #[error(transparent)]
    Texts(#[from] ConvertError),
    /// Writing the output failed.
    #[error("cannot write the output: {0}")]
    Write(#[from] io::Error),
}

/// Runs the command and writes its output to `out`; returns whether `--check`, if
/// requested, found no problem. An output that is closed early is not an error.
///
/// # Errors
///
/// Returns an error when the file cannot be opened or decompressed, is not a trace, or the output fails. Damaged records are part of the
/// output.
pub fn dump(args: &DumpArgs, look: Look, out: &mut dyn Write) -> Result<bool, DumpError> {
    let mut out = BufWriter::new(out);
    let result = dump_to(args, look, &mut out).and_then(|sound| {
        out.flush()?;
        Ok(sound)
    });
    match result {
        Err(DumpError::Write(error)) if error.kind() == io::ErrorKind::BrokenPipe => Ok(true),
        result => result,
    }
}

fn dump_to(args: &DumpArgs, look: Look, out: &mut dyn Write) -> Result<bool, DumpError> {
    if args.strings {
        for ((kind, text), count) in texts(&args.file)? {
            writeln!(out, "{kind:<9} {count:>9} {}", escape::line(&text))?;
        }
        return Ok(true);
    }
    let failed = |source| DumpError::Read(ReadError::new(&args.file, source));
    // This may read the beginning of the trace, which a pipe yields only once.
    let filter = Filter::new(args)?;
    let mut reader = open(&args.file)?;
    if args.check {
        let promises = if args.spec_only { Promises::Spec } else { Promises::Fxtrec };
        let report = check(&mut reader, promises).map_err(failed)?;
        return Ok(match args.json {
            true => json::write_check(&report, out),
            false => write_report(&report, out),
        }?);
    }
    if args.stats {
        let stats = Stats::gather(&mut reader, &filter).map_err(failed)?;
        let summary = reader.summary();
        if args.json {
            stats.write_json(&summary, out)?;
        } else {
            stats.write_table(look, out)?;
            write_remarks(&summary, out)?;
        }
        return Ok(true);
    }
    let mut lines = Lines::new(args.raw);
    if traces::can_be_read_again(&args.file) {
        // A name may follow the first use of its koid.
        lines.learn_ahead(&mut open(&args.file)?);
    }
    let mut written = 0;
    if args.json {
        json::write_head(out)?;
    }
    loop {
        match reader.next() {
            Ok(Some(item)) => {
                lines.learn(&item.record);
                if filter.admits(&item.record) {
                    match args.json {
                        true => json::write_item(&item, &lines, out)?,
                        false => lines.write(&item, out)?,
                    }
                    written += 1;
                }
            }
            Ok(None) => break,
            Err(Error::Damaged(damage)) if args.json => {
                json::write_damage(&damage.to_string(), out)?;
            }
            Err(Error::Damaged(damage)) => writeln!(out, "# {damage}")?,
            Err(error) => {
                // Print everything that was read before the failure.
                out.flush()?;
                return Err(failed(error));
            }
        }
    }
    if written == 0 {
        refuse_outside(&args.file, args.from, args.to)?;
    }
    match args.json {
        true => json::write_end(written, &reader.summary(), out)?,
        false => write_remarks(&reader.summary(), out)?,
    }
    Ok(true)
}

/// A number without separators, with its noun.
fn plain(number: u64, one: &str, many: &str) -> String {
    format!("{number} {}", noun(number, one, many))
}

/// The facts about the whole file that a reader has found.
fn write_remarks(summary: &Summary, out: &mut dyn Write) -> io::Result<()> {
    if summary.damaged_regions > 0 {
        let (places, bytes) = (summary.damaged_regions, summary.damaged_bytes);
        writeln!(
            out,
            "# damaged in {}, {} skipped",
            plain(places, "place", "places"),
            plain(bytes, "byte", "bytes")
        )?;
    }
    if summary.container_truncated {
        writeln!(out, "# the {} stream is truncated", summary.container)?;
    }
    if summary.truncated_tail > 0 {
        let last = match summary.truncated_tail {
            1 => "byte is".to_owned(),
            bytes => format!("{bytes} bytes are"),
        };
        writeln!(out, "# truncated: the last {last} an incomplete record")?;
    }
    Ok(())
}

fn write_report(report: &fxt_reader::check::Report, out: &mut dyn Write) -> io::Result<bool> {
    for finding in &report.findings {
        writeln!(out, "{}", escape::line(&finding.to_string()))?;
    }
    let found: u64 = report.counts.values().sum();
    if found > MAX_FINDINGS as u64 {
        writeln!(out, "# only the first {MAX_FINDINGS} are listed")?;
    }
    for (rule, count) in &report.counts {
        writeln!(out, "# {rule}: {count}")?;
    }
    write_remarks(&report.summary, out)?;
    let records = plain(report.summary.records, "record", "records");
    let bytes = plain(report.summary.record_bytes, "byte", "bytes");
    if report.is_sound() {
        writeln!(out, "# valid: {records}, {bytes}")?;
    } else {
        writeln!(out, "# invalid: {} in {records}, {bytes}", plain(found, "finding", "findings"))?;
    }
    Ok(report.is_sound())
}

#[cfg(test)]
mod tests;
