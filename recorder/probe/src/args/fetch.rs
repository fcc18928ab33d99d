//! Places of values in the kernel's syntax.

use std::fmt;

use super::Verbatim;

/// A location of a value, as `uprobe_events` takes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Fetch {
    Register(&'static str),
    Returned,
    /// Memory this many bytes from an address.
    Deref(i64, Box<Fetch>),
    /// The parts of a spec that are the same in the kernel's syntax.
    Verbatim(Verbatim),
}

impl Fetch {
    /// The value this many bytes from the address that `self` is.
    pub(crate) fn deref(self, offset: i64) -> Fetch {
        Fetch::Deref(offset, Box::new(self))
    }

    /// Whether it is a location in memory, and not a value.
    pub(super) fn is_memory(&self) -> bool {
        matches!(
            self,
            Fetch::Deref(..) | Fetch::Verbatim(Verbatim::Memory(_) | Verbatim::FileMemory(_))
        )
    }
}

impl From<Verbatim> for Fetch {
    fn from(place: Verbatim) -> Fetch {
        Fetch::Verbatim(place)
    }
}

impl fmt::Display for Fetch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fetch::Register(name) => write!(f, "%{name}"),
            Fetch::Returned => f.write_str("$retval"),
            Fetch::Deref(offset, of) => write!(f, "{offset:+}({of})"),
            Fetch::Verbatim(place) => place.fmt(f),
        }
    }
}
