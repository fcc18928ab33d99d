//! Signals as something to read, not something that interrupts.
//!
//! The signals that end or steer a recording are blocked and read from a
//! signalfd, in the same poll as everything else the recorder waits for; no
//! handler exists. Three things follow:
//!
//! - [`Signals::catch`] must run in the main thread before any other thread
//!   exists, since threads inherit what is blocked.
//! - COMMAND must not inherit it: [`Signals::inherited`] is what COMMAND gets
//!   (see [`crate::child`]).
//! - A signal that fxtrec was told to ignore (nohup, `&` in a script) stays
//!   ignored, by fxtrec and by COMMAND.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicBool, Ordering};

use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, SigmaskHow, Signal, sigaction};
use nix::sys::signalfd::{SfdFlags, SignalFd};

/// What is read from the signalfd, unless it was ignored at start.
const CAUGHT: [Signal; 5] =
    [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP, Signal::SIGQUIT, Signal::SIGUSR2];

/// How fxtrec was started with respect to signals; COMMAND is to start the same way.
#[derive(Clone, Copy, Debug)]
pub struct Inherited {
    pub(super) mask: SigSet,
    pub(super) child_ignored: bool,
    pub(super) pipe_ignored: bool,
}

#[derive(Debug)]
pub struct Signals {
    fd: SignalFd,
    inherited: Inherited,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Caught {
    pub signal: Signal,
    /// Whether a process sent it, with kill(2) and the like. Otherwise the kernel did: Ctrl-C and
    /// hang-up of the terminal, which COMMAND gets as well, or the end of a child.
    pub from_user: bool,
    /// The process that sent it, or the child that ended, as this pid namespace numbers it.
    pub pid: u32,
}

impl Signals {
    /// Blocks the signals in this thread, and in those it starts later, and opens the signalfd.
    ///
    /// SIGCHLD is always among them. SIGXFSZ is blocked as well, so that a file size limit is an
    /// error of the write instead of the end of the process.
    ///
    /// # Errors
    /// What signalfd(2), sigaction(2) or sigprocmask(2) return.
    pub fn catch() -> io::Result<Signals> {
        let child_ignored = is_ignored(Signal::SIGCHLD)?;
        if child_ignored {
            // An ignored SIGCHLD would make the kernel forget how COMMAND ended.
            let default = SigAction::new(SigHandler::SigDfl, SaFlags::empty(), SigSet::empty());
            // SAFETY: no handler is installed, so nothing can run at an unsuitable moment.
            unsafe { sigaction(Signal::SIGCHLD, &default) }?;
        }
        let mut read = SigSet::empty();
        read.add(Signal::SIGCHLD);
        for signal in CAUGHT {
            if !is_ignored(signal)? {
                read.add(signal);
            }
        }
        let mut blocked = read;
        blocked.add(Signal::SIGXFSZ);
        let mask = blocked.thread_swap_mask(SigmaskHow::SIG_BLOCK)?;
        let fd = SignalFd::with_flags(&read, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK)?;
        let pipe_ignored = PIPE_IGNORED_AT_START.load(Ordering::Relaxed);
        Ok(Signals { fd, inherited: Inherited { mask, child_ignored, pipe_ignored } })
    }

    /// The next signal that arrived, or `None` when there is none now.
    ///
    /// # Errors
    /// What read(2) returns.
    pub fn read(&mut self) -> io::Result<Option<Caught>> {
        let Some(info) = self.fd.read_signal()? else { return Ok(None) };
        let number = i32::try_from(info.ssi_signo).map_err(|_| io::ErrorKind::InvalidData)?;
        Ok(Some(Caught {
            signal: Signal::try_from(number)?,
            // Codes of the kernel are positive, those of kill, sigqueue and tgkill are not.
            from_user: info.ssi_code <= 0,
            pid: info.ssi_pid,
        }))
    }

    /// How signals stood before [`Signals::catch`].
    pub fn inherited(&self) -> Inherited {
        self.inherited
    }
}

impl AsFd for Signals {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

fn is_ignored(signal: Signal) -> io::Result<bool> {
    let mut now = std::mem::MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: with a null new action the call only fills the struct it is given.
    let result = unsafe { libc::sigaction(signal as i32, std::ptr::null(), now.as_mut_ptr()) };
    if result != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the call succeeded and filled it; it was zeroed before, and all its fields allow that.
    Ok(unsafe { now.assume_init() }.sa_sigaction == libc::SIG_IGN)
}

/// Whether SIGPIPE was ignored when the process started. Rust's runtime ignores it before `main`,
/// and the usual state, which COMMAND must get, would be lost.
static PIPE_IGNORED_AT_START: AtomicBool = AtomicBool::new(false);

// SAFETY: the section holds pointers to functions of this type, which the loader calls once, in the
// only thread, before Rust's runtime starts. The function needs nothing of that runtime: it makes
// one system call and stores to an atomic.
#[used]
#[unsafe(link_section = ".init_array")]
static LOOK_AT_SIGPIPE: extern "C" fn() = {
    extern "C" fn look() {
        if let Ok(ignored) = is_ignored(Signal::SIGPIPE) {
            PIPE_IGNORED_AT_START.store(ignored, Ordering::Relaxed);
        }
    }
    look
};

#[cfg(test)]
mod tests {
    use nix::sys::signal::raise;

    use super::*;

    // Signals are blocked per thread, and raise() addresses the calling thread, so each test has
    // its signals to itself. What the process was told to ignore at its start (nohup, `&` in a
    // script) is not caught.

    #[test]
    fn a_caught_signal_is_read_with_its_sender() {
        let mut signals = Signals::catch().unwrap();
        assert_eq!(signals.read().unwrap(), None);
        let signal = CAUGHT.into_iter().find(|signal| !is_ignored(*signal).unwrap());
        let signal = signal.expect("nobody ignores all of them");
        raise(signal).unwrap();
        let caught = signals.read().unwrap().expect("the signal is pending");
        assert_eq!(caught, Caught { signal, from_user: true, pid: std::process::id() });
        assert_eq!(signals.read().unwrap(), None);
    }

    #[test]
    fn the_mask_from_before_is_kept_for_command() {
        // Among those that fxtrec blocks, and one that it does not.
        let mut before = SigSet::empty();
        before.add(Signal::SIGTERM);
        before.add(Signal::SIGUSR1);
        before.thread_set_mask().unwrap();
        let signals = Signals::catch().unwrap();
        assert_eq!(signals.inherited().mask, before);
        let now = SigSet::thread_get_mask().unwrap();
        for signal in [Signal::SIGCHLD, Signal::SIGXFSZ, Signal::SIGTERM, Signal::SIGUSR1] {
            assert!(now.contains(signal), "{signal}");
        }
        for signal in CAUGHT {
            let wanted = before.contains(signal) || !is_ignored(signal).unwrap();
            assert_eq!(now.contains(signal), wanted, "{signal}");
        }
    }
}
