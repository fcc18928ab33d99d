//! Places of values in the kernel's words.

use std::fmt;

/// A place of a value, as `uprobe_events` takes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Fetch {
    /// A register.
    Register(&'static str),
    /// What the function returned.
    Returned,
    /// So many bytes from an address.
    Deref(i64, Box<Fetch>),
    /// A word of the stack.
    Stack(u32),
    /// The stack's address.
    StackPointer,
    /// The thread's name.
    Comm,
    /// Memory at an address.
    Memory(u64),
    /// Memory at an offset of the file.
    FileMemory(u64),
    /// A constant.
    Immediate(i64),
}

impl Fetch {
    /// What is so many bytes from the address that `self` is.
    pub(crate) fn deref(self, offset: i64) -> Fetch {
        Fetch::Deref(offset, Box::new(self))
    }

    /// Whether it is a place in memory, rather than a value.
    pub(super) fn is_memory(&self) -> bool {
        matches!(self, Fetch::Deref(..) | Fetch::Memory(_) | Fetch::FileMemory(_))
    }
}

impl fmt::Display for Fetch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fetch::Register(name) => write!(f, "%{name}"),
            Fetch::Returned => f.write_str("$retval"),
            Fetch::Deref(offset, of) => write!(f, "{offset:+}({of})"),
            Fetch::Stack(number) => write!(f, "$stack{number}"),
            Fetch::StackPointer => f.write_str("$stack"),
            Fetch::Comm => f.write_str("$comm"),
            Fetch::Memory(address) => write!(f, "@{address:#x}"),
            Fetch::FileMemory(offset) => write!(f, "@+{offset:#x}"),
            Fetch::Immediate(value) => write!(f, "\\{value}"),
        }
    }
}
