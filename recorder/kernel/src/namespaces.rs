//! The pid and user namespaces in which the recorder runs, and the pid namespace that `/proc` shows.
//!
//! This is relevant in three ways. Tracepoints carry the ids of the initial pid namespace, perf's own records those of the recorder's pid
//! namespace, and `/proc` those of the namespace it was mounted for; outside of the initial namespace the three differ. In a user
//! namespace, even root is not allowed to trace the machine.

use std::os::unix::fs::MetadataExt;

use super::procfs::{Status, field};

/// The inode that the kernel gives to the initial pid namespace, on every machine.
const INITIAL_PID: u64 = 0xEFFF_FFFC;

/// The inode that the kernel gives to the initial user namespace, on every machine.
const INITIAL_USER: u64 = 0xEFFF_FFFD;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Namespaces {
    /// Whether the recorder is in the initial pid namespace.
    pub initial_pid: bool,
    /// Whether the recorder is in the initial user namespace.
    pub initial_user: bool,
    /// Which pid namespace `/proc` shows.
    pub proc_view: ProcView,
    /// The recorder's id in each pid namespace from that of `/proc` to its own, which is last.
    /// Empty when `/proc` does not show the recorder.
    pub own_ids: Vec<u32>,
}

/// Which pid namespace `/proc` shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProcView {
    /// The initial one: its numbers are those of the tracepoints.
    Initial,
    /// The recorder's own, which is not the initial one: its numbers are those of perf's records.
    Own,
    /// One in between: an ancestor of the recorder's, but not the initial one.
    Between,
    /// A namespace that the recorder is not in, or `/proc` cannot be read.
    Foreign,
}

impl Namespaces {
    /// Looks at the running machine.
    pub fn current() -> Namespaces {
        let inode = |path: &str| std::fs::metadata(path).ok().map(|ns| ns.ino());
        let read = |path: &str| std::fs::read(path).unwrap_or_default();
        Observed {
            own_pid: std::process::id(),
            pid_inode: inode("/proc/self/ns/pid"),
            user_inode: inode("/proc/self/ns/user"),
            first_process_inode: inode("/proc/1/ns/pid"),
            status: read("/proc/self/status"),
            uid_map: read("/proc/self/uid_map"),
            second_process: read("/proc/2/status"),
        }
        .judge()
    }

    /// Selects from [`Thread::ids`](super::procfs::Thread::ids) the id that perf's own records use: the id in the recorder's pid namespace.
    ///
    /// `None` if the thread is not in that namespace.
    pub fn perf_id(&self, ids: &[u32]) -> Option<u32> {
        ids.get(self.own_ids.len().checked_sub(1)?).copied()
    }
}

/// The values that are read from the machine; everything else follows from them.
#[derive(Clone, Debug, Default)]
struct Observed {
    own_pid: u32,
    pid_inode: Option<u64>,
    user_inode: Option<u64>,
    first_process_inode: Option<u64>,
    status: Vec<u8>,
    uid_map: Vec<u8>,
    second_process: Vec<u8>,
}

impl Observed {
    fn judge(&self) -> Namespaces {
        let mut own_ids = Status::parse(&self.status).ids;
        // A /proc of another namespace would show another process, or none.
        if own_ids.last() != Some(&self.own_pid) {
            own_ids.clear();
        }
        let shown_alone = own_ids.len() == 1;
        let proc_shows_initial = match self.first_process_inode {
            Some(inode) => inode == INITIAL_PID,
            None => self.proc_shows_kernel_threads(),
        };
        let initial_pid = match self.pid_inode {
            Some(inode) => inode == INITIAL_PID,
            // If a /proc that shows kernel threads shows only one id, there is no outer namespace.
            None => shown_alone && proc_shows_initial,
        };
        let proc_view = match own_ids.len() {
            0 => ProcView::Foreign,
            1 if initial_pid => ProcView::Initial,
            1 => ProcView::Own,
            _ if proc_shows_initial => ProcView::Initial,
            _ => ProcView::Between,
        };
        let initial_user = match self.user_inode {
            Some(inode) => inode == INITIAL_USER,
            None => self.maps_every_user(),
        };
        Namespaces { initial_pid, initial_user, proc_view, own_ids }
    }

