//! The encoder through its public interface: the tests pass events to it, and the reader reads back the records.
//!
//! A [`Scene`] holds an encoder whose records go into memory. It returns the records as lines of text, one per record, and each time checks
//! the whole trace against the format and against fxtrec's guarantees.

mod chain;
mod lives;
mod moment;
mod names;
mod namespace;
mod probes;
mod random;
mod scene;
mod scope;
mod snapshot;
mod switches;
mod throttled;
mod wakeups;
mod watch;

use super::threads::Lookup;
use crate::event::{Comm, Kind, LocalId, Loss, Switch, Wake, WakeKind, Waker};
use fxtrec_kernel::prev_state::PrevState;
use fxtrec_units::{Cpu, Tid};
use scene::Scene;

impl From<Switch> for Kind {
    fn from(switch: Switch) -> Kind {
        Kind::Switch(switch)
    }
}

impl From<Wake> for Kind {
    fn from(wake: Wake) -> Kind {
        Kind::Wake(wake)
    }
}

fn comm(name: &str) -> Comm {
    Comm::from_bytes(name.as_bytes())
}

/// The name of a thread in these tests: `t` and its id.
fn comm_of(tid: u32) -> Comm {
    if tid == 0 { comm("swapper/0") } else { comm(&format!("t{tid}")) }
}

/// `prev` is switched out in `state`, as the kernel writes states, and `next` in; both have nice 0.
fn switch(prev: u32, state: &str, next: u32) -> Switch {
    Switch {
        prev: Tid(prev),
        next: Tid(next),
        prev_prio: 120,
        next_prio: 120,
        state: PrevState {
            letter: state.chars().next().expect("a letter"),
            preempted: state.ends_with('+'),
        },
        syscall: None,
        in_scope: None,
        prev_comm: comm_of(prev),
        next_comm: comm_of(next),
    }
}

fn wake_of(kind: WakeKind, tid: u32, current: u32) -> Wake {
    Wake {
        kind,
        tid: Tid(tid),
        prio: 120,
        target: Cpu(0),
        comm: comm_of(tid),
        current: Tid(current),
        by: Waker::here(kind, Tid(current), false),
        same_process: None,
        in_scope: None,
    }
}

/// `current` wakes `tid` for CPU 0; the idle task represents the thread itself.
fn wakeup(tid: u32, current: u32) -> Wake {
    wake_of(WakeKind::Wakeup, tid, current)
}

/// The same for the first wakeup of a thread.
fn wakeup_new(tid: u32, current: u32) -> Wake {
    wake_of(WakeKind::New, tid, current)
}

/// `current` begins to wake `tid`.
fn waking(tid: u32, current: u32) -> Wake {
    wake_of(WakeKind::Waking, tid, current)
}

/// The same wakeup, seen in an interrupt while `current` is on the CPU.
fn interrupt(wake: Wake) -> Wake {
    Wake { by: Waker::here(wake.kind, wake.current, true), ..wake }
}

/// The thread `tid` of process `pid` is created by `parent` of process `parent_pid`.
fn fork((pid, tid): (u32, u32), (parent_pid, parent_tid): (u32, u32)) -> Kind {
    Kind::Fork {
        pid: LocalId(pid),
        tid: LocalId(tid),
        parent_pid: LocalId(parent_pid),
        parent_tid: LocalId(parent_tid),
    }
}

fn renamed((pid, tid): (u32, u32), name: &str) -> Kind {
    Kind::Comm { pid: LocalId(pid), tid: LocalId(tid), exec: false, comm: comm(name) }
}

fn executed(pid: u32, name: &str) -> Kind {
    Kind::Comm { pid: LocalId(pid), tid: LocalId(pid), exec: true, comm: comm(name) }
}

fn running(tid: u32) -> Kind {
    Kind::Running { pid: LocalId(tid), tid: LocalId(tid) }
}

fn identity(tid: u32, (local_pid, local_tid): (u32, u32)) -> Kind {
    Kind::Identity { tid: Tid(tid), local_pid: LocalId(local_pid), local_tid: LocalId(local_tid) }
}

const LOST: Kind = Kind::Lost(Loss::exactly(3));

/// The first generation of koids that differ from the tids.
const SECOND: u64 = 0x40_0000;

/// A `/proc` that the test fills.
#[derive(Debug, Default)]
struct Proc {
    /// Pairs of thread and process.
    threads: Vec<(u32, u32)>,
    names: Vec<(u32, &'static str)>,
    /// Pairs of process and cgroup.
    cgroups: Vec<(u32, &'static str)>,
}

impl Lookup for Proc {
    fn process_of(&self, tid: LocalId) -> Option<LocalId> {
        self.threads.iter().find(|(thread, _)| *thread == tid.0).map(|(_, pid)| LocalId(*pid))
    }

    fn process_name(&self, pid: LocalId) -> Option<Vec<u8>> {
        let found = self.names.iter().find(|(process, _)| *process == pid.0);
        found.map(|(_, name)| name.as_bytes().to_vec())
    }

    fn cgroup_of(&self, pid: LocalId) -> Option<String> {
        let found = self.cgroups.iter().find(|(process, _)| *process == pid.0);
        found.map(|(_, path)| (*path).to_owned())
    }

    fn cgroup_path(&self, number: u64) -> Option<String> {
        (number == 7).then(|| "/seven".to_owned())
    }
}
