//! The parts that are written the same in specs and by the kernel.

use std::fmt;

use super::{ArgKind, Width};

/// A location of a value that means the same in a spec and in `uprobe_events`, on every machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verbatim {
    /// The stack's word of this number, from 0: `$stack0`.
    Stack(u32),
    /// The stack's address: `$stack`.
    StackPointer,
    /// The thread's name: `$comm`.
    Comm,
    /// Memory at an address of the process: `@0x601040`.
    Memory(u64),
    /// Memory at an offset of the probed file, as it is mapped: `@+0x3010`.
    FileMemory(u64),
    /// A constant: `\7`.
    Immediate(i64),
}

impl Verbatim {
    /// The default type.
    pub(super) fn kind(self) -> ArgKind {
        match self {
            Verbatim::StackPointer => ArgKind::Ptr,
            Verbatim::Comm => ArgKind::Str,
            Verbatim::Immediate(..0) => ArgKind::Signed(Width::Bits64),
            _ => ArgKind::Unsigned(Width::Bits64),
        }
    }
}

impl fmt::Display for Verbatim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Verbatim::Stack(number) => write!(f, "$stack{number}"),
            Verbatim::StackPointer => f.write_str("$stack"),
            Verbatim::Comm => f.write_str("$comm"),
            Verbatim::Memory(address) => write!(f, "@{address:#x}"),
            Verbatim::FileMemory(offset) => write!(f, "@+{offset:#x}"),
            Verbatim::Immediate(value) => write!(f, "\\{value}"),
        }
    }
}
