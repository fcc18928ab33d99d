//! COMMAND: forked at once, held before its first instruction, and released when the recording runs.
//!
//! ```text
//! fxtrec                                  child
//! Held::start  -- fork ----------------->  signals, user as COMMAND is to have them
//!   pid known, probes and scope set up     waits on the gate
//! Held::release -- one byte ------------>  execve
//!              <-- end of file ----------  it worked: the gate was close-on-exec
//!              <-- step and errno -------  it did not; the child exits
//! ```
//!
//! This does fork and exec itself, because [`std::process::Command`] returns only after exec. Everything that allocates (paths, arguments,
//! environment) is prepared before the fork, and the child only makes system calls, so other threads do not matter. If fxtrec dies, the
//! gate closes, and a child that is still held exits without running anything.
//!
//! COMMAND keeps standard input, output and error, the terminal, the process
//! group, and every descriptor that fxtrec itself was given.

mod prepare;
mod typing;

use std::ffi::OsString;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::ExitStatus;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::Signal;

use super::signals::Inherited;
use super::user::Account;
use prepare::Prepared;

/// The program to run, and how to run it.
#[derive(Clone, Debug)]
pub struct Launch {
    /// A path, or a name to search for in `PATH`.
    pub program: OsString,
    /// The arguments after the program's name.
    pub args: Vec<OsString>,
    /// Variables that it gets in addition to fxtrec's own, or instead of them.
    pub environment: Vec<(OsString, OsString)>,
    /// The user to run it as; `None` for the user that fxtrec runs as.
    pub user: Option<Account>,
    /// Whether its standard output is redirected to standard error, because standard output has the trace.
    pub stdout_to_stderr: bool,
}

impl Launch {
    /// The files to execute, in order, until the kernel accepts one.
    pub fn candidates(&self) -> Vec<PathBuf> {
        prepare::program_paths(self)
    }
}

/// The reason why COMMAND did not run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LaunchError {
    /// An argument or a variable cannot be passed on.
    #[error("cannot run {program}: an argument contains a zero byte")]
    ZeroByte {
        /// The program as it was given.
        program: String,
    },
    /// No process could be created.
    #[error("cannot start a process for {program}: {source}")]
    Fork {
        /// The program as it was given.
        program: String,
        /// The result of the system call.
        source: io::Error,
    },
    /// The child could not become the requested user.
    #[error("cannot run {program} as {user}: {call}: {source}{advice}")]
    User {
        /// The program as it was given.
        program: String,
        user: String,
        /// The system call that was refused.
        call: &'static str,
        source: io::Error,
        /// The next step for the user, if there is one.
        advice: &'static str,
    },
    /// There is no such program.
    #[error("{program}: command not found{advice}")]
    NotFound {
        /// The program as it was given.
        program: String,
        /// What to check, if anything.
        advice: &'static str,
    },
    /// The program exists but cannot be run.
    #[error("cannot run {program}: {source}{advice}")]
    NotRunnable {
        /// The program as it was given.
        program: String,
        source: io::Error,
        /// The checks for the user, if there are any.
        advice: &'static str,
    },
}

impl LaunchError {
    /// The exit status that shells and env(1) use for it: 127 not found, 126 not runnable, and 125 if it was not even tried.
    pub fn exit_code(&self) -> u8 {
        match self {
            LaunchError::NotFound { .. } => 127,
            LaunchError::NotRunnable { .. } => 126,
            _ => 125,
        }
    }
}

/// A child that waits before exec. Dropping it ends it without having run anything.
#[derive(Debug)]
#[must_use = "a held child that is dropped never runs"]
pub struct Held {
    child: Child,
    gate: UnixStream,
    prepared: Prepared,
}

