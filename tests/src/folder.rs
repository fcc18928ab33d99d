//! Runs fxtrec to its end in a separate directory.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use tempfile::TempDir;

use crate::binary;
use crate::process::end_with_thread;

/// A directory that fxtrec runs in. Gone when dropped.
#[derive(Debug)]
pub struct Folder(TempDir);

/// The result of a program: its status and its output.
#[derive(Debug)]
pub struct Done {
    pub code: i32,
    pub stdout: String,
    pub stderr: String,
}

impl Done {
    /// Fails the test with the whole output, unless the exit status is this one.
    ///
    /// # Panics
    /// When the exit status is a different one.
    #[track_caller]
    pub fn expect(self, code: i32) -> Done {
        assert_eq!(self.code, code, "{}{}", self.stdout, self.stderr);
        self
    }
}

impl Folder {
    /// An empty directory.
    ///
    /// # Panics
    /// When the directory for temporary files cannot be written to.
    pub fn new() -> Folder {
        Folder(tempfile::tempdir().expect("a folder for temporary files"))
    }

    pub fn path(&self, name: impl AsRef<Path>) -> PathBuf {
        self.0.path().join(name)
    }

    /// The path of a file in it, as a word of a command line.
    ///
    /// # Panics
    /// When the path of the directory for temporary files is not UTF-8.
    pub fn text(&self, name: &str) -> String {
        self.path(name).into_os_string().into_string().expect("a plain path")
    }

    /// The names in it.
    ///
    /// # Panics
    /// When it cannot be read.
    pub fn names(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.0.path()).expect("a folder");
        let name = |entry: std::io::Result<std::fs::DirEntry>| {
            entry.expect("an entry").file_name().to_string_lossy().into_owned()
        };
        entries.map(name).collect()
    }

    /// Makes a file in it.
    ///
    /// # Panics
    /// When it cannot be written.
    pub fn write(&self, name: &str, content: impl AsRef<[u8]>) {
        std::fs::write(self.path(name), content).unwrap_or_else(|error| panic!("{name}: {error}"));
    }

    /// A file in it, as text.
    ///
    /// # Panics
    /// When there is none.
    pub fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
    }

    #[track_caller]
    pub fn fxtrec<S: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = S>) -> Done {
        self.run(binary::command().args(args))
    }

    /// Runs a program in it, without the environment variables of a CI or sudo.
    ///
    /// # Panics
    /// When it cannot be run, or a signal ended it.
    #[track_caller]
    pub fn run(&self, command: &mut Command) -> Done {
        let without = ["SUDO_UID", "SUDO_GID", "SUDO_USER", "GITHUB_STEP_SUMMARY"];
        for name in without {
            if !command.get_envs().any(|(given, _)| given == name) {
                command.env_remove(name);
            }
        }
        let command = end_with_thread(command.current_dir(self.0.path()).stdin(Stdio::null()));
        let output = command.output();
        let output = output.unwrap_or_else(|error| panic!("{command:?}: {error}"));
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        Done {
            code: output.status.code().unwrap_or_else(|| panic!("{command:?}: {}", output.status)),
            stdout: text(output.stdout),
            stderr: text(output.stderr),
        }
    }

    /// Runs several programs in it at the same time.
    ///
    /// # Panics
    /// When one cannot be run, or a signal ended it.
    #[track_caller]
    pub fn run_at_once<const N: usize>(&self, commands: [Command; N]) -> [Done; N] {
        std::thread::scope(|scope| {
            let run = |mut command: Command| scope.spawn(move || self.run(&mut command));
            commands.map(run).map(|running| match running.join() {
                Ok(done) => done,
                Err(panic) => std::panic::resume_unwind(panic),
            })
        })
    }
}

impl Default for Folder {
    fn default() -> Folder {
        Folder::new()
    }
}
