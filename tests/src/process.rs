//! Processes that continue while a test inspects them.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStderr, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::LazyLock;

use fxtrec::kernel::helper::Launcher;
use nix::sys::signal::{SigHandler, Signal, kill};
use nix::unistd::Pid;

/// Lets a program start with the signals that a shell at a terminal gives it. A test may have been started by `nohup`, or in the background
/// of a script, which ignore some signals, and all its children would ignore them too.
pub fn with_usual_signals(command: &mut Command) -> &mut Command {
    let signals =
        [Signal::SIGHUP, Signal::SIGINT, Signal::SIGQUIT, Signal::SIGTERM, Signal::SIGUSR2];
    // SAFETY: between fork and exec only sigaction(2) is called, which may be; nothing is allocated, and no handler is
    // installed that could run.
    unsafe {
        command.pre_exec(move || {
            for signal in signals {
                nix::sys::signal::signal(signal, SigHandler::SigDfl)?;
            }
            Ok(())
        })
    }
}

/// Sends a program SIGTERM when the thread that started it ends, for a thread that waits for it: killing the test program ends it, too.
/// fxtrec passes that signal on to its COMMAND.
pub fn end_with_thread(command: &mut Command) -> &mut Command {
    // SAFETY: between fork and exec only prctl(2) is called, which may be; nothing is allocated.
    unsafe { command.pre_exec(|| Ok(nix::sys::prctl::set_pdeathsig(Signal::SIGTERM)?)) }
}

/// Starts a process that gets SIGTERM when the test program ends, however it ends: one that is killed has no `drop`. The command is
/// executed.
///
/// # Panics
/// When it cannot be run.
pub fn spawn(command: &mut Command) -> Child {
    // A thread that lives as long as the test program starts them: the kernel sends the signal when the starting thread ends, and a test's
    // thread may end before a process that another test still needs.
    static LAUNCHER: LazyLock<Launcher> = LazyLock::new(|| Launcher::new().expect("a thread"));
    let called = format!("{command:?}");
    let taken = std::mem::replace(command, Command::new("taken"));
    LAUNCHER.spawn(taken).unwrap_or_else(|error| panic!("{called}: {error}"))
}

/// A process. Killed when dropped.
#[derive(Debug)]
pub struct Process {
    child: Child,
    /// Kept open, since SIGPIPE would end a program whose output has no reader.
    output: Option<BufReader<ChildStdout>>,
    errors: Option<BufReader<ChildStderr>>,
}

impl Process {
    /// Starts it, with a pipe to its standard input.
    ///
    /// # Panics
    /// When it cannot be run.
    pub fn start(command: &mut Command) -> Process {
        Process::start_as_it_is(command.stdin(Stdio::piped()))
    }

    /// Starts it, with the standard input of the command.
    ///
    /// # Panics
    /// When it cannot be run.
    pub fn start_as_it_is(command: &mut Command) -> Process {
        let mut child = spawn(command);
        let output = child.stdout.take().map(BufReader::new);
        let errors = child.stderr.take().map(BufReader::new);
        Process { child, output, errors }
    }

    /// Starts a program whose first line of output is `ready`, and waits for that line.
    ///
    /// # Panics
    /// When it cannot be run, or prints something else.
    pub fn start_ready(command: &mut Command) -> Process {
        let mut process = Process::start(command.stdout(Stdio::piped()));
        let mut line = String::new();
        process.stdout().read_line(&mut line).expect("it prints text");
        assert_eq!(line, "ready\n", "{command:?}");
        process
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Its standard output, which must be a pipe.
    ///
    /// # Panics
    /// When it is none.
    pub fn stdout(&mut self) -> &mut BufReader<ChildStdout> {
        self.output.as_mut().expect("it is piped")
    }

    /// Its standard error, which must be a pipe.
    ///
    /// # Panics
    /// When it is not a process.
    pub fn stderr(&mut self) -> &mut BufReader<ChildStderr> {
        self.errors.as_mut().expect("it is piped")
    }

    /// Waits until it has mapped a file whose path contains this text.
    ///
    /// # Panics
    /// When it ends earlier.
    pub fn wait_for_map(&self, part: &str) {
        let maps = format!("/proc/{}/maps", self.id());
        while !std::fs::read_to_string(&maps).expect("it runs").contains(part) {
            std::thread::yield_now();
        }
    }

    /// Writes a line to its standard input.
    ///
    /// # Panics
    /// When it no longer reads.
    pub fn tell(&mut self, line: &str) {
        let input = self.child.stdin.as_mut().expect("open until its end");
        writeln!(input, "{line}").expect("it reads");
    }

    /// Sends it a signal.
    ///
    /// # Panics
    /// When it has ended.
    pub fn signal(&self, signal: Signal) {
        let pid = i32::try_from(self.id()).expect("a process id");
        kill(Pid::from_raw(pid), signal).expect("it runs");
    }

    /// Whether it has ended by itself.
    pub fn is_over(&mut self) -> bool {
        self.child.try_wait().expect("it is ours").is_some()
    }

    pub fn end_input(&mut self) {
        drop(self.child.stdin.take());
    }

    /// Closes its standard input and waits until it ends.
    pub fn finish(&mut self) -> ExitStatus {
        self.end_input();
        self.child.wait().expect("it is ours")
    }

    /// Kills it, and waits until it has ended.
    ///
    /// # Panics
    /// When it had already ended.
    pub fn kill(&mut self) {
        self.signal(Signal::SIGKILL);
        self.finish();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Both fail only if the process has ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;

    use super::*;

    #[test]
    fn a_process_ends_with_the_thread_that_was_to_wait_for_it() {
        let start = || end_with_thread(Command::new("sleep").arg("1000")).spawn().expect("sleep");
        let mut child = std::thread::spawn(start).join().expect("no panic");
        let ended = child.wait().expect("it is ours");
        assert_eq!(ended.signal(), Some(Signal::SIGTERM as i32));
    }

    #[test]
    fn a_process_that_is_to_go_on_outlives_the_thread_that_asked_for_it() {
        let start = || Process::start(Command::new("cat").stdout(Stdio::null()));
        let mut process = std::thread::spawn(start).join().expect("no panic");
        process.tell("still here");
        assert!(!process.is_over());
        assert!(process.finish().success());
    }
}
