//! Where a writer's records go: all into one space, or into the lanes of an
//! engine.

use crate::engine::{Durable, Engine, Full, Mode, Rolling};
use crate::space::Space;

/// One place for records, and one for the registrations that they refer to. What
/// is registered must be read before the records that are written afterwards.
pub trait Lanes {
    /// Why there is no room.
    type Full;
    /// The place for records.
    type Records: Space<Full = Self::Full>;
    /// The place for registrations.
    type Tables: Space<Full = Self::Full>;

    /// The place for records.
    fn records(&mut self) -> &mut Self::Records;

    /// The place for registrations.
    fn tables(&mut self) -> &mut Self::Tables;
}

/// One space for everything.
#[derive(Debug)]
pub struct Single<S>(pub(super) S);

impl<S: Space> Lanes for Single<S> {
    type Full = S::Full;
    type Records = S;
    type Tables = S;

    fn records(&mut self) -> &mut S {
        &mut self.0
    }

    fn tables(&mut self) -> &mut S {
        &mut self.0
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

impl<'e> Lanes for EngineLanes<'e> {
    type Full = Full;
    type Records = Rolling<'e>;
    type Tables = Durable<'e>;

    fn records(&mut self) -> &mut Rolling<'e> {
        &mut self.rolling
    }

    fn tables(&mut self) -> &mut Durable<'e> {
        &mut self.durable
    }
}

/// Whether an entry may be replaced in an engine of this mode. The record that
/// replaces it goes to the rolling lane, in the order of its use, as the durable
/// lane is read before rolling records that still rely on the old entry. So it
/// must not be lost as circular buffers lose what is old.
pub(super) const fn may_replace(mode: Mode) -> bool {
    matches!(mode, Mode::Oneshot | Mode::Streaming)
}
