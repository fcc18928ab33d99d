//! `fxtrec merge`: several traces in, one archive out.

use std::io::Write;
use std::path::Path;

use crate::cli::MergeArgs;
use crate::convert::merge::{Source, merge};
use crate::convert::{ConvertError, Format, Output};
use crate::kernel::terminal;

/// Merges as `args` ask, and reports to `messages`.
///
/// # Errors
///
/// As for [`merge`], and when the output cannot be created.
pub fn run(args: &MergeArgs, messages: &mut dyn Write) -> Result<(), ConvertError> {
    match merge_files(args, messages) {
        Err(error) if error.is_broken_pipe() => Ok(()),
        result => result,
    }
}

fn merge_files(args: &MergeArgs, messages: &mut dyn Write) -> Result<(), ConvertError> {
    if args.output == Path::new("-") && terminal::stdout_is_terminal() {
        return Err(ConvertError::Terminal);
    }
    let inputs: Vec<&Path> = args.inputs.iter().map(AsRef::as_ref).collect();
    let sources: Vec<Source> = args
        .inputs
        .iter()
        .enumerate()
        .map(|(at, path)| {
            let offset = at.checked_sub(1).and_then(|at| args.offsets.get(at));
            Source { path: path.clone(), offset: offset.map(|offset| offset.nanos) }
        })
        .collect();
    let (_, packing) = Format::of_path(&args.output);
    let mut output = Output::create(&args.output, packing, &inputs)?;
    let report = merge(&sources, args.same_machine, &mut output)?;
    output.finish()?;
    if !args.quiet {
        // Without standard error there is nobody to tell.
        let (count, path) = (report.read, args.output.display());
        let _ = writeln!(messages, "fxtrec: {count} records of {} files to {path}", inputs.len());
        let _ = write!(messages, "{report}");
    }
    Ok(())
}
