//! Freed memory that this process still holds.

/// Returns freed memory to the kernel, which the C library would otherwise keep for later. Takes a few milliseconds.
pub fn trim() {
    #[cfg(target_env = "gnu")]
    // SAFETY: the call has no precondition, and takes the library's own locks.
    unsafe {
        libc::malloc_trim(0);
    }
}
