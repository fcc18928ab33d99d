//! Reads signals from a descriptor, so that they interrupt no system call.
//!
//! The signals that end or control a recording are blocked and read from a
//! signalfd, in the same poll as everything else the recorder waits for; no
//! handler exists. Three things follow:
//!
//! - [`Signals::catch`] must run in the main thread before any other thread exists, because threads inherit the signal mask.
//! - COMMAND must not inherit it: [`Signals::inherited`] is what COMMAND gets
//!   (see [`crate::child`]).
//! - SIGINT and SIGTERM always count, even if they were ignored at the start: a shell ignores SIGINT for programs that a script starts with
//!   `&`, and `kill -INT` must still end the recording, as with other recorders. COMMAND ignores the signals that it would ignore without
//!   fxtrec, and any other signal that was ignored (SIGHUP by nohup) stays so.
//! - A file size limit (SIGXFSZ) is an error of the write instead of the end of
//!   the process: see [`survive_file_size_limit`].

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, SigmaskHow, Signal, sigaction};
use nix::sys::signalfd::{SfdFlags, SignalFd};

use super::stop_token::StopToken;

/// Read from the signalfd, even if ignored at the start: a blocked signal is queued nevertheless.
const ALWAYS: [Signal; 2] = [Signal::SIGINT, Signal::SIGTERM];

/// Read from the signalfd, unless ignored at start.
const CAUGHT: [Signal; 3] = [Signal::SIGHUP, Signal::SIGQUIT, Signal::SIGUSR2];

/// The signals with which a terminal stops jobs.
const STOPS: [Signal; 3] = [Signal::SIGTSTP, Signal::SIGTTIN, Signal::SIGTTOU];

/// The signal settings at fxtrec's start, with which COMMAND must start, too.
#[derive(Clone, Copy, Debug)]
pub struct Inherited {
    pub(super) mask: SigSet,
    pub(super) child_ignored: bool,
    pub(super) pipe_ignored: bool,
    /// Whether it ignores Ctrl-C.
    pub interrupt_ignored: bool,
}

#[derive(Debug)]
pub struct Signals {
    fd: SignalFd,
    inherited: Inherited,
    parent: Option<Parent>,
}

/// The parent process, if the kernel announces its end by a signal: once for each of its threads, which would look like a repeated request
/// from the user.
#[derive(Debug)]
struct Parent {
    pid: u32,
    signal: Signal,
    /// Whether it has sent such a signal.
    heard: bool,
}

impl Parent {
    fn of_this_process() -> io::Result<Option<Parent>> {
        let pid = std::os::unix::process::parent_id();
        let signal = nix::sys::prctl::get_pdeathsig()?;
        Ok(signal.map(|signal| Parent { pid, signal, heard: false }))
    }

