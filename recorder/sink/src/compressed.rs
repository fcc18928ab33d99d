//! Records that go through a compressor.

use std::collections::VecDeque;
use std::io;

use super::codec::Codec;
use super::error::{OsError, SinkError};
use super::medium::{Medium, write_all};
use super::{Sink, Totals, Unsaved};
use fxt_format::walk::count_records;

/// Compresses records and writes the result to a medium.
#[derive(Debug)]
pub(super) struct Compressed<M, C> {
    name: String,
    medium: M,
    codec: C,
    /// The totals so far, flushed or not.
    now: Totals,
    /// Records that were accepted so far.
    records: u64,
    /// The last flush point, and the earlier ones whose bytes may still wait in a pipe. Never empty.
    points: VecDeque<FlushPoint>,
    unsaved: Unsaved,
    failed: Option<SinkError>,
}

/// The totals at a flush point, and the bytes that end the stream there.
#[derive(Clone, Debug, Default)]
struct FlushPoint {
    totals: Totals,
    records: u64,
    ending: Vec<u8>,
}

impl<M: Medium, C: Codec> Compressed<M, C> {
    /// `name` is for messages; `medium` is empty and `codec` new.
    pub(super) fn new(name: String, medium: M, codec: C) -> Compressed<M, C> {
        let points = VecDeque::from([FlushPoint::default()]);
        let (now, unsaved) = (Totals::default(), Unsaved::default());
        Compressed { name, medium, codec, now, records: 0, points, unsaved, failed: None }
    }

    /// Runs one step of the compressor and writes its output.
    fn step(&mut self, act: impl FnOnce(&mut C) -> io::Result<()>) -> Result<(), SinkError> {
        if self.failed.is_some() {
            return Err(SinkError::AlreadyFailed);
        }
        let result = act(&mut self.codec)
            .map_err(|error| (0, error))
            .and_then(|()| write_all(&mut self.medium, self.codec.output()));
        match result {
            Ok(()) => {
                self.now.output_bytes += self.codec.output().len() as u64;
                self.codec.output().clear();
                Ok(())
            }
            Err((partly, error)) => {
                self.now.output_bytes += partly as u64;
                Err(self.fail(|name, saved| SinkError::write(name, OsError::of(&error), saved)))
            }
        }
    }

    /// Goes back to the last flush point that can be read and ends the stream there, if the medium allows.
    fn fail(&mut self, error: impl FnOnce(&str, u64) -> SinkError) -> SinkError {
        let read = self.now.output_bytes.saturating_sub(self.medium.unread());
        while self.points.len() > 1
            && self.points.back().is_some_and(|point| point.totals.output_bytes > read)
        {
            self.points.pop_back();
        }
        let FlushPoint { totals, records, ending } =
            self.points.back().cloned().unwrap_or_default();
        self.unsaved.records += self.records - records;
        self.unsaved.bytes += self.now.record_bytes - totals.record_bytes;
        self.now = totals;
        if self.medium.cut_back(totals.output_bytes).is_ok_and(|done| done) {
            match write_all(&mut self.medium, &ending) {
                Ok(()) => self.now.output_bytes += ending.len() as u64,
                // Half an end marker is worse than none.
                Err(_) => drop(self.medium.cut_back(totals.output_bytes)),
            }
        }
        let error = error(&self.name, totals.record_bytes);
        self.failed = Some(error.clone());
        error
    }
}

impl<M: Medium, C: Codec> Sink for Compressed<M, C> {
    fn write(&mut self, records: &[u8]) -> Result<(), SinkError> {
        if self.failed.is_some() {
            self.unsaved.add(records);
            return Err(SinkError::AlreadyFailed);
        }
        self.records += count_records(records);
        self.now.record_bytes += records.len() as u64;
        self.step(|codec| codec.write(records))
    }

    fn flush_point(&mut self) -> Result<(), SinkError> {
        self.step(C::flush)?;
        let read = self.now.output_bytes.saturating_sub(self.medium.capacity());
        // The first of the remaining pieces can be read, whatever happens to the pipe.
        while self.points.get(1).is_some_and(|point| point.totals.output_bytes <= read) {
            self.points.pop_front();
        }
        let (totals, ending) = (self.now, self.codec.ending());
        self.points.push_back(FlushPoint { totals, records: self.records, ending });
        if read == totals.output_bytes {
            self.points.drain(..self.points.len() - 1);
        }
        Ok(())
    }

    fn totals(&self) -> Totals {
        self.now
    }

    fn held(&self) -> u64 {
        let flushed = self.points.back().map_or(0, |point| point.totals.record_bytes);
        self.now.record_bytes.saturating_sub(flushed)
    }

    fn unsaved(&self) -> Unsaved {
        self.unsaved
    }

    fn finish(&mut self) -> Result<Totals, SinkError> {
        if let Some(error) = &self.failed {
            return Err(error.clone());
        }
        // The output of the last flush is saved even if there is no space for the end.
        self.flush_point()?;
        self.step(C::finish)?;
        if self.medium.unread() > 0 {
            return Err(self.fail(|name, _| SinkError::ReaderGone { name: name.to_owned() }));
        }
        Ok(self.now)
    }
}
