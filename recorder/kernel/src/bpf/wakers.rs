//! Who is waking whom: where the program on the beginning of a wake-up leaves it for the one on its completion.
//!
//! A wake-up begins where the waker runs, and may be completed by an interrupt on another CPU. In between nobody can begin
//! another of the same thread, and the kernel's own hand-over puts the two in order. A thread's place is found by the lower
//! bits of its id; should two threads that are being woken at once share it, the earlier one's waker is not known. A
//! place says whom it is about, so it is never the other's.
//!
//! ```text
//!   bits 0 to 30    the id of the woken
//!   bit 31          whether an interrupt does it
//!   bits 32 to 63   the id of who runs
//! ```

use super::sys::{MapKind, MapSpec};

/// How many places there are; a power of two.
pub const ENTRIES: usize = 64 * 1024;

pub const TID_MASK: i32 = i32::MAX;
pub const INTERRUPT_BIT: usize = 31;
pub const WAKER_AT: usize = 32;

/// The map that holds them, which only the programs use.
pub fn map() -> MapSpec<'static> {
    MapSpec {
        kind: MapKind::Array,
        value_bytes: (ENTRIES * size_of::<u64>()) as u32,
        entries: 1,
        mapped: false,
        inner: None,
    }
}
