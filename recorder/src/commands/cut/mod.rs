//! `fxtrec cut`: a window out of a trace.

use std::io::Write;
use std::path::Path;

use fxt_reader::{Nanos, Reader};

use crate::cli::{CutArgs, TimeSpan};
use crate::convert::cut::{Filter, Window, cut};
use crate::convert::{ConvertError, Format, Input, Output};
use crate::kernel::terminal;

/// Cuts as `args` ask, and reports to `messages`.
///
/// # Errors
///
/// As for [`cut`], and when a file cannot be opened.
pub fn run(args: &CutArgs, messages: &mut dyn Write) -> Result<(), ConvertError> {
    match cut_file(args, messages) {
        Err(error) if error.is_broken_pipe() => Ok(()),
        result => result,
    }
}

fn cut_file(args: &CutArgs, messages: &mut dyn Write) -> Result<(), ConvertError> {
    if args.output == Path::new("-") && terminal::stdout_is_terminal() {
        return Err(ConvertError::Terminal);
    }
    let nanos = |span: TimeSpan| u64::try_from(span.duration().as_nanos()).unwrap_or(u64::MAX);
    let window = Window {
        from: Nanos(args.from.map_or(0, nanos)),
        to: Nanos(args.to.map_or(u64::MAX, nanos)),
        filter: Filter {
            cpus: args.cpus.clone(),
            comms: args.comms.clone(),
            pids: args.pids.clone(),
        },
    };
    let mut input = Input::open(&args.input, !args.quiet)?;
    let (_, packing) = Format::of_path(&args.output);
    let mut output = Output::create(&args.output, packing, &[&args.input])?;
    let result = cut(&mut Reader::new(&mut input), &window, &mut output);
    input.finish();
    let report = result?;
    output.finish()?;
    if !args.quiet {
        // Without standard error there is nobody to tell.
        let path = args.output.display();
        let _ = writeln!(messages, "fxtrec: {} records to {path}", report.read);
        let _ = write!(messages, "{report}");
    }
    Ok(())
}
