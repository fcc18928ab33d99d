//! Which thread waits for which lock of the kernel: where the programs on `contention_begin` and `contention_end` leave it for
//! the one on switches.
//!
//! A thread that finds a mutex or a semaphore taken says so once, and may then sleep, be preempted and move several times before it
//! has the lock. Its place is found by the lower bits of its id; of two threads that share one and wait at once, the later is told of.
//! A place says whom it is about, so it is never taken for the other's.
//!
//! ```text
//!   bytes 0 to 3     the id of the thread; 0 if it waits no longer
//!   bytes 4 to 7     flags: what kind of lock it is
//!   bytes 8 to 15    the address of the lock
//! ```

use super::object::{ObjectError, Programs};
use super::programs::Program;
use super::sys::{MapKind, MapSpec};
use super::types::{TypeId, Types};

/// How many places there are; a power of two.
pub const ENTRIES: usize = 64 * 1024;
pub const ENTRY_BYTES: usize = 16;

/// The parts of a place.
pub mod at {
    pub const TID: i16 = 0;
    pub const FLAGS: i16 = 4;
    pub const ADDRESS: i16 = 8;
}

/// The bits of [`at::FLAGS`], as the kernel has them.
pub mod flag {
    /// The thread does not sleep: nobody else gets its CPU.
    pub const SPIN: u32 = 1;
    pub const READ: u32 = 1 << 1;
    pub const WRITE: u32 = 1 << 2;
    pub const RT: u32 = 1 << 3;
    pub const PERCPU: u32 = 1 << 4;
    pub const MUTEX: u32 = 1 << 5;
}

/// The map that holds them, which only the programs use.
pub fn map() -> MapSpec<'static> {
    MapSpec {
        kind: MapKind::Array,
        value_bytes: (ENTRIES * ENTRY_BYTES) as u32,
        entries: 1,
        mapped: false,
        inner: None,
    }
}

/// The tracepoints' ids.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Contention {
    pub begin: TypeId,
    pub end: TypeId,
}

impl Contention {
    /// Looks them up.
    ///
    /// # Errors
    /// [`ObjectError::NoTracepoint`] before Linux 5.19.
    pub fn new(types: &Types) -> Result<Contention, ObjectError> {
        Ok(Contention {
            begin: types.tracepoint("contention_begin")?,
            end: types.tracepoint("contention_end")?,
        })
    }

    /// Their programs. The end comes first: a wait that began before is not taken for one that never ends.
    ///
    /// # Errors
    /// [`ObjectError::Missing`].
    pub fn programs(self, programs: &Programs) -> Result<Vec<Program>, ObjectError> {
        Ok(vec![programs.on("fxtrec_lock_had", self.end)?, programs.on("fxtrec_lock", self.begin)?])
    }
}
