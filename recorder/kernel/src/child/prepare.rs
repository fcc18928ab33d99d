//! Everything a child needs between fork and exec, created before the fork.
//!
//! The child shares memory with threads that might have been in the middle of an allocation at the fork, so it must not allocate: it only
//! walks through prepared vectors of pointers, and makes system calls.

use std::collections::BTreeMap;
use std::ffi::{CString, OsStr, OsString};
use std::io;
use std::os::fd::RawFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use super::super::signals::Inherited;
use super::typing::filter;
use super::{Launch, LaunchError};

/// Where to search for programs if `PATH` is not set, like execvp(3).
const DEFAULT_PATH: &str = "/bin:/usr/bin";

/// The child's report that it could not execute COMMAND.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Report {
    pub(super) step: u8,
    pub(super) errno: i32,
}

/// The steps a [`Report`] can name.
mod step {
    pub(super) const SIGNALS: u8 = 0;
    pub(super) const GROUPS: u8 = 1;
    pub(super) const GID: u8 = 2;
    pub(super) const UID: u8 = 3;
    pub(super) const STDOUT: u8 = 4;
    pub(super) const EXEC: u8 = 5;
    pub(super) const TYPING: u8 = 6;
}

impl Report {
    pub(super) const LEN: usize = 5;

    fn to_bytes(self) -> [u8; Report::LEN] {
        let [a, b, c, d] = self.errno.to_ne_bytes();
        [self.step, a, b, c, d]
    }

    pub(super) fn from_bytes(bytes: [u8; Report::LEN]) -> Report {
        let [step, a, b, c, d] = bytes;
        Report { step, errno: i32::from_ne_bytes([a, b, c, d]) }
    }
}

#[derive(Debug)]
struct Identity {
    uid: libc::uid_t,
    gid: libc::gid_t,
    groups: Vec<libc::gid_t>,
}

/// A launch in the form that system calls need.
#[derive(Debug)]
pub(super) struct Prepared {
    program: OsString,
    user: Option<String>,
    /// The paths to try, in order.
    candidates: Vec<CString>,
    argv: Strings,
    envp: Strings,
    identity: Option<Identity>,
    /// Prevents COMMAND from typing into the terminal as another user.
    typing: Option<Vec<libc::sock_filter>>,
    stdout_to_stderr: bool,
    inherited: Inherited,
}

/// An array of C strings that ends with a null pointer.
#[derive(Debug)]
struct Strings {
    /// Owns the data that the pointers point to; the text of a CString does not move with it.
    _owned: Vec<CString>,
    pointers: Vec<*const libc::c_char>,
}

impl Strings {
    fn new(owned: Vec<CString>) -> Strings {
        let mut pointers: Vec<_> = owned.iter().map(|text| text.as_ptr()).collect();
        pointers.push(std::ptr::null());
        Strings { _owned: owned, pointers }
    }
}

impl Prepared {
    pub(super) fn new(launch: &Launch, inherited: Inherited) -> Result<Prepared, LaunchError> {
        let zero_byte =
            |_| LaunchError::ZeroByte { program: launch.program.to_string_lossy().into_owned() };
        let argv = std::iter::once(&launch.program)
            .chain(&launch.args)
            .map(|arg| CString::new(arg.as_bytes()))
            .collect::<Result<_, _>>()
            .map_err(zero_byte)?;

        let variables = variables(launch);
        let candidates = candidates(&launch.program, search_path(&variables))
            .into_iter()
            .map(CString::new)
            .collect::<Result<_, _>>()
            .map_err(zero_byte)?;
        let envp = variables
            .iter()
            .map(|(key, value)| CString::new([key.as_bytes(), b"=", value.as_bytes()].concat()))
            .collect::<Result<_, _>>()
            .map_err(zero_byte)?;

        let own = nix::unistd::getuid().as_raw();
        Ok(Prepared {
            program: launch.program.clone(),
            user: launch.user.as_ref().map(|user| user.name.clone()),
            candidates,
            argv: Strings::new(argv),
            envp: Strings::new(envp),
            identity: launch.user.as_ref().map(|user| Identity {
                uid: user.uid,
                gid: user.gid,
                groups: user.groups.clone(),
            }),
            typing: launch.user.as_ref().filter(|user| user.uid != own).and_then(|_| filter()),
            stdout_to_stderr: launch.stdout_to_stderr,
            inherited,
        })
    }

