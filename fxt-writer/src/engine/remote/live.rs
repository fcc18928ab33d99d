//! Reading a filling while the other process goes on writing to it.
//!
//! Two things can go wrong, beside all that a hostile process does on purpose. A
//! record may be finished while it is being read; and the buffer may be cleared and
//! used anew.
//!
//! **Records.** Their writer marks the room as taken first (a claim), fills it, and
//! stores the record's first word last. So the buffer is read twice: backwards, then
//! forwards.
//!
//! ```text
//!              <---- marks ----
//!  [ 0 0 0 0 | claim 7 . . | head 3 9 ]     0      nothing: what came after it was read before it, hence 0 as well
//!              ---- content --->            claim  left out, as long as it says
//!                                           head   whole by then: now its content is read
//! ```
//!
//! Were it read forwards alone, a record that is just being begun would yield a zero,
//! a gap, and behind it content that is taken for a record. Were it read backwards
//! alone, a record that is just being finished would yield content from before that.
//!
//! **The buffer.** Before it is cleared the header says that it has no data, and
//! before it says otherwise it counts one more wrap. So where data starts is looked at
//! after the copy, and after that the count: a filling whose start is still the same,
//! and whose count is the last or the one before, was not cleared meanwhile.
//!
//! **Writers that never pause** can fill both buffers in less time than a copy takes. So
//! after a few attempts they are held:
//!
//! ```text
//!  the reader                      a writer that finds its buffer full, under its lock
//!    exchange held for 1             held? then nothing is reused: wait, or drop and count
//!                                    else the older buffer is cleared and opened
//!    copy, look at the header
//!    held = 0
//! ```
//!
//! A writer looks at `held` by an atomic addition of nothing, so the reader's exchange comes
//! before or after each look: before it, and writers wait; after it, and the reader sees all
//! that was done before that look. What is left is at most one reuse that had begun, since it
//! is made under the lock, and it changes the header a few times. Only a change of the
//! header spoils an attempt, so some attempt of those that follow succeeds.

use super::{Copies, Remote, RemoteError, SharedWords, Tally};
use crate::engine::config::Mode;
use crate::engine::header::{HELD, Header};
use crate::engine::position::part_of;
use crate::engine::walk::finished_records;
use crate::layout::limits::WORD_BYTES;

/// How often copies are made before writers are held.
const ATTEMPTS: usize = if cfg!(loom) { 0 } else { 8 };
/// How often after that. One reuse that had begun changes the header by five stores, and spoils no more attempts than
/// that; so what fails more often is another process that does not keep to this.
const HELD_ATTEMPTS: usize = if cfg!(loom) { 6 } else { 8 };

/// Writers of the other process are held while this lives.
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

/// A copy of one filling.
struct Filling {
    /// Finished records, one behind the other.
    records: Vec<u64>,
    /// What was left out beside them.
    tally: Tally,
}

/// What one attempt to copy everything came to.
struct Attempt {
    copies: Copies,
    /// What the header says that cannot be, if that was not being changed.
    fault: Option<RemoteError>,
}

impl Attempt {
    /// Whether nothing is missing.
    fn is_sound(&self) -> bool {
        self.copies.tally.torn == 0
    }
}

impl<W: SharedWords> Remote<W> {
    /// Copies all that is committed and was not saved.
    pub(super) fn present(&self) -> Result<Copies, RemoteError> {
        let mut fault = None;
        for _ in 0..ATTEMPTS {
            let attempt = self.attempt()?;
            if attempt.is_sound() {
                return Ok(attempt.copies);
            }
            match attempt.fault {
                // Nobody is changing what is the same twice.
                Some(again) if fault == Some(again) => return Err(again),
                spoiled => fault = spoiled,
            }
        }
        // Only circular buffers are reused without asking.
        let hold = (self.mode == Mode::Circular).then(|| Hold::new(&self.words));
        let mut last = self.attempt()?;
        for _ in 1..HELD_ATTEMPTS {
            if last.is_sound() {
                break;
            }
            last = self.attempt()?;
        }
        // Else what it says makes no sense, or it goes on all the same.
        match last {
            Attempt { fault: Some(fault), .. } => Err(fault),
            Attempt { copies, .. } => Ok(Copies { held: hold.is_some(), ..copies }),
        }
    }

    /// Copies all that is committed and was not saved, once. What was reused meanwhile is left out.
    fn attempt(&self) -> Result<Attempt, RemoteError> {
        let header = self.header().ok_or(RemoteError::NoHeader)?;
        let fillings = self.fillings(&header);
        let after = self.header().ok_or(RemoteError::NoHeader)?;
        let last = self.header().ok_or(RemoteError::NoHeader)?.wrapped_count;
        let (mut records, mut tally, mut fault) = (Vec::new(), Tally::default(), None);
        for (wrapped, part, filling) in fillings {
            let counts = self.mode == Mode::Oneshot || last.wrapping_sub(wrapped) <= 1;
            let same = after.rolling_start[part] == header.rolling_start[part];
            match filling {
                Ok(filling) if counts && same => {
                    records.push(filling.records);
                    tally += filling.tally;
                }
                Ok(_) => tally.torn += 1,
                Err(error) => {
                    tally.torn += 1;
                    // Start and end were read while they were changed, unless they are as they were.
                    if same && after.rolling_end[part] == header.rolling_end[part] {
                        fault = Some(error);
                    }
                }
            }
        }
        // Last, so that whatever a record refers to is there.
        let durable_end = self.durable_end(after.durable_end)?;
        let durable = self.copy_durable(durable_end);
        let wrapped = header.wrapped_count;
        let fillings = records;
        let copies = Copies { wrapped, durable_end, durable, fillings, tally, held: false };
        Ok(Attempt { copies, fault })
    }

    /// The fillings that were not saved, the older one first: the wrapped count and the part of each, and a copy.
    fn fillings(&self, header: &Header) -> Vec<(u32, usize, Result<Filling, RemoteError>)> {
        let wrapped = header.wrapped_count;
        let copy = |wrapped, part| (wrapped, part, self.copy_live(header, part));
        if self.mode == Mode::Oneshot {
            // It has one buffer, whatever it counts.
            return vec![copy(wrapped, 0)];
        }
        let both = [wrapped.wrapping_sub(1), wrapped];
        let unsaved = both.into_iter().filter(|&filling| self.is_unsaved(filling));
        unsaved.map(|filling| copy(filling, part_of(filling))).collect()
    }

    /// The records of a filling that are finished, while others may be written.
    fn copy_live(&self, header: &Header, part: usize) -> Result<Filling, RemoteError> {
        let range = self.filling(header, part)?;
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
        Ok(Filling { records, tally })
    }
}
