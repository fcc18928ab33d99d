//! Divides long recordings into several files, each of which can be read without the others.
//!
//! When a file reaches its size or its time, the capture thread ends it between two rounds of events: it closes everything that is open in
//! the file, and the whole content of the engine is written to it. The next file begins with a head, all names, and the current state of
//! the machine, so each file can be read without the others, and each event is in exactly one of them.
//!
//! ```text
//!  capture   round | turn: close, hand over, begin | round | round | round | round
//!  manager         |   what applications have by now, their open ends   |
//!  drain           |   buffers, counts -> app.0001.fxt, which is closed |
//!                  |   app.0002.fxt <- head, names, moment, the rounds' records
//! ```
//!
//! The capture thread waits only until one of the engine's buffers is free, as always. It continues with the next file's records while
//! other threads complete the previous file; the drain thread holds the new records until the next file is open. Functions of stacks are
//! looked up before the file is complete, because that may take a long time. A file that is divided by time waits for the names.
//!
//! A file that is divided by size does not wait, and never exceeds that size. It is complete when its expected content has reached the
//! size:
//!
//! ```text
//!   on disk | in the compressor, in the engine | one more round | explanation of stacks | tail
//!   exact   | as if nothing would compress it  | the largest    | as in the file before |
//! ```
//!
//! If the previous file is still being completed at that time, the records since its end are counted uncompressed, and the next end is
//! queued behind it. The drain thread leaves out stack information that does not fit, names last.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crossbeam_channel::{RecvTimeoutError, Sender, bounded};
use fxt_writer::engine::{BufferDisposition, Engine};

use super::describe::{self, Beginning};
use super::retained::Retained;
use super::round::{Round, interim};
use crate::capture::stacks::Stacks;
use crate::cli::Rotate;
use crate::commands::plan::flight::piece_path;
use crate::encode::Closed;
use crate::flight::files::Removed;
use crate::sink::drain::{MOST_EARLY_BYTES, NextPiece, Request, Written, tail_room};
use crate::sink::outfile::{Given, Hold, NameState, OutputLocation};
use crate::sink::{self, Compression, Opened, Sink, SinkError, Totals};

/// The files of a recording.
#[derive(Debug)]
pub(super) struct Series {
    /// The output that they are named after. All of them are created in its directory, even if the directory has been moved.
    place: OutputLocation,
    compression: Compression,
    given: Given,
    /// The maximum size of each file, if files are divided by size.
    size: Option<u64>,
    retained: Arc<Retained>,
    named: Mutex<Named>,
}

#[derive(Debug)]
struct Named {
    /// The number of the first file.
    first: u32,
    /// The number of the file that is being written.
    number: u32,
    /// Protects the file that is being written from other recorders, also while the next file is created.
    hold: Option<Arc<Hold>>,
    /// How many files were removed or moved before they were complete.
    missing: u64,
    /// Problems that did not end the recording.
    warnings: Vec<String>,
}

impl Series {
    /// At first, the series has only the file at `place`, which is being written and which `hold` holds, and the files of earlier runs.
    pub(super) fn new(
        (place, compression, given): (OutputLocation, Compression, Given),
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
        Series { place, compression, given, size, retained, named: Mutex::new(named) }
    }

    /// The maximum size of each file, if files are divided by size.
    pub(super) fn size(&self) -> Option<u64> {
        self.size
    }

    fn named(&self) -> MutexGuard<'_, Named> {
        self.named.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Removes files of earlier runs beyond the limits.
    pub(super) fn trim(&self) {
        // This is not one statement, because another thread takes these locks in the other order.
        let trimmed = self.retained.files().trim(self.size.unwrap_or(0));
        if let Err(error) = trimmed {
            self.named().warnings.push(error.to_string());
        }
    }

