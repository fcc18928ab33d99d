//! Identities, each in a type of its own so that none can be passed where another belongs.

use std::fmt;

/// A kernel object id: names a process, a thread or another kernel object for the length of a trace ("Kernel object
/// information"). In traces from Linux a thread id or process id, possibly with a generation above bit 22.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Koid(pub u64);

/// The number by which an archive tells its trace providers apart ("Provider info metadata").
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
