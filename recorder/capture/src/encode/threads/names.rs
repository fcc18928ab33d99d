//! The names and ids of threads and processes.

use fxt_writer::Koid;

use super::{IDLE, Origin, ProcessSlot, Threads};
use crate::event::{Comm, LocalId};
use fxtrec_units::Tid;
use fxtrec_units::convention::inner_process_koid;

/// The number of bytes of a name that the kernel keeps.
const COMM_CUT: usize = 15;

impl Threads {
    /// The koid of a process, which is assigned if it has none yet.
    pub fn process_koid(&mut self, slot: ProcessSlot) -> Koid {
        if let Some(koid) = self.process(slot).koid {
            return koid;
        }
        let local = self.process(slot).local.unwrap_or_default();
        let koid = match self.ids.tid(local) {
            Some(tid) => self.generations.latest(tid),
            None => inner_process_koid(local),
        };
        self.process_mut(slot).koid = Some(koid);
        koid
    }

    /// The thread has another name, which its next event will contain; until then, the file keeps the old name.
    pub fn forget_name(&mut self, pid: LocalId, tid: LocalId, exec: bool) {
        let Some(slot) = self.ids.tid(tid).and_then(|tid| self.find(tid)) else { return };
        if slot == IDLE {
            return;
        }
        self.thread_mut(slot).comm = Comm::default();
        if exec && pid == tid {
            let home = self.thread(slot).process;
            self.process_mut(home).name.clear();
        }
    }

    /// A thread was renamed; with `exec`, its process executed a program.
    pub fn renamed(&mut self, pid: LocalId, tid: LocalId, comm: Comm, exec: bool) {
        if let Some(host) = self.ids.tid(tid) {
            let slot = self.get(host, Some(&comm));
            let thread = self.thread_mut(slot);
            if slot != IDLE && thread.comm != comm {
                thread.comm = comm;
                thread.naming.outdate();
            }
        } else {
            self.ids.wait_for(tid, comm);
        }
        if pid != tid || pid == LocalId(0) {
            return;
        }
        // A name of maximum length may be the beginning of a longer one.
        let long = (exec && comm.as_bytes().len() == COMM_CUT)
            .then(|| self.lookup.process_name(pid))
            .flatten()
            .filter(|name| name.starts_with(comm.as_bytes()));
        let name = long.unwrap_or_else(|| comm.as_bytes().to_vec());
        let slot = self.processes.by_id(pid);
        let process = self.process_mut(slot);
        if process.name == name {
            return;
        }
        process.name = name;
        process.naming.outdate();
        // Processes are named along with their threads.
        if let Some(main) = self.ids.tid(tid).and_then(|tid| self.find(tid)) {
            self.thread_mut(main).naming.outdate();
        }
    }

    /// A thread was renamed, as tracepoints report it, without its process.
    pub fn named(&mut self, tid: Tid, comm: Comm) {
        let slot = self.get(tid, None);
        let home = self.process(self.thread(slot).process).local;
        match (home, self.ids.local(tid)) {
            // The event does not say whether execve(2) set the name; a truncated name is completed in either case.
            (Some(pid), Some(local)) => self.renamed(pid, local, comm, true),
            _ if slot != IDLE => {
                let thread = self.thread_mut(slot);
                thread.comm = comm;
                thread.naming.outdate();
                let (koid, home) = (thread.koid, thread.process);
                let process = self.process_mut(home);
                // For a process outside, only the koid shows which thread is the main thread.
                if process.koid == Some(koid) {
                    process.name = comm.as_bytes().to_vec();
                    process.naming.outdate();
                }
            }
            _ => {}
        }
    }

    /// Inside a pid namespace: sets the ids that a thread has there.
    pub fn identify(&mut self, tid: Tid, local_pid: LocalId, local_tid: LocalId) {
        if local_tid == LocalId(0) || tid == Tid::IDLE || self.ids.local(tid) == Some(local_tid) {
            return;
        }
        let waiting = self.ids.bind(tid, local_tid);
        let process = self.processes.by_id(local_pid);
        match self.find(tid) {
            None => {
                let comm = waiting.unwrap_or_default();
                let koid = self.generations.current(tid);
                let slot = self.insert(tid, koid, process, comm);
                // As for names in the snapshot, a name that was held back may be out of date.
                self.thread_mut(slot).origin = Origin::Snapshot;
            }
            Some(slot) if self.thread(slot).process != process => {
                self.processes.leave(self.thread(slot).process);
                self.processes.join(process);
                let in_scope = self.process(process).in_scope;
                let thread = self.thread_mut(slot);
                thread.process = process;
                thread.naming.outdate();
                thread.in_scope = in_scope;
            }
            Some(_) => {}
        }
        if self.process(process).name.is_empty() {
            let comm = self.find(tid).map(|slot| self.thread(slot).comm).unwrap_or_default();
            let name = self.lookup.process_name(local_pid);
            self.process_mut(process).name = name.unwrap_or_else(|| comm.as_bytes().to_vec());
        }
    }
}
