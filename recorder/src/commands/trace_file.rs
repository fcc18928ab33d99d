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
    /// The requested window is empty.
    #[error("{}: {source}", path.display())]
    Outside { path: PathBuf, source: ConvertError },
    /// The output would be appended to the trace itself.
    #[error("{}: the output is the same file as the input: name another file", .0.display())]
    IsOutput(PathBuf),
    /// The content is not a trace, or damaged beyond what the reader can skip.
    #[error("{}: {source}", path.display())]
    Content {
        path: PathBuf,
        /// What is wrong with it.
        source: Error,
    },
}

impl ReadError {
    /// The error for the trace at `path`.
    pub fn new(path: &Path, source: Error) -> ReadError {
        match source {
            // This one names the file itself.
            Error::Open { .. } => ReadError::Open(source),
            source => ReadError::Content { path: path.to_owned(), source },
        }
    }
}

/// Makes the trace at `path` readable more than once: standard input or a pipe is first copied to a temporary file.
///
/// # Errors
/// When there is no such file, it is a directory, or it cannot be copied.
pub fn keep(path: &Path) -> Result<(), ReadError> {
    let failed = |source| ReadError::Open(Error::Open { path: path.to_owned(), source });
    match path.is_dir() {
        true => Err(failed(ErrorKind::IsADirectory.into())),
        false => traces::keep(path).map_err(failed),
    }
}

/// Resolves `from` and `to` to times in the trace at `path`. Relative ones count from its first scheduling record or,
/// without any, from its first record with a time; the trace is read up to there.
///
/// # Errors
/// When it cannot be read.
pub fn resolve(
    path: &Path,
    from: Option<TimePoint>,
    to: Option<TimePoint>,
) -> Result<(Option<Nanos>, Option<Nanos>), ReadError> {
    let moments = [from, to].map(|point| point.map(TimePoint::moment));
    let begin = match moments.iter().flatten().any(|moment| matches!(moment, Moment::After(_))) {
        true => {
            keep(path)?;
            beginning(&mut open(path)?)
        }
        false => Nanos(0),
    };
    let [from, to] = moments.map(|moment| moment.map(|moment| moment.resolve(begin)));
    Ok((from, to))
}

/// Explains an empty window: the trace may lie outside of it.
///
/// # Errors
/// When it does, or cannot be read.
pub fn refuse_outside(
    path: &Path,
    from: Option<TimePoint>,
    to: Option<TimePoint>,
) -> Result<(), ReadError> {
    if from.is_none() && to.is_none() || !traces::can_be_read_again(path) {
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

/// Read errors are reported when the content is read.
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
/// When it cannot be opened, or its container cannot be unpacked, or standard output is that file.
pub fn open(path: &Path) -> Result<Reader<'static>, ReadError> {
    open_by(path, read)
}

/// As [`open`], for commands that print only after reading the whole trace: a line on standard error shows the progress.
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

#[cfg(test)]
pub mod tests {
    use super::*;

    /// Runs `work` with a FIFO into which these bytes are written once.
    pub fn through_a_pipe<T>(bytes: &[u8], work: impl FnOnce(&Path) -> T) -> T {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("pipe");
        nix::unistd::mkfifo(&path, nix::sys::stat::Mode::S_IRWXU).expect("a pipe");
        std::thread::scope(|scope| {
            scope.spawn(|| std::fs::write(&path, bytes).expect("it is read to its end"));
            work(&path)
        })
    }

    #[test]
    fn times_after_the_beginning_of_a_pipe_leave_the_trace_to_be_read() {
        let mut scene = crate::report::scene::Scene::new();
        let leaves = crate::report::scene::Leaves::S;
        scene.switch(1_000, 0, 0, leaves, 101).switch(2_000, 0, 101, leaves, 0);
        let from = "+500us".parse().expect("a time");
        through_a_pipe(scene.bytes(), |path| {
            let (from, to) = resolve(path, Some(from), None).expect("a trace");
            assert_eq!((from, to), (Some(Nanos(1_500_000)), None));
            for _ in 0..2 {
                assert_eq!(beginning(&mut open(path).expect("kept")), Nanos(1_000_000));
            }
        });
        assert!(matches!(keep(Path::new("/")), Err(ReadError::Open(_))));
    }
}
