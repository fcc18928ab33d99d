//! Making every CPU idle for a moment while it is watched.
//!
//! On some virtual machines tracepoints that fire in the idle task of a CPU
//! never reach perf, with nothing reported lost. It shows only when a CPU leaves
//! idle, so before COMMAND starts, a thread visits each CPU and sleeps there
//! twice, shortly.

use std::time::Duration;

use nix::sched::{CpuSet, sched_setaffinity};
use nix::unistd::Pid;

use crate::units::Cpu;

const NAP: Duration = Duration::from_micros(100);

/// Lets a thread of its own sleep on each of the CPUs in turn; those it may not visit are left out.
pub fn nap_on_each(cpus: &[Cpu]) {
    std::thread::scope(|scope| {
        let napper = std::thread::Builder::new().name("fxtrec-nap".to_owned());
        let napped = napper.spawn_scoped(scope, || {
            for cpu in cpus {
                if go_to(*cpu) {
                    std::thread::sleep(NAP);
                    std::thread::sleep(NAP);
                }
            }
        });
        // Without the thread nothing is learned about the CPUs, which is what happens on a busy machine too.
        drop(napped);
    });
}

fn go_to(cpu: Cpu) -> bool {
    let mut set = CpuSet::new();
    set.set(cpu.0 as usize).and_then(|()| sched_setaffinity(Pid::from_raw(0), &set)).is_ok()
}
