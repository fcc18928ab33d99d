//! How threads become known before they run: by the snapshot, their fork, or their first wakeup.
//!
//! Forks have the ids of the recorder's pid namespace. If the recorder is in another namespace, the new thread's tid is learned from its
//! first wakeup, by its parent.

use std::sync::Arc;

use super::{Origin, Process, ProcessSlot, Slot, Threads};
use crate::event::{Comm, LocalId, Wake};
use fxtrec_units::{Nanos, Tid};

impl Threads {
    /// Begins a snapshot that was complete at `end`.
    pub fn begin_snapshot(&mut self, end: Nanos) {
        self.snapshot_end = end;
    }

    /// Adds a process of the snapshot.
    pub fn add_process(&mut self, pid: LocalId, name: &[u8]) -> ProcessSlot {
        let slot = self.processes.by_id(pid);
        let process = self.process_mut(slot);
        process.name = name.to_vec();
        process.naming.outdate();
        slot
    }

    /// Sets the cgroup of the process, as in the snapshot.
    pub fn put_in_cgroup(&mut self, process: ProcessSlot, path: &str) {
        let wanted = self.wants_cgroup(Some(path));
        self.see_cgroup(Some(path));
        let process = self.process_mut(process);
        process.cgroup = Some(path.into());
        process.in_scope = wanted.unwrap_or(process.in_scope);
    }

    /// The process with that id, which is added if it is unknown.
    pub fn process_of(&mut self, pid: LocalId) -> ProcessSlot {
        self.processes.by_id(pid)
    }

    /// Adds a process of the snapshot that is not in the recorder's pid namespace.
    pub fn add_outer_process(&mut self, pid: Tid, name: &[u8]) -> ProcessSlot {
        let koid = Some(self.generations.current(pid));
        self.processes.insert(Process::outer(koid, name.to_vec()))
    }

    /// The current cgroup of this thread's process; `None` if the process is gone or outside of the recorder's pid namespace.
    pub fn cgroup_now(&self, tid: Tid) -> Option<String> {
        let home = self.thread(self.find(tid)?).process;
        self.lookup.cgroup_of(self.process(home).local?)
    }

    /// Sets the cgroup of this thread's process; `None` if it is unknown.
    pub fn put_thread_in_cgroup(&mut self, tid: Tid, path: Option<&str>) {
        let Some(slot) = self.find(tid) else { return };
        let home = self.thread(slot).process;
        let process = self.process_mut(home);
        if process.cgroup.as_deref() == path {
            return;
        }
        process.cgroup = path.map(Arc::from);
        process.naming.outdate();
        let wanted = self.wants_cgroup(path);
        self.see_cgroup(path);
        if let Some(wanted) = wanted {
            self.process_mut(home).in_scope = wanted;
        }
        // Processes are named along with their threads.
        for thread in &mut self.slots {
            if thread.process == home {
                thread.naming.outdate();
                thread.in_scope = wanted.unwrap_or(thread.in_scope);
            }
        }
    }

    /// Whether the thread is the main thread of its process, whose cgroup is that of the process.
    pub fn is_main(&self, tid: Tid) -> bool {
        let home = self.find(tid).map(|slot| self.thread(slot).process);
        let local = home.and_then(|home| self.process(home).local);
        local.is_some() && local == self.ids.local(tid)
    }

    /// Adds a thread of the snapshot, with its known ids.
    pub fn add_thread(
        &mut self,
        process: ProcessSlot,
        local: Option<LocalId>,
        tid: Option<Tid>,
        comm: Comm,
    ) {
        match (local, tid.or_else(|| local.and_then(|local| self.ids.tid(local)))) {
            (Some(local), None) => self.ids.wait_for(local, comm),
            (None, None) => {}
            (local, Some(tid)) => {
                if let Some(local) = local {
                    self.ids.bind(tid, local);
                }
                if self.find(tid).is_none() {
                    let koid = self.generations.current(tid);
                    let slot = self.insert(tid, koid, process, comm);
                    self.thread_mut(slot).origin = Origin::Snapshot;
                }
            }
        }
    }

    /// A thread or process was created.
    pub fn fork(&mut self, time: Nanos, child: (LocalId, LocalId), parent: (LocalId, LocalId)) {
        let ((pid, tid), (parent_pid, parent_tid)) = (child, parent);
        if pid == LocalId(0) {
            // It is not in the recorder's pid namespace.
            return;
        }
        match self.ids.tid_of_fork(tid, parent_tid, pid) {
            Some(host) => {
                let as_process = (pid == tid).then_some(parent_pid);
                self.forked(time, host, pid, as_process, parent_tid);
            }
            // Its id in the initial namespace is known at its first wakeup.
            None if pid == tid => match self.processes.find(pid) {
                Some(_) if time <= self.snapshot_end => self.inherit_scope(pid, parent_pid),
                _ => self.fork_process(time, pid, parent_pid),
            },
            None => {}
        }
    }

    /// A thread was created, as tracepoints report it: they name both threads, but no process.
    pub fn begun(&mut self, time: Nanos, tid: Tid, parent: Tid, same_process: bool) {
        let maker = self.get(parent, None);
        let home = self.process(self.thread(maker).process).local;
        match (self.ids.local(tid), self.ids.local(parent), home) {
            (Some(local), Some(local_parent), Some(parent_pid)) => {
                let pid = if same_process { parent_pid } else { local };
                self.fork(time, (pid, local), (parent_pid, local_parent));
            }
            _ => self.begun_outside(tid, maker, same_process),
        }
    }

