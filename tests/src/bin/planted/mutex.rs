//! A mutex of the C library. Rust's own have no owner.

use std::cell::UnsafeCell;
use std::marker::PhantomData;

#[derive(Debug)]
pub(crate) struct Mutex(UnsafeCell<libc::pthread_mutex_t>);

// SAFETY: the inner value is only accessed by the library's functions, which are designed for several threads.
unsafe impl Sync for Mutex {}

impl Default for Mutex {
    fn default() -> Mutex {
        Mutex(UnsafeCell::new(libc::PTHREAD_MUTEX_INITIALIZER))
    }
}

/// Holds the mutex until it is dropped.
#[derive(Debug)]
pub(crate) struct Guard<'a>(&'a Mutex, PhantomData<*const ()>);

impl Mutex {
    pub(crate) fn lock(&self) -> Guard<'_> {
        // SAFETY: it was initialised, and cannot move while it is borrowed.
        assert_eq!(unsafe { libc::pthread_mutex_lock(self.0.get()) }, 0, "no deadlock");
        Guard(self, PhantomData)
    }
}

impl Drop for Guard<'_> {
    fn drop(&mut self) {
        // SAFETY: this thread has locked it: the pointer in the guard's type keeps guards from being sent to others.
        assert_eq!(unsafe { libc::pthread_mutex_unlock(self.0.0.get()) }, 0, "it is locked");
    }
}
