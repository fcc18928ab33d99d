//! Memory that was let go and is still this process's.

/// Gives memory back to the kernel that was let go in pieces, which the C library keeps for later otherwise. Takes some milliseconds.
pub fn trim() {
    #[cfg(target_env = "gnu")]
    // SAFETY: the call has no precondition, and takes the library's own locks.
    unsafe {
        libc::malloc_trim(0);
    }
}
