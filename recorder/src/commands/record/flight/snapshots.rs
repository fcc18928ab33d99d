//! The thread that turns copies of the engine's buffers into files.

use std::fmt;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use crossbeam_channel::{Receiver, Sender};
use fxt_reader::Reader;

use super::hook::{Hook, HookError};
use crate::cli::HookCommand;
use crate::commands::plan::flight::{Window, snapshot_path};
use crate::commands::record::describe::{self, Beginning, Ending};
use crate::commands::record::providers::past;
use crate::commands::record::retained::Retained;
use crate::convert::ConvertError;
use crate::convert::cut::{self, Filter, Maker};
use crate::encode::moment::MachineState;
use crate::encode::moment::rewind::rewind;
use crate::flight::files::{NotRemoved, Removed};
use crate::flight::watch::Fired;
use crate::kernel::bell::Bell;
use crate::kernel::directory::FileId;
use crate::kernel::notify::Notice;
use crate::manager::Section;
use crate::sink::drain::LeftOut;
use crate::sink::outfile::{Given, NameState, OutputLocation};
use crate::sink::{self, Compression, Opened, Sink, SinkError, Totals};
use crate::units::Nanos;
use crate::units::text::{bytes, short};

/// A file reaches back at least this far before the trigger, so that a few events show the state of each thread.
const LEAD: Nanos = Nanos(100_000_000);

/// The content of the engine at one point in time.
#[derive(Debug)]
pub(in crate::commands::record) struct Records {
    /// The records that name everything in the buffers.
    pub(super) names: Vec<u8>,
    /// The buffers, the older one first.
    pub(super) buffers: Vec<u8>,
    /// The records that explain the stacks in the buffers.
    pub(super) stacks: Vec<Vec<u8>>,
    /// The state of the machine at their end.
    pub(super) now: MachineState,
    /// The description of the recording up to that time.
    pub(super) ending: Ending,
    /// Whether older records were overwritten.
    pub(super) overwritten: bool,
    /// The records that applications wrote themselves.
    pub(super) sections: Vec<Section>,
}

/// A trigger that fired.
#[derive(Clone, Debug)]
pub(in crate::commands::record) struct Cause {
    pub(in crate::commands::record) fired: Fired,
    pub(in crate::commands::record) expression: String,
    /// The trigger, its thread and the value, for people.
    pub(super) line: String,
}

/// A snapshot to write.
#[derive(Debug)]
pub(in crate::commands::record) struct Shot {
    /// The triggers that fired; empty for a requested snapshot.
    pub(super) cause: Option<Cause>,
    pub(super) at: Nanos,
    pub(super) records: Arc<Records>,
}

/// The reason why a snapshot could not be written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub(in crate::commands::record) enum SnapshotError {
    /// The file could not be written.
    #[error(transparent)]
    Sink(#[from] SinkError),
    /// The buffers could not be read.
    #[error("cannot read the buffers: {0}")]
    Read(#[from] fxt_reader::Error),
    /// The file or its directory was removed or moved while it was being written.
    #[error("{} was removed or moved while it was being written", .0.display())]
    Elsewhere(PathBuf),
    /// The window could not be cut out of the buffers.
    #[error("cannot cut the window out of the buffers: {0}")]
    Cut(#[from] ConvertError),
}

/// The message for the user.
#[derive(Debug)]
pub(in crate::commands::record) enum News {
    Written {
        /// The trigger that fired, if any.
        cause: Option<String>,
        path: PathBuf,
        bytes: u64,
        /// How much history memory held and how much was wanted, if it held less.
        reach: Reach,
    },
    /// A snapshot was not written.
    Failed {
        /// The trigger that fired, if any.
        cause: Option<String>,
        error: SnapshotError,
    },
    /// An old file could not be removed.
    Stays(NotRemoved),
    /// The command for a snapshot was not run, or failed.
    Hook(HookError),
}

impl News {
    pub(in crate::commands::record) fn is_good(&self) -> bool {
        matches!(self, News::Written { .. })
    }

    /// Whether it is the result of a trigger's snapshot.
    pub(in crate::commands::record) fn is_of_trigger(&self) -> bool {
        matches!(self, News::Written { cause: Some(_), .. } | News::Failed { cause: Some(_), .. })
    }

    /// The result, for the parent process.
    pub(in crate::commands::record) fn notice(&self) -> Option<Notice> {
        match self {
            News::Written { cause: None, path, .. } => Some(Notice::Snapshot(path.clone())),
            News::Written { path, .. } => Some(Notice::Fired(path.clone())),
            News::Failed { error, .. } => Some(Notice::NoSnapshot(error.to_string())),
            News::Stays(_) | News::Hook(_) => None,
        }
    }
}

impl fmt::Display for News {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let cause = match self {
            News::Written { cause, .. } | News::Failed { cause, .. } => cause,
            News::Stays(error) => return write!(f, "{error}"),
            News::Hook(error) => return write!(f, "{error}"),
        };
        if let Some(cause) = cause {
            write!(f, "{cause}: ")?;
        }
        match self {
            News::Written { path, bytes: size, reach, .. } => {
                if let Some((had, wanted)) = reach {
                    let [had, wanted] =
                        [had, wanted].map(|time| short(Duration::from_nanos(time.0)));
                    write!(f, "memory held only {had} of {wanted} (--buffer-size); ")?;
                }
                write!(f, "snapshot of {} written to {}", bytes(*size), path.display())
            }
            News::Failed { error, .. } => write!(f, "cannot write the snapshot: {error}"),
            News::Stays(_) | News::Hook(_) => Ok(()),
        }
    }
}

/// The outcomes of all snapshots.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::commands::record) struct SnapshotCounts {
    pub(in crate::commands::record) written: u64,
    pub(in crate::commands::record) failed: u64,
    /// Number of snapshots removed to stay within limits: of this run, and of earlier runs.
    pub(in crate::commands::record) removed: Removed,
}

