//! The part of a plan for flight recording and long recordings.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::DEFAULT_BUFFER_BYTES;
use crate::cli::{FlightArgs, HookCommand, Mode, Rotate};
use crate::flight::files::Bounds;
use crate::flight::watch::Limits;
use crate::sink::{Output, Target};
use crate::units::Nanos;
use crate::units::quantity::TimeSpan;
use fxtrec_gates::Trigger;

/// The default of `--buffer-size` with triggers, in bytes: at about 20 000 events per second, half of it holds half a minute.
pub const TRIGGER_BUFFER_BYTES: usize = 64 * 1024 * 1024;

const BEFORE: Duration = Duration::from_secs(10);
const AFTER: Duration = Duration::from_secs(5);
const INTERVAL: Duration = Duration::from_secs(10);

/// Triggers of circular mode, and how streaming mode divides its output.
#[derive(Clone, Debug, Default)]
pub struct FlightPlan {
    pub triggers: Vec<Trigger>,
    /// The time before and after a trigger that is written.
    pub window: Window,
    /// How often triggers may fire.
    pub limits: Limits,
    /// Stops the recording after this many triggered snapshots.
    pub stop_after: Option<u32>,
    /// The command to run after each snapshot.
    pub on_trigger: Option<HookCommand>,
    /// When to rotate to the next file.
    pub rotate: Option<Rotate>,
    /// The limits on the files to keep.
    pub bounds: Bounds,
}

/// The events to write around a trigger.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Window {
    /// The time before the trigger; `None` for everything in memory.
    pub before: Option<Nanos>,
    /// The time after the trigger.
    pub after: Nanos,
}

/// The reason why the options of flight recording are invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FlightError {
    /// An option that only circular mode has.
    #[error("{0} needs --mode circular, which keeps the last events in memory")]
    NeedsCircular(&'static str),
    /// `--rotate` in a mode other than streaming.
    #[error("--rotate needs streaming mode: omit --rotate or --mode")]
    RotateNeedsStreaming,
    /// `--disk-budget` or `--keep` without an option that writes several files.
    #[error("{0} limits the files of --trigger or --rotate: add one of them")]
    NothingToLimit(&'static str),
    /// An option that writes several files, with an output that is not a file.
    #[error("{option} writes several files, but {} is not a file: name one with -o", .path.display())]
    NoFile { option: &'static str, path: PathBuf },
    /// `--rotate` with `--fail-if`.
    #[error(
        "--fail-if evaluates one file, but --rotate writes several: use fxtrec report --fail-if on them"
    )]
    RotateAndGates,
}

fn nanos(time: Duration) -> Nanos {
    Nanos(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX))
}

impl FlightPlan {
    /// Makes the plan.
    ///
    /// # Errors
    /// Returns an error if the arguments contradict each other, the mode or the output.
    pub fn new(
        args: FlightArgs,
        mode: Mode,
        output: &Output,
        gates: bool,
    ) -> Result<FlightPlan, FlightError> {
        let armed = !args.triggers.is_empty();
        let needs_circular = [
            ("--trigger", armed),
            ("--before", args.before.is_some()),
            ("--after", args.after.is_some()),
        ];
        let wanted = needs_circular.into_iter().find(|(_, wanted)| *wanted);
        if let Some((option, _)) = wanted.filter(|_| mode != Mode::Circular) {
            return Err(FlightError::NeedsCircular(option));
        }
        if args.rotate.is_some() {
            if mode != Mode::Streaming {
                return Err(FlightError::RotateNeedsStreaming);
            }
            if gates {
                return Err(FlightError::RotateAndGates);
            }
            must_be_file("--rotate", output)?;
        }
        if armed {
            must_be_file("--trigger", output)?;
        }
        let limits =
            [("--disk-budget", args.disk_budget.is_some()), ("--keep", args.keep.is_some())];
        let limit = limits.into_iter().find(|(_, wanted)| *wanted);
        if let Some((option, _)) = limit
            && args.rotate.is_none()
            && mode != Mode::Circular
        {
            return Err(FlightError::NothingToLimit(option));
        }
        let or = |asked: Option<Duration>, default: Duration| {
            asked.map(nanos).or(armed.then_some(nanos(default)))
        };
        // The rotated file that is being written counts as one of the files to keep.
        let files = args.keep.map(|keep| keep.get() as usize - usize::from(args.rotate.is_some()));
        Ok(FlightPlan {
            triggers: args.triggers,
            window: Window {
                before: or(args.before.map(TimeSpan::duration), BEFORE),
                after: or(args.after, AFTER).unwrap_or_default(),
            },
            limits: Limits {
                interval: or(args.trigger_interval.map(TimeSpan::duration), INTERVAL)
                    .unwrap_or_default(),
                most: [args.max_snapshots, args.trigger_count]
                    .into_iter()
                    .flatten()
                    .min()
                    .map(Into::into),
            },
            stop_after: args.trigger_count.map(Into::into),
            on_trigger: args.on_trigger,
            rotate: args.rotate,
            bounds: Bounds { files, bytes: args.disk_budget.map(|budget| budget.bytes()) },
        })
    }

