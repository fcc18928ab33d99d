//! The values to fetch at a probe, in the syntax of the kernel's `uprobe_events`.

mod fetch;
mod lower;
mod registers;
mod verbatim;

use std::fmt;

use serde::{Deserialize, Serialize};

pub(crate) use fetch::Fetch;
pub(crate) use lower::{Arguments, Operand, lower};
pub(crate) use registers::by_assembler;
pub use verbatim::Verbatim;

/// An argument of a spec that the kernel cannot fetch.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{arg}: {problem}")]
pub struct ArgError {
    /// The argument as it was written.
    pub arg: String,
    /// The error in it.
    pub problem: String,
}

/// One value to fetch at a [`Site`](super::Site).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FetchArg {
    /// The argument's name in the event.
    pub name: String,
    /// The fetch argument for the kernel: `%di:u32`, `+0(%di):string`.
    pub fetch: String,
    /// How to interpret the fetched bytes.
    pub kind: ArgKind,
    /// Whether it is fetched on entry to the function or on return.
    pub moment: FetchPoint,
}

/// Whether a value is fetched on entry to a function or on return. Only a [`Span`](super::SiteKind::Span) has both kinds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum FetchPoint {
    /// When the instruction is reached.
    Hit,
    Return,
}

/// How to interpret the bytes of a fetched value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum ArgKind {
    Unsigned(Width),
    Signed(Width),
    /// A string that ends with a zero byte, in the kernel's `__data_loc` form.
    Str,
    /// An address, 64 bits wide.
    Ptr,
}

/// The size of an integer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Width {
    Bits8,
    Bits16,
    Bits32,
    Bits64,
}

impl Width {
    /// All of them, narrow ones first.
    pub const ALL: [Width; 4] = [Width::Bits8, Width::Bits16, Width::Bits32, Width::Bits64];

    /// The width with that many bits.
    pub fn of_bits(bits: u32) -> Option<Width> {
        Width::ALL.into_iter().find(|width| width.bits() == bits)
    }

    pub const fn bits(self) -> u32 {
        match self {
            Width::Bits8 => 8,
            Width::Bits16 => 16,
            Width::Bits32 => 32,
            Width::Bits64 => 64,
        }
    }

    pub const fn bytes(self) -> usize {
        match self {
            Width::Bits8 => 1,
            Width::Bits16 => 2,
            Width::Bits32 => 4,
            Width::Bits64 => 8,
        }
    }
}

/// The kernel's name of the type.
impl fmt::Display for ArgKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ArgKind::Unsigned(width) => write!(f, "u{}", width.bits()),
            ArgKind::Signed(width) => write!(f, "s{}", width.bits()),
            ArgKind::Str => f.write_str("string"),
            ArgKind::Ptr => f.write_str("x64"),
        }
    }
}
