//! The engine's two lanes, as the encoder knows them.

use std::sync::Arc;

use fxt_writer::engine::Engine;
use fxt_writer::record::Record;

use crate::encode::lanes::{Closed, Lanes};

/// Writes into an engine, and waits where the engine's policy is to wait.
#[derive(Debug)]
pub(super) struct EngineLanes(pub(super) Arc<Engine>);

impl Lanes for EngineLanes {
    #[inline]
    fn durable(&mut self, record: &impl Record) -> Result<(), Closed> {
        record.write(&mut self.0.durable()).map_err(|_| Closed)
    }

    #[inline]
    fn rolling(&mut self, record: &impl Record) -> Result<(), Closed> {
        record.write(&mut self.0.rolling()).map_err(|_| Closed)
    }
}
