//! The trace that a command line names: a file, or `-` for standard input.

use std::fs::File;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

use fxt_reader::{Error, Item, Nanos, Reader, Record};

use crate::cli::TimePoint;
use crate::convert::{ConvertError, traces};
use crate::kernel::progress;
use crate::report::TimeSpec;
use crate::sched::{signed, unsigned};
use crate::sink::outfile::refuse_inputs;
use crate::units::convention::SCHEMA;

/// A trace cannot be read, or not to its end.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    #[error(transparent)]
    Open(Error),
    /// The requested window is empty.
    #[error("{}: {source}", path.display())]
    Outside { path: PathBuf, source: ConvertError },
    /// A time of day was given.
    #[error("{}: the trace does not record its time of day: give times of its clock, as fxtrec \
     report prints them", .0.display())]
    NoWallClock(PathBuf),
    /// The output would be appended to the trace itself.
    #[error("{}: the output is the same file as the input: name another file", .0.display())]
    IsOutput(PathBuf),
    /// The content is not a trace, or damaged beyond what the reader can skip.
    #[error("{}: {source}", path.display())]
    Content {
        path: PathBuf,
        /// The error in it.
        source: Error,
    },
}

impl ReadError {
    /// The error for the trace at `path`.
    pub fn new(path: &Path, source: Error) -> ReadError {
        match source {
            // This error already names the file.
            Error::Open { .. } => ReadError::Open(source),
            source => ReadError::Content { path: path.to_owned(), source },
        }
    }
}

/// Makes the trace at `path` readable more than once: standard input or a pipe is first copied to a temporary file.
///
/// # Errors
/// Returns an error when the file does not exist, is a directory, or cannot be copied.
pub fn keep(path: &Path) -> Result<(), ReadError> {
    let failed = |source| ReadError::Open(Error::Open { path: path.to_owned(), source });
    match path.is_dir() {
        true => Err(failed(ErrorKind::IsADirectory.into())),
        false => traces::keep(path).map_err(failed),
    }
}

/// Resolves `from` and `to` to times in the trace at `path`. Relative times count from its first scheduling record or, if there is none,
/// from its first record with a time; the trace is read up to there.
///
/// # Errors
/// Returns an error when the trace cannot be read.
pub fn resolve(
    path: &Path,
    from: Option<TimePoint>,
    to: Option<TimePoint>,
) -> Result<(Option<Nanos>, Option<Nanos>), ReadError> {
    let is_plain = |point: &TimePoint| matches!(point, TimePoint::In(TimeSpec::At(_)));
    let (begin, wall_clock) = match [from, to].iter().flatten().all(is_plain) {
        true => (Nanos(0), None),
        false => {
            keep(path)?;
            beginning(&mut open(path)?)
        }
    };
    let time = |point: TimePoint| match point {
        TimePoint::In(moment) => Ok(moment.resolve(begin)),
        TimePoint::OfDay(nanos) => wall_clock
            .and_then(|offset| on_day_of(begin, offset, nanos))
            .ok_or_else(|| ReadError::NoWallClock(path.to_owned())),
    };
    Ok((from.map(time).transpose()?, to.map(time).transpose()?))
}

/// The time nearest to `begin` that is this number of nanoseconds after midnight UTC.
fn on_day_of(begin: Nanos, offset: i64, nanos: u64) -> Option<Nanos> {
    const DAY: u64 = 86_400_000_000_000;
    let wall = begin.0.checked_add_signed(offset)?;
    let same_day = wall - wall % DAY + nanos;
    let all = [same_day.checked_sub(DAY), Some(same_day), same_day.checked_add(DAY)];
    let nearest = all.into_iter().flatten().min_by_key(|it| it.abs_diff(wall))?;
    Some(Nanos(nearest.saturating_add_signed(offset.checked_neg()?)))
}

/// Explains an empty window: the trace may be outside of it.
///
/// # Errors
/// Returns an error when the window is empty, or the trace cannot be read.
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

/// When the trace begins, and how far its clock is behind the wall clock. Read errors are reported when the content is read.
fn beginning(reader: &mut Reader<'_>) -> (Nanos, Option<i64>) {
    let (mut first, mut wall_clock) = (None, None);
    loop {
        match reader.next() {
            Ok(Some(item)) => match (&item.record, item.record.time()) {
                (
                    Record::ContextSwitch(_) | Record::LegacyContextSwitch(_) | Record::Wakeup(_),
                    Some(time),
                ) => return (time, wall_clock),
                (record, Some(time)) => {
                    if let Record::Event(event) = record
                        && (event.category, event.name) == ("fxtrec", "trace_info")
                    {
                        let offset = event.args.get("wall_clock_offset_ns");
                        wall_clock = wall_clock.or(offset.and_then(signed));
                    }
                    first = first.or(Some(time));
                }
                (_, None) => {}
            },
            Err(Error::Damaged(_)) => {}
            Ok(None) | Err(_) => return (first.unwrap_or(Nanos(0)), wall_clock),
        }
    }
}

