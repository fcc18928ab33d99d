//! Makes every CPU idle for a short time while it is watched.
//!
//! On some virtual machines tracepoints that fire in the idle task of a CPU never reach perf, and nothing is reported as lost. This shows
//! only when a CPU leaves idle, so before COMMAND starts, a thread visits each CPU and sleeps there twice for a short time.

use std::sync::mpsc;
use std::time::Duration;

use nix::sched::{CpuSet, sched_setaffinity};
use nix::unistd::Pid;

use super::priority;
use crate::units::Cpu;

const NAP: Duration = Duration::from_micros(100);

/// If the machine is so busy that the thread cannot nap in this time, it is not idle anyway.
const PATIENCE: Duration = Duration::from_millis(50);

/// Lets a new thread sleep on each of the CPUs in turn; CPUs that it is not allowed to use are skipped.
///
/// Returns when all CPUs were visited, or when that takes too long.
pub fn sleep_on_each(cpus: Vec<Cpu>) {
    let (done, napped) = mpsc::channel::<()>();
    let napper = std::thread::Builder::new().name("fxtrec-nap".to_owned());
    let spawned = napper.spawn(move || {
        priority::raise();
        for cpu in cpus {
            if go_to(cpu) {
                std::thread::sleep(NAP);
                std::thread::sleep(NAP);
            }
        }
        drop(done);
    });
    if spawned.is_ok() {
        // Both outcomes are fine: the end of the thread, or the timeout.
        let _ = napped.recv_timeout(PATIENCE);
    }
}

fn go_to(cpu: Cpu) -> bool {
    let mut set = CpuSet::new();
    set.set(cpu.0 as usize).and_then(|()| sched_setaffinity(Pid::from_raw(0), &set)).is_ok()
}
