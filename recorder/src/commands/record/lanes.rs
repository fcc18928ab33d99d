//! The engine's two lanes, as the encoder knows them.

use std::sync::Arc;

use fxt_writer::engine::Engine;
use fxt_writer::record::Record;

use crate::encode::lanes::{Closed, Lanes};

/// Writes into an engine, and waits where the engine's policy is to wait.
#[derive(Debug)]
pub(super) struct EngineLanes {
    pub(super) engine: Arc<Engine>,
    /// Whether names go into the engine; in circular mode they are kept elsewhere, since they would be overwritten.
    pub(super) takes_names: bool,
}

impl Lanes for EngineLanes {
    #[inline]
    fn durable(&mut self, record: &impl Record) -> Result<(), Closed> {
        match self.takes_names {
            true => record.write(&mut self.engine.durable()).map_err(|_| Closed),
            false => Ok(()),
        }
    }

    #[inline]
    fn rolling(&mut self, record: &impl Record) -> Result<(), Closed> {
        record.write(&mut self.engine.rolling()).map_err(|_| Closed)
    }
}
