//! The trace that a command line names: a file, or `-` for standard input.

use std::fs::File;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use fxt_reader::{Error, Nanos, Reader, Record};

use crate::cli::TimePoint;
use crate::convert::{ConvertError, traces};
use crate::kernel::progress;
use crate::report::Moment;
use crate::sink::outfile::refuse_inputs;

/// A trace cannot be read, or not to its end.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    #[error(transparent)]
    Open(Error),
    /// Its beginning cannot be looked for before it is read.
    #[error(
        "{}: times with a plus or a unit need input that can be read twice: use a file, or give seconds as `fxtrec dump` prints them",
        .0.display()
    )]
    Once(PathBuf),
    /// Nothing is in the window that was asked for.
    #[error("{}: {source}", path.display())]
    Outside { path: PathBuf, source: ConvertError },
    /// What is printed would be added to it.
    #[error("{}: the output is the same file as the input: name another file", .0.display())]
    IsOutput(PathBuf),
    /// What it holds is no trace, or damaged beyond what reading steps over.
    #[error("{}: {source}", path.display())]
    Content {
        path: PathBuf,
        /// What is wrong with it.
        source: Error,
    },
}

impl ReadError {
    /// What has to be said about the trace at `path`.
    pub fn new(path: &Path, source: Error) -> ReadError {
        match source {
            // This one names the file itself.
            Error::Open { .. } => ReadError::Open(source),
            source => ReadError::Content { path: path.to_owned(), source },
        }
    }
}

/// Whether the trace at `path` can be read more than once, which standard input, a pipe or a device cannot.
///
/// # Errors
/// When there is no such file, or it is a directory.
pub fn is_kept(path: &Path) -> Result<bool, ReadError> {
    if path == Path::new("-") {
        return Ok(false);
    }
    let failed = |source| ReadError::Open(Error::Open { path: path.to_owned(), source });
    let facts = path.metadata().map_err(failed)?;
    match facts.is_dir() {
        true => Err(failed(ErrorKind::IsADirectory.into())),
        false => Ok(facts.is_file()),
    }
}

/// The times that `from` and `to` are in the trace at `path`. Those after the beginning count from its first scheduling
/// record, or in a trace without any from its first record with a time; the trace is read up to there.
///
/// # Errors
/// When it cannot be read, or cannot be read twice.
pub fn resolve(
    path: &Path,
    from: Option<TimePoint>,
    to: Option<TimePoint>,
) -> Result<(Option<Nanos>, Option<Nanos>), ReadError> {
    let moments = [from, to].map(|point| point.map(TimePoint::moment));
    let begin = match moments.iter().flatten().any(|moment| matches!(moment, Moment::After(_))) {
        true if !is_kept(path)? => return Err(ReadError::Once(path.to_owned())),
        true => beginning(&mut open(path)?),
        false => Nanos(0),
    };
    let [from, to] = moments.map(|moment| moment.map(|moment| moment.resolve(begin)));
    Ok((from, to))
}

/// What is wrong with a window in which nothing was found: the trace may be elsewhere.
///
/// # Errors
/// When it is, or cannot be read.
pub fn refuse_outside(
    path: &Path,
    from: Option<TimePoint>,
    to: Option<TimePoint>,
) -> Result<(), ReadError> {
    if from.is_none() && to.is_none() || !path.is_file() {
        return Ok(());
    }
    let (from, to) = resolve(path, from, to)?;
    let mut reader = open(path)?;
    let mut range: Option<(Nanos, Nanos)> = None;
    loop {
        match reader.next() {
            Ok(Some(item)) => {
                if let Some(time) = item.record.time() {
                    let (begin, end) = range.unwrap_or((time, time));
                    range = Some((begin.min(time), end.max(time)));
                }
            }
            Err(Error::Damaged(_)) => {}
            Ok(None) | Err(_) => break,
        }
    }
    match range {
        Some((begin, end))
            if from.is_some_and(|from| from > end) || to.is_some_and(|to| to < begin) =>
        {
            let source = ConvertError::Outside { begin, end };
            Err(ReadError::Outside { path: path.to_owned(), source })
        }
        _ => Ok(()),
    }
}

/// What cannot be read is told when it is read for its content.
fn beginning(reader: &mut Reader<'_>) -> Nanos {
    let mut first = None;
    loop {
        match reader.next() {
            Ok(Some(item)) => match (&item.record, item.record.time()) {
                (
                    Record::ContextSwitch(_) | Record::LegacyContextSwitch(_) | Record::Wakeup(_),
                    Some(time),
                ) => return time,
                (_, Some(time)) => first = first.or(Some(time)),
                (_, None) => {}
            },
            Err(Error::Damaged(_)) => {}
            Ok(None) | Err(_) => return first.unwrap_or(Nanos(0)),
        }
    }
}

/// Opens the trace at `path`, or on standard input for `-`.
///
/// # Errors
/// When it cannot be opened, or its container cannot be unpacked, or standard output is that very file.
pub fn open(path: &Path) -> Result<Reader<'static>, ReadError> {
    open_by(path, read)
}

/// As [`open`], for commands that print only when they have read all of it: a line on standard error says how far that is.
///
/// # Errors
/// As of [`open`].
pub fn open_watched(path: &Path) -> Result<Reader<'static>, ReadError> {
    open_by(path, watched)
}

fn open_by(
    path: &Path,
    open: impl Fn(&Path) -> Result<Reader<'static>, Error>,
) -> Result<Reader<'static>, ReadError> {
    if refuse_inputs(Path::new("-"), &[path]).is_err() {
        return Err(ReadError::IsOutput(path.to_owned()));
    }
    if path == Path::new("-") {
        let input = traces::from_stdin();
        let input = input.map_err(|source| Error::Open { path: path.to_owned(), source });
        return Ok(Reader::read_ahead(input.map_err(ReadError::Open)?));
    }
    open(path).map_err(|source| ReadError::new(path, source))
}

/// The trace at `path`, whose reading shows progress.
///
/// # Errors
/// When it cannot be opened.
pub fn watched(path: &Path) -> Result<Reader<'static>, Error> {
    Ok(Reader::from_file(file(path)?, progress::watch))
}

/// The trace at `path`.
///
/// # Errors
/// When it cannot be opened.
pub fn read(path: &Path) -> Result<Reader<'static>, Error> {
    Ok(Reader::from_file(file(path)?, |file| file))
}

fn file(path: &Path) -> Result<File, Error> {
    traces::open(path).map_err(|source| Error::Open { path: path.to_owned(), source })
}
