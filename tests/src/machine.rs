//! Whose turn it is to record: each recording sees the whole machine, the recordings of other tests included.
//!
//! Cargo runs one test program after the other, so the lock is one of the process. A turn excludes those that take one
//! as well, not every test of the program.

use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

static MACHINE: RwLock<()> = RwLock::new(());

/// Held by a test while it uses the machine.
#[derive(Debug)]
#[must_use = "the turn is over when this is dropped"]
pub enum Turn {
    Shared(RwLockReadGuard<'static, ()>),
    /// Nobody else has a turn.
    Alone(RwLockWriteGuard<'static, ()>),
}

// A test that failed has left nothing behind that would concern others, so poison is of no interest.

/// Waits until nobody has the machine for itself.
pub fn shared() -> Turn {
    Turn::Shared(MACHINE.read().unwrap_or_else(PoisonError::into_inner))
}

/// Waits until nobody has a turn, and lets nobody begin one meanwhile: for tests that count what the whole machine does, or
/// whose promises hold only while it has time for fxtrec.
pub fn alone() -> Turn {
    Turn::Alone(MACHINE.write().unwrap_or_else(PoisonError::into_inner))
}

/// The release of the running kernel, its first two numbers.
///
/// # Panics
/// When it has none.
pub fn release() -> (u32, u32) {
    let text = std::fs::read_to_string("/proc/sys/kernel/osrelease").expect("a release");
    let mut numbers = text.split(|c: char| !c.is_ascii_digit()).map(str::parse);
    let mut next = || numbers.next().and_then(Result::ok).expect("a number");
    (next(), next())
}
