//! `fxtrec symbolize`: names for the functions of stacks.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::apart;
use crate::cli::SymbolizeArgs;
use crate::commands::conversion::{refuse_terminal, tell};
use crate::commands::trace_file::{ReadError, is_kept};
use crate::convert::symbolize::{Where, symbolize};
use crate::convert::{ConvertError, Format, Output, Report};
use crate::units::quantity::TimeSpan;

/// How long files are asked, unless the command line says otherwise.
const NAMING: Duration = Duration::from_secs(300);

/// Why no trace with names was written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SymbolizeError {
    #[error(transparent)]
    Read(#[from] ReadError),
    #[error(transparent)]
    Convert(#[from] ConvertError),
    /// Standard input, or a pipe.
    #[error("{}: the trace is read several times: name a file", .0.display())]
    Once(PathBuf),
}

/// Writes a trace with names as `args` ask, and reports to `messages`.
///
/// # Errors
/// When the trace cannot be read several times, has no stacks, or the output cannot be written.
pub fn run(args: &SymbolizeArgs, messages: &mut dyn Write) -> Result<(), SymbolizeError> {
    if !is_kept(&args.input)? {
        return Err(SymbolizeError::Once(args.input.clone()));
    }
    let output = args.output.clone().unwrap_or_else(|| beside(&args.input));
    let messages = (!args.quiet).then_some(messages);
    Ok(tell(symbolize_file(args, &output), "", &output, messages)?)
}

fn symbolize_file(args: &SymbolizeArgs, path: &Path) -> Result<Report, ConvertError> {
    refuse_terminal(path)?;
    let places = Where {
        debug_folders: args.debug_dirs.clone(),
        vmlinux: args.vmlinux.clone(),
        time: args.naming_time.map_or(NAMING, TimeSpan::duration),
        show_progress: !args.quiet,
        start: apart::start_for_names,
    };
    let (_, packing) = Format::of_path(path);
    // Others may read the trace, but not the files that the names are from.
    let mut output = Output::create_private(path, packing, &[&args.input])?;
    let report = symbolize(&args.input, &places, &mut output)?;
    output.finish()?;
    Ok(report)
}

/// What the output is called when nobody says so.
fn beside(input: &Path) -> PathBuf {
    let name = input.file_name().unwrap_or_default().to_string_lossy();
    let end = name.find(".fxt").unwrap_or(name.len());
    let (stem, ending) = name.split_at(end);
    input.with_file_name(format!("{stem}.symbolized{ending}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_output_is_beside_the_input_and_packed_as_it_is() {
        for (input, output) in [
            ("dir/app.fxt", "dir/app.symbolized.fxt"),
            ("app.fxt.zst", "app.symbolized.fxt.zst"),
            ("a.b.fxt.gz", "a.b.symbolized.fxt.gz"),
            ("trace", "trace.symbolized"),
        ] {
            assert_eq!(beside(Path::new(input)), Path::new(output));
        }
    }
}