/// How far memory reached back and how far it should have, if that was too short.
type Reach = Option<(Nanos, Nanos)>;

/// The data of the thread.
#[derive(Debug)]
pub(in crate::commands::record) struct Snapshots {
    pub(in crate::commands::record) beginning: Arc<Beginning>,
    pub(in crate::commands::record) window: Window,
    /// The output next to which the files are written, in the directory that it had before COMMAND ran.
    pub(in crate::commands::record) place: OutputLocation,
    pub(in crate::commands::record) given: Given,
    pub(in crate::commands::record) compression: Compression,
    pub(in crate::commands::record) retained: Arc<Retained>,
    pub(in crate::commands::record) shots: Receiver<Shot>,
    pub(in crate::commands::record) news: Sender<News>,
    /// Signalled after something was sent to `news`.
    pub(in crate::commands::record) bell: Bell,
    /// The command to run for each snapshot of a trigger.
    pub(in crate::commands::record) on_trigger: Option<HookCommand>,
}

impl Snapshots {
    /// Starts the thread. The loop ends when no sender is left.
    pub(in crate::commands::record) fn spawn(mut self) -> io::Result<JoinHandle<SnapshotCounts>> {
        let (news, bell) = (self.news.clone(), self.bell.clone());
        let hook = self.on_trigger.take().map(|command| {
            Hook::spawn(command, move |error| {
                // At the very end, the receiver may have ended.
                let _ = news.send(News::Hook(error));
                bell.ring();
            })
        });
        let hook = hook.transpose()?;
        let thread = std::thread::Builder::new().name("fxtrec-snapshot".to_owned());
        thread.spawn(move || self.run(hook))
    }

    fn run(self, hook: Option<Hook>) -> SnapshotCounts {
        let mut failed = 0;
        for (number, shot) in (self.retained.next()..).zip(&self.shots) {
            let path = snapshot_path(self.place.path(), number);
            let written = self.write(&shot, &path);
            let cause = shot.cause.map(|cause| cause.line);
            let hook = hook.as_ref().filter(|_| cause.is_some() && written.is_ok());
            let hooked = hook.map(|hook| hook.run(&path));
            let news = match written {
                Ok((id, totals, reach)) => {
                    let added = self.retained.files().add(&path, id, totals.output_bytes, 0);
                    if let Err(error) = added {
                        self.tell(News::Stays(error));
                    }
                    News::Written { cause, path, bytes: totals.output_bytes, reach }
                }
                Err(error) => {
                    failed += 1;
                    News::Failed { cause, error }
                }
            };
            self.tell(news);
            if let Some(Err(error)) = hooked {
                self.tell(News::Hook(error));
            }
        }
        if let Some(hook) = hook {
            hook.finish();
        }
        let files = self.retained.files();
        SnapshotCounts { written: files.written(), failed, removed: files.removed() }
    }

    fn tell(&self, news: News) {
        // At the very end, the receiver may have ended.
        let _ = self.news.send(news);
        self.bell.ring();
    }

