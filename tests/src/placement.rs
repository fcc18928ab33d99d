//! Where and when threads of a workload run.

use std::time::Duration;

use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;

/// The CPUs that the calling thread may use, in order.
///
/// # Errors
/// When the kernel does not report it.
pub fn allowed_cpus() -> nix::Result<Vec<usize>> {
    let allowed = sched_getaffinity(Pid::from_raw(0))?;
    Ok((0..CpuSet::count()).filter(|cpu| allowed.is_set(*cpu) == Ok(true)).collect())
}

/// Lets a thread run on one CPU only; 0 is the calling thread.
///
/// # Errors
/// When there is no such CPU or no such thread.
pub fn send(thread: Pid, cpu: usize) -> nix::Result<()> {
    let mut only = CpuSet::new();
    only.set(cpu)?;
    sched_setaffinity(thread, &only)
}

/// Keeps the calling thread, and those that it starts, on a CPU.
///
/// # Errors
/// When there is no such CPU.
pub fn stay_on(cpu: usize) -> nix::Result<()> {
    send(Pid::from_raw(0), cpu)
}

/// Keeps the calling thread, and those that it starts, on the first CPU that it may use.
///
/// # Errors
/// When the kernel refuses it.
pub fn stay_on_first() -> nix::Result<()> {
    stay_on(allowed_cpus()?.first().copied().unwrap_or(0))
}

/// Waits until a thread of this process is asleep.
///
/// # Panics
/// When there is no such thread.
pub fn await_sleep(thread: Pid) {
    loop {
        let stat = std::fs::read_to_string(format!("/proc/self/task/{thread}/stat")).expect("stat");
        // The name is in parentheses, followed by the state.
        if stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('S')) {
            return;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}