impl Held {
    /// Makes the process. Its id is known from this point on.
    ///
    /// # Errors
    /// Returns an error if an argument has a zero byte, or no process can be created.
    pub fn start(launch: &Launch, inherited: &Inherited) -> Result<Held, LaunchError> {
        let prepared = Prepared::new(launch, *inherited)?;
        let fork_error = |source| LaunchError::Fork { program: prepared.program(), source };
        let (gate, childs_end) = UnixStream::pair().map_err(fork_error)?;
        // SAFETY: the child only calls Prepared::run, which makes system calls and accesses memory that was set up before, and never
        // returns. That is allowed in a child of a process with threads.
        let pid = unsafe { libc::fork() };
        match pid {
            -1 => Err(fork_error(io::Error::last_os_error())),
            0 => prepared.run(gate.as_raw_fd(), childs_end.as_raw_fd()),
            _ => {
                let exit_fd = open_pidfd(pid).ok();
                let child = Child { pid, exit_fd, ended: None, stopped: false, held: true };
                Ok(Held { child, gate, prepared })
            }
        }
    }

    /// The process id, which COMMAND keeps, in this pid namespace.
    pub fn pid(&self) -> u32 {
        self.child.pid()
    }

    /// Lets the child run COMMAND, and returns when it runs.
    ///
    /// A child that was killed or stopped while it was held is returned like one that runs: see [`Child::try_wait`].
    ///
    /// # Errors
    /// Returns an error if COMMAND cannot be found or run, or cannot be run in the way that the user requested.
    pub fn release(self) -> Result<Child, LaunchError> {
        let Held { mut child, mut gate, prepared } = self;
        // It is not an error here if the child has already ended: only its exit status matters.
        let _ = gate.write_all(&[1]);
        while !is_readable(gate.as_fd()) {
            // Ctrl-Z was pressed earlier: it runs COMMAND when it is continued.
            if child.try_wait().is_ok_and(|_| child.is_stopped()) {
                child.held = false;
                return Ok(child);
            }
        }
        let mut report = [0; prepare::Report::LEN];
        match gate.read_exact(&mut report) {
            Err(_) => {
                child.held = false;
                Ok(child)
            }
            Ok(()) => Err(prepared.explain(prepare::Report::from_bytes(report))),
        }
    }
}

/// A child that runs COMMAND.
#[derive(Debug)]
pub struct Child {
    pid: libc::pid_t,
    exit_fd: Option<OwnedFd>,
    ended: Option<Ended>,
    stopped: bool,
    held: bool,
}

impl Drop for Child {
    fn drop(&mut self) {
        if self.held {
            // The child may be stopped, so closing the gate is not enough.
            let _ = self.signal(Signal::SIGKILL);
            let _ = self.wait();
        }
    }
}

impl Child {
    /// The process id as this pid namespace numbers it.
    pub fn pid(&self) -> u32 {
        self.pid.unsigned_abs()
    }

