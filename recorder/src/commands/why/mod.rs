//! `fxtrec why`: explains why a thread was late.

use std::cmp::Reverse;
use std::io::{self, BufReader, BufWriter, Seek, Write};
use std::path::{Path, PathBuf};

use fxt_reader::Reader;

use crate::cli::WhyArgs;
use crate::commands::conversion::refuse_terminal;
use crate::commands::many::{ManyError, each, expand};
use crate::commands::trace_file::{ReadError, keep, open, read, refuse_outside, resolve, watched};
use crate::convert::annotate::{Incident, Mark};
use crate::convert::{self, ConvertError, Format, Output, UnknownFormat};
use crate::report::call_name;
use crate::why::{self, Answer, Explanation, Pick, Query, WhyError};

/// The reason why there is no explanation.
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
    /// A directory has no traces or cannot be read.
    #[error(transparent)]
    Many(#[from] ManyError),
    /// An option needs a single trace.
    #[error("{0} is about one trace, and there are several: name one")]
    OneOnly(&'static str),
    /// None of several traces has anything to explain.
    #[error("nothing to explain in any of {0} traces")]
    NothingIn(usize),
    /// Writing the output failed.
    #[error("cannot write the output: {0}")]
    Write(#[from] io::Error),
}

/// Explains the intervals that `args` select, and writes to `out`. An output that is closed early is not an error.
///
/// # Errors
/// Returns an error if the trace cannot be read, has nothing to explain, or the output fails.
pub fn run(args: &WhyArgs, out: &mut dyn Write) -> Result<(), Error> {
    if !args.more.is_empty() || args.file.is_dir() {
        return run_many(args, out);
    }
    let path = &args.file;
    keep(path)?;
    drop(open(path)?);
    let answer = explain(&query(args, path)?, path, watched);
    if answer.is_err() {
        refuse_outside(path, args.from, args.to)?;
        refuse_outside(path, args.at, args.at)?;
    }
    let answer = answer?;
    if let Some(marked) = &args.annotate {
        annotate(&args.file, marked, &answer)?;
    }
    let mut out = BufWriter::new(out);
    let file = path.to_string_lossy();
    let written = match (args.json, args.top) {
        (true, _) => why::write_json(&answer, &mut out),
        (false, Some(_)) => why::write_list(&answer, &file, &mut out),
        (false, None) => why::write_text(&answer, &file, &mut out),
    };
    quietly(written.and_then(|()| out.flush()))
}

type Open = fn(&Path) -> Result<Reader<'static>, fxt_reader::Error>;

fn explain(query: &Query, path: &Path, open: Open) -> Result<Answer, Error> {
    let syscall = |machine: &str, number| call_name(machine, u16::try_from(number).ok()?);
    why::explain(query, || open(path), syscall).map_err(|error| match error {
        WhyError::Read(source) => Error::Read(ReadError::new(path, source)),
        error => Error::Why { path: path.to_owned(), error },
    })
}

/// Lists the worst delay of each trace, or the worst of all traces if their number is given.
fn run_many(args: &WhyArgs, out: &mut dyn Write) -> Result<(), Error> {
    let about_one = [
        (args.json, "--json"),
        (args.annotate.is_some(), "--annotate"),
        (args.worst.is_some(), "--worst"),
        (args.over.is_some(), "--over"),
    ];
    if let Some((_, option)) = about_one.into_iter().find(|(is_given, _)| *is_given) {
        return Err(Error::OneOnly(option));
    }
    let named: Vec<PathBuf> = std::iter::once(&args.file).chain(&args.more).cloned().collect();
    let traces = expand(&named)?;
    let mut answers = Vec::new();
    let work = |path: &Path| match explain(&query(args, path)?, path, read) {
        Ok(answer) => Ok(Some(answer)),
        // The thread, span or time may be missing in a trace.
        Err(Error::Why { .. }) => Ok(None),
        Err(error) => Err(error),
    };
    let name = |at: usize| traces[at].to_string_lossy().into_owned();
    let (mut truncated, mut silent) = (Vec::new(), Vec::new());
    each(&traces, work, |at, answer| match answer {
        Some(answer) => {
            truncated.extend(answer.trace.truncated.then_some(at));
            let first = Answer { explanations: Vec::new(), ..answer };
            let explained = answer.explanations.into_iter().take(args.top.unwrap_or(1));
            answers.extend(
                explained.map(|why| (at, Answer { explanations: vec![why], ..first.clone() })),
            );
        }
        None => silent.push(at),
    })?;
    // Each trace has only a part of the time.
    if [args.at, args.from, args.to].iter().any(Option::is_some) {
        silent.clear();
    }
    if answers.is_empty() {
        return Err(Error::NothingIn(traces.len()));
    }
    answers.sort_by_key(|(at, answer)| (Reverse(answer.severity()), *at));
    answers.truncate(args.top.unwrap_or(usize::MAX));
    let names = |mut list: Vec<usize>| {
        list.sort_unstable();
        list.into_iter().map(name).collect::<Vec<String>>()
    };
    let (truncated, silent) = (names(truncated), names(silent));
    let answers: Vec<(String, Answer)> =
        answers.into_iter().map(|(at, answer)| (name(at), answer)).collect();
    let mut out = BufWriter::new(out);
    quietly(why::write_files(&answers, (&truncated, &silent), &mut out).and_then(|()| out.flush()))
}

/// Explains the worst delay in a recording of the whole machine, leaving out this process, which recorded it.
///
/// # Errors
/// See [`run`].
pub fn worst_of_others(path: &Path, out: &mut dyn Write) -> Result<(), Error> {
    let query = Query { pick: Pick::Incidents(why::MOST_EXPLAINED), ..Query::default() };
    let mut answer = explain(&query, path, read)?;
    let own = Path::new("/proc/self/task");
    answer.explanations.retain(|why| !own.join(why.thread.tid.to_string()).exists());
    answer.explanations.truncate(1);
    if answer.explanations.is_empty() {
        return Ok(writeln!(out, "No program other than fxtrec was late.")?);
    }
    Ok(why::write_text(&answer, &path.to_string_lossy(), out)?)
}

/// An output that is closed early is not an error.
fn quietly(written: io::Result<()>) -> Result<(), Error> {
    match written {
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

fn query(args: &WhyArgs, path: &Path) -> Result<Query, ReadError> {
    let (from, to) = resolve(path, args.from, args.to)?;
    let (at, _) = resolve(path, args.at, None)?;
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
