//! USDT probes: the locations that a program's author marked, with their arguments.
//!
//! Each is one `nop` in the code and one note in the section `.note.stapsdt`, which has its address, its name, and the locations of its
//! arguments. A probe with a semaphore is guarded by an `if` on the semaphore, which the kernel increments while the probe is in use.

mod note;
mod operand;

pub use note::{Probe, UsdtError, probes};
pub(crate) use operand::operands;
