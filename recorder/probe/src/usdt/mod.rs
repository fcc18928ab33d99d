//! USDT probes: the places that a program's author marked, with their arguments.
//!
//! Each is one `nop` in the code and one note in the section `.note.stapsdt`,
//! which says where it is, what it is called, and where the compiler left its
//! arguments. A probe with a semaphore is behind an `if` that asks whether
//! anybody looks; the kernel increments the semaphore as long as somebody does.

mod note;
mod operand;

pub use note::{Probe, UsdtError, probes};
pub(crate) use operand::operands;
