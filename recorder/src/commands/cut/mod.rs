//! `fxtrec cut`: cuts a time window out of a trace.

use std::io::Write;
use std::path::Path;

use fxt_reader::{Nanos, Reader};

use crate::cli::CutArgs;
use crate::commands::conversion::{refuse_terminal, tell};
use crate::commands::trace_file::{ReadError, resolve};
use crate::convert::cut::{Filter, Window, cut};
use crate::convert::redact::{Secret, redact};
use crate::convert::{ConvertError, Format, Input, Output, Report};

/// The reason why the cut failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CutError {
    /// The beginning of the trace cannot be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The window contains no time.
    #[error("the window ends before it begins: --to must not be earlier than --from")]
    Reversed,
    /// The trace cannot be read or written.
    #[error(transparent)]
    Convert(#[from] ConvertError),
}

/// Cuts as `args` request, and reports to `messages`.
///
/// # Errors
///
/// As for [`cut`], and when a file cannot be opened.
pub fn run(args: &CutArgs, messages: &mut dyn Write) -> Result<(), CutError> {
    let (from, to) = resolve(&args.input, args.from, args.to)?;
    if from.zip(to).is_some_and(|(from, to)| from > to) {
        return Err(CutError::Reversed);
    }
    let result = cut_file(args, from, to);
    let is_written = result.is_ok();
    tell(result, "", args.output(), (!args.quiet).then_some(&mut *messages))?;
    if is_written && !args.quiet {
        // If standard error is closed, the message is lost.
        let _ = messages.write_all(what_stays(&args.secrets(), args.output()).as_bytes());
    }
    Ok(())
}

/// A note for the user who shares the trace; empty if nothing is replaced with pseudonyms.
fn what_stays(secrets: &[Secret], output: &Path) -> String {
    let functions = match secrets.contains(&Secret::Functions) {
        _ if secrets.is_empty() => return String::new(),
        true => "",
        false => "names of functions stay (--redact functions replaces them too); ",
    };
    let of = match output == Path::new("-") {
        true => "FILE".into(),
        false => output.display().to_string(),
    };
    format!("  {functions}fxtrec dump --strings {of} lists every text that is left\n")
}

fn cut_file(
    args: &CutArgs,
    from: Option<Nanos>,
    to: Option<Nanos>,
) -> Result<Report, ConvertError> {
    refuse_terminal(args.output())?;
    let secrets = args.secrets();
    let (_, packing) = Format::of_path(args.output());
    if !secrets.is_empty() && args.is_of_all() && args.input.is_file() {
        // Unlike a rotated file, it contains the counts of the whole recording.
        let mut output = Output::create(args.output(), packing, &[&args.input])?;
        let report = redact(&args.input, &secrets, !args.quiet, &mut output)?;
        output.finish()?;
        return Ok(report);
    }
    let window = Window {
        from: from.unwrap_or(Nanos(0)),
        to: to.unwrap_or(Nanos(u64::MAX)),
        filter: Filter {
            cpus: args.cpus.clone(),
            comms: args.comms.clone(),
            pids: args.pids.clone(),
        },
    };
    let mut input = Input::open_trace(&args.input, !args.quiet)?;
    let mut output = Output::create(args.output(), packing, &[&args.input])?.bound_by(&input);
    let mut piece = match secrets.is_empty() {
        true => None,
        false => Some(tempfile::NamedTempFile::new().map_err(ConvertError::Write)?),
    };
    let target: &mut dyn Write = match &mut piece {
        Some(piece) => piece,
        None => &mut output,
    };
    let result = cut(&mut Reader::new(&mut input), &window, target);
    input.finish();
    let report = result?;
    if let Some(piece) = piece {
        redact(piece.path(), &secrets, false, &mut output)?;
    }
    output.finish()?;
    Ok(report)
}
