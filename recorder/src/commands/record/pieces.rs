//! Long recordings in several files, each of which stands alone.
//!
//! When a file has its size or its time, the capture thread ends it between two rounds of events: what is open in it is
//! closed, and everything that the engine holds goes into it. The next one begins with a head, all names, and what the
//! machine is in the middle of; so both can be read without the other, and no event is in both or in neither.
//!
//! ```text
//!  capture   round | turn: close, hand over, begin | round | round | round | round
//!  manager         |   what applications have by now, their open ends   |
//!  drain           |   buffers, counts -> app.0001.fxt, which is closed |
//!                  |   app.0002.fxt <- head, names, moment, the rounds' records
//! ```
//!
//! The capture thread waits only until one of the engine's buffers is free, as it always does. It goes on with the next file's records
//! while others end the one before, and the drain thread keeps these until the next is open. Functions of stacks, which may take long to be
//! named, are asked for before the file is due, and rounds go on for it until they are.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, TryRecvError, bounded};
use fxt_writer::engine::BufferDisposition;

use super::describe::{self, Beginning};
use super::retained::Retained;
use super::round::{Round, interim};
use crate::cli::Rotate;
use crate::commands::plan::flight::piece_path;
use crate::encode::Closed;
use crate::flight::files::Removed;
use crate::sink::drain::{NextPiece, Request, Written};
use crate::sink::outfile::{Given, Hold, Place, Whereabouts};
use crate::sink::{self, Compression, Opened, Sink, SinkError, Totals};

/// The files of a recording.
#[derive(Debug)]
pub(super) struct Series {
    /// The output that they are named after. All of them go into its directory, wherever that is by now.
    place: Place,
    compression: Compression,
    /// The size that each will have, where that is what divides them.
    size: Option<u64>,
    retained: Arc<Retained>,
    named: Mutex<Named>,
}

#[derive(Debug)]
struct Named {
    /// The number of the first one.
    first: u32,
    /// The number of the one that is written.
    number: u32,
    /// Keeps other recorders from the one that is written, also while the next is made.
    hold: Option<Arc<Hold>>,
    /// How many were not where they should be when they were complete.
    missing: u64,
    /// What went wrong without ending the recording.
    warnings: Vec<String>,
}

impl Series {
    /// Nothing but the first file at `place`, which is being written, and of which this is the `hold`; and what earlier runs
    /// have left.
    pub(super) fn new(
        (place, compression): (Place, Compression),
        rotate: Rotate,
        retained: Arc<Retained>,
        hold: Option<Arc<Hold>>,
    ) -> Series {
        let size = match rotate {
            Rotate::Size(size) => Some(size.bytes()),
            Rotate::Time(_) => None,
        };
        let (first, warnings) = (retained.next(), Vec::new());
        let named = Named { first, number: first, hold, missing: 0, warnings };
        Series { place, compression, size, retained, named: Mutex::new(named) }
    }

    fn named(&self) -> MutexGuard<'_, Named> {
        self.named.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Removes what earlier runs have left beyond the bounds.
    pub(super) fn trim(&self) {
        // Not in one go: another thread takes one lock while it has the other.
        let trimmed = self.retained.files().trim(self.size.unwrap_or(0));
        if let Err(error) = trimmed {
            self.named().warnings.push(error.to_string());
        }
    }

    /// The file that is written is complete: removes old ones, and opens the next.
    fn next(&self, complete: Totals) -> Result<Box<dyn Sink>, SinkError> {
        let mut named = self.named();
        let path = piece_path(self.place.path(), named.number);
        let bytes = complete.output_bytes;
        let hold = named.hold.clone();
        named.missing += u64::from(hold.as_deref().is_some_and(is_elsewhere));
        if let Some(id) = hold.map(|hold| hold.id())
            && let Err(error) =
                self.retained.files().add(&path, id, bytes, self.size.unwrap_or(bytes))
        {
            named.warnings.push(error.to_string());
        }
        named.number += 1;
        let path = piece_path(self.place.path(), named.number);
        let place = self.place.beside(path.file_name().unwrap_or_default());
        let room = Some(self.retained.clone() as _);
        let Opened { sink, hold, .. } =
            sink::open_at(&place, self.compression, Given::AtOnce, room)?;
        // The earlier one is let go of when this one is there.
        named.hold = hold;
        Ok(sink)
    }

    /// What became of the files: the last number, how many were removed, what went wrong.
    pub(super) fn outcome(&self) -> SeriesOutcome {
        let mut named = self.named();
        let whereabouts =
            named.hold.as_ref().map_or(Whereabouts::InPlace, |hold| hold.whereabouts());
        SeriesOutcome {
            missing: named.missing + u64::from(whereabouts != Whereabouts::InPlace),
            whereabouts,
            last: piece_path(self.place.path(), named.number),
            files: named.number - named.first + 1,
            removed: self.retained.files().removed(),
            warnings: std::mem::take(&mut named.warnings),
        }
    }
}

fn is_elsewhere(hold: &Hold) -> bool {
    hold.whereabouts() != Whereabouts::InPlace
}

/// What became of the files of a recording.
#[derive(Debug)]
pub(super) struct SeriesOutcome {
    /// The last one.
    pub(super) last: PathBuf,
    pub(super) files: u32,
    /// How many of them, and of those of earlier runs, were removed to stay within limits.
    pub(super) removed: Removed,
    /// How many others removed or moved before they were complete.
    pub(super) missing: u64,
    /// What became of the last one's name.
    pub(super) whereabouts: Whereabouts,
    /// What went wrong without ending the recording.
    pub(super) warnings: Vec<String>,
}