    /// Whether it has ended, or is about to: its threads end one after another.
    fn has_ended(&self) -> bool {
        (0..20).any(|_| {
            let has_ended = std::os::unix::process::parent_id() != self.pid;
            if !has_ended {
                std::thread::sleep(Duration::from_millis(5));
            }
            has_ended
        })
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Caught {
    pub signal: Signal,
    /// Whether a process sent it, with kill(2) and the like. Otherwise the kernel did: Ctrl-C and hang-up of the terminal, which COMMAND
    /// receives as well, or the end of a child.
    pub from_user: bool,
    /// The process that sent it, or the child that ended, by its id in this pid namespace.
    pub pid: u32,
}

impl Signals {
    /// Blocks the signals in this thread and in threads that it starts later, and opens the signalfd.
    ///
    /// SIGCHLD is always among them. SIGXFSZ is blocked as well, so that exceeding a file size limit is an error of the write and does not
    /// end the process.
    ///
    /// # Errors
    /// Errors of signalfd(2), sigaction(2) or sigprocmask(2).
    pub fn catch() -> io::Result<Signals> {
        Signals::catch_and(&[])
    }

    /// Like [`Signals::catch`], and also catches the signals by which a terminal stops jobs. They no longer stop this process by
    /// themselves: see [`Signals::stop_here`].
    ///
    /// # Errors
    /// The same as for [`Signals::catch`].
    pub fn catch_stops_too() -> io::Result<Signals> {
        Signals::catch_and(&STOPS)
    }

    /// Like [`Signals::catch`], and also catches the signal for a changed terminal size.
    ///
    /// # Errors
    /// The same as for [`Signals::catch`].
    pub fn catch_resizes_too() -> io::Result<Signals> {
        Signals::catch_and(&[Signal::SIGWINCH])
    }

    fn catch_and(more: &[Signal]) -> io::Result<Signals> {
        let child_ignored = is_ignored(Signal::SIGCHLD)?;
        if child_ignored {
            // If SIGCHLD were ignored, the kernel would discard COMMAND's exit status.
            let default = SigAction::new(SigHandler::SigDfl, SaFlags::empty(), SigSet::empty());
            // SAFETY: no handler is installed, so no code can run at an unsuitable time.
            unsafe { sigaction(Signal::SIGCHLD, &default) }?;
        }
        let mut read = SigSet::empty();
        read.add(Signal::SIGCHLD);
        ALWAYS.into_iter().for_each(|signal| read.add(signal));
        for signal in CAUGHT.iter().chain(more) {
            if !is_ignored(*signal)? {
                read.add(*signal);
            }
        }
        let interrupt_ignored = is_ignored(Signal::SIGINT)?;
        let mut blocked = read;
        blocked.add(Signal::SIGXFSZ);
        let mask = blocked.thread_swap_mask(SigmaskHow::SIG_BLOCK)?;
        let fd = SignalFd::with_flags(&read, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK)?;
        let pipe_ignored = PIPE_IGNORED_AT_START.load(Ordering::Relaxed);
        let inherited = Inherited { mask, child_ignored, pipe_ignored, interrupt_ignored };
        Ok(Signals { fd, inherited, parent: Parent::of_this_process()? })
    }

    /// The next signal that arrived, or `None` if there is none.
    ///
    /// # Errors
    /// Errors of read(2).
    pub fn read(&mut self) -> io::Result<Option<Caught>> {
        while let Some(info) = self.fd.read_signal()? {
            let number = i32::try_from(info.ssi_signo).map_err(|_| io::ErrorKind::InvalidData)?;
            let signal = Signal::try_from(number)?;
            // Codes of the kernel are positive, codes of kill, sigqueue and tgkill are not.
            let caught = Caught { signal, from_user: info.ssi_code <= 0, pid: info.ssi_pid };
            let is_its = |it: &&mut Parent| (it.pid, it.signal) == (caught.pid, signal);
            if let Some(parent) = self.parent.as_mut().filter(is_its)
                && std::mem::replace(&mut parent.heard, true)
            {
                if parent.has_ended() {
                    continue;
                }
                // The parent uses the same signal for its own requests, so from now on each one counts.
                self.parent = None;
            }
            return Ok(Some(caught));
        }
        Ok(None)
    }

    /// Stops this process as `signal` would have if it were not read here; returns when the process was continued.
    ///
    /// # Errors
    /// Errors of sigprocmask(2) and kill(2).
    pub fn stop_here(&self, signal: Signal) -> io::Result<()> {
        let mut only = SigSet::empty();
        only.add(signal);
        let before = only.thread_swap_mask(SigmaskHow::SIG_UNBLOCK)?;
        // The other threads block it, so this thread receives it before the call returns.
        let sent = nix::sys::signal::kill(nix::unistd::Pid::this(), signal);
        before.thread_set_mask()?;
        Ok(sent?)
    }

    /// The signal settings before [`Signals::catch`].
    pub fn inherited(&self) -> Inherited {
        self.inherited
    }
}

impl AsFd for Signals {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// Ends the process when a termination signal is not read for some time: the thread that should read it is blocked, perhaps forever, for
/// example on a pipe that is full or a terminal that was stopped.
#[derive(Debug)]
#[must_use = "it watches until it is dropped"]
pub struct Guard {
    stop: StopToken,
    status: Arc<AtomicU8>,
    thread: Option<JoinHandle<()>>,
}

/// How often to check whether such a signal was read.
const GUARD_STEP: Duration = Duration::from_millis(100);

impl Guard {
    /// Starts the thread that watches. It ends the process with `status` when such a signal has waited for as long as
    /// `patience`.
    ///
    /// # Errors
    /// Returns an error when no descriptor or thread can be created.
    pub fn start(signals: &Signals, patience: Duration, status: u8) -> io::Result<Guard> {
        let arrived = signals.fd.as_fd().try_clone_to_owned()?;
        let status = Arc::new(AtomicU8::new(status));
        let ends_with = status.clone();
        let stop = StopToken::new()?;
        let token = stop.clone();
        let thread = std::thread::Builder::new().name("fxtrec-guard".to_owned());
        let thread = thread.spawn(move || {
            let mut since = None;
            while !token.is_stopped() {
                let waited = match since {
                    None => token.wait(std::iter::once(arrived.as_fd()), Duration::from_secs(3600)),
                    Some(_) => token.wait(std::iter::empty(), GUARD_STEP),
                };
                // If waiting is not possible, there is nothing to watch.
                let Ok(()) = waited else { return };
                match since {
                    _ if !is_readable(&arrived) => since = None,
                    // For example the end of a child.
                    Some(_) if !end_is_pending() => since = Some(Instant::now()),
                    None => since = Some(Instant::now()),
                    Some(begun) if begun.elapsed() >= patience => {
                        end_process(ends_with.load(Ordering::Relaxed))
                    }
                    Some(_) => {}
                }
            }
        })?;
        Ok(Guard { stop, status, thread: Some(thread) })
    }

    /// From now on it ends the process with this status.
    pub fn end_with(&self, status: u8) {
        self.status.store(status, Ordering::Relaxed);
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.stop.stop();
        // The thread does nothing that could fail.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

fn is_readable(fd: &OwnedFd) -> bool {
    let mut polled = [PollFd::new(fd.as_fd(), PollFlags::POLLIN)];
    poll(&mut polled, PollTimeout::ZERO).is_ok_and(|ready| ready > 0)
}

/// Whether a termination signal is waiting to be read.
fn end_is_pending() -> bool {
    let mut pending = SigSet::empty().as_ref().to_owned();
    // SAFETY: the call fills the set that it is given, which belongs to this code and is initialised.
    let result = unsafe { libc::sigpending(&raw mut pending) };
    // SAFETY: the set is initialised, by `empty` or by the kernel, and the numbers are those of signals.
    let has = |signal| unsafe { libc::sigismember(&raw const pending, signal as libc::c_int) == 1 };
    result == 0 && ALWAYS.into_iter().any(has)
}

fn end_process(status: u8) -> ! {
    if super::terminal::stderr_takes_text() {
        // This avoids the standard library: a thread that waits there holds its lock.
        let text = b"\nfxtrec: ended by a signal while waiting: the written part is readable\n";
        let _ = nix::unistd::write(std::io::stderr(), text);
    }
    // SAFETY: the call ends the process without running any of its code, and the kernel frees its resources. A thread that is blocked in
    // the kernel cannot be ended in any other way.
    unsafe { libc::_exit(status.into()) }
}

/// Makes a write beyond the limit of file sizes (`ulimit -f`) fail with EFBIG; otherwise SIGXFSZ would end the process. Programs that this
/// process runs get the default action again: a handler does not survive exec.
///
/// # Errors
/// Errors of sigaction(2).
pub fn survive_file_size_limit() -> io::Result<()> {
    extern "C" fn nothing(_: libc::c_int) {}
    if is_ignored(Signal::SIGXFSZ)? {
        return Ok(());
    }
    let handler = SigHandler::Handler(nothing);
    let action = SigAction::new(handler, SaFlags::SA_RESTART, SigSet::empty());
    // SAFETY: the handler does nothing, so it may interrupt a thread anywhere.
    unsafe { sigaction(Signal::SIGXFSZ, &action) }?;
    Ok(())
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

/// Whether SIGPIPE was ignored when the process started. Rust's runtime ignores it before `main`, which would hide the original state,
/// which COMMAND must get.
static PIPE_IGNORED_AT_START: AtomicBool = AtomicBool::new(false);

// SAFETY: the section holds pointers to functions of this type, which the loader calls once, in the
// only thread, before Rust's runtime starts. The function needs nothing from that runtime: it makes one system call and stores to an
// atomic.
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

    // Signals are blocked per thread, and raise() addresses the calling thread, so each test has its signals to itself. Signals that the
    // process was started with as ignored (nohup, `&` in a script) are not caught.

    #[test]
    fn a_caught_signal_is_read_with_its_sender() {
        let mut signals = Signals::catch().unwrap();
        assert_eq!(signals.read().unwrap(), None);
        let signal = Signal::SIGTERM;
        raise(signal).unwrap();
        let caught = signals.read().unwrap().expect("the signal is pending");
        assert_eq!(caught, Caught { signal, from_user: true, pid: std::process::id() });
        assert_eq!(signals.read().unwrap(), None);
    }

    #[test]
    fn the_mask_from_before_is_kept_for_command() {
        // One of the signals that fxtrec blocks, and another one.
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
        for signal in ALWAYS {
            assert!(now.contains(signal), "{signal}");
        }
    }

    #[test]
    fn an_end_that_waits_to_be_read_is_seen_and_nothing_else_is() {
        let mut signals = Signals::catch().unwrap();
        raise(Signal::SIGUSR2).unwrap();
        assert!(!end_is_pending());
        raise(Signal::SIGINT).unwrap();
        assert!(end_is_pending());
        while signals.read().unwrap().is_some() {}
        assert!(!end_is_pending());
    }
}
