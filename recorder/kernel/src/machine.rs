//! What the machine calls itself.

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
    /// Asks the running kernel; what it does not say stays empty.
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

/// Whether the kernel is a real-time one (`PREEMPT_RT`), which runs soft interrupts in threads.
pub fn is_realtime(sys: &dyn Sys) -> bool {
    let version = sys.read(Path::new("/proc/version")).unwrap_or_default();
    let mut words = version.split(u8::is_ascii_whitespace);
    words.any(|word| word == b"PREEMPT_RT")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::Fake;

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
