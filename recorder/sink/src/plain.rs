//! Records without compression.

use std::collections::VecDeque;

use super::error::{OsError, SinkError};
use super::medium::{Medium, write_all};
use super::{Sink, Totals, Unsaved};
use fxt_format::walk::{record_ends, whole_records};

/// Writes records to a medium without compressing them.
#[derive(Debug)]
pub(super) struct Plain<M> {
    name: String,
    medium: M,
    written: u64,
    /// The end of the records that might not have been read from a pipe yet.
    recent: VecDeque<u64>,
    unsaved: Unsaved,
    failed: Option<SinkError>,
}

impl<M: Medium> Plain<M> {
    /// `name` is for messages; `medium` is empty.
    pub(super) fn new(name: String, medium: M) -> Plain<M> {
        let (recent, unsaved) = (VecDeque::new(), Unsaved::default());
        Plain { name, medium, written: 0, recent, unsaved, failed: None }
    }

    fn note(&mut self, records: &[u8]) {
        let begin = self.written;
        self.written += records.len() as u64;
        let held = self.medium.capacity();
        if held > 0 {
            let read = self.written.saturating_sub(held);
            self.recent.retain(|end| *end > read);
            let ends = record_ends(records).map(|end| begin + end as u64);
            self.recent.extend(ends.filter(|end| *end > read));
        }
    }

    /// The last `unread` of `all` written bytes will never be read.
    fn take_back(&mut self, all: u64, unread: u64) {
        let read = all.saturating_sub(unread);
        let before = self.written;
        while self.recent.back().is_some_and(|end| *end > read) {
            self.recent.pop_back();
            self.unsaved.records += 1;
        }
        if self.unsaved.records > 0 {
            self.written = self.recent.back().copied().unwrap_or(read.min(before));
            self.unsaved.bytes += before - self.written;
        }
    }
}

impl<M: Medium> Sink for Plain<M> {
    fn write(&mut self, records: &[u8]) -> Result<(), SinkError> {
        if self.failed.is_some() {
            self.unsaved.add(records);
            return Err(SinkError::AlreadyFailed);
        }
        let begin = self.written;
        let Err((partly, error)) = write_all(&mut self.medium, records) else {
            self.note(records);
            return Ok(());
        };
        // Part of a record may be in the file. If it cannot be removed, readers have to cope with it; the saved records are the same.
        let (saved, rest) = records.split_at(whole_records(records, partly));
        self.note(saved);
        self.take_back(begin + partly as u64, self.medium.unread());
        self.unsaved.add(rest);
        let _ = self.medium.cut_back(self.written);
        let error = SinkError::write(&self.name, OsError::of(&error), self.written);
        self.failed = Some(error.clone());
        Err(error)
    }

    fn flush_point(&mut self) -> Result<(), SinkError> {
        if self.failed.is_some() { Err(SinkError::AlreadyFailed) } else { Ok(()) }
    }

    fn totals(&self) -> Totals {
        Totals { record_bytes: self.written, output_bytes: self.written }
    }

    fn unsaved(&self) -> Unsaved {
        self.unsaved
    }

    fn finish(&mut self) -> Result<Totals, SinkError> {
        let unread = self.medium.unread();
        if self.failed.is_none() && unread > 0 {
            self.take_back(self.written, unread);
            self.failed = Some(SinkError::ReaderGone { name: self.name.clone() });
        }
        self.failed.clone().map_or(Ok(self.totals()), Err)
    }
}
