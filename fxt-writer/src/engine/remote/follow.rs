//! Reads the records of a circular buffer as they arrive, without consuming them.
//!
//! A call continues where the previous one ended, and also checks the room before that point that was reserved but not filled:
//!
//! ```text
//!  first look   [ a b . . | c . . . ] 0 0 0 0        a b c     open: . . and . . .
//!  second look  [ a b e . | c d . . | f ] 0 0        e d f
//! ```
//!
//! The space is read from back to front, as [`live`](super::live) does, so if a thread wrote one record before another, the reader never
//! misses the first and sees the second.

use std::ops::Range;

use super::{Copies, Piece, Remote, RemoteError, SharedWords, Tally, copies_admitted};
use crate::engine::header::Header;
use crate::engine::memory::{is_claim, is_filler, is_vacant};
use crate::engine::position::part_of;
use crate::layout::walk::record_words;

/// The position up to which a circular buffer was read; see [`Remote::follow`].
#[derive(Clone, Debug, Default)]
pub struct Cursor {
    /// Durable words since the engine was started.
    durable: u64,
    wrapped: u32,
    lap: Option<Seen>,
}

/// The state of a lap that was read; words are counted from the beginning of the memory.
#[derive(Clone, Debug)]
struct Seen {
    /// The first word, which identifies the lap, in case it was cleared in the meantime.
    start: usize,
    at: usize,
    /// Room before `at` that was not filled.
    open: Vec<Range<usize>>,
}

impl<W: SharedWords> Remote<W> {
    /// Copies what was committed to a circular buffer since `cursor`, and advances the cursor. Buffers that were reused before they were
    /// read are counted as torn. `last`: no more records will come.
    ///
    /// # Errors
    ///
    /// Returns an error when the header is impossible.
    pub fn follow(
        &self,
        cursor: &mut Cursor,
        last: bool,
        admit: &mut dyn FnMut(&mut [u64]) -> bool,
    ) -> Result<Piece, RemoteError> {
        let header = self.header().ok_or(RemoteError::NoHeader)?;
        let wrapped = header.wrapped_count;
        let mut tally = Tally::default();
        let mut looks = Vec::new();
        match wrapped.wrapping_sub(cursor.wrapped) {
            0 => {}
            1 => {
                looks.push((cursor.wrapped, self.look(&header, cursor, true)?));
                cursor.lap = None;
            }
            _ => {
                tally.torn += 1;
                cursor.lap = None;
            }
        }
        cursor.wrapped = wrapped;
        looks.push((wrapped, self.look(&header, cursor, last)?));
        let after = self.header().ok_or(RemoteError::NoHeader)?;
        let newest = self.header().ok_or(RemoteError::NoHeader)?.wrapped_count;
        let mut laps = Vec::new();
        for (wrapped, records) in looks {
            let part = part_of(wrapped);
            let same = after.rolling_start[part] == header.rolling_start[part];
            match records.filter(|_| same && newest.wrapping_sub(wrapped) <= 1) {
                Some(records) => laps.push(records),
                None => tally.torn += 1,
            }
        }
        // This is read last, so that everything that a record refers to is included.
        let durable_end = self.durable_end(after.durable_end)?;
        let durable = self.copy_durable(cursor.durable.min(durable_end)..durable_end);
        cursor.durable = durable_end;
        let copies = Copies { wrapped, durable_end, durable, laps, tally, held: false };
        Ok(copies_admitted(&copies, admit))
    }

    /// The new records of the cursor's lap, in order; `None` if it was cleared in the meantime.
    fn look(
        &self,
        header: &Header,
        cursor: &mut Cursor,
        last: bool,
    ) -> Result<Option<Vec<u64>>, RemoteError> {
        let range = self.lap(header, part_of(cursor.wrapped))?;
        let Some(seen) = &mut cursor.lap else {
            // A lap that is being cleared has no data yet.
            if range.is_empty() {
                return Ok(Some(Vec::new()));
            }
            let seen = Seen { start: range.start, at: range.start, open: Vec::new() };
            return Ok(Some(self.look_at(cursor.lap.insert(seen), range.end, last)));
        };
        let same = range.start == seen.start && seen.at <= range.end;
        Ok(same.then(|| self.look_at(seen, range.end, last)))
    }

    fn look_at(&self, seen: &mut Seen, end: usize, last: bool) -> Vec<u64> {
        let mut to = if last { end } else { seen.at };
        while to < end
            && let Some(words) = record_words(self.words.load(to)).filter(|it| *it <= end - to)
        {
            to += words;
        }
        let mut rooms = std::mem::take(&mut seen.open);
        rooms.push(seen.at..to);
        seen.at = to;
        let back_to_front = rooms.iter().rev().map(|room| {
            let mut marks = self.copy(room.clone().rev());
            marks.reverse();
            marks
        });
        let mut copies: Vec<Vec<u64>> = back_to_front.collect();
        copies.reverse();
        let mut records = Vec::new();
        for (room, marks) in rooms.into_iter().zip(&copies) {
            let mut at = 0;
            while let Some(&word) = marks.get(at) {
                let zeros = marks[at..].iter().take_while(|word| **word == 0).count();
                let size = if zeros > 0 { Some(zeros) } else { record_words(word) };
                let Some(words) = size.filter(|words| *words <= marks.len() - at) else { break };
                let place = room.start + at..room.start + at + words;
                if zeros > 0 || is_claim(word) || is_vacant(word) {
                    seen.open.push(place);
                } else if !is_filler(word) {
                    records.push(word);
                    records.extend(self.copy(place.start + 1..place.end));
                }
                at += words;
            }
        }
        records
    }
}