    /// The current file is complete: removes old ones, and opens the next.
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
        let Opened { sink, hold, .. } = sink::open_at(&place, self.compression, self.given, room)?;
        // The earlier file is released when the new one exists.
        named.hold = hold;
        Ok(sink)
    }

    /// The last file is complete: removes old ones. Returns the last number, how many files were removed, and the errors.
    ///
    /// The last file may exceed its size, since it contains everything that was in the rings.
    pub(super) fn outcome(&self, last: Totals) -> SeriesOutcome {
        let mut named = self.named();
        if let Err(error) = self.retained.files().trim_beside(last.output_bytes) {
            named.warnings.push(error.to_string());
        }
        let whereabouts = named.hold.as_ref().map_or(NameState::InPlace, |hold| hold.whereabouts());
        let last_path = piece_path(self.place.path(), named.number);
        if let Some(Err(error)) = named.hold.as_ref().map(|hold| hold.hand_over()) {
            named.warnings.push(format!("{} still belongs to root: {error}", last_path.display()));
        }
        SeriesOutcome {
            missing: named.missing + u64::from(whereabouts != NameState::InPlace),
            whereabouts,
            last: last_path,
            files: named.number - named.first + 1,
            removed: self.retained.files().removed(),
            warnings: std::mem::take(&mut named.warnings),
        }
    }
}

fn is_elsewhere(hold: &Hold) -> bool {
    hold.whereabouts() != NameState::InPlace
}

/// The fate of the files of a recording.
#[derive(Debug)]
pub(super) struct SeriesOutcome {
    /// The last one.
    pub(super) last: PathBuf,
    pub(super) files: u32,
    /// Number removed to stay within limits: files of this run, and of earlier runs.
    pub(super) removed: Removed,
    /// How many files other processes removed or moved before they were complete.
    pub(super) missing: u64,
    /// The state of the last file's name.
    pub(super) whereabouts: NameState,
    /// Problems that did not end the recording.
    pub(super) warnings: Vec<String>,
}

/// The data that the capture thread needs to divide its output.
#[derive(Debug)]
pub(super) struct Pieces {
    pub(super) beginning: Arc<Beginning>,
    pub(super) rotate: Rotate,
    pub(super) series: Arc<Series>,
    pub(super) written: Arc<Written>,
    /// When the current file was begun.
    pub(super) begun: Instant,
    /// Whether the stacks of the file, which will end soon, have been processed.
    pub(super) stage: Stage,
    pub(super) sizes: Sizes,
    /// How many files have been ended.
    pub(super) turns: u64,
    /// The size of the current file's first records.
    pub(super) head: u64,
}

/// The known and expected size of the current file.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sizes {
    /// The size if the file ends after the next round.
    expected: u64,
    /// How much larger this is than if the file ended now.
    room: u64,
    /// Its maximum size now, and after the previous round.
    now: u64,
    before: u64,
    /// The largest growth in one round.
    round: u64,
}

/// A round is expected to add at most this part of a file. If a round adds more, all of it is written to the next file.
const ROUND_PART: u64 = 4;

/// Limits for the events of a round: their part of a file, the size of an event in bytes, and a number that is always permitted.
const EVENTS_PART: u64 = 32;
const EVENT_BYTES: u64 = 64;
const LEAST_EVENTS: u64 = 512;

/// The stacks of a round may take up this part of a file, and always this many bytes.
const STACKS_PART: u64 = 32;
const LEAST_STACKS: u64 = 64 * 1024;

/// The remaining ring content at the end is written to a separate file if the last one has reached this fraction of its size.
const REST_PART: u64 = 4;

/// The part of a file that the records that explain its stacks may take.
const EXPLANATION_PART: u64 = 2;

/// The initial estimate of their size, in percent of the output.
const PLAIN_PERCENT: u64 = 100;
const PACKED_PERCENT: u64 = 40;

/// Expected size of the next explanation, in percent of the last one.
const MARGIN_PERCENT: u64 = 130;

/// What to do at the end of a file.
#[derive(Debug)]
pub(super) enum Stage {
    /// Nothing yet.
    Inside,
    /// The file will end soon, and its stacks are being processed, or have been.
    Ahead { answered: bool },
}

