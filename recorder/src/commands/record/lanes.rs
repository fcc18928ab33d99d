//! The engine's two lanes, as the encoder knows them.

use std::sync::Arc;

use fxt_writer::WriteError;
use fxt_writer::engine::{Batch, Engine, Full};
use fxt_writer::lanes::Lanes;
use fxt_writer::record::Record;

/// Writes into an engine, and waits where the engine's policy is to wait.
///
/// Records go into the rolling buffers in batches, which cost a fraction of lone ones. [`BatchedLanes::commit`] ends a
/// batch: before anything waits for the engine, or for events.
#[derive(Debug)]
pub(super) struct BatchedLanes {
    batch: Batch<Arc<Engine>>,
    /// Whether names go into the engine; in circular mode they are kept elsewhere, since they would be overwritten.
    takes_names: bool,
}

impl BatchedLanes {
    pub(super) fn new(engine: Arc<Engine>, takes_names: bool) -> BatchedLanes {
        BatchedLanes { batch: Batch::shared(engine), takes_names }
    }

    /// Makes all records so far part of the buffer.
    pub(super) fn commit(&mut self) {
        self.batch.close();
    }
}

impl Lanes for BatchedLanes {
    type Full = Full;

    #[inline]
    fn durable(&mut self, record: &impl Record) -> Result<(), WriteError<Full>> {
        if !self.takes_names {
            return Ok(());
        }
        // Where there is no room the engine waits for a rolling buffer to be saved, which must not wait for the batch.
        self.commit();
        record.write(&mut self.batch.engine().durable())
    }

    #[inline]
    fn rolling(&mut self, record: &impl Record) -> Result<(), WriteError<Full>> {
        record.write(&mut self.batch)
    }
}
