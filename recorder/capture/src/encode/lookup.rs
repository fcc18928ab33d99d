//! Looks up in `/proc` a process that no snapshot and no fork has announced.

use super::threads::Lookup;
use crate::event::LocalId;
use fxtrec_kernel::namespaces::{Namespaces, ProcView};
use fxtrec_kernel::{cgroups, procfs};

/// `/proc`, for processes of the recorder's own pid namespace.
#[derive(Clone, Copy, Debug)]
pub struct ProcLookup {
    usable: bool,
    /// The only user whose processes are looked up.
    only_user: Option<u32>,
}

impl ProcLookup {
    /// Uses `/proc` only if its ids are the same as those in perf's records.
    pub fn new(namespaces: &Namespaces, only_user: Option<u32>) -> ProcLookup {
        let usable = match namespaces.proc_view {
            ProcView::Own => true,
            ProcView::Initial => namespaces.initial_pid,
            ProcView::Between | ProcView::Foreign => false,
        };
        ProcLookup { usable, only_user }
    }

    /// The process that `look` finds, if it may be written.
    fn about<T>(&self, pid: LocalId, look: impl FnOnce(u32) -> Option<T>) -> Option<T> {
        if !self.usable {
            return None;
        }
        let found = look(pid.0);
        // Checked afterwards, since the process may have executed a setuid program.
        let may_tell = self.only_user.is_none_or(|uid| procfs::is_of_user(pid.0, uid));
        found.filter(|_| may_tell)
    }
}

impl Lookup for ProcLookup {
    fn process_of(&self, tid: LocalId) -> Option<LocalId> {
        self.about(tid, procfs::process_of).map(LocalId)
    }

    fn process_name(&self, pid: LocalId) -> Option<Vec<u8>> {
        self.about(pid, procfs::process_name)
    }

    fn cgroup_of(&self, pid: LocalId) -> Option<String> {
        self.about(pid, cgroups::of_process).map(|found| found.path)
    }

    fn cgroup_path(&self, number: u64) -> Option<String> {
        cgroups::path_of(number).filter(|_| self.only_user.is_none())
    }
}
