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

use super::{Copies, Remote, RemoteError, SharedWords, Tally};
use crate::engine::config::Mode;
use crate::engine::header::Header;
use crate::engine::position::part_of;
use crate::engine::walk::finished_records;
use crate::layout::limits::WORD_BYTES;

/// How often copies are made while the other process uses the buffers anew.
const ATTEMPTS: usize = 8;

/// A copy of one filling.
struct Filling {
    wrapped: u32,
    part: usize,
    /// Finished records, one behind the other.
    records: Vec<u64>,
    /// What was left out beside them.
    tally: Tally,
}

impl<W: SharedWords> Remote<W> {
    /// Copies all that is committed and was not saved.
    pub(super) fn present(&self) -> Result<Copies, RemoteError> {
        let mut attempts = 0;
        loop {
            attempts += 1;
            let header = self.header().ok_or(RemoteError::NoHeader)?;
            let fillings = match self.fillings(&header) {
                // Start and end were read while they were changed, perhaps.
                Err(RemoteError::RollingData { .. }) if attempts < ATTEMPTS => continue,
                fillings => fillings?,
            };
            let after = self.header().ok_or(RemoteError::NoHeader)?;
            let last = self.header().ok_or(RemoteError::NoHeader)?.wrapped_count;
            let found = fillings.len();
            let (mut records, mut tally) = (Vec::new(), Tally::default());
            for filling in fillings {
                let started = header.rolling_start[filling.part];
                let counts = self.mode == Mode::Oneshot || last.wrapping_sub(filling.wrapped) <= 1;
                if counts && after.rolling_start[filling.part] == started {
                    records.push(filling.records);
                    tally += filling.tally;
                }
            }
            tally.torn = (found - records.len()) as u64;
            if tally.torn > 0 && attempts < ATTEMPTS {
                continue;
            }
            // Last, so that whatever a record refers to is there.
            let durable_end = self.durable_end(after.durable_end)?;
            let durable = self.copy_durable(durable_end);
            let wrapped = header.wrapped_count;
            return Ok(Copies { wrapped, durable_end, durable, fillings: records, tally });
        }
    }

    /// The fillings that were not saved, the older one first.
    fn fillings(&self, header: &Header) -> Result<Vec<Filling>, RemoteError> {
        let wrapped = header.wrapped_count;
        if self.mode == Mode::Oneshot {
            // It has one buffer, whatever it counts.
            return Ok(vec![self.copy_live(header, wrapped, 0)?]);
        }
        let both = [wrapped.wrapping_sub(1), wrapped];
        let unsaved = both.into_iter().filter(|&filling| self.is_unsaved(filling));
        unsaved.map(|filling| self.copy_live(header, filling, part_of(filling))).collect()
    }

    /// The records of a filling that are finished, while others may be written.
    fn copy_live(
        &self,
        header: &Header,
        wrapped: u32,
        part: usize,
    ) -> Result<Filling, RemoteError> {
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
        Ok(Filling { wrapped, part, records, tally })
    }
}
