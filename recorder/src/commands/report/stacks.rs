//! `fxtrec report --stacks`: where threads were blocked, and for how long.

use std::io::{self, BufWriter, Write};
use std::path::PathBuf;

use super::lines::Sources;
use crate::cli::ReportArgs;
use crate::commands::trace_file::{ReadError, keep, watched};
use crate::debuginfod::{Debuginfod, DebuginfodError};
use crate::report::stacks::{blocked, write_json, write_text};
use crate::report::{Options, analysis::DEFAULT_WORST};
use crate::units::text::counted;

/// The reason why no stacks can be shown.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StacksError {
    #[error(transparent)]
    Read(#[from] ReadError),
    #[error("{}: the trace has no stacks: record it with --stacks", .0.display())]
    None(PathBuf),
    #[error(transparent)]
    Debuginfod(#[from] DebuginfodError),
    /// Writing the output failed.
    #[error("cannot write the output: {0}")]
    Write(#[from] io::Error),
}

/// Writes the stacks that `args` select to `out`. An output that is closed early is not an error.
///
/// # Errors
/// Returns an error when the trace cannot be read, has no stacks, or the output fails.
pub(super) fn run(
    args: &ReportArgs,
    options: Options,
    out: &mut dyn Write,
    messages: &mut dyn Write,
) -> Result<(), StacksError> {
    keep(&args.file)?;
    let blocked = blocked(|| watched(&args.file), options);
    let blocked = blocked.map_err(|source| ReadError::new(&args.file, source))?;
    let Some((_, mut blocked)) = blocked else {
        return Err(StacksError::None(args.file.clone()));
    };
    if args.lines {
        let servers = args.debuginfod.then(Debuginfod::find).transpose()?;
        let mut sources = Sources::new(args.debug_dir.clone(), servers);
        blocked.recorded.find_lines(|path, build_id, at| sources.at(path, build_id, at));
        for (what, count) in sources.fetched() {
            writeln!(messages, "fxtrec: {what}: {count}")?;
        }
        if sources.silent() > 0 {
            let files = counted(sources.silent() as u64, "file", "files");
            writeln!(
                messages,
                "fxtrec: {files} with missing source lines: their file system did not answer, or reading took too long"
            )?;
        }
    }
    let mut out = BufWriter::new(out);
    let worst = args.worst.unwrap_or(DEFAULT_WORST);
    let written = if args.json {
        write_json(&blocked, worst, &mut out)
    } else {
        write_text(&blocked, (worst, args.most_rows(super::ROWS)), &mut out)
    };
    match written.and_then(|()| out.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        written => Ok(written?),
    }
}
