//! Which thread waits for which kernel lock: the table in which the programs on `contention_begin` and `contention_end` store this for the
//! program on switches.
//!
//! A thread that finds a mutex or a semaphore held by another reports it once, and may then sleep, be preempted and move several times
//! before it gets the lock. Its entry is indexed by the lower bits of its id; if two threads that share an entry wait at the same time, the
//! later wait is reported. An entry contains the thread's id, so it is never attributed to the other thread.

use super::object::{ObjectError, Programs};
use super::programs::Program;
use super::types::Types;

/// Size of all entries in bytes; their number is a power of two.
pub const BYTES: usize = 64 * 1024 * 16;

/// The kind of lock: bits, as the kernel defines them.
pub mod flag {
    /// The thread does not sleep, so no other thread gets its CPU.
    pub const SPIN: u32 = 1;
    pub const READ: u32 = 1 << 1;
    pub const WRITE: u32 = 1 << 2;
    pub const RT: u32 = 1 << 3;
    pub const PERCPU: u32 = 1 << 4;
    pub const MUTEX: u32 = 1 << 5;
}

/// The programs; none before Linux 5.19. The end is attached first, so that a wait that has already begun does not seem endless.
///
/// # Errors
/// Returns [`ObjectError::Missing`].
pub fn programs(types: &Types, programs: &Programs) -> Result<Vec<Program>, ObjectError> {
    let tracepoints = [types.tracepoint("contention_begin"), types.tracepoint("contention_end")];
    let [Ok(begin), Ok(end)] = tracepoints else { return Ok(Vec::new()) };
    Ok(vec![programs.on("fxtrec_lock_had", end)?, programs.on("fxtrec_lock", begin)?])
}
