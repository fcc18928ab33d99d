//! The kernel release and architecture of the machine.

use std::ffi::OsStr;
use std::path::Path;

use crate::sys::Sys;

/// The answers of uname(2).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Machine {
    pub host: String,
    /// Kernel release, for example `6.18.0`.
    pub release: String,
    /// Instruction set, for example `x86_64`.
    pub architecture: String,
}

impl Machine {
    /// Queries the running kernel; missing answers stay empty.
    pub fn current() -> Machine {
        let text = |name: &OsStr| name.to_string_lossy().into_owned();
        nix::sys::utsname::uname()
            .map(|names| Machine {
                host: text(names.nodename()),
                release: text(names.release()),
                architecture: text(names.machine()),
            })
            .unwrap_or_default()
    }
}

/// The number of context switches since boot, if the kernel reports it.
pub fn switches(sys: &dyn Sys) -> Option<u64> {
    let counts = sys.read(Path::new("/proc/stat")).ok()?;
    let counts = String::from_utf8_lossy(&counts).into_owned();
    counts.lines().find_map(|line| line.strip_prefix("ctxt ")?.trim().parse().ok())
}

/// Whether it is a real-time kernel (`PREEMPT_RT`), which runs soft interrupts in threads.
pub fn is_realtime(sys: &dyn Sys) -> bool {
    let version = sys.read(Path::new("/proc/version")).unwrap_or_default();
    let mut words = version.split(u8::is_ascii_whitespace);
    words.any(|word| word == b"PREEMPT_RT")
}

/// The first two numbers of a kernel's release: 6 and 18 of `6.18.0-rc1`.
pub fn version(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(str::parse::<u32>);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
}

/// Whether a program on `sched_set_need_resched_tp` is safe in a kernel of this release.
///
/// Since Linux 7.0 the kernel enters an RCU read section before it checks whether the program is already running, and when it leaves that
/// section it may request a switch: then the program runs again, and so on until the stack is full. Older kernels skip a program that is
/// already running outside of that section. A kernel whose release is unknown is not trusted.
pub fn may_watch_requests(release: &str) -> bool {
    version(release).is_some_and(|version| version < (7, 0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::Fake;

    #[test]
    fn the_switches_of_the_machine_are_counted() {
        let fake = Fake::default().file("/proc/stat", "cpu  1 2\nintr 5 6\nctxt 1234\nbtime 9\n");
        assert_eq!(switches(&fake), Some(1234));
        assert_eq!(switches(&Fake::default()), None);
        assert!(switches(&crate::sys::Linux).is_some_and(|number| number > 0));
    }

    #[test]
    fn requests_are_watched_by_kernels_that_pass_over_a_running_program() {
        for release in ["6.17.0", "6.18.44-fc-v669", "6.19.0-rc1"] {
            assert!(may_watch_requests(release), "{release}");
        }
        for release in ["7.0.0", "7.3.4+deb14-amd64", "10.1", "", "x.y"] {
            assert!(!may_watch_requests(release), "{release}");
        }
    }

    #[test]
    fn the_release_is_the_one_that_the_kernel_shows_in_proc() {
        let shown = std::fs::read_to_string("/proc/sys/kernel/osrelease").expect("/proc");
        assert_eq!(Machine::current().release, shown.trim());
    }

    #[test]
    fn a_real_time_kernel_says_so() {
        let with = |version: &str| is_realtime(&Fake::default().file("/proc/version", version));
        assert!(with("Linux version 6.12.1 (x@y) #1 SMP PREEMPT_RT Mon"));
        assert!(!with("Linux version 6.12.1 (x@y) #1 SMP PREEMPT_DYNAMIC Mon"));
        assert!(!is_realtime(&Fake::default()));
    }
}
