//! The facts that determine whether the kernel permits the recorder to work: limits, settings and rights.
//!
//! [`Facts::gather`] reads everything once; [`super::refusal`] uses it to explain a refused call, and `fxtrec doctor` prints it.

use std::path::{Path, PathBuf};

use super::caps::Capabilities;
use super::namespaces::Namespaces;
use super::procfs::field;
use super::sys::Sys;

/// The facts about the machine and the recorder's rights on it.
#[derive(Clone, Debug)]
pub struct Facts {
    /// The recorder's own executable, for commands that users can paste into a shell.
    pub binary: PathBuf,
    /// The user whose rights count; 0 is root.
    pub user: u32,
    /// Capabilities, which apply in the recorder's user namespace.
    pub capabilities: Capabilities,
    /// Whether the kernel knows `CAP_PERFMON` and `CAP_BPF` (Linux 5.8).
    pub knows_perfmon: bool,
    pub namespaces: Namespaces,
    /// `kernel.perf_event_paranoid`; `None` if the kernel has no performance events.
    pub paranoid: Option<i32>,
    /// `kernel.perf_event_mlock_kb`: KiB of rings per CPU that count against no other limit.
    pub mlock_kib: Option<u64>,
    pub memlock: Limit,
    /// `RLIMIT_NOFILE`, the soft one.
    pub open_files: Limit,
    /// How far the kernel is locked down.
    pub lockdown: Lockdown,
    /// Whether a seccomp filter checks the recorder's system calls, as in most containers.
    pub seccomp: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    At(u64),
    /// No limit.
    Unlimited,
    /// `/proc/self/limits` does not contain it.
    Unknown,
}

/// The lockdown mode of the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lockdown {
    /// Not locked down, or a kernel without lockdown.
    Off,
    /// `integrity`: does not affect the recorder.
    Integrity,
    /// `confidentiality`: reading kernel memory is refused, even to root.
    Confidentiality,
}

impl Facts {
    /// Reads everything from the machine; values that cannot be read count as missing.
    pub fn gather(sys: &dyn Sys) -> Facts {
        let binary = std::env::current_exe().unwrap_or_else(|_| PathBuf::from("fxtrec"));
        Facts::of(sys, Namespaces::current(), binary)
    }

    /// The facts for given namespaces and a given executable.
    pub fn of(sys: &dyn Sys, namespaces: Namespaces, binary: PathBuf) -> Facts {
        let status = sys.read(Path::new("/proc/self/status")).unwrap_or_default();
        let limits = sys.read(Path::new("/proc/self/limits")).unwrap_or_default();
        let user = field(&status, "Uid")
            .and_then(|ids| ids.split_whitespace().nth(1)?.parse().ok())
            .unwrap_or(u32::MAX);
        let perfmon_number = 38;
        Facts {
            binary,
            user,
            capabilities: Capabilities::parse(&status),
            knows_perfmon: number(sys, "/proc/sys/kernel/cap_last_cap")
                .is_some_and(|last: u32| last >= perfmon_number),
            namespaces,
            paranoid: number(sys, "/proc/sys/kernel/perf_event_paranoid"),
            mlock_kib: number(sys, "/proc/sys/kernel/perf_event_mlock_kb"),
            memlock: Limit::parse(&limits, "Max locked memory"),
            open_files: Limit::parse(&limits, "Max open files"),
            lockdown: Lockdown::read(sys),
            seccomp: field(&status, "Seccomp").is_some_and(|mode| mode != "0"),
        }
    }

    /// Whether a capability lets the recorder open performance events of the whole machine.
    pub fn may_trace(&self) -> bool {
        self.namespaces.initial_user && self.capabilities.perfmon()
    }

