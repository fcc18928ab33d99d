//! The capabilities of the recorder, which determine its permissions.

use std::fmt;
use std::io;
use std::path::Path;

use super::procfs::field;
use super::sys::Sys;

/// A capability that opens something the recorder needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Capability {
    /// Reads files that other users are not allowed to read, such as those of tracefs.
    DacReadSearch,
    /// Locks memory beyond the limits: larger rings.
    IpcLock,
    /// Looks into other users' processes.
    SysPtrace,
    /// Mounts tracefs; before Linux 5.8 it also represented `Perfmon` and `Bpf`, and it still includes both.
    SysAdmin,
    /// Gives threads real-time priority and negative nice values.
    SysNice,
    SysResource,
    /// Opens performance events of the whole machine (since Linux 5.8).
    Perfmon,
    /// Loads BPF programs (since Linux 5.8).
    Bpf,
}

impl Capability {
    /// All capabilities that are known here, in the order of their numbers.
    pub const ALL: [Capability; 8] = [
        Capability::DacReadSearch,
        Capability::IpcLock,
        Capability::SysPtrace,
        Capability::SysAdmin,
        Capability::SysNice,
        Capability::SysResource,
        Capability::Perfmon,
        Capability::Bpf,
    ];

    /// Its number in Linux.
    fn number(self) -> u32 {
        match self {
            Capability::DacReadSearch => 2,
            Capability::IpcLock => 14,
            Capability::SysPtrace => 19,
            Capability::SysAdmin => 21,
            Capability::SysNice => 23,
            Capability::SysResource => 24,
            Capability::Perfmon => 38,
            Capability::Bpf => 39,
        }
    }
}

impl fmt::Display for Capability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Capability::DacReadSearch => "CAP_DAC_READ_SEARCH",
            Capability::IpcLock => "CAP_IPC_LOCK",
            Capability::SysPtrace => "CAP_SYS_PTRACE",
            Capability::SysAdmin => "CAP_SYS_ADMIN",
            Capability::SysNice => "CAP_SYS_NICE",
            Capability::SysResource => "CAP_SYS_RESOURCE",
            Capability::Perfmon => "CAP_PERFMON",
            Capability::Bpf => "CAP_BPF",
        })
    }
}

/// A process's sets of capabilities. They hold in its own user namespace only.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Capabilities {
    effective: u64,
    permitted: u64,
}

impl Capabilities {
    /// The capabilities of this process; none if the kernel does not report them.
    pub fn own(sys: &dyn Sys) -> Capabilities {
        sys.read(Path::new("/proc/self/status"))
            .map_or(Capabilities::default(), |status| Capabilities::parse(&status))
    }

    /// Reads the sets from a `status` file of `/proc`; a set that is missing counts as empty.
    pub fn parse(status: &[u8]) -> Capabilities {
        let set = |name| {
            field(status, name).and_then(|value| u64::from_str_radix(&value, 16).ok()).unwrap_or(0)
        };
        Capabilities { effective: set("CapEff"), permitted: set("CapPrm") }
    }

    /// A set of exactly these, for tests and for hypothetical cases.
    pub fn of(capabilities: &[Capability]) -> Capabilities {
        let set = capabilities.iter().fold(0, |set, c| set | 1_u64.rotate_left(c.number()));
        Capabilities { effective: set, permitted: set }
    }

    /// Whether `capability` is effective.
    pub fn has(self, capability: Capability) -> bool {
        self.effective & 1_u64.rotate_left(capability.number()) != 0
    }

    /// Whether the process can make `capability` effective itself.
    pub fn permits(self, capability: Capability) -> bool {
        self.permitted & 1_u64.rotate_left(capability.number()) != 0
    }

    /// Whether performance events of the whole machine are permitted: `CAP_PERFMON` or `CAP_SYS_ADMIN`.
    pub fn perfmon(self) -> bool {
        self.has(Capability::Perfmon) || self.has(Capability::SysAdmin)
    }

    /// Whether BPF programs may be loaded: `CAP_BPF` or `CAP_SYS_ADMIN`.
    pub fn bpf(self) -> bool {
        self.has(Capability::Bpf) || self.has(Capability::SysAdmin)
    }
}

/// Drops every capability of this thread permanently. For a process with a single thread.
///
/// # Errors
/// Errors of capset(2).
pub fn give_up_all() -> io::Result<()> {
    /// `_LINUX_CAPABILITY_VERSION_3`: capabilities have 64 bits.
    const VERSION: u32 = 0x2008_0522;
    // The version, and this thread.
    let head = [VERSION, 0];
    // Effective, permitted and inheritable ones: the lower halves of all three, then the upper halves.
    let none = [0_u32; 6];
    // SAFETY: both point to the number of words that the kernel reads in this version; nothing is written.
    let result = unsafe { libc::syscall(libc::SYS_capset, head.as_ptr(), none.as_ptr()) };
    nix::errno::Errno::result(result)?;
    Ok(())
}

/// Drops the capabilities that this program's file grants to every user who runs it, so that only the user's own rights determine what the
/// program may read. Root keeps its capabilities. For a process that has no other thread yet.
///
/// # Errors
/// Errors of capset(2).
pub fn drop_file_capabilities() -> io::Result<()> {
    if nix::unistd::geteuid().is_root() { Ok(()) } else { give_up_all() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sets_of_a_status_file_are_distinguished() {
        let status = b"Name:\tx\nCapInh:\tffffffffffffffff\nCapPrm:\t000000c000004004\nCapEff:\t0000004000000004\n";
        let sets = Capabilities::parse(status);
        assert!(sets.has(Capability::Perfmon) && sets.has(Capability::DacReadSearch));
        assert!(!sets.has(Capability::Bpf) && sets.permits(Capability::Bpf));
        assert!(!sets.has(Capability::IpcLock) && sets.permits(Capability::IpcLock));
        assert!(!sets.has(Capability::SysAdmin) && !sets.permits(Capability::SysAdmin));
    }

    #[test]
    fn the_administrators_capability_includes_the_newer_ones() {
        let sets = Capabilities::of(&[Capability::SysAdmin]);
        assert!(sets.perfmon() && sets.bpf());
        assert!(!sets.has(Capability::Perfmon));
    }

    #[test]
    fn a_file_without_sets_gives_nothing() {
        for status in [b"".as_slice(), b"CapEff:\tzz\n"] {
            let sets = Capabilities::parse(status);
            assert!(Capability::ALL.into_iter().all(|c| !sets.has(c) && !sets.permits(c)));
        }
    }

    #[test]
    fn each_capability_has_its_own_bit() {
        for one in Capability::ALL {
            let sets = Capabilities::of(&[one]);
            assert!(Capability::ALL.into_iter().all(|c| sets.has(c) == (c == one)), "{one}");
        }
    }
}