    /// Process 2 is the parent of all kernel threads, and they live in the initial namespace.
    fn proc_shows_kernel_threads(&self) -> bool {
        let is = |name: &str, value: &str| {
            field(&self.second_process, name).is_some_and(|found| found == value)
        };
        is("Name", "kthreadd") && is("PPid", "0")
    }

    fn maps_every_user(&self) -> bool {
        let map = String::from_utf8_lossy(&self.uid_map);
        map.split_whitespace().eq(["0", "0", "4294967295"])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(ids: &str) -> Vec<u8> {
        format!("Name:\tx\nPid:\t1\nNSpid:\t{ids}\nNSpgid:\t1\n").into_bytes()
    }

    fn host() -> Observed {
        Observed {
            own_pid: 70,
            pid_inode: Some(INITIAL_PID),
            user_inode: Some(INITIAL_USER),
            first_process_inode: Some(INITIAL_PID),
            status: status("70"),
            uid_map: b"         0          0 4294967295\n".to_vec(),
            second_process: b"Name:\tkthreadd\nPPid:\t0\n".to_vec(),
        }
    }

    #[test]
    fn on_the_host_all_numbers_are_the_same() {
        let seen = host().judge();
        assert!(seen.initial_pid && seen.initial_user);
        assert_eq!((seen.proc_view, seen.perf_id(&[9])), (ProcView::Initial, Some(9)));
    }

    #[test]
    fn an_ordinary_user_on_the_host_who_cannot_look_into_process_1_is_still_on_the_host() {
        let seen = Observed { first_process_inode: None, ..host() }.judge();
        assert!(seen.initial_pid);
        assert_eq!(seen.proc_view, ProcView::Initial);
    }

    #[test]
    fn a_container_with_its_own_proc_sees_its_own_numbers() {
        let seen = Observed {
            own_pid: 3,
            pid_inode: Some(4_026_532_200),
            first_process_inode: Some(4_026_532_200),
            status: status("3"),
            second_process: b"Name:\tsh\nPPid:\t1\n".to_vec(),
            ..host()
        }
        .judge();
        assert!(!seen.initial_pid && seen.initial_user);
        assert_eq!((seen.proc_view, seen.perf_id(&[5, 2])), (ProcView::Own, Some(5)));
    }

    #[test]
    fn with_the_hosts_proc_a_thread_has_the_hosts_number_and_perfs() {
        let seen = Observed {
            own_pid: 2,
            pid_inode: Some(4_026_532_200),
            status: status("911\t2"),
            ..host()
        }
        .judge();
        assert_eq!((seen.initial_pid, seen.proc_view), (false, ProcView::Initial));
        assert_eq!(seen.perf_id(&[912, 3]), Some(3));
        assert_eq!(seen.perf_id(&[50]), None, "a thread of the host is not in this namespace");
    }

    #[test]
    fn a_proc_between_the_host_and_the_recorder_is_distinguished() {
        let between = Observed {
            own_pid: 2,
            pid_inode: Some(4_026_532_300),
            first_process_inode: None,
            status: status("11\t2"),
            second_process: b"Name:\tsh\nPPid:\t1\n".to_vec(),
            ..host()
        };
        assert_eq!(between.judge().proc_view, ProcView::Between);
    }

    #[test]
    fn a_proc_that_shows_another_user_is_foreign() {
        for status in [status("71"), status(""), b"".to_vec()] {
            let seen = Observed { status, pid_inode: None, ..host() }.judge();
            assert_eq!((seen.proc_view, seen.initial_pid), (ProcView::Foreign, false));
            assert_eq!(seen.perf_id(&[1]), None);
        }
    }

    #[test]
    fn without_namespace_files_the_maps_and_the_kernel_threads_decide() {
        let bare =
            Observed { pid_inode: None, user_inode: None, first_process_inode: None, ..host() };
        assert!(bare.judge().initial_pid && bare.judge().initial_user);
        let mapped = Observed { uid_map: b"0 1000 1\n".to_vec(), ..bare.clone() };
        assert!(!mapped.judge().initial_user);
        let container = Observed { second_process: Vec::new(), ..bare };
        assert!(!container.judge().initial_pid);
    }

    #[test]
    fn this_process_is_known_under_its_own_number() {
        let seen = Namespaces::current();
        assert_eq!(seen.own_ids.last(), Some(&std::process::id()));
        assert_ne!(seen.proc_view, ProcView::Foreign);
    }
}
