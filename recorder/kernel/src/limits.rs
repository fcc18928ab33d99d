//! The limits that fxtrec raises for itself: open files, which many CPUs exceed, and locked memory.

use std::io;

use nix::sys::resource::{RLIM_INFINITY, Resource, getrlimit, setrlimit};

use crate::machine;

/// Descriptors that do not depend on the number of CPUs: a recording with stacks on two CPUs has about 70 for BPF programs, their links and
/// maps, and walking `/proc` takes a few more.
const OTHERS: u64 = 256;

/// The limits with which fxtrec was started; COMMAND gets the same.
#[derive(Clone, Copy, Debug)]
pub struct Inherited([Option<Limit>; 2]);

/// A soft and a hard limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Limit {
    resource: Resource,
    soft: u64,
    hard: u64,
}

impl Limit {
    /// The current limit; `None` if the kernel does not report it.
    fn now(resource: Resource) -> Option<Limit> {
        let (soft, hard) = getrlimit(resource).ok()?;
        Some(Limit { resource, soft, hard })
    }
}

impl Inherited {
    /// The limits as they are now.
    pub fn now() -> Inherited {
        Inherited([Resource::RLIMIT_NOFILE, Resource::RLIMIT_MEMLOCK].map(Limit::now))
    }

    /// Gives the process `pid` these limits. A process that has ended needs no limit.
    pub fn give_to(self, pid: u32) {
        let Ok(pid) = libc::pid_t::try_from(pid) else { return };
        for Limit { resource, soft, hard } in self.0.into_iter().flatten() {
            let limit = libc::rlimit { rlim_cur: soft, rlim_max: hard };
            let resource = resource as libc::__rlimit_resource_t;
            // SAFETY: the new limit is read through a pointer to a live rlimit, and the old one is not requested.
            unsafe { libc::prlimit(pid, resource, &raw const limit, std::ptr::null_mut()) };
        }
    }
}

/// Allows `files` open files for CPUs in addition to all others, up to the hard limit.
///
/// Calls that need more fail with EMFILE.
pub fn raise_open_files(files: u64) {
    let wanted = files + OTHERS;
    if let Some(Limit { soft, hard, .. }) = Limit::now(Resource::RLIMIT_NOFILE)
        && soft < wanted
    {
        let _ = setrlimit(Resource::RLIMIT_NOFILE, wanted.min(hard), hard);
    }
}

/// The remedy to append to an error: a fixed one for EMFILE, otherwise `usual`.
pub fn remedy_or<'a>(usual: &'a str, error: &io::Error) -> &'a str {
    match error.raw_os_error() {
        Some(libc::EMFILE) => "; raise the limit in this shell with `ulimit -n 65536`",
        _ => usual,
    }
}

/// Raises the limit of locked memory to the permitted maximum. Returns whether the limit was raised.
pub fn raise_locked_memory() -> bool {
    const LOCKED: Resource = Resource::RLIMIT_MEMLOCK;
    let Some(Limit { soft, hard, .. }) = Limit::now(LOCKED) else { return false };
    if soft == RLIM_INFINITY {
        return false;
    }
    // Raising the hard limit needs CAP_SYS_RESOURCE.
    setrlimit(LOCKED, RLIM_INFINITY, RLIM_INFINITY).is_ok()
        || (soft < hard && setrlimit(LOCKED, hard, hard).is_ok())
}

/// Whether a kernel of this release counts BPF programs and maps as locked memory: those before Linux 5.11 do.
pub fn counts_bpf_as_locked(release: &str) -> bool {
    machine::version(release).is_some_and(|version| version < (5, 11))
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn another_process_gets_the_limits_that_were_taken_down() {
        let mut child =
            Command::new("cat").stdin(Stdio::piped()).spawn().expect("cat waits for its input");
        let files = Limit::now(Resource::RLIMIT_NOFILE).expect("a limit");
        let locked = Limit::now(Resource::RLIMIT_MEMLOCK).expect("a limit");
        let limits = [Limit { soft: 77, ..files }, Limit { soft: 4096, ..locked }];
        Inherited(limits.map(Some)).give_to(child.id());
        let limits = std::fs::read_to_string(format!("/proc/{}/limits", child.id()));
        let limits = limits.expect("the child lives");
        for (name, soft) in [("Max open files", "77"), ("Max locked memory", "4096")] {
            let row = limits.lines().find(|line| line.starts_with(name));
            assert_eq!(row.and_then(|row| row.split_whitespace().nth(3)), Some(soft), "{limits}");
        }
        drop(child.stdin.take());
        child.wait().expect("cat ends with its input");
    }

    #[test]
    fn kernels_before_5_11_count_bpf_as_locked_memory() {
        for release in ["4.19.0", "5.4.0-100-generic", "5.10.0-46-amd64", "5.10"] {
            assert!(counts_bpf_as_locked(release), "{release}");
        }
        for release in ["5.11.0", "5.15.0", "6.1.0-56-amd64", "7.3.4+deb13-amd64", "", "x"] {
            assert!(!counts_bpf_as_locked(release), "{release}");
        }
    }
}