    /// The same inside a pid namespace, where only the ids of the initial namespace are known.
    fn begun_outside(&mut self, tid: Tid, maker: Slot, same_process: bool) {
        if let Some(slot) = self.find(tid) {
            // An earlier owner of the tid, whose end was not recorded.
            self.end(slot);
        }
        let koid = self.generations.next(tid);
        let parent = self.thread(maker);
        let (home, comm) = (parent.process, parent.comm);
        let process = match same_process {
            true => home,
            false => {
                let Process { cgroup, in_scope, .. } = self.process(home).clone();
                let mut process = Process::outer(Some(koid), comm.as_bytes().to_vec());
                process.cgroup = cgroup;
                process.in_scope = in_scope;
                self.processes.insert(process)
            }
        };
        let slot = self.insert(tid, koid, process, comm);
        self.thread_mut(slot).origin = Origin::Fork;
    }

    fn fork_process(&mut self, time: Nanos, pid: LocalId, parent_pid: LocalId) {
        let included = time <= self.snapshot_end && self.included.contains(&pid);
        let parent = self.processes.find(parent_pid).map(|slot| self.process(slot).clone());
        let slot = self.processes.replace(pid);
        if let Some(parent) = parent {
            let process = self.process_mut(slot);
            process.name = parent.name;
            process.cgroup = parent.cgroup;
            process.in_scope = parent.in_scope;
        }
        self.process_mut(slot).in_scope |= included;
    }

    /// The process is already in the snapshot, which does not show that a process in scope started it.
    fn inherit_scope(&mut self, pid: LocalId, parent_pid: LocalId) {
        if self.globs.is_some() {
            // The snapshot already has its cgroup.
            return;
        }
        let parent = self.processes.find(parent_pid);
        if parent.is_some_and(|parent| self.process(parent).in_scope) {
            self.put_in_scope(pid);
        }
    }

    /// `as_process` is the parent's process if the new thread is the first thread of its own process.
    fn forked(
        &mut self,
        time: Nanos,
        tid: Tid,
        pid: LocalId,
        as_process: Option<LocalId>,
        parent: LocalId,
    ) {
        if let Some(slot) = self.find(tid) {
            let known = self.thread_mut(slot);
            if known.origin == Origin::Snapshot && time <= self.snapshot_end {
                // The snapshot was taken after the fork, and already has the thread.
                self.thread_mut(slot).origin = Origin::Fork;
                if let Some(parent_pid) = as_process {
                    self.inherit_scope(pid, parent_pid);
                }
                return;
            }
            // An earlier owner of the tid, whose end was not recorded.
            self.end(slot);
        }
        let koid = self.generations.next(tid);
        if let Some(parent_pid) = as_process {
            self.fork_process(time, pid, parent_pid);
        }
        let comm = self.ids.tid(parent).and_then(|parent| self.find(parent));
        let comm = comm.map(|slot| self.thread(slot).comm).unwrap_or_default();
        let process = self.processes.by_id(pid);
        let slot = self.insert(tid, koid, process, comm);
        self.thread_mut(slot).origin = Origin::Fork;
    }

    /// A thread was woken for the first time, by its parent.
    pub fn woken_new(&mut self, time: Nanos, wake: &Wake) -> Slot {
        let Wake { tid, current: parent, comm, .. } = wake;
        let fork = self.ids.fork_of(*parent);
        if let Some(slot) = self.find(*tid) {
            let fresh = match self.thread(slot).origin {
                Origin::Fork => true,
                Origin::Snapshot => time <= self.snapshot_end,
                Origin::Seen => false,
            };
            if fresh {
                self.confirm(slot, Some(comm));
                self.thread_mut(slot).origin = Origin::Seen;
                return slot;
            }
            // An earlier owner of the tid, whose end was not recorded.
            self.end(slot);
        }
        let koid = self.generations.next(*tid);
        let process = match fork {
            Some((local, pid)) => {
                // A fork in a pid namespace announced it, but could not name this tid.
                self.ids.bind(*tid, local);
                self.processes.by_id(pid)
            }
            None => self.home_without_fork(time, wake),
        };
        self.insert(*tid, koid, process, *comm)
    }

    /// The process of a new thread whose fork was lost.
    fn home_without_fork(&mut self, time: Nanos, wake: &Wake) -> ProcessSlot {
        let parent = self.find(wake.current).map(|slot| self.thread(slot).process);
        let pid = parent.and_then(|parent| self.process(parent).local);
        match (wake.same_process, self.ids.local(wake.tid), parent, pid) {
            (Some(true), _, Some(parent), _) => parent,
            (Some(false), Some(local), _, Some(pid)) => {
                self.fork_process(time, local, pid);
                self.processes.by_id(local)
            }
            _ => {
                let home = self.home_of(wake.tid, &wake.comm);
                let in_scope = parent.is_some_and(|parent| self.process(parent).in_scope);
                self.process_mut(home).in_scope |= in_scope;
                home
            }
        }
    }
}