    /// The program as it was given, for messages.
    pub(super) fn program(&self) -> String {
        self.program.to_string_lossy().into_owned()
    }

    /// Everything that the child does before exec. `gate` is fxtrec's end of the socket, `mine` the child's.
    pub(super) fn run(&self, gate: RawFd, mine: RawFd) -> ! {
        // SAFETY: every pointer passed below points into memory that `self`, or this stack frame,
        // owns and that was complete before the fork: arrays of C strings that end with null, a
        // list of groups with its length, a signal set, a byte buffer with its length. The
        // descriptors are open: they were copied by the fork. No call allocates or takes a lock.
        unsafe {
            // Otherwise the child would hold its own gate open, and wait forever if fxtrec dies.
            libc::close(gate);
            let report = match self.become_command(mine) {
                Ok(()) => libc::_exit(125),
                Err(report) => report.to_bytes(),
            };
            // MSG_NOSIGNAL: fxtrec may have ended; then there is no one to report to.
            libc::send(mine, report.as_ptr().cast(), report.len(), libc::MSG_NOSIGNAL);
            libc::_exit(127)
        }
    }

    /// Returns `Ok` if fxtrec exited before it released the child.
    ///
    /// # Safety
    /// Only for a child between fork and exec; `mine` is its end of the gate.
    unsafe fn become_command(&self, mine: RawFd) -> Result<(), Report> {
        // SAFETY: see `run`.
        unsafe {
            self.restore_signals()?;
            let mut byte = [0_u8];
            loop {
                match libc::read(mine, byte.as_mut_ptr().cast(), byte.len()) {
                    1 => break,
                    -1 if errno() == libc::EINTR => {}
                    _ => return Ok(()),
                }
            }
            if let Some(filter) = &self.typing {
                let len = filter.len() as libc::c_ushort;
                let program = libc::sock_fprog { len, filter: filter.as_ptr().cast_mut() };
                let (set, mode) = (libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER);
                check(step::TYPING, libc::prctl(set, mode, &raw const program))?;
            }
            if let Some(identity) = &self.identity {
                let groups = &identity.groups;
                check(step::GROUPS, libc::setgroups(groups.len(), groups.as_ptr()))?;
                check(step::GID, libc::setgid(identity.gid))?;
                check(step::UID, libc::setuid(identity.uid))?;
            }
            if self.stdout_to_stderr {
                check(step::STDOUT, libc::dup2(libc::STDERR_FILENO, libc::STDOUT_FILENO))?;
            }
            Err(self.exec())
        }
    }

    /// # Safety
    /// See [`Prepared::become_command`].
    unsafe fn restore_signals(&self) -> Result<(), Report> {
        // SAFETY: see `run`. Signals are set to be ignored or to their default, never to a handler.
        unsafe {
            if self.inherited.child_ignored {
                libc::signal(libc::SIGCHLD, libc::SIG_IGN);
            }
            if !self.inherited.pipe_ignored {
                libc::signal(libc::SIGPIPE, libc::SIG_DFL);
            }
            // This is last, because pending signals are delivered here.
            let mask = self.inherited.mask.as_ref();
            check(step::SIGNALS, libc::sigprocmask(libc::SIG_SETMASK, mask, std::ptr::null_mut()))
        }
    }

    /// Tries the candidates as execvp(3) does: missing files are skipped, a permission error is remembered, and any other error is
    /// returned.
    ///
    /// # Safety
    /// See [`Prepared::become_command`].
    unsafe fn exec(&self) -> Report {
        let mut answer = libc::ENOENT;
        for candidate in &self.candidates {
            // SAFETY: see `run`.
            let errno = unsafe {
                libc::execve(
                    candidate.as_ptr(),
                    self.argv.pointers.as_ptr(),
                    self.envp.pointers.as_ptr(),
                );
                errno()
            };
            match errno {
                libc::ENOENT | libc::ENOTDIR => {}
                libc::EACCES => answer = errno,
                _ => return Report { step: step::EXEC, errno },
            }
        }
        Report { step: step::EXEC, errno: answer }
    }

