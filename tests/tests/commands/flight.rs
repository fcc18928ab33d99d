//! Flight recording: the data that circular mode keeps and writes, and long recordings in several files.

mod counted;
mod providers;
mod refused;
mod rotate;
mod snapshot;
mod trigger;

use std::io::{BufRead, Read};
use std::path::Path;
use std::process::Stdio;

use fxtrec_tests::binary;
use fxtrec_tests::process::Process;

/// A running recording, with its output and its command's.
struct Recorder(Process);

/// The next line, without its line break.
fn next_line(from: &mut impl BufRead) -> String {
    from.lines().next().expect("one more line").expect("text")
}

impl Recorder {
    fn start(options: &[&str], output: &Path, command: &[&str]) -> Recorder {
        let mut fxtrec = binary::command();
        fxtrec.args(options).arg("-o").arg(output).arg("--").args(command);
        Recorder(Process::start(fxtrec.stdout(Stdio::piped()).stderr(Stdio::piped())))
    }

    /// The next line that the command prints.
    fn printed(&mut self) -> String {
        next_line(self.0.stdout())
    }

    fn wait_for(&mut self, line: &str) {
        assert_eq!(self.printed(), line);
    }

    /// The next line that fxtrec prints.
    fn said(&mut self) -> String {
        next_line(self.0.stderr())
    }

    /// Ends the recorder by SIGKILL, which ends the command as well.
    fn kill(mut self) {
        self.0.kill();
    }

    /// Sends the command a line.
    fn say(&mut self, line: &str) {
        self.0.tell(line);
    }

    /// Waits for the end: returns the status, and the rest of the output.
    fn end(mut self) -> (i32, String) {
        self.0.end_input();
        let rest: Vec<String> = self.0.stderr().lines().map(|line| line.expect("text")).collect();
        let code = self.0.finish().code();
        (code.expect("no signal ended it"), rest.join("\n"))
    }
}

/// Runs a subcommand of fxtrec, which must succeed, and returns its output.
fn fxtrec_says(args: &[&str]) -> String {
    let mut child =
        binary::command().args(args).stdout(Stdio::piped()).spawn().expect("fxtrec runs");
    let mut printed = String::new();
    let mut output = child.stdout.take().expect("piped");
    output.read_to_string(&mut printed).expect("text");
    assert!(child.wait().expect("it ends").success(), "{args:?}: {printed}");
    printed
}
