//! The trace that a command line names: a file, or `-` for standard input.

use std::fs::File;
use std::io::stdin;
use std::path::{Path, PathBuf};

use fxt_reader::{Error, Nanos, Reader, Record};

use crate::cli::TimePoint;
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
        "{}: times with a plus need input that can be read twice: use a file, or give absolute times",
        .0.display()
    )]
    Once(PathBuf),
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
        true if !path.is_file() => return Err(ReadError::Once(path.to_owned())),
        true => beginning(&mut open(path)?),
        false => Nanos(0),
    };
    let [from, to] = moments.map(|moment| moment.map(|moment| moment.resolve(begin)));
    Ok((from, to))
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
    open_by(path, |path| Reader::open(path))
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
        return Ok(Reader::read_ahead(stdin()));
    }
    open(path).map_err(|source| ReadError::new(path, source))
}

/// The trace at `path`, whose reading shows progress.
///
/// # Errors
/// When it cannot be opened.
pub fn watched(path: &Path) -> Result<Reader<'static>, Error> {
    let file = File::open(path).map_err(|source| Error::Open { path: path.to_owned(), source })?;
    Ok(Reader::from_file(file, progress::watch))
}
