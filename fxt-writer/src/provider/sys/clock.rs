//! The trace's clock: CLOCK_MONOTONIC, in nanoseconds, which the scheduler's
//! records are in too.

use crate::Ticks;

/// The present time. The kernel's vdso answers without a system call.
#[inline]
pub(in crate::provider) fn now() -> Ticks {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer is to a timespec of our own. The clock exists on every
    // Linux, so the call cannot fail; if it did, the time would read as zero.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
    // Both are positive, and their types differ between architectures.
    #[allow(clippy::cast_lossless, clippy::unnecessary_cast, reason = "time_t may have 32 bits")]
    Ticks(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
}
