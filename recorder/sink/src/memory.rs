//! Sinks without an output: for tests and benchmarks, and after a failure.

use std::sync::{Arc, Mutex, PoisonError};

use super::{Sink, SinkError, Totals, Unsaved};

/// Stores the trace in memory. Clones share it, so that it can be read after the sink is dropped.
#[derive(Clone, Debug, Default)]
pub struct Memory(Arc<Mutex<Vec<u8>>>);

impl Memory {
    /// A copy of everything that was written so far.
    pub fn bytes(&self) -> Vec<u8> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Sink for Memory {
    fn write(&mut self, records: &[u8]) -> Result<(), SinkError> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(records);
        Ok(())
    }

    fn flush_point(&mut self) -> Result<(), SinkError> {
        Ok(())
    }

    fn totals(&self) -> Totals {
        let bytes = self.0.lock().unwrap_or_else(PoisonError::into_inner).len() as u64;
        Totals { record_bytes: bytes, output_bytes: bytes }
    }

    fn finish(&mut self) -> Result<Totals, SinkError> {
        Ok(self.totals())
    }
}

/// Counts the trace's records and discards them.
#[derive(Clone, Copy, Debug, Default)]
pub struct BlackHole {
    bytes: u64,
}

impl Sink for BlackHole {
    fn write(&mut self, records: &[u8]) -> Result<(), SinkError> {
        self.bytes += records.len() as u64;
        Ok(())
    }

    fn flush_point(&mut self) -> Result<(), SinkError> {
        Ok(())
    }

    fn totals(&self) -> Totals {
        Totals { record_bytes: self.bytes, output_bytes: 0 }
    }

    fn finish(&mut self) -> Result<Totals, SinkError> {
        Ok(self.totals())
    }
}

/// Replaces an output that failed and was closed, and counts the records that are lost.
#[derive(Clone, Copy, Debug)]
pub(super) struct Refuse(pub(super) Unsaved);

impl Sink for Refuse {
    fn write(&mut self, records: &[u8]) -> Result<(), SinkError> {
        self.0.add(records);
        Err(SinkError::AlreadyFailed)
    }

    fn flush_point(&mut self) -> Result<(), SinkError> {
        Err(SinkError::AlreadyFailed)
    }

    fn totals(&self) -> Totals {
        Totals::default()
    }

    fn unsaved(&self) -> Unsaved {
        self.0
    }

    fn finish(&mut self) -> Result<Totals, SinkError> {
        Err(SinkError::AlreadyFailed)
    }
}