    /// Becomes readable when the child ends. `None` on kernels before 5.3 and where pidfds are refused; SIGCHLD (see [`crate::signals`])
    /// always works.
    pub fn exit_fd(&self) -> Option<BorrowedFd<'_>> {
        self.exit_fd.as_ref().map(AsFd::as_fd)
    }

    /// How the child ended, or `None` while it runs.
    ///
    /// # Errors
    /// Errors of waitpid(2).
    pub fn try_wait(&mut self) -> io::Result<Option<Ended>> {
        self.wait_with(libc::WNOHANG)
    }

    /// Waits until the child has ended.
    ///
    /// # Errors
    /// Errors of waitpid(2).
    pub fn wait(&mut self) -> io::Result<Ended> {
        loop {
            if let Some(ended) = self.wait_with(0)? {
                return Ok(ended);
            }
        }
    }

    fn wait_with(&mut self, flags: libc::c_int) -> io::Result<Option<Ended>> {
        let flags = flags | libc::WUNTRACED | libc::WCONTINUED;
        while self.ended.is_none() {
            let mut status = 0;
            // SAFETY: the call writes one int through a pointer to a live int.
            match unsafe { libc::waitpid(self.pid, &raw mut status, flags) } {
                0 => break,
                -1 => {
                    let error = io::Error::last_os_error();
                    if error.kind() != io::ErrorKind::Interrupted {
                        return Err(error);
                    }
                }
                _ if libc::WIFSTOPPED(status) => self.stopped = true,
                _ if libc::WIFCONTINUED(status) => self.stopped = false,
                _ => self.ended = Some(Ended(ExitStatus::from_raw(status))),
            }
        }
        Ok(self.ended)
    }

    /// Whether it was stopped and not continued, as of the last wait.
    pub fn is_stopped(&self) -> bool {
        self.stopped && self.ended.is_none()
    }

    /// Sends a signal to the child; does nothing if it has already ended.
    ///
    /// # Errors
    /// Errors of kill(2), for example EPERM if the child runs as another user.
    pub fn signal(&self, signal: Signal) -> io::Result<()> {
        if self.ended.is_some() {
            // The id may already belong to another process.
            return Ok(());
        }
        nix::sys::signal::kill(nix::unistd::Pid::from_raw(self.pid), signal)
            .map_err(io::Error::from)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ended(ExitStatus);

impl Ended {
    /// The exit status that shells give it: COMMAND's own, or 128+n when signal n ended it.
    pub fn exit_code(self) -> u8 {
        let code = self.0.code().or_else(|| self.0.signal().map(|signal| 128 + signal));
        code.and_then(|code| u8::try_from(code).ok()).unwrap_or(u8::MAX)
    }

    /// The signal that ended it, if one did.
    pub fn signal(self) -> Option<i32> {
        self.0.signal()
    }
}

/// How often to check whether a child was stopped, in milliseconds.
const LOOK: u16 = 50;

/// Waits for a short time until data can be read, or the other end is closed.
fn is_readable(fd: BorrowedFd<'_>) -> bool {
    let mut polled = [PollFd::new(fd, PollFlags::POLLIN)];
    // The following read returns the error.
    !matches!(poll(&mut polled, PollTimeout::from(LOOK)), Ok(0) | Err(Errno::EINTR))
}

/// Opens a descriptor that becomes readable when the process ends.
///
/// # Errors
/// ESRCH when there is no such process, ENOSYS before Linux 5.3, EPERM in some sandboxes.
pub fn open_pidfd(pid: libc::pid_t) -> io::Result<OwnedFd> {
    // SAFETY: pidfd_open takes two numbers and no pointer.
    let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) };
    if fd < 0 {
        return Err(Errno::last().into());
    }
    let fd = i32::try_from(fd).map_err(|_| io::ErrorKind::InvalidData)?;
    // SAFETY: the call returned a new descriptor, close-on-exec, that nothing else owns.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Whether the process behind a descriptor of [`open_pidfd`] has ended.
pub fn has_ended(process: &OwnedFd) -> bool {
    let mut polled = [PollFd::new(process.as_fd(), PollFlags::POLLIN)];
    poll(&mut polled, PollTimeout::ZERO).is_ok_and(|ready| ready > 0)
}

/// Sends a signal to the process behind a descriptor of [`open_pidfd`], and never to another process that was given the same number.
///
/// # Errors
/// Errors of pidfd_send_signal(2): ESRCH if the process has ended, EPERM if it belongs to another user.
pub fn signal_process(process: &OwnedFd, signal: Signal) -> io::Result<()> {
    let no_info = std::ptr::null::<libc::siginfo_t>();
    // SAFETY: with a null siginfo the kernel fills in its own, as for kill(2); the rest are numbers.
    let result = unsafe {
        libc::syscall(
            libc::SYS_pidfd_send_signal,
            process.as_raw_fd(),
            signal as libc::c_int,
            no_info,
            0,
        )
    };
    if result < 0 { Err(Errno::last().into()) } else { Ok(()) }
}

#[cfg(test)]
mod tests;
