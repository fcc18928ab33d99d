//! Atomics, locks and condition variables: the standard library's, or loom's when
//! the engine is model-checked.

use std::sync::TryLockError;
use std::time::Duration;

#[cfg(loom)]
pub(super) use loom::sync::{
    Condvar, Mutex, MutexGuard,
    atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering, fence},
};
#[cfg(not(loom))]
pub(super) use std::sync::{
    Condvar, Mutex, MutexGuard,
    atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering, fence},
};

/// Locks `mutex`. The engine's state is changed only by code that does not
/// panic, so a poisoned lock (a panic in a caller's callback) is still good.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// Locks `mutex` if that is possible without waiting.
pub(super) fn try_lock<T>(mutex: &Mutex<T>) -> Option<MutexGuard<'_, T>> {
    match mutex.try_lock() {
        Ok(guard) => Some(guard),
        Err(TryLockError::Poisoned(error)) => Some(error.into_inner()),
        Err(TryLockError::WouldBlock) => None,
    }
}

/// Waits for a wakeup, or until `timeout`, if any, has passed.
pub(super) fn wait<'a, T>(
    condvar: &Condvar,
    guard: MutexGuard<'a, T>,
    timeout: Option<Duration>,
) -> MutexGuard<'a, T> {
    // The model has no clock: there, every wait must end by a wakeup.
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
