//! `fxtrec merge`: merges several traces into one archive.

use std::io::Write;
use std::path::Path;

use crate::cli::MergeArgs;
use crate::commands::conversion::{refuse_terminal, tell};
use crate::convert::merge::{How, Source, merge};
use crate::convert::{ConvertError, Format, Output, Report};
use crate::units::text::counted;

/// Merges as `args` request, and reports to `messages`.
///
/// # Errors
///
/// As for [`merge`], and when the output cannot be created.
pub fn run(args: &MergeArgs, messages: &mut dyn Write) -> Result<(), ConvertError> {
    let messages = (!args.quiet).then_some(messages);
    let of = format!("of {} ", counted(args.inputs.len() as u64, "file", "files"));
    tell(merge_files(args), &of, &args.output, messages)
}

fn merge_files(args: &MergeArgs) -> Result<Report, ConvertError> {
    refuse_terminal(&args.output)?;
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
    let how = How {
        same_machine: args.same_machine,
        sync: args.sync.clone(),
        show_progress: !args.quiet,
    };
    let report = merge(&sources, &how, &mut output)?;
    output.finish()?;
    Ok(report)
}
