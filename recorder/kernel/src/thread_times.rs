//! Where a thread's time went, by the kernel's own counts.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use nix::sys::resource::{UsageWho, getrusage};
use nix::time::{ClockId, clock_gettime};

/// Counts of one thread since it started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ThreadTimes {
    /// Nanoseconds on a CPU.
    pub running: u64,
    /// Nanoseconds in which it was runnable but not on a CPU; 0 if the kernel does not count that.
    pub queued: u64,
    /// Page faults that waited for a disk.
    pub major_faults: u64,
}

/// Reads the counts of the thread that created it. On another thread, the figures are a mixture.
#[derive(Debug)]
pub struct ThreadClock {
    /// `/proc/thread-self/schedstat`, whose second number is the time on a run queue.
    schedstat: io::Result<File>,
}

/// How long the calling thread has run.
pub fn running() -> std::time::Duration {
    clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).map(Into::into).unwrap_or_default()
}

impl ThreadClock {
    /// A clock of the calling thread.
    pub fn of_this_thread() -> ThreadClock {
        ThreadClock { schedstat: File::open("/proc/thread-self/schedstat") }
    }

    /// The counts so far. Takes two or three system calls of a microsecond each.
    pub fn read(&self) -> ThreadTimes {
        let faults = getrusage(UsageWho::RUSAGE_THREAD).map(|usage| usage.major_page_faults());
        ThreadTimes {
            running: running().as_nanos().try_into().unwrap_or(0),
            queued: self.queued().unwrap_or(0),
            major_faults: faults.ok().and_then(|faults| faults.try_into().ok()).unwrap_or(0),
        }
    }

    fn queued(&self) -> Option<u64> {
        let mut text = [0; 80];
        let length = self.schedstat.as_ref().ok()?.read_at(&mut text, 0).ok()?;
        parse(std::str::from_utf8(&text[..length]).ok()?)
    }
}

/// The second of the three numbers: time on a CPU, time waiting for a CPU, number of time slices.
fn parse(schedstat: &str) -> Option<u64> {
    schedstat.split_ascii_whitespace().nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_number_is_the_wait() {
        assert_eq!(parse("123 456 7\n"), Some(456));
        assert_eq!(parse("123\n"), None);
    }

    #[test]
    fn a_thread_that_computes_runs_and_one_that_sleeps_does_neither() {
        let clock = ThreadClock::of_this_thread();
        let before = clock.read();
        while clock.read().running < before.running + 2_000_000 {
            std::hint::black_box(0);
        }
        let between = clock.read();
        std::thread::sleep(std::time::Duration::from_millis(50));
        let after = clock.read();
        assert!(after.running - between.running < 25_000_000, "{between:?} {after:?}");
        assert!(between.queued >= before.queued && after.queued >= between.queued);
    }
}
