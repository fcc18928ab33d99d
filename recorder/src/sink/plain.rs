//! Records as they are.

use super::error::{OsError, SinkError};
use super::medium::{Medium, write_all};
use super::records::whole_records;
use super::{Sink, Totals};

/// Writes records to a medium without packing them.
#[derive(Debug)]
pub(super) struct Plain<M> {
    name: String,
    medium: M,
    written: u64,
    failed: Option<SinkError>,
}

impl<M: Medium> Plain<M> {
    /// `name` is for messages; `medium` is empty.
    pub(super) fn new(name: String, medium: M) -> Plain<M> {
        Plain { name, medium, written: 0, failed: None }
    }
}

impl<M: Medium> Sink for Plain<M> {
    fn write(&mut self, records: &[u8]) -> Result<(), SinkError> {
        if self.failed.is_some() {
            return Err(SinkError::AlreadyFailed);
        }
        let Err((partly, error)) = write_all(&mut self.medium, records) else {
            self.written += records.len() as u64;
            return Ok(());
        };
        // Part of a record may be in the file. Where it cannot be taken back, readers have to
        // cope with it; the saved records are the same.
        self.written += whole_records(records, partly) as u64;
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

    fn finish(self: Box<Self>) -> Result<Totals, SinkError> {
        let totals = self.totals();
        self.failed.map_or(Ok(totals), Err)
    }
}
