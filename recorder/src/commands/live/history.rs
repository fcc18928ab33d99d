//! The last seconds of events, which a separate recorder keeps in memory until they are requested.

use std::ffi::OsString;
use std::io::{self, BufRead, BufReader, Read};
use std::os::unix::net::UnixDatagram;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::commands::ctl::snapshot_of;
use crate::kernel::helper::Launcher;
use crate::kernel::notify::{MOST_BYTES, Notice, OwnNotify};

/// How long the recorder may take to write a snapshot.
const PATIENCE: Duration = Duration::from_secs(30);

/// The text before the path of each file in the recorder's message.
const WRITTEN: &str = " written to ";

/// How often to check whether the recorder has ended before that.
const LOOK: Duration = Duration::from_millis(100);

/// A child process `fxtrec record --mode circular`, which ends when this process ends for any reason.
#[derive(Debug)]
pub(in crate::commands) struct History {
    recorder: Child,
    /// The lines of its messages, if they are not shown.
    said: Option<Receiver<String>>,
    /// The socket on which it reports the files that it has written.
    notices: UnixDatagram,
    output: PathBuf,
    _launcher: Launcher,
}

/// The file name in a line of the recorder.
pub(in crate::commands) fn written(line: &str) -> Option<PathBuf> {
    line.split_once(WRITTEN).map(|(_, path)| path.into())
}

impl History {
    /// Starts a recorder of the whole machine with these additional options.
    pub(in crate::commands) fn start(output: &Path, options: &[String]) -> io::Result<History> {
        let mut command = command(output)?;
        command.args(["-a", "--progress", "never"]).args(options);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut history = History::spawn(command, output)?;
        let (send, said) = channel();
        let errors = history.recorder.stderr.take();
        let listen = move |errors: ChildStderr| {
            // Lines are never longer than this, whatever the path.
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
        history.said = Some(said);
        Ok(history)
    }

    /// Starts a recorder with these options, and with COMMAND unless that is empty. It inherits this process's standard streams.
    pub(in crate::commands) fn beside(
        output: &Path,
        options: &[OsString],
        run: &[OsString],
    ) -> io::Result<History> {
        let mut command = command(output)?;
        command.args(options);
        match run.is_empty() {
            // Ctrl-C is sent to this process, which then stops the recorder.
            true => drop(command.stdin(Stdio::null()).process_group(0)),
            false => drop(command.arg("--").args(run)),
        }
        History::spawn(command, output)
    }

    fn spawn(command: Command, output: &Path) -> io::Result<History> {
        let (notices, theirs) = OwnNotify::pair()?;
        notices.set_read_timeout(Some(LOOK))?;
        let launcher = Launcher::new()?;
        let recorder = launcher.spawn_notifying(command, Some(theirs))?;
        let output = output.to_owned();
        Ok(History { recorder, said: None, notices, output, _launcher: launcher })
    }

    /// Requests a snapshot, without waiting.
    pub(in crate::commands) fn ask(&self) -> io::Result<()> {
        snapshot_of(self.recorder.id()).map_err(io::Error::other)
    }

    /// The next line of the recorder, or `None` on timeout.
    ///
    /// # Errors
    /// Returns the exit status if the recorder has ended.
    pub(in crate::commands) fn next(&mut self, patience: Duration) -> io::Result<Option<String>> {
        let Some(said) = &self.said else { return Ok(None) };
        match said.recv_timeout(patience) {
            Ok(line) => Ok(Some(line)),
            Err(RecvTimeoutError::Timeout) => Ok(None),
            Err(RecvTimeoutError::Disconnected) => {
                let status = self.recorder.wait()?;
                Err(io::Error::other(status.to_string()))
            }
        }
    }

    /// Requests a snapshot; returns its file.
    pub(in crate::commands) fn dump(&mut self) -> io::Result<PathBuf> {
        self.check()?;
        self.notices.set_nonblocking(true)?;
        while self.notice().is_some() {}
        self.notices.set_nonblocking(false)?;
        self.ask()?;
        let until = Instant::now() + PATIENCE;
        while Instant::now() < until {
            match self.notice() {
                Some(Notice::Snapshot(path)) => return Ok(path),
                Some(Notice::NoSnapshot(why)) => return Err(io::Error::other(why)),
                _ => {}
            }
            if let Err(ended) = self.check() {
                // It may have written the file just before it ended.
                return match self.notice() {
                    Some(Notice::Snapshot(path)) => Ok(path),
                    _ => Err(ended),
                };
            }
        }
        Err(io::ErrorKind::TimedOut.into())
    }

    /// The next notice of the recorder.
    fn notice(&self) -> Option<Notice> {
        let mut message = [0; MOST_BYTES];
        let bytes = self.notices.recv(&mut message).ok()?;
        Notice::from_bytes(&message[..bytes])
    }

    /// # Errors
    /// Reports that the recorder has ended, with its last message.
    fn check(&mut self) -> io::Result<()> {
        let Some(status) = self.recorder.try_wait()? else { return Ok(()) };
        let last = self.said.iter().flat_map(Receiver::try_iter).last().unwrap_or_default();
        Err(io::Error::other(format!("the recorder has ended ({status}): {last}")))
    }

    /// The recorder's exit status, in the form that a shell uses.
    pub(in crate::commands) fn status(&mut self) -> Option<u8> {
        let status = self.recorder.try_wait().ok().flatten()?;
        let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal));
        Some(code.and_then(|code| u8::try_from(code).ok()).unwrap_or(u8::MAX))
    }

    /// The file that the recorder writes when it ends.
    pub(in crate::commands) fn output(&self) -> &Path {
        &self.output
    }

    /// Ends the recorder; returns the file that it has written.
    ///
    /// # Errors
    /// Its message, or its exit status.
    pub(in crate::commands) fn finish(mut self) -> io::Result<PathBuf> {
        self.end();
        let status = self.recorder.wait()?;
        if status.success() {
            return Ok(self.output.clone());
        }
        let last = self.said.iter().flat_map(Receiver::try_iter).last();
        Err(io::Error::other(last.unwrap_or_else(|| status.to_string())))
    }

    /// Asks the recorder to end.
    pub(in crate::commands) fn end(&mut self) {
        // After the process was reaped, its id may be reused.
        if matches!(self.recorder.try_wait(), Ok(None))
            && let Ok(pid) = i32::try_from(self.recorder.id())
        {
            // The process may just be ending.
            let _ = kill(Pid::from_raw(pid), Signal::SIGINT);
        }
    }
}

/// The recorder's command line, without the options for the data to record.
fn command(output: &Path) -> io::Result<Command> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["record", "--mode", "circular"]).arg("-o").arg(output);
    Ok(command)
}

impl Drop for History {
    fn drop(&mut self) {
        self.end();
        let _ = self.recorder.wait();
    }
}