    /// Writes one file. Names the file and its size, and how far memory reached back if that was too short.
    fn write(&self, shot: &Shot, path: &Path) -> Result<(FileId, Totals, Reach), SnapshotError> {
        let Records { names, buffers, stacks, now, ending, overwritten, sections } = &*shot.records;
        let head = self.beginning.head_at(shot.at);
        let begun = rewind(&head, &[buffers], now)?;
        let (begin, moment) = begun.unwrap_or_else(|| (ending.ended, now.clone()));
        let since = shot.cause.as_ref().and_then(|cause| cause.fired.since);
        // The file has the part of the window that memory still holds.
        let least = since.map_or(0, |since| shot.at.0.saturating_sub(since.0) + LEAD.0);
        let before = self.window.before.map(|before| before.max(Nanos(least)));
        let from = before.map_or(begin, |before| Nanos(shot.at.0.saturating_sub(before.0)));
        let beginning = &self.beginning;
        let mut opening = opening(beginning, begin.max(from), names, (begin, &moment));
        if let Some(cause) = &shot.cause {
            let info = describe::snapshot_info(begin.max(from), beginning.recorder, cause);
            opening.extend(info.unwrap_or_default());
        }
        let held = (opening.len() + buffers.len()) as u64;
        let growth = self.beginning.watches.growth();
        let tail =
            describe::tail(ending, &growth, self.beginning.recorder, (held, LeftOut::default()))
                .unwrap_or_default();

        let place = self.place.beside(path.file_name().unwrap_or_default());
        let room = Some(self.retained.clone() as _);
        let opened = sink::open_at(&place, self.compression, self.given, room)?;
        let Opened { mut sink, hold, .. } = opened;
        // If the user gave no name, the file must be new.
        let hold = hold.ok_or(SinkError::AlreadyFailed)?;
        let written = |sink: &mut dyn Sink, reach| match (sink.finish()?, hold.whereabouts()) {
            (totals, NameState::InPlace) => Ok((hold.id(), totals, reach)),
            _ => Err(SnapshotError::Elsewhere(path.to_owned())),
        };
        let Some(before) = before else {
            sink.write(&opening)?;
            sink.write(buffers)?;
            stacks.iter().try_for_each(|piece| sink.write(piece))?;
            let until = past::deadline();
            let whole = |section: &Section| past::whole(section, until);
            sections.iter().try_for_each(|section| sink.write(&whole(section)))?;
            sink.write(&tail)?;
            return written(&mut *sink, None);
        };
        let to = shot.at.0.saturating_add(self.window.after.0);
        let window = cut::Window {
            from: fxt_reader::Nanos(from.0),
            to: fxt_reader::Nanos(to),
            filter: Filter::default(),
        };
        let records: Box<dyn Read + '_> = Box::new(opening.chain(buffers.as_slice()));
        let explained =
            stacks.iter().fold(records, |read, piece| Box::new(read.chain(piece.as_slice())));
        let whole = explained.chain(tail.as_slice());
        let sections = past::window(sections, &window, ending.ended, past::deadline())?;
        let mut out = IntoSink { sink: &mut *sink, failed: None };
        let cut =
            cut::cut_by(Maker::Recording, &sections, &mut Reader::new(whole), &window, &mut out);
        if let Some(error) = out.failed.take() {
            return Err(error.into());
        }
        cut?;
        let reach = (begin > from && *overwritten)
            .then(|| (Nanos(shot.at.0.saturating_sub(begin.0)), before));
        written(&mut *sink, reach)
    }
}

/// The beginning of a file: the head, as of `time`, the names, and the state of the machine with its time.
pub(super) fn opening(
    beginning: &Beginning,
    time: Nanos,
    names: &[u8],
    (begin, moment): (Nanos, &MachineState),
) -> Vec<u8> {
    let mut opening = beginning.head_at(time);
    opening.extend_from_slice(names);
    let written = moment.begin(begin, &mut opening);
    debug_assert!(written.is_ok(), "memory has room");
    opening
}

/// Lets a conversion write to a sink; it writes whole records.
struct IntoSink<'s> {
    sink: &'s mut dyn Sink,
    /// The sink's own error, which is more precise than an I/O error can be.
    failed: Option<SinkError>,
}

impl Write for IntoSink<'_> {
    fn write(&mut self, records: &[u8]) -> io::Result<usize> {
        match self.sink.write(records) {
            Ok(()) => Ok(records.len()),
            Err(error) => {
                let reported = io::Error::other(error.to_string());
                self.failed.get_or_insert(error);
                Err(reported)
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
