//! The trace's clock: the kernel's CLOCK_MONOTONIC, in nanoseconds, as in the
//! scheduler's records. In a time namespace, a process reads it with an offset.

use std::sync::atomic::{AtomicI64, Ordering};

use crate::Ticks;

/// Nanoseconds by which this process's clock is ahead of the kernel's.
static AHEAD: AtomicI64 = AtomicI64::new(0);

/// Finds the offset of this process's time namespace. Must be called before the first record.
pub(in crate::provider) fn find_namespace() {
    let read = |name| std::fs::read_link(name).ok();
    let own = read("/proc/self/ns/time");
    // The file describes the namespace of future children.
    if own.is_some() && own == read("/proc/self/ns/time_for_children") {
        let text = std::fs::read_to_string("/proc/self/timens_offsets").unwrap_or_default();
        AHEAD.store(monotonic_offset(&text).unwrap_or(0), Ordering::Relaxed);
    }
}

/// Reads the line of the clock: seconds and nanoseconds.
fn monotonic_offset(text: &str) -> Option<i64> {
    let line = text.lines().find_map(|line| line.strip_prefix("monotonic"))?;
    let mut numbers = line.split_whitespace().map(str::parse::<i64>);
    let (seconds, nanos) = (numbers.next()?.ok()?, numbers.next()?.ok()?);
    seconds.checked_mul(1_000_000_000)?.checked_add(nanos)
}

/// The current time, from the vdso, without a system call.
#[inline]
pub(in crate::provider) fn now() -> Ticks {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer is to a timespec of our own. The clock exists on every
    // On Linux, the call cannot fail; if it did, the time would read as zero.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
    // Both are positive, and their types differ between architectures.
    #[allow(clippy::cast_lossless, clippy::unnecessary_cast, reason = "time_t may have 32 bits")]
    let read = time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64;
    // Relaxed: it is stored before the first record and does not change afterwards.
    Ticks(read.saturating_add_signed(-AHEAD.load(Ordering::Relaxed)))
}

#[cfg(test)]
mod tests {
    use super::monotonic_offset;

    #[test]
    fn the_offset_of_a_time_namespace_is_read() {
        let text = "monotonic       86400         5\nboottime            0         0\n";
        assert_eq!(monotonic_offset(text), Some(86_400_000_000_005));
        assert_eq!(monotonic_offset(""), None);
    }
}
