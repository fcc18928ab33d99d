//! `fxtrec convert`: converts a trace from one format to another.
//!
//! Progress and the final report are written to standard error; the report lists data that the new format cannot express.

use std::io::Write;
use std::path::Path;

use crate::cli::{ConvertArgs, SchedShape};
use crate::commands::conversion::{refuse_terminal, tell};
use crate::convert::tef::write::Sched;
use crate::convert::{
    ConvertError, Format, Input, Options, Output, Packed, Report, UnknownFormat, convert,
};

/// Converts as `args` request, and reports to `messages`. An output that is closed early is not an error.
///
/// # Errors
///
/// As for [`convert`], and when a file cannot be opened or its format is unknown.
pub fn run(args: &ConvertArgs, messages: &mut dyn Write) -> Result<(), ConvertError> {
    let messages = (!args.quiet).then_some(messages);
    tell(convert_files(args), "", args.output(), messages)
}

fn convert_files(args: &ConvertArgs) -> Result<Report, ConvertError> {
    let mut input = Input::open(&args.input, !args.quiet)?;
    let from = match args.from {
        Some(format) => format,
        None => input.format()?,
    };
    let Packed { format: to, packing } = target(args)?;
    if to == Format::Fxt {
        refuse_terminal(args.output())?;
    }
    let mut output = Output::create(args.output(), packing, &[&args.input])?.bound_by(&input);
    let options = Options { sched: sched(args.sched), lenient: args.lenient, strict: args.strict };
    let result = convert(&mut input, from, &mut output, to, options);
    input.finish();
    let report = result?;
    output.finish()?;
    Ok(report)
}

/// The output's format, from `--to` or the file's name.
fn target(args: &ConvertArgs) -> Result<Packed, UnknownFormat> {
    let (format, packing) = Format::of_path(args.output());
    match (args.to, format) {
        (Some(packed), _) if args.output() == Path::new("-") => Ok(packed),
        // The compression follows from the file's name, independent of the format.
        (Some(Packed { format, .. }), _) | (None, Some(format)) => Ok(Packed { format, packing }),
        (None, None) => Err(UnknownFormat::Output(args.output().to_owned())),
    }
}

fn sched(shape: SchedShape) -> Sched {
    match shape {
        SchedShape::Slices => Sched::Slices,
        SchedShape::Fuchsia => Sched::Fuchsia,
        SchedShape::Ftrace => Sched::Ftrace,
    }
}
