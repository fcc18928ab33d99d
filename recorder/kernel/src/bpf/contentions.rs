//! Which thread waits for which lock of the kernel: where the programs on `contention_begin` and `contention_end` leave it for
//! the one on switches.
//!
//! A thread that finds a mutex or a semaphore taken says so once, and may then sleep, be preempted and move several times before it
//! has the lock. Its place is found by the lower bits of its id; of two threads that share one and wait at once, the later is told of.
//! A place says whom it is about, so it is never taken for the other's.

use super::object::{ObjectError, Programs};
use super::programs::Program;
use super::types::Types;

/// Bytes of all places, of which there is a power of two.
pub const BYTES: usize = 64 * 1024 * 16;

/// What kind of lock it is: bits, as the kernel has them.
pub mod flag {
    /// The thread does not sleep: nobody else gets its CPU.
    pub const SPIN: u32 = 1;
    pub const READ: u32 = 1 << 1;
    pub const WRITE: u32 = 1 << 2;
    pub const RT: u32 = 1 << 3;
    pub const PERCPU: u32 = 1 << 4;
    pub const MUTEX: u32 = 1 << 5;
}

/// The programs; none before Linux 5.19. The end comes first: a wait that began before is not taken for one that never ends.
///
/// # Errors
/// [`ObjectError::Missing`].
pub fn programs(types: &Types, programs: &Programs) -> Result<Vec<Program>, ObjectError> {
    let tracepoints = [types.tracepoint("contention_begin"), types.tracepoint("contention_end")];
    let [Ok(begin), Ok(end)] = tracepoints else { return Ok(Vec::new()) };
    Ok(vec![programs.on("fxtrec_lock_had", end)?, programs.on("fxtrec_lock", begin)?])
}
