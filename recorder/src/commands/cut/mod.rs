//! `fxtrec cut`: a window out of a trace.

use std::io::Write;

use fxt_reader::{Nanos, Reader};

use crate::cli::{CutArgs, TimeSpan};
use crate::commands::conversion::{refuse_terminal, tell};
use crate::convert::cut::{Filter, Window, cut};
use crate::convert::{ConvertError, Format, Input, Output, Report};

/// Cuts as `args` ask, and reports to `messages`.
///
/// # Errors
///
/// As for [`cut`], and when a file cannot be opened.
pub fn run(args: &CutArgs, messages: &mut dyn Write) -> Result<(), ConvertError> {
    let messages = (!args.quiet).then_some(messages);
    tell(cut_file(args), "", &args.output, messages)
}

fn cut_file(args: &CutArgs) -> Result<Report, ConvertError> {
    refuse_terminal(&args.output)?;
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
    Ok(report)
}