/// How often to check whether a buffer is free, and whether stacks have been processed.
const SOON: Duration = Duration::from_micros(500);
pub(super) const LOOK: Duration = Duration::from_millis(5);

impl Pieces {
    /// Computes the size that the file would have if it ended now.
    fn measure(&mut self, engine: &Engine, stacks: Option<&Stacks>) {
        let Rotate::Size(limit) = self.rotate else { return };
        let Sizes { expected, room, now, before, round } = &mut self.sizes;
        // The content of the engine is counted first, so that data handed over in between is counted twice rather than left out.
        let unsaved = engine.unsaved_bytes() as u64;
        // Until the drain thread has reached the end of the previous file, the engine contains records of both files.
        let written = self.written.piece_bytes_at_most(self.turns, self.head);
        let Some(written) = written else { return };
        *before = std::mem::replace(now, written + unsaved);
        // The first round also contains the head.
        if *before > 0 {
            *round = (*round).max(now.saturating_sub(*before));
        }
        let mut sum = *now + tail_room(limit.bytes());
        if let Some(stacks) = stacks {
            let estimate = stacks.estimate();
            let (taken, of) = match (self.written.explained(), self.series.compression) {
                (Some((taken, of @ 1..)), _) => (taken * MARGIN_PERCENT, of * 100),
                (_, Compression::None) => (PLAIN_PERCENT, 100),
                (_, _) => (PACKED_PERCENT, 100),
            };
            let explanation = u128::from(estimate) * u128::from(taken) / u128::from(of);
            let explanation = u64::try_from(explanation).unwrap_or(u64::MAX);
            sum += explanation.min(limit.bytes() / EXPLANATION_PART);
        }
        *room = limit.bytes().saturating_sub(sum);
        *expected = sum + (*round).min(limit.bytes() / ROUND_PART);
    }

    fn is_due(&self) -> bool {
        match self.rotate {
            // The file contains the events of at least one round.
            Rotate::Size(size) => self.sizes.expected >= size.bytes() && self.sizes.before > 0,
            Rotate::Time(time) => self.begun.elapsed() >= time.duration(),
        }
    }

    /// Whether it is time to process stacks.
    fn is_soon_due(&self) -> bool {
        match self.rotate {
            Rotate::Size(size) => self.sizes.expected >= size.bytes() / 2,
            Rotate::Time(time) => self.begun.elapsed() >= ahead_of(time.duration()),
        }
    }

    /// Whether processing stacks takes too long.
    fn is_nearly_due(&self) -> bool {
        match self.rotate {
            Rotate::Size(size) => self.sizes.expected >= size.bytes() / 8 * 7,
            Rotate::Time(time) => self.begun.elapsed() >= time.duration(),
        }
    }

    /// Whether files are divided by size.
    pub(super) fn have_size(&self) -> bool {
        matches!(self.rotate, Rotate::Size(_))
    }

    /// How many events a round may have, if files are divided by size.
    pub(super) fn events_of_a_round(&self) -> Option<usize> {
        let Rotate::Size(size) = self.rotate else { return None };
        let most = (size.bytes() / EVENTS_PART / EVENT_BYTES).max(LEAST_EVENTS);
        usize::try_from(most).ok()
    }

    /// How many bytes of stacks a round may write.
    pub(super) fn room_for_stacks(&self) -> u64 {
        match self.rotate {
            Rotate::Size(_) if self.is_behind() => 0,
            Rotate::Size(size) => (size.bytes() / STACKS_PART).max(LEAST_STACKS),
            Rotate::Time(_) => u64::MAX,
        }
    }

    /// Whether the end waits for stacks that are being processed.
    fn waits_for_stacks(&self) -> bool {
        let is_asked = matches!(self.stage, Stage::Ahead { answered: false });
        is_asked && matches!(self.rotate, Rotate::Time(_))
    }

