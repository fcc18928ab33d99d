//! The limit on open files, which many CPUs exceed.

use nix::sys::resource::{Resource, getrlimit, setrlimit};

/// Descriptors for everything that is not a perf event.
const OTHERS: u64 = 64;

/// The limit as fxtrec was started with it; COMMAND is to have the same.
#[derive(Clone, Copy, Debug)]
pub struct OpenFiles {
    soft: u64,
    hard: u64,
}

impl OpenFiles {
    /// The limit as it is now; `None` when the kernel does not say.
    pub fn now() -> Option<OpenFiles> {
        let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE).ok()?;
        Some(OpenFiles { soft, hard })
    }

    /// Gives the process `pid` this limit. A process that is gone needs none.
    pub fn give_to(self, pid: u32) {
        let Ok(pid) = libc::pid_t::try_from(pid) else { return };
        let limit = libc::rlimit { rlim_cur: self.soft, rlim_max: self.hard };
        // SAFETY: the new limit is read through a pointer to a live rlimit, and the old one is not asked for.
        unsafe { libc::prlimit(pid, libc::RLIMIT_NOFILE, &raw const limit, std::ptr::null_mut()) };
    }
}

/// Makes room for `files` more open files, as far as the hard limit allows.
///
/// What goes beyond that fails at the call that needs it, with EMFILE.
pub fn raise_open_files(files: u64) {
    let wanted = files + OTHERS;
    if let Some(OpenFiles { soft, hard }) = OpenFiles::now()
        && soft < wanted
    {
        let _ = setrlimit(Resource::RLIMIT_NOFILE, wanted.min(hard), hard);
    }
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn another_process_gets_the_limit_that_was_taken_down() {
        let mut child =
            Command::new("cat").stdin(Stdio::piped()).spawn().expect("cat waits for its input");
        let OpenFiles { hard, .. } = OpenFiles::now().expect("a limit");
        OpenFiles { soft: 77, hard }.give_to(child.id());
        let limits = std::fs::read_to_string(format!("/proc/{}/limits", child.id()));
        let limits = limits.expect("the child lives");
        let row = limits.lines().find(|line| line.starts_with("Max open files"));
        assert_eq!(row.and_then(|row| row.split_whitespace().nth(3)), Some("77"), "{limits}");
        drop(child.stdin.take());
        child.wait().expect("cat ends with its input");
    }
}
