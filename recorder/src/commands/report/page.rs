//! The page, written in the same pass as the report.

use std::io::{self, BufWriter, Write};
use std::path::Path;

use fxt_reader::Reader;

use super::{ReportError, check, incidents};
use crate::cli::ReportArgs;
use crate::commands::trace_file::ReadError;
use crate::kernel::user::Owner;
use crate::report::page::{Page, PageError, Written};
use crate::report::{Options, Report, analysis};
use crate::sink::outfile::{Derived, mode_of};
use crate::units::text::{count, counted, noun};

/// Analyses the trace and writes the page to `out`; returns whether it could be written.
///
/// # Errors
/// Returns an error when the trace cannot be read or is empty, or the page cannot be written.
pub(super) fn to_stdout(
    reader: Reader<'_>,
    options: Options,
    args: &ReportArgs,
    out: &mut dyn Write,
    err: &mut dyn Write,
) -> Result<(Report, io::Result<()>), ReportError> {
    let (mut report, page) = analysis::observe(reader, options, page(args))
        .map_err(|source| ReadError::new(&args.file, source))?;
    check(args, &report)?;
    report.incidents = incidents(args, &report)?;
    match page.write(&report, out) {
        Ok(written) => {
            tell(&written, err);
            Ok((report, Ok(())))
        }
        Err(PageError::Write(error)) => Ok((report, Err(error))),
        Err(error) => Err(error.into()),
    }
}

/// Analyses the trace and writes it to `html`, if it contains anything.
///
/// # Errors
/// Returns an error when the trace cannot be read or is empty, or the page cannot be written.
pub(super) fn analyse(
    reader: Reader<'_>,
    options: Options,
    args: &ReportArgs,
    html: &Path,
    err: &mut dyn Write,
) -> Result<Report, ReportError> {
    let inputs = [args.file.as_path()];
    // Done before the trace is read, which may take a long time. An existing page stays until the new one is complete.
    let Derived { file, pending } =
        Derived::create(html, mode_of(&inputs), &inputs, Owner::sudo_caller())
            .map_err(|source| PageError::Create { path: html.to_path_buf(), source })?;
    let (mut report, page) = analysis::observe(reader, options, page(args))
        .map_err(|source| ReadError::new(&args.file, source))?;
    check(args, &report)?;
    report.incidents = incidents(args, &report)?;
    let mut out = BufWriter::new(file);
    let written = page.write(&report, &mut out)?;
    out.flush().map_err(PageError::Write)?;
    pending.commit().map_err(|error| PageError::Write(error.into()))?;
    tell(&written, err);
    Ok(report)
}

fn page(args: &ReportArgs) -> Page {
    let page = Page::new().within(args.page.budget());
    match args.file.to_str() {
        Some(name) if name != "-" => page.of_file(name),
        _ => page,
    }
}

/// Reports the parts that are missing in the page, if any.
fn tell(written: &Written, err: &mut dyn Write) {
    if written.is_complete() {
        return;
    }
    let Written { bytes, tiles, levels, is_thinned } = *written;
    let [kept, all] = [tiles.0, tiles.1].map(|number| count(number as u64));
    let bins = match levels.1 - levels.0 {
        0 => String::new(),
        fewer => format!(
            ", and bins of {} instead of {}",
            counted((levels.1 - fewer) as u64, "zoom", "zooms"),
            levels.1
        ),
    };
    let besides = if is_thinned { ", and fewer stacks or arguments" } else { "" };
    // If standard error is closed, the page still has the message.
    let _ = writeln!(
        err,
        "fxtrec: the page of {} bytes has the exact events of {kept} of {all} {}{bins}{besides}; --html-bytes all keeps everything",
        count(bytes),
        noun(tiles.1 as u64, "tile", "tiles")
    );
}
