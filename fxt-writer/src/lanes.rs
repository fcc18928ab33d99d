//! Two lanes that form one trace: registrations, and the records that refer to them.

use crate::engine::{Durable, Engine, Full, Rolling};
use crate::error::WriteError;
use crate::record::Record;
use crate::space::Space;

/// The destination of a trace's records. In the trace, a record that was put into [`durable`](Self::durable) comes before those that were
/// put into [`rolling`](Self::rolling) afterwards.
///
/// A [`Space`] is both lanes at once, since its records stay in order.
pub trait Lanes {
    /// The reason why there is no room.
    type Full;

    /// Writes a string, thread, name or other record that later ones refer to.
    ///
    /// # Errors
    ///
    /// Returns an error when there is no room, or the format cannot express a value.
    fn durable(&mut self, record: &impl Record) -> Result<(), WriteError<Self::Full>>;

    /// Writes any other record.
    ///
    /// # Errors
    ///
    /// Returns an error when there is no room, or the format cannot express a value.
    fn rolling(&mut self, record: &impl Record) -> Result<(), WriteError<Self::Full>>;
}

impl<S: Space> Lanes for S {
    type Full = S::Full;

    #[inline]
    fn durable(&mut self, record: &impl Record) -> Result<(), WriteError<S::Full>> {
        record.write(self)
    }

    #[inline]
    fn rolling(&mut self, record: &impl Record) -> Result<(), WriteError<S::Full>> {
        record.write(self)
    }
}

/// The two lanes of an engine.
#[derive(Clone, Copy, Debug)]
pub struct EngineLanes<'e> {
    rolling: Rolling<'e>,
    durable: Durable<'e>,
}

impl<'e> EngineLanes<'e> {
    /// The lanes of this engine.
    #[must_use]
    pub fn new(engine: &'e Engine) -> Self {
        Self { rolling: engine.rolling(), durable: engine.durable() }
    }
}

impl Lanes for EngineLanes<'_> {
    type Full = Full;

    #[inline]
    fn durable(&mut self, record: &impl Record) -> Result<(), WriteError<Full>> {
        record.write(&mut self.durable)
    }

    #[inline]
    fn rolling(&mut self, record: &impl Record) -> Result<(), WriteError<Full>> {
        record.write(&mut self.rolling)
    }
}
