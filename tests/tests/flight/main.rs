//! Flight recording: what circular mode keeps and writes, and long recordings in several files.

mod refused;
mod rotate;
mod snapshot;
mod trigger;

use std::io::{BufRead, BufReader, Lines, Read, Write};
use std::path::Path;
use std::process::{Child, ChildStderr, ChildStdout, Stdio};

use fxtrec_tests::binary;

/// A recording that runs, and what it and its command say.
struct Recorder {
    child: Child,
    printed: Lines<BufReader<ChildStdout>>,
    said: Lines<BufReader<ChildStderr>>,
}

impl Recorder {
    /// Records a command.
    fn start(options: &[&str], output: &Path, command: &[&str]) -> Recorder {
        let mut child = binary::command()
            .args(options)
            .arg("-o")
            .arg(output)
            .arg("--")
            .args(command)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("fxtrec runs");
        let printed = BufReader::new(child.stdout.take().expect("piped")).lines();
        let said = BufReader::new(child.stderr.take().expect("piped")).lines();
        Recorder { child, printed, said }
    }

    fn id(&self) -> i32 {
        self.child.id() as i32
    }

    /// The next line that the command prints.
    fn printed(&mut self) -> String {
        self.printed.next().expect("a line of the command").expect("text")
    }

    fn wait_for(&mut self, line: &str) {
        assert_eq!(self.printed(), line);
    }

    /// The next line that fxtrec says.
    fn said(&mut self) -> String {
        self.said.next().expect("a line of fxtrec").expect("text")
    }

    /// Gives the command a line.
    fn say(&mut self, line: &str) {
        let input = self.child.stdin.as_mut().expect("piped");
        writeln!(input, "{line}").expect("the command reads");
    }

    /// Waits for the end: the status, and the rest of what was said.
    fn end(mut self) -> (i32, String) {
        drop(self.child.stdin.take());
        let rest: Vec<String> = self.said.by_ref().map(|line| line.expect("text")).collect();
        let code = self.child.wait().expect("it ends").code();
        (code.expect("no signal ended it"), rest.join("\n"))
    }
}

/// Runs a subcommand of fxtrec, which must succeed, and returns what it printed.
fn fxtrec_says(args: &[&str]) -> String {
    let mut child =
        binary::command().args(args).stdout(Stdio::piped()).spawn().expect("fxtrec runs");
    let mut printed = String::new();
    let mut output = child.stdout.take().expect("piped");
    output.read_to_string(&mut printed).expect("text");
    assert!(child.wait().expect("it ends").success(), "{args:?}: {printed}");
    printed
}
