//! Records behind a compressor.

use std::io;

use super::codec::Codec;
use super::error::{OsError, SinkError};
use super::medium::{Medium, write_all};
use super::{Sink, Totals};

/// Compresses records and writes the result to a medium.
#[derive(Debug)]
pub(super) struct Compressed<M, C> {
    name: String,
    medium: M,
    codec: C,
    /// What was handed over and written so far, flushed or not.
    now: Totals,
    /// The same at the last flush point, and how to end the stream there.
    safe: FlushPoint,
    failed: Option<SinkError>,
}

#[derive(Debug, Default)]
struct FlushPoint {
    totals: Totals,
    ending: Vec<u8>,
}

impl<M: Medium, C: Codec> Compressed<M, C> {
    /// `name` is for messages; `medium` is empty and `codec` new.
    pub(super) fn new(name: String, medium: M, codec: C) -> Compressed<M, C> {
        let (now, safe) = (Totals::default(), FlushPoint::default());
        Compressed { name, medium, codec, now, safe, failed: None }
    }

    /// Runs one step of the compressor and writes out what came of it.
    fn step(&mut self, act: impl FnOnce(&mut C) -> io::Result<()>) -> Result<(), SinkError> {
        if self.failed.is_some() {
            return Err(SinkError::AlreadyFailed);
        }
        let result = act(&mut self.codec).and_then(|()| {
            write_all(&mut self.medium, self.codec.output()).map_err(|(_, error)| error)
        });
        match result {
            Ok(()) => {
                self.now.output_bytes += self.codec.output().len() as u64;
                self.codec.output().clear();
                Ok(())
            }
            Err(error) => Err(self.fail(OsError::of(&error))),
        }
    }

    /// Goes back to the last flush point and ends the stream there, as far as the medium allows.
    fn fail(&mut self, source: OsError) -> SinkError {
        let FlushPoint { totals, ending } = &self.safe;
        self.now = *totals;
        if self.medium.cut_back(totals.output_bytes).is_ok_and(|done| done) {
            match write_all(&mut self.medium, ending) {
                Ok(()) => self.now.output_bytes += ending.len() as u64,
                // Half an ending is worse than none.
                Err(_) => drop(self.medium.cut_back(totals.output_bytes)),
            }
        }
        let error = SinkError::write(&self.name, source, totals.record_bytes);
        self.failed = Some(error.clone());
        error
    }
}

impl<M: Medium, C: Codec> Sink for Compressed<M, C> {
    fn write(&mut self, records: &[u8]) -> Result<(), SinkError> {
        self.step(|codec| codec.write(records))?;
        self.now.record_bytes += records.len() as u64;
        Ok(())
    }

    fn flush_point(&mut self) -> Result<(), SinkError> {
        self.step(C::flush)?;
        self.safe = FlushPoint { totals: self.now, ending: self.codec.ending() };
        Ok(())
    }

    fn totals(&self) -> Totals {
        self.now
    }

    fn finish(mut self: Box<Self>) -> Result<Totals, SinkError> {
        if let Some(error) = self.failed {
            return Err(error);
        }
        // What the last flush brings out is saved even if there is no room for the end.
        self.flush_point()?;
        self.step(C::finish)?;
        Ok(self.now)
    }
}