/// At most this many records are read to find the recorder's statements about the trace.
const MOST_BEFORE_INFO: usize = 10_000;

/// Warns if events of the trace may have a different meaning than this version assumes.
pub fn warn_of_newer(path: &Path, err: &mut dyn Write) {
    // A pipe can be read only once.
    let Some(mut reader) = path.is_file().then(|| read(path).ok()).flatten() else { return };
    for _ in 0..MOST_BEFORE_INFO {
        match reader.next() {
            Ok(Some(Item { record: Record::Event(event), .. }))
                if (event.category, event.name) == ("fxtrec", "trace_info") =>
            {
                let schema = event.args.get("schema").and_then(unsigned).unwrap_or(0);
                if schema > SCHEMA {
                    let version = event.args.str("version").unwrap_or("a newer version");
                    // Standard error may be closed.
                    let _ = writeln!(
                        err,
                        "fxtrec: warning: {}: the schema of this trace is {schema}, and this \
                         fxtrec knows {SCHEMA}: its output may be wrong; use the fxtrec that \
                         recorded the trace ({version}), or a newer one",
                        path.display()
                    );
                }
                return;
            }
            Ok(Some(_)) | Err(Error::Damaged(_)) => {}
            Ok(None) | Err(_) => return,
        }
    }
}

/// Opens the trace at `path`, or on standard input for `-`.
///
/// # Errors
/// Returns an error when it cannot be opened, its container cannot be unpacked, or standard output is the same file.
pub fn open(path: &Path) -> Result<Reader<'static>, ReadError> {
    open_by(path, read)
}

/// The same as [`open`], for commands that print only after reading the whole trace: a line on standard error shows the progress.
///
/// # Errors
/// See [`open`].
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

/// The trace at `path`; reading it shows progress.
///
/// # Errors
/// Returns an error when it cannot be opened.
pub fn watched(path: &Path) -> Result<Reader<'static>, Error> {
    Ok(Reader::from_file(file(path)?, progress::watch))
}

/// The trace at `path`.
///
/// # Errors
/// Returns an error when it cannot be opened.
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
    fn a_trace_with_a_newer_schema_gets_a_warning() {
        let warning = |schema: u64| {
            let mut trace = fxt_writer::Writer::new(Vec::new());
            trace.start("fxtrec", 1_000_000_000).expect("room");
            let version = fxt_writer::Value::Str(fxt_writer::Text::Inline("7.8.9"));
            let args = [("schema", fxt_writer::Value::uint(schema)), ("version", version)];
            let thread = (fxt_writer::Koid(7), fxt_writer::Koid(7));
            let time = fxt_writer::Ticks(1);
            trace.instant(time, thread, "fxtrec", "trace_info", &args).expect("room");
            let file = tempfile::NamedTempFile::new().expect("a place for a file");
            std::fs::write(file.path(), trace.into_inner()).expect("room");
            let mut err = Vec::new();
            warn_of_newer(file.path(), &mut err);
            String::from_utf8(err).expect("text")
        };
        let said = warning(SCHEMA + 1);
        assert!(said.contains("the schema of this trace is 2") && said.contains("7.8.9"), "{said}");
        assert_eq!(warning(SCHEMA), "");
    }

    #[test]
    fn a_time_of_the_day_is_the_nearest_one_to_the_recording() {
        const HOUR: u64 = 3_600_000_000_000;
        // The trace begins 100 hours after the start of the machine, at 23:00.
        let (begin, offset) = (Nanos(100 * HOUR), (24 * 20_000 + 23 - 100) * HOUR as i64);
        let at = |hour: u64| on_day_of(begin, offset, hour * HOUR).expect("a time").0 / HOUR;
        assert_eq!([at(23), at(22), at(0), at(12)], [100, 99, 101, 89]);
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
                let found = beginning(&mut open(path).expect("kept"));
                assert_eq!(found, (Nanos(1_000_000), None));
            }
        });
        let of_day = Some("10:00:00".parse().expect("a time"));
        let refused = through_a_pipe(scene.bytes(), |path| resolve(path, of_day, None));
        assert!(matches!(refused, Err(ReadError::NoWallClock(_))), "{refused:?}");
        assert!(matches!(keep(Path::new("/")), Err(ReadError::Open(_))));
    }
}
