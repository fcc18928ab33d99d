//! Loads the threads of a snapshot of `/proc`, whichever pid namespace `/proc` shows.

use super::threads::Threads;
use crate::event::{Comm, LocalId};
use fxtrec_kernel::namespaces::{Namespaces, ProcView};
use fxtrec_kernel::procfs::Snapshot;
use fxtrec_units::{Nanos, Tid};

/// Adds every process and thread of a snapshot that was complete at `end`.
pub fn load(threads: &mut Threads, snapshot: &Snapshot, namespaces: &Namespaces, end: Nanos) {
    threads.begin_snapshot(end);
    for process in &snapshot.processes {
        let main = process.threads.iter().find(|thread| thread.tid == process.pid);
        let ids = main.map(|main| main.ids.as_slice()).unwrap_or_default();
        let home = local_id(namespaces, ids, process.pid);
        let slot = match home {
            Some(pid) => threads.add_process(pid, &process.name),
            None if namespaces.proc_view == ProcView::Initial => {
                threads.add_outer_process(Tid(process.pid), &process.name)
            }
            None => continue,
        };
        if let Some(path) = &process.cgroup {
            threads.put_in_cgroup(slot, path);
        }
        for thread in &process.threads {
            let local = local_id(namespaces, &thread.ids, thread.tid);
            let tid = (namespaces.proc_view == ProcView::Initial).then_some(Tid(thread.tid));
            threads.add_thread(slot, local, tid, Comm::from_bytes(&thread.comm));
        }
    }
}

/// The id, in the recorder's own pid namespace, of a thread that `/proc` shows as `shown`.
fn local_id(namespaces: &Namespaces, ids: &[u32], shown: u32) -> Option<LocalId> {
    match namespaces.proc_view {
        ProcView::Initial if namespaces.initial_pid => Some(LocalId(shown)),
        ProcView::Own => Some(LocalId(shown)),
        ProcView::Initial | ProcView::Between => namespaces.perf_id(ids).map(LocalId),
        ProcView::Foreign => None,
    }
}