    /// Turns a child's report into an error.
    pub(super) fn explain(&self, report: Report) -> LaunchError {
        let program = self.program();
        let source = io::Error::from_raw_os_error(report.errno);
        let call = match report.step {
            step::GROUPS => "setgroups",
            step::GID => "setgid",
            step::UID => "setuid",
            step::TYPING => "prctl(PR_SET_SECCOMP), so that it cannot type into this terminal",
            step::EXEC => return self.explain_exec(program, source),
            _ => return LaunchError::Fork { program, source },
        };
        LaunchError::User {
            program,
            user: self.user.clone().unwrap_or_default(),
            call,
            advice: match report.errno {
                libc::EPERM => "; only root can run a command as another user: use sudo",
                _ => "",
            },
            source,
        }
    }

    fn explain_exec(&self, program: String, source: io::Error) -> LaunchError {
        let there = self
            .candidates
            .iter()
            .any(|path| Path::new(OsStr::from_bytes(path.to_bytes())).symlink_metadata().is_ok());
        match source.raw_os_error() {
            Some(libc::ENOENT | libc::ENOTDIR) => LaunchError::NotFound {
                program,
                advice: if there {
                    " (the file exists, but its interpreter or loader does not)"
                } else {
                    ""
                },
            },
            Some(libc::ENOEXEC) => LaunchError::NotRunnable {
                program,
                source,
                advice: "; is it for another machine, or a script without a #! line?",
            },
            Some(libc::EACCES) => LaunchError::NotRunnable {
                program,
                source,
                advice: "; it must be a file with execute permission, on a file system that is \
                         not mounted noexec",
            },
            _ => LaunchError::NotRunnable { program, source, advice: "" },
        }
    }
}

fn check(step: u8, result: libc::c_int) -> Result<(), Report> {
    if result < 0 { Err(Report { step, errno: errno() }) } else { Ok(()) }
}

fn errno() -> i32 {
    nix::errno::Errno::last_raw()
}

/// The environment for COMMAND.
fn variables(launch: &Launch) -> BTreeMap<OsString, OsString> {
    let mut variables: BTreeMap<OsString, OsString> = std::env::vars_os().collect();
    if let Some(user) = &launch.user {
        variables.extend(user.environment().map(|(key, value)| (key.into(), value)));
    }
    variables.extend(launch.environment.iter().cloned());
    variables
}

fn search_path(variables: &BTreeMap<OsString, OsString>) -> &OsStr {
    variables.get(OsStr::new("PATH")).map_or(OsStr::new(DEFAULT_PATH), |path| path)
}

/// The paths at which COMMAND may be found, in order.
pub(super) fn program_paths(launch: &Launch) -> Vec<PathBuf> {
    let found = candidates(&launch.program, search_path(&variables(launch)));
    found.into_iter().map(|path| PathBuf::from(OsString::from_vec(path))).collect()
}

/// The paths at which `program` may be found.
fn candidates(program: &OsStr, path: &OsStr) -> Vec<Vec<u8>> {
    if program.as_bytes().contains(&b'/') {
        return vec![program.as_bytes().to_vec()];
    }
    if program.is_empty() {
        return Vec::new();
    }
    // An empty element of PATH is the current directory; join then gives the bare name, which
    // execve takes as relative to it.
    std::env::split_paths(path)
        .map(|directory| directory.join(program).into_os_string().into_vec())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_looked_for_in_every_part_of_path_and_a_path_is_not() {
        let of = |program: &str, path: &str| candidates(OsStr::new(program), OsStr::new(path));
        assert_eq!(of("ls", "/a::/b/"), [&b"/a/ls"[..], b"ls", b"/b/ls"]);
        assert_eq!(of("./ls", "/a"), [b"./ls"]);
        assert_eq!(of("dir/ls", "/a"), [b"dir/ls"]);
        assert!(of("", "/a").is_empty());
    }

    #[test]
    fn a_report_survives_the_way_through_the_gate() {
        let report = Report { step: step::UID, errno: libc::EPERM };
        assert_eq!(Report::from_bytes(report.to_bytes()), report);
    }
}
