//! Applications that record their own events, in one trace with the scheduler's.

mod agreement;
mod kills;
mod managers;
mod numbers;
mod options;
mod python;
mod script;
mod short;
mod together;

use std::io::{BufRead, BufReader, Lines};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};

use fxtrec_tests::binary::fxtrec;
use fxtrec_tests::process::spawn;

/// The application with trace points.
const APP: &str = env!("CARGO_BIN_EXE_spans");

/// A running recorder, and COMMAND's output.
struct Recording {
    recorder: Child,
    said: Lines<BufReader<ChildStdout>>,
}

impl Recording {
    /// Records the application with these arguments.
    fn of_app(options: &[&str], output: &Path, args: &[&str]) -> Recording {
        let mut recorder = spawn(
            Command::new(fxtrec())
                .args(options)
                .arg("-o")
                .arg(output)
                .arg("--")
                .arg(APP)
                .args(args)
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .stderr(Stdio::piped()),
        );
        let said = BufReader::new(recorder.stdout.take().expect("piped")).lines();
        Recording { recorder, said }
    }

    /// The next line of the application.
    fn line(&mut self) -> String {
        self.said.next().expect("another line").expect("text")
    }

    /// Waits for the end; returns the status, the remaining lines, and fxtrec's messages.
    fn end(self) -> (Option<i32>, Vec<String>, String) {
        let lines = self.said.map(|line| line.expect("text")).collect();
        let output = self.recorder.wait_with_output().expect("it ends");
        let said = String::from_utf8(output.stderr).expect("text");
        (output.status.code(), lines, said)
    }
}