    /// Bytes of rings that the recorder may map on `cpus` CPUs; `None` if there is no limit.
    ///
    /// The kernel counts memory beyond the per-CPU amount against `RLIMIT_MEMLOCK`. With `CAP_IPC_LOCK`, or if `perf_event_paranoid` is
    /// below 0, it counts no memory.
    pub fn ring_budget(&self, cpus: usize) -> Option<u64> {
        let free = self.namespaces.initial_user
            && self.capabilities.has(super::caps::Capability::IpcLock)
            || self.paranoid.is_some_and(|level| level < 0);
        let Limit::At(memlock) = self.memlock else { return None };
        let per_cpu = self.mlock_kib?.saturating_mul(1024);
        (!free).then(|| per_cpu.saturating_mul(cpus as u64).saturating_add(memlock))
    }
}

fn number<N: std::str::FromStr>(sys: &dyn Sys, path: &str) -> Option<N> {
    String::from_utf8(sys.read(Path::new(path)).ok()?).ok()?.trim().parse().ok()
}

impl Limit {
    /// The soft limit in the row of `/proc/self/limits` that begins with `name`.
    fn parse(limits: &[u8], name: &str) -> Limit {
        let text = String::from_utf8_lossy(limits);
        let row = text.lines().find_map(|line| line.strip_prefix(name));
        match row.and_then(|row| row.split_whitespace().next()) {
            Some("unlimited") => Limit::Unlimited,
            Some(soft) => soft.parse().map_or(Limit::Unknown, Limit::At),
            None => Limit::Unknown,
        }
    }
}

impl Lockdown {
    fn read(sys: &dyn Sys) -> Lockdown {
        let modes = sys.read(Path::new("/sys/kernel/security/lockdown")).unwrap_or_default();
        let modes = String::from_utf8_lossy(&modes);
        if modes.contains("[confidentiality]") {
            Lockdown::Confidentiality
        } else if modes.contains("[integrity]") {
            Lockdown::Integrity
        } else {
            Lockdown::Off
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::caps::Capability;
    use crate::fake::{Fake, ordinary_user};

    #[test]
    fn the_machines_files_become_facts() {
        let facts = ordinary_user();
        assert_eq!((facts.user, facts.paranoid, facts.mlock_kib), (1000, Some(2), Some(516)));
        assert_eq!((facts.memlock, facts.open_files), (Limit::At(8_388_608), Limit::At(1024)));
        assert_eq!(facts.lockdown, Lockdown::Integrity);
        assert!(facts.knows_perfmon && !facts.seccomp && !facts.may_trace());
    }

    #[test]
    fn a_machine_that_reports_nothing_gives_no_rights() {
        let namespaces = ordinary_user().namespaces;
        let facts = Facts::of(&Fake::default(), namespaces, PathBuf::new());
        assert!(!facts.may_trace() && !facts.knows_perfmon);
        assert_eq!((facts.paranoid, facts.memlock), (None, Limit::Unknown));
        assert_eq!(facts.lockdown, Lockdown::Off);
        assert_ne!(facts.user, 0, "nobody is taken for root by mistake");
    }

    #[test]
    fn capabilities_count_for_nothing_in_another_user_namespace() {
        let mut facts = ordinary_user();
        facts.capabilities = Capabilities::of(&[Capability::Perfmon, Capability::IpcLock]);
        assert!(facts.may_trace());
        assert_eq!(facts.ring_budget(2), None);
        facts.namespaces.initial_user = false;
        assert!(!facts.may_trace());
        assert!(facts.ring_budget(2).is_some());
    }

    #[test]
    fn rings_may_take_the_per_cpu_amount_and_the_users_limit() {
        let mut facts = ordinary_user();
        assert_eq!(facts.ring_budget(2), Some(2 * 516 * 1024 + 8_388_608));
        facts.memlock = Limit::Unlimited;
        assert_eq!(facts.ring_budget(2), None);
        facts.memlock = Limit::At(0);
        facts.paranoid = Some(-1);
        assert_eq!(facts.ring_budget(2), None);
    }
}