    /// Whether too much data waits for files that are not open yet. Then the current file is not ended, however large it is.
    pub(super) fn is_behind(&self) -> bool {
        self.written.early_bytes() > MOST_EARLY_BYTES / 2
    }

    /// After a round of events: continues in the next file, if it is time to. Does not wait for the previous file.
    ///
    /// # Errors
    /// Returns [`Closed`] when the trace accepts no more records.
    pub(super) fn after_round(
        &mut self,
        round: Round<'_>,
        drain: &Sender<Request>,
    ) -> Result<(), Closed> {
        let Round { engine, encoder, source, providers, mut stacks, ended, .. } = round;
        let is_forced = self.is_due();
        self.measure(engine, stacks.as_deref());
        if let Some(stacks) = &mut stacks {
            if matches!(self.stage, Stage::Inside) && self.is_soon_due() {
                stacks.look_ahead();
                self.stage = Stage::Ahead { answered: false };
            }
            if let Stage::Ahead { answered } = &mut self.stage {
                *answered = !stacks.is_looking_ahead();
                if !*answered && self.is_nearly_due() {
                    stacks.stop_looking_ahead();
                }
            }
        }
        if !(is_forced || self.is_due()) || self.waits_for_stacks() || self.is_behind() {
            return Ok(());
        }
        let room = match self.rotate {
            Rotate::Size(_) => self.sizes.room,
            Rotate::Time(_) => u64::MAX,
        };
        let explanation =
            stacks.map(|stacks| stacks.end_piece(encoder, ended, room)).transpose()?;
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
        self.head = head.len() as u64;
        let (done, opened) = bounded(1);
        let next = NextPiece {
            explanation,
            tail: Box::new(move |bytes, left_out| {
                describe::tail(&ending, &growth, recorder, (bytes, left_out)).unwrap_or_default()
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
        self.stage = Stage::Inside;
        self.turns += 1;
        self.begun = Instant::now();
        self.sizes = Sizes { round: self.sizes.round / 2, ..Sizes::default() };
        // One free buffer is enough. Both are free when the drain thread has reached this point and had room for copies, at the latest
        // when the file is open, or the thread has ended.
        for signal in [is_reached, opened] {
            loop {
                if engine.start(BufferDisposition::Retain).is_ok() {
                    return Ok(());
                }
                if signal.recv_timeout(SOON) != Err(RecvTimeoutError::Timeout) {
                    break;
                }
            }
        }
        engine.start(BufferDisposition::Retain).map_err(|_| Closed)
    }

    /// Before the remaining ring content: continues in the next file, if this file has little space.
    ///
    /// # Errors
    /// Returns [`Closed`] when the trace accepts no more records.
    pub(super) fn before_rest(
        &mut self,
        round: Round<'_>,
        drain: &Sender<Request>,
    ) -> Result<(), Closed> {
        if let Rotate::Size(size) = self.rotate
            && self.sizes.before > 0
            && self.sizes.expected >= size.bytes() / REST_PART
        {
            self.sizes.expected = size.bytes();
            return self.after_round(round, drain);
        }
        Ok(())
    }

    /// The time until the next check, if that is soon. `has_stacks` is whether there were more stacks than there was space for.
    pub(super) fn until_due(&self, has_stacks: bool) -> Option<Duration> {
        if has_stacks || matches!(self.stage, Stage::Ahead { answered: false }) {
            return Some(LOOK);
        }
        let Rotate::Time(time) = self.rotate else { return None };
        let (spent, ahead) = (self.begun.elapsed(), ahead_of(time.duration()));
        let next = if spent < ahead { ahead } else { time.duration() };
        // This is also true while too much data waits for files that are not open yet.
        Some(next.saturating_sub(spent).max(LOOK))
    }
}

/// The part of a file's time after which stacks are processed.
fn ahead_of(time: Duration) -> Duration {
    time.saturating_sub((time / 4).min(Duration::from_secs(1)))
}
