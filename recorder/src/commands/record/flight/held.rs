//! The time from which the engine may hold events.

use crate::units::Nanos;

/// The earliest time that the engine may hold events from: approximate, never too late.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Held {
    wrapped: u32,
    older: Nanos,
    newer: Nanos,
}

impl Held {
    /// Remembers that the engine has switched buffers `wrapped` times, and that everything written to it since the last call happened at
    /// `before` or later.
    pub(super) fn follow(&mut self, wrapped: u32, before: Nanos) {
        match wrapped.wrapping_sub(self.wrapped) {
            0 => return,
            1 => self.older = self.newer,
            _ => self.older = before,
        }
        self.newer = before;
        self.wrapped = wrapped;
    }

    /// Everything that the engine holds happened at this time or later.
    pub(super) fn since(&self) -> Nanos {
        self.older
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_reaches_back_two_switches_and_never_too_short() {
        let mut held = Held::default();
        held.follow(0, Nanos(10));
        assert_eq!(held.since(), Nanos(0));
        held.follow(1, Nanos(20));
        assert_eq!(held.since(), Nanos(0), "the first half is still there");
        held.follow(2, Nanos(30));
        assert_eq!(held.since(), Nanos(20));
        held.follow(5, Nanos(40));
        assert_eq!((held.since(), held.newer), (Nanos(40), Nanos(40)));
    }
}
