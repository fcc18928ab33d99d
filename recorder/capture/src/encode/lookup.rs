//! Looks up, in `/proc`, a process that no snapshot and no fork has announced.

use super::threads::Lookup;
use crate::event::LocalId;
use fxtrec_kernel::namespaces::{Namespaces, ProcView};
use fxtrec_kernel::{cgroups, procfs};

/// `/proc`, as far as it shows the recorder's own pid namespace.
#[derive(Clone, Copy, Debug)]
pub struct ProcLookup {
    usable: bool,
}

impl ProcLookup {
    /// Uses `/proc` only if its ids are those that perf's records carry.
    pub fn new(namespaces: &Namespaces) -> ProcLookup {
        let usable = match namespaces.proc_view {
            ProcView::Own => true,
            ProcView::Initial => namespaces.initial_pid,
            ProcView::Between | ProcView::Foreign => false,
        };
        ProcLookup { usable }
    }
}

impl Lookup for ProcLookup {
    fn process_of(&self, tid: LocalId) -> Option<LocalId> {
        self.usable.then(|| procfs::process_of(tid.0)).flatten().map(LocalId)
    }

    fn process_name(&self, pid: LocalId) -> Option<Vec<u8>> {
        self.usable.then(|| procfs::process_name(pid.0)).flatten()
    }

    fn cgroup_of(&self, pid: LocalId) -> Option<String> {
        self.usable.then(|| cgroups::of_process(pid.0)).flatten().map(|found| found.path)
    }

    fn cgroup_path(&self, number: u64) -> Option<String> {
        cgroups::path_of(number)
    }
}
