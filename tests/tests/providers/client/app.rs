//! The application under test.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use fxtrec_tests::process::spawn;

use super::manager::Manager;

/// A running application; killed when dropped.
#[derive(Debug)]
pub(crate) struct App {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

impl App {
    /// Starts a case with its numbers, with this manager.
    pub(crate) fn start(manager: &Manager, case: &str, numbers: &[u64]) -> Self {
        Self::start_program(env!("CARGO_BIN_EXE_provider-client"), manager, case, numbers)
    }

    /// Starts a case of another program.
    pub(crate) fn start_program(
        program: &str,
        manager: &Manager,
        case: &str,
        numbers: &[u64],
    ) -> Self {
        Self::start_at(program, manager.address(), case, numbers)
    }

    /// Starts a case of another program, which looks for its manager at this address.
    pub(crate) fn start_at(program: &str, address: &str, case: &str, numbers: &[u64]) -> Self {
        let mut child = spawn(
            Command::new(program)
                .arg(case)
                .args(numbers.iter().map(u64::to_string))
                .env("FXTREC_PROVIDER_SOCKET", address)
                .stdin(Stdio::piped())
                .stdout(Stdio::piped()),
        );
        let input = child.stdin.take();
        let output = BufReader::new(child.stdout.take().expect("a pipe"));
        Self { child, input, output }
    }

    pub(crate) fn id(&self) -> u64 {
        u64::from(self.child.id())
    }

    /// The next number that it prints; `None` at its end.
    pub(crate) fn number(&mut self) -> Option<u64> {
        let mut line = String::new();
        self.output.read_line(&mut line).expect("text");
        line.trim().parse().ok()
    }

    pub(crate) fn go_on(&mut self) {
        let input = self.input.as_mut().expect("its input is open");
        input.write_all(b"\n").expect("it listens");
    }

    /// Closes its input and waits until it ends.
    pub(crate) fn wait(mut self) -> ExitStatus {
        drop(self.input.take());
        self.child.wait().expect("a child")
    }

    /// Checks that it ends successfully.
    pub(crate) fn end_well(self) {
        let status = self.wait();
        assert!(status.success(), "{status}");
    }

    pub(crate) fn kill(&self) {
        let id = i32::try_from(self.child.id()).expect("a process id");
        kill(Pid::from_raw(id), Signal::SIGKILL).expect("it lives");
    }
}

impl Drop for App {
    fn drop(&mut self) {
        // In most cases, the process has ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
