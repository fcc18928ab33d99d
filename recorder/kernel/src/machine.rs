//! What the machine calls itself.

use std::ffi::OsStr;

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_release_is_the_one_that_the_kernel_shows_in_proc() {
        let shown = std::fs::read_to_string("/proc/sys/kernel/osrelease").expect("/proc");
        assert_eq!(Machine::current().release, shown.trim());
    }
}
