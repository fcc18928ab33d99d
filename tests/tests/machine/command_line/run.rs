//! Runs fxtrec, waits for conditions, and leaves nothing behind.

use std::ffi::OsStr;
use std::io::{Read, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};

use fxtrec_tests::binary;
use fxtrec_tests::machine;
use fxtrec_tests::process::spawn;
use fxtrec_tests::wait;
use nix::sys::signal::{Signal, kill, killpg};
use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid};
use nix::unistd::Pid;
use tempfile::TempDir;

/// A separate directory for each test, in which fxtrec runs, and the command line.
pub(crate) struct Fxtrec {
    command: Command,
    dir: TempDir,
    own_session: bool,
}

impl Fxtrec {
    pub(crate) fn new<S: AsRef<OsStr>>(args: impl IntoIterator<Item = S>) -> Fxtrec {
        let dir = TempDir::new().unwrap();
        let mut command = binary::command();
        command.args(args).current_dir(dir.path());
        command.env_remove("SUDO_UID").env_remove("SUDO_GID").env_remove("SUDO_USER");
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        Fxtrec { command, dir, own_session: false }
    }

    /// fxtrec that writes to t.fxt and runs a shell script.
    pub(crate) fn script(script: &str) -> Fxtrec {
        Fxtrec::new(["-o", "t.fxt", "--", "/bin/sh", "-c", script])
    }

    /// A path in the directory fxtrec runs in.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Changes how fxtrec is started.
    pub(crate) fn with(mut self, change: impl FnOnce(&mut Command) -> &mut Command) -> Fxtrec {
        change(&mut self.command);
        self
    }

    /// Starts fxtrec in a separate session, with the terminal that is its standard input.
    pub(crate) fn in_own_session(mut self) -> Fxtrec {
        self.own_session = true;
        // SAFETY: between fork and exec, only two system calls are made.
        unsafe {
            self.command.pre_exec(|| {
                nix::unistd::setsid()?;
                if libc::ioctl(0, libc::TIOCSCTTY, 0) < 0 {
                    return Err(std::io::Error::last_os_error());
                }
                Ok(())
            });
        }
        self
    }

    pub(crate) fn start(mut self) -> Running {
        machine::share();
        if !self.own_session {
            // This way, everything that was started can be ended, and a signal sent to all of it.
            self.command.process_group(0);
        }
        let mut child = spawn(&mut self.command);
        let stdout = child.stdout.take().map(Captured::start);
        let stderr = child.stderr.take().map(Captured::start);
        Running { child, stdout, stderr, dir: self.dir, over: false }
    }

    /// Runs it to its end.
    pub(crate) fn run(self) -> Finished {
        self.start().finish()
    }
}

/// The output of a pipe so far.
struct Captured {
    bytes: Arc<Mutex<Vec<u8>>>,
    reader: JoinHandle<()>,
}

impl Captured {
    fn start(mut pipe: impl Read + Send + 'static) -> Captured {
        let bytes = Arc::<Mutex<Vec<u8>>>::default();
        let reader = thread::spawn({
            let bytes = Arc::clone(&bytes);
            move || {
                let mut piece = [0; 65_536];
                while let Ok(count @ 1..) = pipe.read(&mut piece) {
                    bytes.lock().unwrap().extend_from_slice(&piece[..count]);
                }
            }
        });
        Captured { bytes, reader }
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.bytes.lock().unwrap()).into_owned()
    }

    fn finish(self) -> Vec<u8> {
        self.reader.join().unwrap();
        std::mem::take(&mut *self.bytes.lock().unwrap())
    }
}

/// fxtrec while it runs. On drop, it and everything that it started are ended.
pub(crate) struct Running {
    child: Child,
    stdout: Option<Captured>,
    stderr: Option<Captured>,
    dir: TempDir,
    over: bool,
}

impl Running {
    /// A path in the directory fxtrec runs in.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// The process id of fxtrec, and the id of its process group.
    pub(crate) fn pid(&self) -> Pid {
        Pid::from_raw(self.child.id().try_into().unwrap())
    }

    /// Waits until standard output contains a string, which COMMAND prints.
    pub(crate) fn wait_for_output(&self, text: &str) {
        wait::until(&format!("{text:?} on standard output"), || {
            if self.is_over() {
                let stderr = self.stderr.as_ref().map(Captured::text);
                assert!(self.printed(text), "fxtrec ended: {stderr:?}");
            }
            self.printed(text)
        });
    }

    fn printed(&self, text: &str) -> bool {
        self.stdout.as_ref().is_some_and(|stdout| stdout.text().contains(text))
    }

    /// Sends a signal to fxtrec only.
    pub(crate) fn signal(&self, signal: Signal) {
        kill(self.pid(), signal).unwrap();
    }

    /// Sends a signal to fxtrec and everything it started.
    pub(crate) fn signal_all(&self, signal: Signal) {
        killpg(self.pid(), signal).unwrap();
    }

    /// Writes to standard input, which must be a pipe.
    pub(crate) fn write_input(&mut self, text: &str) {
        self.child.stdin.as_mut().unwrap().write_all(text.as_bytes()).unwrap();
    }

    pub(crate) fn is_over(&self) -> bool {
        let flags = WaitPidFlag::WEXITED | WaitPidFlag::WNOHANG | WaitPidFlag::WNOWAIT;
        !matches!(waitid(Id::Pid(self.pid()), flags), Ok(WaitStatus::StillAlive))
    }

    /// Waits for the end of fxtrec, and ends the processes that it left behind.
    pub(crate) fn finish(mut self) -> Finished {
        drop(self.child.stdin.take());
        wait::until("the end of fxtrec", || self.is_over());
        self.end();
        let status = self.child.wait().unwrap();
        let stderr = self.stderr.take().map(Captured::finish).unwrap_or_default();
        Finished {
            code: status.code().unwrap_or_else(|| 1000 + status.signal().unwrap_or_default()),
            stdout: self.stdout.take().map(Captured::finish).unwrap_or_default(),
            stderr: String::from_utf8_lossy(&stderr).into_owned(),
            dir: std::mem::replace(&mut self.dir, TempDir::new().unwrap()),
        }
    }

    /// Ends the whole group. fxtrec itself has not been reaped yet, so the id is still its own.
    fn end(&mut self) {
        self.over = true;
        let _ = killpg(self.pid(), Signal::SIGKILL);
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if !self.over {
            self.end();
            let _ = self.child.wait();
        }
    }
}

/// fxtrec after its end.
pub(crate) struct Finished {
    /// The exit status; 1000 and higher if a signal ended fxtrec itself.
    pub(crate) code: i32,
    /// Standard output of fxtrec and COMMAND.
    pub(crate) stdout: Vec<u8>,
    /// Standard error of fxtrec and COMMAND.
    pub(crate) stderr: String,
    dir: TempDir,
}

impl Finished {
    /// A path in the directory fxtrec ran in.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// The names of all files in that directory, sorted.
    pub(crate) fn files(&self) -> Vec<String> {
        let mut names: Vec<String> = std::fs::read_dir(self.dir.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    /// Fails the test with fxtrec's whole output unless it ended with this status.
    #[track_caller]
    pub(crate) fn expect(self, code: i32) -> Finished {
        assert_eq!(self.code, code, "{}", self.stderr);
        self
    }
}

/// The program that switches between two threads all the time (`tests/src/bin/pingpong.rs`).
pub(crate) fn pingpong() -> &'static Path {
    Path::new(env!("CARGO_BIN_EXE_pingpong"))
}
