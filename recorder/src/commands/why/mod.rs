//! `fxtrec why`: from "late" to "because".

use std::io::{self, BufWriter, Write};
use std::path::PathBuf;

use crate::cli::WhyArgs;
use crate::commands::trace_file::{ReadError, open, resolve, watched};
use crate::report::call_name;
use crate::why::{self, Pick, Query, WhyError};

/// Why there is no explanation.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The trace cannot be read, or not to its end.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// It cannot be read twice.
    #[error(
        "{}: the trace is read twice, which a pipe cannot be: use a file",
        .0.display()
    )]
    Once(PathBuf),
    /// There is nothing that could be explained.
    #[error("{}: {error}", path.display())]
    Why { path: PathBuf, error: WhyError },
    /// The output does not take any more.
    #[error("cannot write the output: {0}")]
    Write(#[from] io::Error),
}

/// Explains what `args` ask for, and writes it to `out`. An output that is closed early ends it quietly.
///
/// # Errors
/// When the trace cannot be read twice, has nothing to explain, or the output fails.
pub fn run(args: &WhyArgs, out: &mut dyn Write) -> Result<(), Error> {
    let path = &args.file;
    // A file that does not exist is reported when it is opened.
    if path.as_os_str() == "-" || (path.exists() && !path.is_file()) {
        return Err(Error::Once(path.clone()));
    }
    drop(open(path)?);
    let query = query(args)?;
    let syscall = |machine: &str, number| call_name(machine, u16::try_from(number).ok()?);
    let answer = why::explain(&query, || watched(path), syscall);
    let answer = answer.map_err(|error| match error {
        WhyError::Read(source) => Error::Read(ReadError::new(path, source)),
        error => Error::Why { path: path.clone(), error },
    })?;
    let mut out = BufWriter::new(out);
    let written = match args.json {
        true => why::write_json(&answer, &mut out),
        false => why::write_text(&answer, &mut out),
    };
    match written.and_then(|()| out.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        written => Ok(written?),
    }
}

fn query(args: &WhyArgs) -> Result<Query, ReadError> {
    let (from, to) = resolve(&args.file, args.from, args.to)?;
    let (at, _) = resolve(&args.file, args.at, None)?;
    let over = args.over.map(|over| u64::try_from(over.duration().as_nanos()).unwrap_or(u64::MAX));
    let pick = match (at, over, args.worst) {
        (Some(at), ..) => Pick::At(at.0),
        (None, Some(over), _) => Pick::Over(over),
        (None, None, worst) => Pick::Worst(worst.unwrap_or(1)),
    };
    Ok(Query {
        thread: args.thread.clone(),
        span: args.span.clone(),
        metric: args.metric.map(|metric| metric.metric()),
        life: args.life,
        pick,
        from: from.map(|time| time.0),
        to: to.map(|time| time.0),
    })
}

#[cfg(test)]
mod tests;
