//! Atomics, locks and waiting: the standard library's, or loom's where the
//! engine is model-checked.

use std::time::Duration;

#[cfg(loom)]
pub(super) use loom::sync::{
    Condvar, Mutex, MutexGuard,
    atomic::{AtomicU64, AtomicUsize, Ordering, fence},
};
#[cfg(not(loom))]
pub(super) use std::sync::{
    Condvar, Mutex, MutexGuard,
    atomic::{AtomicU64, AtomicUsize, Ordering, fence},
};

/// Locks `mutex`. The engine's state is changed only by code that does not
/// panic, so a poisoned lock (a panic in a caller's callback) is still good.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// Waits for a wake-up, or for `timeout` to pass where there is one.
pub(super) fn wait<'a, T>(
    condvar: &Condvar,
    guard: MutexGuard<'a, T>,
    timeout: Option<Duration>,
) -> MutexGuard<'a, T> {
    // The model has no clock: there, what would end by a timeout has to end by
    // a wake-up.
    match timeout {
        Some(timeout) if !cfg!(loom) => {
            condvar
                .wait_timeout(guard, timeout)
                .unwrap_or_else(std::sync::PoisonError::into_inner)
                .0
        }
        _ => condvar.wait(guard).unwrap_or_else(std::sync::PoisonError::into_inner),
    }
}
