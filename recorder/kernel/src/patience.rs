//! Reads kernel files about other processes, where a read may block for as long as those processes choose.
//!
//! A file that needs the lock of a process's memory (`maps`, `cmdline`, `mem` and others below `/proc/PID`) blocks while a thread of that
//! process holds the lock, and that thread may wait for a user-space file system that never responds. Unlike a read from such a file
//! system, this wait ends when this process ends. So a separate thread waits, and is abandoned if it takes too long.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::sync_channel;
use std::time::Duration;

use crate::perf::page_size;

/// How long to wait if no thread hangs; half as long for each one that hangs, so two seconds in total.
const MOST: Duration = Duration::from_secs(1);

/// How many threads may hang. At this number of hanging threads, reading stops.
const MOST_HANGING: usize = 8;

/// The stack that a thread needs to read a file.
const STACK_BYTES: usize = 256 << 10;

static HANGING: AtomicUsize = AtomicUsize::new(0);

/// The result of `work`; `None` if it takes too long.
pub fn patiently<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    let hanging = HANGING.load(Ordering::Relaxed);
    if hanging >= MOST_HANGING {
        return None;
    }
    let (sender, receiver) = sync_channel(1);
    // Set by whichever is first: the thread when it is done, or the waiting caller when it gives up.
    let is_settled = Arc::new(AtomicBool::new(false));
    let settled = is_settled.clone();
    let thread = std::thread::Builder::new().name("fxtrec-patient".to_owned());
    let thread = thread.stack_size(STACK_BYTES).spawn(move || {
        // The channel has space, so this does not block; the receiver may have ended.
        let _ = sender.send(work());
        if settled.swap(true, Ordering::AcqRel) {
            HANGING.fetch_sub(1, Ordering::Relaxed);
        }
    });
    // If the thread cannot be started, this counts as no answer.
    let _ = thread.ok()?;
    if let Ok(found) = receiver.recv_timeout(MOST / (1 << hanging)) {
        return Some(found);
    }
    HANGING.fetch_add(1, Ordering::Relaxed);
    if is_settled.swap(true, Ordering::AcqRel) {
        // It has answered in the meantime.
        HANGING.fetch_sub(1, Ordering::Relaxed);
    }
    receiver.try_recv().ok()
}

/// A process whose memory is locked, so that changing its mappings would block. There may be other processes.
///
/// # Errors
/// Returns an error if `/proc` cannot be listed.
pub fn locked_process() -> io::Result<Option<u32>> {
    let pids = std::fs::read_dir("/proc")?;
    let mut pids = pids.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    Ok(pids.find(|pid| is_locked(*pid)))
}

/// A process that has ended, or that cannot be inspected, is not known to be locked.
fn is_locked(pid: u32) -> bool {
    // Reading memory takes the lock, even where nothing is mapped.
    let read = move || {
        let memory = File::open(format!("/proc/{pid}/mem"))?;
        memory.read_at(&mut [0], page_size() as u64)
    };
    patiently(read).is_none()
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    #[test]
    fn what_takes_too_long_is_left_behind_and_after_some_nothing_is_read() {
        assert_eq!(patiently(|| 7), Some(7));
        assert!(!is_locked(std::process::id()) && !is_locked(u32::MAX));
        let ends: Vec<_> = (0..MOST_HANGING)
            .map(|_| {
                let (end, ended) = channel::<()>();
                assert_eq!(patiently(move || ended.recv().is_ok()), None);
                end
            })
            .collect();
        assert_eq!(patiently(|| 7), None, "too many hang");
        drop(ends);
        while HANGING.load(Ordering::Relaxed) > 0 {
            std::thread::yield_now();
        }
        assert_eq!(patiently(|| 7), Some(7));
    }
}