    /// The default size of the trace buffer, in bytes.
    pub fn default_buffer_bytes(&self) -> usize {
        if self.triggers.is_empty() { DEFAULT_BUFFER_BYTES } else { TRIGGER_BUFFER_BYTES }
    }

    /// The output to open first, if the next file of the series has the number `next`.
    pub fn first_output(&self, output: &Output, next: u32) -> Output {
        match &output.target {
            Target::Path(path) if self.rotate.is_some() => {
                Output { target: Target::Path(piece_path(path, next)), named: false, ..*output }
            }
            _ => output.clone(),
        }
    }

    /// The number of a file of this name in the series of the output `path`.
    pub fn number_of(&self, path: &Path, name: &OsStr) -> Option<u32> {
        match self.rotate {
            Some(_) => piece_number(path, name),
            None => snapshot_number(path, name),
        }
    }
}

/// Several files need an output that is a file.
fn must_be_file(option: &'static str, output: &Output) -> Result<(), FlightError> {
    let path = match &output.target {
        Target::Stdout => Path::new("standard output"),
        Target::Path(path) if output.named && path.exists() && !path.is_file() => path,
        Target::Path(_) => return Ok(()),
    };
    Err(FlightError::NoFile { option, path: path.to_owned() })
}

/// The file for snapshot `number` of the output `path`: `app.1.fxt.zst` for `app.fxt.zst`.
pub fn snapshot_path(path: &Path, number: u32) -> PathBuf {
    beside(path, &number.to_string())
}

/// The rotated file `number` of the output `path`: `app.0001.fxt.zst` for `app.fxt.zst`.
pub fn piece_path(path: &Path, number: u32) -> PathBuf {
    beside(path, &format!("{number:04}"))
}

/// The number of a file of this name next to the output `path`, if it is a rotated file of a recording to it.
pub fn piece_number(path: &Path, name: &OsStr) -> Option<u32> {
    number_in(path, name, |digits| digits.len() >= 4)
}

/// The number of a file of this name next to the output `path`, if it is a snapshot of a recording to it.
fn snapshot_number(path: &Path, name: &OsStr) -> Option<u32> {
    number_in(path, name, |digits| !digits.starts_with('0'))
}

/// The highest number of a file: a higher number is not from fxtrec, so there is always a next number.
const MOST_FILES: u32 = 999_999_999;

fn number_in(path: &Path, name: &OsStr, is_written_so: impl Fn(&str) -> bool) -> Option<u32> {
    let output = path.file_name().unwrap_or_default().to_string_lossy();
    let (begin, end) = around_number(&output);
    let digits = name.to_str()?.strip_prefix(begin)?.strip_prefix('.')?.strip_suffix(end)?;
    let are_digits = digits.bytes().all(|it| it.is_ascii_digit());
    let number = digits.parse().ok().filter(|_| are_digits && is_written_so(digits));
    number.filter(|number| (1..=MOST_FILES).contains(number))
}

fn beside(path: &Path, number: &str) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let (begin, end) = around_number(&name);
    path.with_file_name(format!("{begin}.{number}{end}"))
}

/// The text before and after the number in a file name derived from the output `name`.
fn around_number(name: &str) -> (&str, &str) {
    name.split_at(name.find(".fxt").or(name.rfind('.')).unwrap_or(name.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_numbered_before_the_ending() {
        let named = |path: &str| snapshot_path(Path::new(path), 2).display().to_string();
        assert_eq!(named("/tmp/app.fxt"), "/tmp/app.2.fxt");
        assert_eq!(named("app.v1.fxt.zst"), "app.v1.2.fxt.zst");
        assert_eq!(named("trace.gz"), "trace.2.gz");
        assert_eq!(named("trace"), "trace.2");
        let piece = |number| piece_path(Path::new("app.fxt"), number).display().to_string();
        assert_eq!((piece(7), piece(12345)), ("app.0007.fxt".into(), "app.12345.fxt".into()));
        let path = Path::new("/tmp/app.fxt.zst");
        let pieces = ["app.0001.fxt.zst", "app.12345.fxt.zst"];
        assert_eq!(pieces.map(|name| piece_number(path, name.as_ref())), [Some(1), Some(12345)]);
        let others = [
            "app.fxt.zst",
            "app.1.fxt.zst",
            "app.0001.fxt",
            "app.00x1.fxt.zst",
            "app.+001.fxt.zst",
            "app.0000.fxt.zst",
            "app.4294967295.fxt.zst",
            "b.0001.fxt.zst",
        ];
        assert_eq!(others.map(|name| piece_number(path, name.as_ref())), [None; 8]);
        let snapshot = |name: &str| snapshot_number(path, name.as_ref());
        assert_eq!(snapshot("app.1.fxt.zst"), Some(1));
        assert_eq!((snapshot("app.0001.fxt.zst"), snapshot("app.fxt.zst")), (None, None));
    }
}
