//! `fxtrec symbolize`: names for the functions of stacks.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::cli::SymbolizeArgs;
use crate::commands::conversion::{refuse_terminal, tell};
use crate::commands::trace_file::{ReadError, keep};
use crate::convert::symbolize::{Fetch, Where, symbolize};
use crate::convert::{ConvertError, Format, Output, Report};
use crate::debuginfod::{Debuginfod, DebuginfodError};
use crate::file_worker;
use crate::units::quantity::TimeSpan;

/// The default time limit for reading files.
const NAMING: Duration = Duration::from_secs(300);

/// The reason why no trace with names was written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SymbolizeError {
    #[error(transparent)]
    Read(#[from] ReadError),
    #[error(transparent)]
    Convert(#[from] ConvertError),
    #[error(transparent)]
    Debuginfod(#[from] DebuginfodError),
    /// Standard input, or a pipe, without a name for the output.
    #[error("{}: the input is not a file, so the output has no default name: name it with -o", .0.display())]
    Nowhere(PathBuf),
}

/// Writes a trace with names as `args` request, and reports to `messages`.
///
/// # Errors
/// Returns an error when the trace cannot be read, has no stacks, or the output cannot be written.
pub fn run(args: &SymbolizeArgs, messages: &mut dyn Write) -> Result<(), SymbolizeError> {
    let output = match &args.output {
        Some(output) => output.clone(),
        None if is_pipe(&args.input) => return Err(SymbolizeError::Nowhere(args.input.clone())),
        None => beside(&args.input),
    };
    keep(&args.input)?;
    let mut servers = args.debuginfod.then(Debuginfod::find).transpose()?;
    let messages = (!args.quiet).then_some(messages);
    Ok(tell(symbolize_file(args, servers.as_mut(), &output), "", &output, messages)?)
}

fn symbolize_file(
    args: &SymbolizeArgs,
    servers: Option<&mut Debuginfod>,
    path: &Path,
) -> Result<Report, ConvertError> {
    refuse_terminal(path)?;
    let places = Where {
        debug_folders: args.debug_dirs.clone(),
        vmlinux: args.vmlinux.clone(),
        time: args.naming_time.map_or(NAMING, TimeSpan::duration),
        show_progress: !args.quiet,
        start: file_worker::start_for_names,
    };
    let (_, packing) = Format::of_path(path);
    // Other users may be allowed to read the trace, but not the files from which the names are taken.
    let mut output = Output::create_private(path, packing, &[&args.input])?;
    let fetch = servers.map(|servers| servers as &mut dyn Fetch);
    let report = symbolize(&args.input, &places, fetch, &mut output)?;
    output.finish()?;
    Ok(report)
}

fn is_pipe(path: &Path) -> bool {
    path == Path::new("-") || path.exists() && !path.is_file() && !path.is_dir()
}

/// The default name of the output.
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
    fn what_comes_through_a_pipe_needs_a_name_for_the_output() {
        use crate::commands::trace_file::tests::through_a_pipe;
        use clap::{Args, FromArgMatches};

        let symbolized = |line: &[&str], path: &Path| {
            let command = SymbolizeArgs::augment_args(clap::Command::new("symbolize"));
            let words = ["symbolize".as_ref(), path.as_os_str()];
            let line = words.into_iter().chain(line.iter().map(AsRef::as_ref));
            let matches = command.try_get_matches_from(line).expect("arguments that parse");
            run(&SymbolizeArgs::from_arg_matches(&matches).expect("the same"), &mut Vec::new())
        };
        let error = symbolized(&["-q"], Path::new("-")).expect_err("nowhere").to_string();
        assert!(error.contains("-o"), "{error}");
        let out = tempfile::tempdir().expect("a folder");
        let out = out.path().join("named.fxt").display().to_string();
        let trace = crate::report::scene::Scene::new().bytes().to_vec();
        // The trace has been read to its end, and has no stacks.
        let done = through_a_pipe(&trace, |path| symbolized(&["-q", "-o", &out], path));
        assert!(matches!(done, Err(SymbolizeError::Convert(ConvertError::NoStacks { .. }))));
    }

    #[test]
    fn the_output_is_next_to_the_input_and_packed_as_it_is() {
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