/// What the capture thread needs to divide its output.
#[derive(Debug)]
pub(super) struct Pieces {
    pub(super) beginning: Arc<Beginning>,
    pub(super) rotate: Rotate,
    pub(super) series: Arc<Series>,
    pub(super) written: Arc<Written>,
    /// When the file that is written was begun.
    pub(super) begun: Instant,
    pub(super) stage: Stage,
}

/// What is done about the end of a file.
#[derive(Debug)]
pub(super) enum Stage {
    /// Nothing: it is not due.
    Inside,
    /// It will soon be due, and stacks are looked into that it has to explain; or they were.
    Ahead { answered: bool },
    /// The file before this one is being ended, and this one opened.
    Opening(Receiver<()>),
}

/// How often it is looked whether a buffer is free, and whether stacks have been looked into.
const SOON: Duration = Duration::from_micros(500);
const LOOK: Duration = Duration::from_millis(5);

impl Pieces {
    fn is_due(&self) -> bool {
        match self.rotate {
            Rotate::Size(size) => self.written.piece_bytes() >= size.bytes(),
            Rotate::Time(time) => self.begun.elapsed() >= time.duration(),
        }
    }

    /// Whether it is time to look into stacks.
    fn is_soon_due(&self) -> bool {
        match self.rotate {
            Rotate::Size(size) => self.written.piece_bytes() >= size.bytes() / 4 * 3,
            Rotate::Time(time) => self.begun.elapsed() >= ahead_of(time.duration()),
        }
    }

    /// Whether the file before is still being ended.
    fn is_opening(&mut self) -> bool {
        if let Stage::Opening(opened) = &self.stage
            // It is over too when the drain is.
            && opened.try_recv() != Err(TryRecvError::Empty)
        {
            self.stage = Stage::Inside;
        }
        matches!(self.stage, Stage::Opening(_))
    }

    /// After a round of events: goes on in the next file, when it is time to. Does not wait for the file before.
    ///
    /// # Errors
    /// [`Closed`] when the trace takes no more records.
    pub(super) fn after_round(
        &mut self,
        round: Round<'_>,
        drain: &Sender<Request>,
    ) -> Result<(), Closed> {
        if self.is_opening() {
            return Ok(());
        }
        let Round { engine, encoder, source, providers, mut stacks, ended, .. } = round;
        if let Some(stacks) = &mut stacks {
            if matches!(self.stage, Stage::Inside) && self.is_soon_due() {
                stacks.look_ahead();
                self.stage = Stage::Ahead { answered: false };
            }
            if let Stage::Ahead { answered } = &mut self.stage {
                *answered = !stacks.is_looking_ahead();
            }
        }
        if !self.is_due() || matches!(self.stage, Stage::Ahead { answered: false }) {
            return Ok(());
        }
        if let Some(stacks) = stacks {
            stacks.end_piece(encoder, ended)?;
        }
        let ending = interim(encoder, source, ended);
        let beginning = encoder.rotate(ending.ended)?;
        encoder.lanes().commit();
        for packet in engine.finish() {
            drain.send(Request::Save(packet)).map_err(|_| Closed)?;
        }
        let mut head = self.beginning.head_at(ending.ended);
        head.extend(beginning);
        let (recorder, series) = (self.beginning.recorder, self.series.clone());
        let growth = self.beginning.watches.growth();
        let (done, rotated) = bounded(1);
        let next = NextPiece {
            tail: Box::new(move |bytes| {
                describe::tail(&ending, &growth, recorder, bytes).unwrap_or_default()
            }),
            open: Box::new(move |totals| series.next(totals)),
            head,
            done,
        };
        let (reached, is_reached) = bounded(1);
        drain.send(Request::Turn(reached)).map_err(|_| Closed)?;
        let next = Request::NextPiece(Box::new(next));
        match providers {
            Some(providers) => providers.rotate(ended, next),
            None => drain.send(next).map_err(|_| Closed)?,
        }
        self.stage = Stage::Opening(rotated);
        self.begun = Instant::now();
        // One free buffer is enough. Both are when the drain thread has got there, or is gone.
        while engine.start(BufferDisposition::Retain).is_err() {
            if is_reached.recv_timeout(SOON) != Err(RecvTimeoutError::Timeout) {
                return engine.start(BufferDisposition::Retain).map_err(|_| Closed);
            }
        }
        Ok(())
    }

    /// How long there is until the next look, if that is soon.
    pub(super) fn until_due(&self) -> Option<Duration> {
        if matches!(self.stage, Stage::Ahead { answered: false }) {
            return Some(LOOK);
        }
        let Rotate::Time(time) = self.rotate else { return None };
        let (spent, ahead) = (self.begun.elapsed(), ahead_of(time.duration()));
        let next = if spent < ahead { ahead } else { time.duration() };
        // Also while one is being opened that takes longer than its time.
        Some(next.saturating_sub(spent).max(LOOK))
    }
}

/// After which part of a file's time stacks are looked into.
fn ahead_of(time: Duration) -> Duration {
    time.saturating_sub((time / 4).min(Duration::from_secs(1)))
}
