//! The last seconds, which a separate recorder keeps in memory until they are requested.

use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::commands::ctl::snapshot_of;
use crate::kernel::helper::Launcher;

/// How long the recorder may take to write them.
const PATIENCE: Duration = Duration::from_secs(30);

/// The text before the path of each file in the recorder's message.
const WRITTEN: &str = " written to ";

/// A child process `fxtrec record -a --mode circular`, which ends with this process, however it
/// ends.
#[derive(Debug)]
pub(in crate::commands) struct History {
    recorder: Child,
    said: Receiver<String>,
    _launcher: Launcher,
}

/// The written file in a line of the recorder.
pub(in crate::commands) fn written(line: &str) -> Option<PathBuf> {
    line.split_once(WRITTEN).map(|(_, path)| path.into())
}

impl History {
    /// Starts it with these additional options.
    pub(in crate::commands) fn start(output: &Path, options: &[String]) -> io::Result<History> {
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["record", "-a", "--mode", "circular"]).args(options);
        command.arg("-o").arg(output);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let launcher = Launcher::new()?;
        let mut recorder = launcher.spawn(command)?;
        let (send, said) = channel();
        let errors = recorder.stderr.take();
        let listen = move |errors: ChildStderr| {
            // No line is longer, whatever the path.
            let mut lines = BufReader::new(errors);
            loop {
                let mut line = String::new();
                match lines.by_ref().take(64 * 1024).read_line(&mut line) {
                    Ok(0) | Err(_) => return,
                    Ok(_) => drop(send.send(line.trim_end().to_owned())),
                }
            }
        };
        std::thread::Builder::new()
            .name("fxtrec-history".to_owned())
            .spawn(move || errors.map(listen))?;
        Ok(History { recorder, said, _launcher: launcher })
    }

    /// Requests that they be written, without waiting.
    pub(in crate::commands) fn ask(&self) -> io::Result<()> {
        snapshot_of(self.recorder.id()).map_err(io::Error::other)
    }

    /// The next line of the recorder, or `None` on timeout.
    ///
    /// # Errors
    /// The exit status if the recorder has ended.
    pub(in crate::commands) fn next(&mut self, patience: Duration) -> io::Result<Option<String>> {
        match self.said.recv_timeout(patience) {
            Ok(line) => Ok(Some(line)),
            Err(RecvTimeoutError::Timeout) => Ok(None),
            Err(RecvTimeoutError::Disconnected) => {
                let status = self.recorder.wait()?;
                Err(io::Error::other(status.to_string()))
            }
        }
    }

    /// Requests that they be written; returns the file.
    pub(in crate::commands) fn dump(&mut self) -> io::Result<PathBuf> {
        if let Some(status) = self.recorder.try_wait()? {
            let last = self.said.try_iter().last().unwrap_or_default();
            return Err(io::Error::other(format!("the recorder has ended ({status}): {last}")));
        }
        self.said.try_iter().for_each(drop);
        snapshot_of(self.recorder.id()).map_err(io::Error::other)?;
        loop {
            let line = self.said.recv_timeout(PATIENCE);
            let line = line.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))?;
            if let Some(path) = written(&line) {
                return Ok(path);
            }
            if line.contains("cannot write") {
                return Err(io::Error::other(line));
            }
        }
    }
}

impl Drop for History {
    fn drop(&mut self) {
        if let Ok(pid) = i32::try_from(self.recorder.id()) {
            // It has not been waited for, so its id cannot have been reused.
            let _ = kill(Pid::from_raw(pid), Signal::SIGINT);
        }
        let _ = self.recorder.wait();
    }
}
