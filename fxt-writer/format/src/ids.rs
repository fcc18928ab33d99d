//! Identities, each with its own type, so that they cannot be mixed up.

use std::fmt;

/// A kernel object id: names a process, a thread or another kernel object for the length of a trace ("Kernel object
/// information"). In traces from Linux, a thread or process id, possibly with a generation number from bit 22 on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Koid(pub u64);

/// The number of a trace provider in an archive ("Provider info metadata").
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProviderId(pub u32);

impl fmt::Display for Koid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for ProviderId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
