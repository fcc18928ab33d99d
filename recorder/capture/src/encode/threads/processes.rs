//! The processes that known threads belong to.
//!
//! A process is kept while it has known threads, and found by its id in the recorder's pid namespace. Forks and renames announce a process
//! before its first thread is known; the process is then kept until that thread has ended.

use std::sync::Arc;

use fxt_writer::Koid;
use rustc_hash::FxHashMap;

use super::Naming;
use crate::event::LocalId;

/// Index of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProcessSlot(u32);

#[derive(Clone, Debug)]
pub struct Process {
    /// Its id in the trace; assigned when it is first written.
    pub koid: Option<Koid>,
    pub name: Vec<u8>,
    /// The path of its cgroup, if known.
    pub cgroup: Option<Arc<str>>,
    /// Whether the trace has its current name and cgroup.
    pub naming: Naming,
    /// Its id in the recorder's pid namespace, if it is in that namespace.
    pub(super) local: Option<LocalId>,
    pub(super) in_scope: bool,
    /// The number of losses when its main thread ended; `None` while the main thread lives.
    pub(super) main_ended: Option<u32>,
    /// The number of its known threads.
    threads: u32,
}

impl Process {
    /// A process of the recorder's pid namespace about which only the id is known.
    fn new(pid: LocalId) -> Process {
        Process { local: Some(pid), ..Process::outer(None, Vec::new()) }
    }

    /// A process that is not in the recorder's pid namespace.
    pub(super) fn outer(koid: Option<Koid>, name: Vec<u8>) -> Process {
        Process {
            koid,
            name,
            cgroup: None,
            naming: Naming::Never,
            local: None,
            in_scope: false,
            main_ended: None,
            threads: 0,
        }
    }
}

#[derive(Debug)]
pub(super) struct Processes {
    slots: Vec<Process>,
    free: Vec<ProcessSlot>,
    by_pid: FxHashMap<LocalId, ProcessSlot>,
}

impl Processes {
    /// Index of the idle task's process.
    pub(super) const IDLE: ProcessSlot = ProcessSlot(0);

    /// Contains only the idle task's process.
    pub(super) fn new(idle: Process) -> Processes {
        let idle = Process { threads: 1, ..idle };
        Processes { slots: vec![idle], free: Vec::new(), by_pid: FxHashMap::default() }
    }

    pub(super) fn get(&self, slot: ProcessSlot) -> &Process {
        &self.slots[slot.0 as usize]
    }

    pub(super) fn get_mut(&mut self, slot: ProcessSlot) -> &mut Process {
        &mut self.slots[slot.0 as usize]
    }

    /// The maximum number of processes that were kept at the same time.
    #[cfg(test)]
    pub(super) fn places(&self) -> usize {
        self.slots.len()
    }

    /// The process with this id, if it is known.
    pub(super) fn find(&self, pid: LocalId) -> Option<ProcessSlot> {
        self.by_pid.get(&pid).copied()
    }

    /// The process with this id, which is added if it is unknown.
    pub(super) fn by_id(&mut self, pid: LocalId) -> ProcessSlot {
        match self.find(pid) {
            Some(slot) => slot,
            None => self.replace(pid),
        }
    }

    /// Adds a new process with this id; an earlier process can no longer be found by the id.
    pub(super) fn replace(&mut self, pid: LocalId) -> ProcessSlot {
        if let Some(old) = self.by_pid.remove(&pid)
            && self.get(old).threads == 0
        {
            // The process was announced, but its first thread never appeared.
            self.free.push(old);
        }
        let slot = self.insert(Process::new(pid));
        self.by_pid.insert(pid, slot);
        slot
    }

    /// Stores a process that cannot be found by an id.
    pub(super) fn insert(&mut self, process: Process) -> ProcessSlot {
        match self.free.pop() {
            Some(slot) => {
                *self.get_mut(slot) = process;
                slot
            }
            None => {
                self.slots.push(process);
                ProcessSlot((self.slots.len() - 1) as u32)
            }
        }
    }

    /// One more thread of the process becomes known.
    pub(super) fn join(&mut self, slot: ProcessSlot) {
        self.get_mut(slot).threads += 1;
    }

    /// Removes one of its threads, and the process with its last thread.
    pub(super) fn leave(&mut self, slot: ProcessSlot) {
        let process = self.get_mut(slot);
        process.threads = process.threads.saturating_sub(1);
        if process.threads > 0 {
            return;
        }
        if let Some(pid) = process.local.take()
            && self.find(pid) == Some(slot)
        {
            self.by_pid.remove(&pid);
        }
        self.free.push(slot);
    }
}
