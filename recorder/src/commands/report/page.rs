//! The page, written in the same pass as the report.

use std::io::{self, BufWriter, Write};
use std::path::Path;

use fxt_reader::Reader;

use super::{ReportError, check};
use crate::cli::ReportArgs;
use crate::commands::trace_file::ReadError;
use crate::kernel::user::Owner;
use crate::report::page::{Page, PageError};
use crate::report::{Options, Report, analysis};
use crate::sink::outfile::{Derived, mode_of};

/// Analyses the trace and writes the page to `out`; says whether it could be written.
///
/// # Errors
/// When the trace cannot be read or is empty, or the page not be made.
pub(super) fn to_stdout(
    reader: Reader<'_>,
    options: Options,
    args: &ReportArgs,
    out: &mut dyn Write,
) -> Result<(Report, io::Result<()>), ReportError> {
    let (report, page) = analysis::observe(reader, options, Page::new())
        .map_err(|source| ReadError::new(&args.file, source))?;
    check(args, &report)?;
    match page.write(&report, out) {
        Ok(()) => Ok((report, Ok(()))),
        Err(PageError::Write(error)) => Ok((report, Err(error))),
        Err(error) => Err(error.into()),
    }
}

/// Analyses the trace and writes it to `html`, if there is anything in it.
///
/// # Errors
/// When the trace cannot be read or is empty, or the page not be written.
pub(super) fn analyse(
    reader: Reader<'_>,
    options: Options,
    args: &ReportArgs,
    html: &Path,
) -> Result<Report, ReportError> {
    let inputs = [args.file.as_path()];
    // Before the trace is read, which may take long. What is there stays until the page is complete.
    let Derived { file, pending } =
        Derived::create(html, mode_of(&inputs), &inputs, Owner::sudo_caller())
            .map_err(|source| PageError::Create { path: html.to_path_buf(), source })?;
    let (report, page) = analysis::observe(reader, options, Page::new())
        .map_err(|source| ReadError::new(&args.file, source))?;
    check(args, &report)?;
    let mut out = BufWriter::new(file);
    page.write(&report, &mut out)?;
    out.flush().map_err(PageError::Write)?;
    pending.commit().map_err(|error| PageError::Write(error.into()))?;
    Ok(report)
}
