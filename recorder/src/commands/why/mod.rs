//! `fxtrec why`: from "late" to "because".

use std::io::{self, BufReader, BufWriter, Seek, Write};
use std::path::{Path, PathBuf};

use crate::cli::WhyArgs;
use crate::commands::conversion::refuse_terminal;
use crate::commands::trace_file::{ReadError, keep, open, refuse_outside, resolve, watched};
use crate::convert::annotate::{Incident, Mark};
use crate::convert::{self, ConvertError, Format, Output, UnknownFormat};
use crate::report::call_name;
use crate::why::{self, Answer, Explanation, Pick, Query, WhyError};

/// Why there is no explanation.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The trace cannot be read, or not to its end.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// There is nothing to explain.
    #[error("{}: {error}", path.display())]
    Why { path: PathBuf, error: WhyError },
    /// The trace with its incidents cannot be written.
    #[error(transparent)]
    Annotate(#[from] ConvertError),
    /// Writing the output failed.
    #[error("cannot write the output: {0}")]
    Write(#[from] io::Error),
}

/// Explains the intervals that `args` select, and writes to `out`. An output that is closed early is not an error.
///
/// # Errors
/// When the trace cannot be read, has nothing to explain, or the output fails.
pub fn run(args: &WhyArgs, out: &mut dyn Write) -> Result<(), Error> {
    let path = &args.file;
    keep(path)?;
    drop(open(path)?);
    let query = query(args)?;
    let syscall = |machine: &str, number| call_name(machine, u16::try_from(number).ok()?);
    let answer = why::explain(&query, || watched(path), syscall);
    if answer.is_err() {
        refuse_outside(path, args.from, args.to)?;
        refuse_outside(path, args.at, args.at)?;
    }
    let answer = answer.map_err(|error| match error {
        WhyError::Read(source) => Error::Read(ReadError::new(path, source)),
        error => Error::Why { path: path.clone(), error },
    })?;
    if let Some(marked) = &args.annotate {
        annotate(&args.file, marked, &answer)?;
    }
    let mut out = BufWriter::new(out);
    let written = match (args.json, args.top) {
        (true, _) => why::write_json(&answer, &mut out),
        (false, Some(_)) => why::write_list(&answer, &mut out),
        (false, None) => why::write_text(&answer, &mut out),
    };
    match written.and_then(|()| out.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        written => Ok(written?),
    }
}

/// Writes a copy of the trace with the explanations as additional tracks.
fn annotate(path: &Path, marked: &Path, answer: &Answer) -> Result<(), ConvertError> {
    refuse_terminal(marked)?;
    let (format, packing) = Format::of_path(marked);
    let incidents: Vec<Incident> = answer.explanations.iter().map(incident).collect();
    let mut output = Output::create(marked, packing, &[path])?;
    match format {
        Some(Format::Fxt) => convert::annotate::annotate(path, &incidents, &mut output)?,
        Some(Format::Perfetto) => {
            let mut between = tempfile::tempfile().map_err(ConvertError::Write)?;
            convert::annotate::annotate(path, &incidents, &mut between)?;
            between.rewind().map_err(ConvertError::Read)?;
            convert::to_perfetto(BufReader::new(between), &mut output)?;
        }
        _ => return Err(UnknownFormat::Output(marked.to_owned()).into()),
    }
    output.finish()?;
    Ok(())
}

fn incident(explanation: &Explanation) -> Incident {
    let chain = explanation.chain.iter().map(|link| Mark {
        from_ns: link.from_ns,
        to_ns: link.to_ns,
        name: format!("{}[{}] {}", link.thread.comm, link.thread.tid, why::describe_link(link)),
        thread: link.thread.koid,
    });
    let whole = Mark {
        from_ns: explanation.from_ns,
        to_ns: explanation.to_ns,
        name: explanation.sentence.clone(),
        thread: explanation.thread.koid,
    };
    Incident { whole, chain: chain.collect() }
}

fn query(args: &WhyArgs) -> Result<Query, ReadError> {
    let (from, to) = resolve(&args.file, args.from, args.to)?;
    let (at, _) = resolve(&args.file, args.at, None)?;
    let over = args.over.map(|over| u64::try_from(over.duration().as_nanos()).unwrap_or(u64::MAX));
    let pick = match (at, over, args.top, args.worst) {
        (Some(at), ..) => Pick::At(at.0),
        (None, Some(over), ..) => Pick::Over(over),
        (None, None, Some(top), _) => Pick::Incidents(top),
        (None, None, None, worst) => Pick::Worst(worst.unwrap_or(1)),
    };
    Ok(Query {
        thread: args.thread.clone(),
        span: args.span.clone(),
        metric: args.metric.map(|metric| metric.metric()),
        life: args.life,
        pick,
        from: from.map(|time| time.0),
        to: to.map(|time| time.0),
        recorder: args.include_recorder,
        critical_path: args.critical_path,
    })
}

#[cfg(test)]
mod tests;
