//! Reads a lap while the other process writes to it.
//!
//! Two things can go wrong, even without a hostile process. A record may be
//! finished while it is being read, and the buffer may be cleared and reused.
//!
//! **Records.** Their writer first marks the room as taken (a claim), fills it, and stores the record's first word last. So the buffer is
//! read twice: backward, then forward.
//!
//! ```text
//!              <---- marks ----
//!  [ 0 0 0 0 | claim 7 . . | head 3 9 ]     0      nothing: what came after it was read before it, hence 0 as well
//!              ---- content --->            claim  left out, as long as it says
//!                                           head   whole by then: now its content is read
//! ```
//!
//! If the buffer were read only forwards, a record that is just being started would appear as a zero, then a gap, and then content that
//! looks like a record. If the buffer were read only backwards, a record that is just being finished would appear with content from before
//! it was finished.
//!
//! **The buffer.** Before a buffer is cleared, its header marks it as empty; before that mark is removed, the wrapped count increases by
//! one. So after the copy, the reader checks the start of the data and then the count: a lap with the same start, whose count is the
//! current or the previous one, was not cleared in the meantime.
//!
//! **Writers that never pause** can fill both buffers in less time than a copy takes. So they are
//! held after a few attempts:
//!
//! ```text
//!  the reader                      a writer that finds its buffer full, under its lock
//!    exchange held for 1             held? then nothing is reused: wait, or drop and count
//!                                    else the older buffer is cleared and opened
//!    copy, look at the header
//!    held = 0
//! ```
//!
//! A writer reads `held` by an atomic addition of 0, so the reader's exchange is ordered before or
//! after each such read: if before, the writer waits; if after, the reader sees everything that the
//! writer did before it. At most one reuse can still be in progress, because it happens under the lock, and it changes the header a few
//! times. Only a change of the header makes an attempt fail, so one of the following attempts succeeds.

use super::{Copies, Remote, RemoteError, SharedWords, Tally};
use crate::engine::config::Mode;
use crate::engine::header::{HELD, Header};
use crate::engine::position::part_of;
use crate::engine::walk::finished_records;
use crate::layout::limits::WORD_BYTES;

/// The number of attempts to copy before writers are held.
const ATTEMPTS: usize = if cfg!(loom) { 0 } else { 8 };
/// The number of attempts after that. A reuse that is in progress stores to the header five times and so makes at most five attempts fail;
/// if more fail, the other process violates the protocol.
const HELD_ATTEMPTS: usize = if cfg!(loom) { 6 } else { 8 };

/// Writers of the other process are held while this value lives.
struct Hold<'w, W: SharedWords>(&'w W);

impl<'w, W: SharedWords> Hold<'w, W> {
    fn new(words: &'w W) -> Self {
        words.exchange(HELD, 1);
        Self(words)
    }
}

impl<W: SharedWords> Drop for Hold<'_, W> {
    fn drop(&mut self) {
        self.0.exchange(HELD, 0);
    }
}

/// A copy of one lap.
struct Lap {
    /// Finished records, one after another.
    records: Vec<u64>,
    /// Buffers that were left out in addition.
    tally: Tally,
}

/// The result of one attempt to copy everything.
struct Attempt {
    copies: Copies,
    /// An impossible value in the header, unless it was being changed.
    fault: Option<RemoteError>,
}

impl Attempt {
    /// Whether nothing is missing.
    fn is_sound(&self) -> bool {
        self.copies.tally.torn == 0
    }
}

impl<W: SharedWords> Remote<W> {
    /// Copies everything that is committed and not saved.
    pub(super) fn present(&self) -> Result<Copies, RemoteError> {
        let mut fault = None;
        for _ in 0..ATTEMPTS {
            let attempt = self.attempt()?;
            if attempt.is_sound() {
                return Ok(attempt.copies);
            }
            match attempt.fault {
                // The same fault occurred twice: the header is not being changed.
                Some(again) if fault == Some(again) => return Err(again),
                spoiled => fault = spoiled,
            }
        }
        // Only circular buffers are reused without a save.
        let hold = (self.mode == Mode::Circular).then(|| Hold::new(&self.words));
        let mut last = self.attempt()?;
        for _ in 1..HELD_ATTEMPTS {
            if last.is_sound() {
                break;
            }
            last = self.attempt()?;
        }
        // Otherwise the header is inconsistent, or writers do not stop.
        match last {
            Attempt { fault: Some(fault), .. } => Err(fault),
            Attempt { copies, .. } => Ok(Copies { held: hold.is_some(), ..copies }),
        }
    }

    /// Makes one attempt to copy everything that is committed and not saved, without what was reused during the attempt.
    fn attempt(&self) -> Result<Attempt, RemoteError> {
        let header = self.header().ok_or(RemoteError::NoHeader)?;
        let laps = self.laps(&header);
        let after = self.header().ok_or(RemoteError::NoHeader)?;
        let last = self.header().ok_or(RemoteError::NoHeader)?.wrapped_count;
        let (mut records, mut tally, mut fault) = (Vec::new(), Tally::default(), None);
        for (wrapped, part, lap) in laps {
            let counts = self.mode == Mode::Oneshot || last.wrapping_sub(wrapped) <= 1;
            let same = after.rolling_start[part] == header.rolling_start[part];
            match lap {
                Ok(lap) if counts && same => {
                    records.push(lap.records);
                    tally += lap.tally;
                }
                Ok(_) => tally.torn += 1,
                Err(error) => {
                    tally.torn += 1;
                    // If start or end differ from before, they were read while being changed.
                    if same && after.rolling_end[part] == header.rolling_end[part] {
                        fault = Some(error);
                    }
                }
            }
        }
        // This is last, so that everything that a record refers to is included.
        let durable_end = self.durable_end(after.durable_end)?;
        let durable = self.copy_durable(self.durable_saved..durable_end);
        let wrapped = header.wrapped_count;
        let laps = records;
        let copies = Copies { wrapped, durable_end, durable, laps, tally, held: false };
        Ok(Attempt { copies, fault })
    }

    /// The laps that were not saved, older first: wrapped count, part and a copy of each.
    fn laps(&self, header: &Header) -> Vec<(u32, usize, Result<Lap, RemoteError>)> {
        let wrapped = header.wrapped_count;
        let copy = |wrapped, part| (wrapped, part, self.copy_live(header, part));
        if self.mode == Mode::Oneshot {
            // Oneshot mode has one buffer, whatever the count.
            return vec![copy(wrapped, 0)];
        }
        let both = [wrapped.wrapping_sub(1), wrapped];
        let unsaved = both.into_iter().filter(|&lap| self.is_unsaved(lap));
        unsaved.map(|lap| copy(lap, part_of(lap))).collect()
    }

    /// The finished records of a lap, while others may still be written.
    fn copy_live(&self, header: &Header, part: usize) -> Result<Lap, RemoteError> {
        let range = self.lap(header, part)?;
        let mut marks = vec![0; range.len()];
        for (mark, index) in marks.iter_mut().zip(range.clone()).rev() {
            *mark = self.words.load(index);
        }
        let mut records = Vec::new();
        let walked = finished_records(&marks, |at, record| {
            let content = range.start + at + 1..range.start + at + record.len();
            records.push(record[0]);
            records.extend(content.map(|index| self.words.load(index)));
        });
        let cut_bytes = (walked.cut * WORD_BYTES) as u64;
        let tally = Tally { unfinished: walked.unfinished, cut_bytes, ..Tally::default() };
        Ok(Lap { records, tally })
    }
}
