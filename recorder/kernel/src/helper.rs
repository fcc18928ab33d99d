//! Helper processes, which must not outlive this process.

use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};
use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;

use nix::errno::Errno;
use nix::sys::signal::{SigHandler, Signal};

use super::notify::OwnNotify;

/// Signals that a helper reacts to, however this process was started.
const HEARD: [Signal; 3] = [Signal::SIGINT, Signal::SIGTERM, Signal::SIGUSR2];

/// A request to the thread.
struct Request {
    command: Command,
    reply: Sender<io::Result<Child>>,
}

/// Starts processes that get SIGTERM when this one ends for any reason.
///
/// The kernel sends that signal when the *thread* that started the process ends, so a separate thread starts them, which lives as long as
/// the launcher.
#[derive(Debug)]
pub struct Launcher {
    requests: Option<Sender<Request>>,
    thread: Option<JoinHandle<()>>,
}

impl Launcher {
    /// Starts the thread.
    ///
    /// # Errors
    /// Returns an error if no thread can be started.
    pub fn new() -> io::Result<Launcher> {
        let (requests, asked) = channel::<Request>();
        let thread = std::thread::Builder::new().name("fxtrec-launcher".to_owned());
        let thread = thread.spawn(move || {
            for Request { mut command, reply } in asked {
                // If the requester has ended, the process ends because its channel is closed.
                let _ = reply.send(command.spawn());
            }
        })?;
        Ok(Launcher { requests: Some(requests), thread: Some(thread) })
    }

    /// Starts a process.
    ///
    /// # Errors
    /// Errors of fork(2) or execve(2).
    pub fn spawn(&self, command: Command) -> io::Result<Child> {
        self.spawn_notifying(command, None)
    }

    /// Starts a recorder that sends messages to this process.
    ///
    /// # Errors
    /// Errors of fork(2) or execve(2).
    pub fn spawn_notifying(
        &self,
        mut command: Command,
        notify: Option<OwnNotify>,
    ) -> io::Result<Child> {
        if let Some(notify) = &notify {
            let (variable, value) = notify.variable()?;
            command.env(variable, value);
        }
        let parent = std::process::id();
        // SAFETY: between fork and exec only sigaction(2), prctl(2), fcntl(2) and getppid(2) are called, which may be; nothing is
        // allocated, and no handler is installed that could run.
        unsafe {
            command.pre_exec(move || {
                // This process may have been started with some of them ignored.
                for signal in HEARD {
                    nix::sys::signal::signal(signal, SigHandler::SigDfl)?;
                }
                nix::sys::prctl::set_pdeathsig(Signal::SIGTERM)?;
                notify.as_ref().map_or(Ok(()), OwnNotify::pass_on)?;
                // If this process has already ended, the signal would never be sent.
                match u32::try_from(nix::unistd::getppid().as_raw()) {
                    Ok(now) if now == parent => Ok(()),
                    _ => Err(Errno::ESRCH.into()),
                }
            });
        }
        let gone = || io::Error::other("the thread that starts processes has ended");
        let (reply, answer) = channel();
        let requests = self.requests.as_ref().ok_or_else(gone)?;
        requests.send(Request { command, reply }).map_err(|_| gone())?;
        answer.recv().map_err(|_| gone())?
    }
}

impl Drop for Launcher {
    fn drop(&mut self) {
        self.requests = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;
    use std::process::Stdio;

    use super::*;

    #[test]
    fn what_it_started_goes_with_it() {
        let launcher = Launcher::new().expect("a thread");
        let mut command = Command::new("sleep");
        command.arg("3600").stdin(Stdio::null());
        let mut child = launcher.spawn(command).expect("started");
        assert!(child.try_wait().expect("a child").is_none());
        drop(launcher);
        let status = child.wait().expect("it ends");
        assert_eq!(status.signal(), Some(Signal::SIGTERM as i32));
    }

    #[test]
    fn what_cannot_be_run_is_an_error() {
        let launcher = Launcher::new().expect("a thread");
        let error = launcher.spawn(Command::new("/nowhere/at-all")).expect_err("refused");
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
    }
}
