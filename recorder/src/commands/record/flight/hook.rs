//! `--on-trigger`: runs a command for each snapshot that a trigger wrote.
//!
//! ```text
//!  snapshot thread      app.1.fxt     app.2.fxt  app.3.fxt     end
//!                           |             |          |          : PATIENCE from here on
//!  this thread              +- COMMAND ---+- COMMAND +- COMMAND :
//! ```
//!
//! One command runs at a time, and a few files may wait. A command that still runs at the end is not stopped.

use std::io;
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender, bounded};

use crate::cli::HookCommand;
use crate::kernel::user::{Account, Owner};

/// How long commands may take after the recording has ended.
const PATIENCE: Duration = Duration::from_secs(10);

/// How often to check whether a command has ended.
const LOOK: Duration = Duration::from_millis(50);

/// How many files may wait for their command.
const WAITING: usize = 16;

/// The reason why a command was not run, or how it failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub(in crate::commands::record) enum HookError {
    #[error("--on-trigger: cannot run {command} for {}: {source}", .path.display())]
    Start { command: HookCommand, path: PathBuf, source: io::Error },
    #[error("--on-trigger: {command} failed for {}: {status}", .path.display())]
    Failed { command: HookCommand, path: PathBuf, status: ExitStatus },
    #[error("--on-trigger: {command} still runs for {}", .path.display())]
    Running { command: HookCommand, path: PathBuf },
    #[error("--on-trigger: {command} was not run for {}: earlier ones took too long", .path.display())]
    Busy { command: HookCommand, path: PathBuf },
}

/// The thread that runs commands.
#[derive(Debug)]
pub(super) struct Hook {
    command: HookCommand,
    paths: Sender<PathBuf>,
    /// The deadline for waiting, once it is set.
    ends: Arc<OnceLock<Instant>>,
    thread: JoinHandle<()>,
}

/// The data of the thread.
struct Runner {
    command: HookCommand,
    paths: Receiver<PathBuf>,
    ends: Arc<OnceLock<Instant>>,
}

impl Hook {
    /// Starts the thread, which reports failures to `tell`.
    pub(super) fn spawn(
        command: HookCommand,
        tell: impl Fn(HookError) + Send + 'static,
    ) -> io::Result<Hook> {
        let ((paths, taken), ends) = (bounded(WAITING), Arc::new(OnceLock::new()));
        let runner = Runner { command: command.clone(), paths: taken, ends: ends.clone() };
        let thread = std::thread::Builder::new().name("fxtrec-on-trigger".to_owned());
        let thread = thread.spawn(move || runner.run(tell))?;
        Ok(Hook { command, paths, ends, thread })
    }

    /// Runs the command for this file, after the files that already wait.
    pub(super) fn run(&self, path: &Path) -> Result<(), HookError> {
        let busy = |_| HookError::Busy { command: self.command.clone(), path: path.to_owned() };
        self.paths.try_send(path.to_owned()).map_err(busy)
    }

    /// Waits for the commands, for a bounded time.
    pub(super) fn finish(self) {
        let _ = self.ends.set(Instant::now() + PATIENCE);
        drop(self.paths);
        // Its panic has already been printed.
        let _ = self.thread.join();
    }
}

impl Runner {
    fn run(self, tell: impl Fn(HookError)) {
        for path in &self.paths {
            if let Err(error) = self.run_for(path) {
                tell(error);
            }
        }
    }

    fn run_for(&self, path: PathBuf) -> Result<(), HookError> {
        let command = self.command.clone();
        if self.is_over() {
            return Err(HookError::Busy { command, path });
        }
        let started = start(&self.command, &path);
        let ended = started.and_then(|mut child| self.wait(&mut child));
        match ended {
            Ok(Some(status)) if status.success() => Ok(()),
            Ok(Some(status)) => Err(HookError::Failed { command, path, status }),
            Ok(None) => Err(HookError::Running { command, path }),
            Err(source) => Err(HookError::Start { command, path, source }),
        }
    }

    fn is_over(&self) -> bool {
        self.ends.get().is_some_and(|end| Instant::now() >= *end)
    }

    /// How the command ended; `None` if it still runs at the deadline.
    fn wait(&self, child: &mut Child) -> io::Result<Option<ExitStatus>> {
        loop {
            match child.try_wait()? {
                None if !self.is_over() => std::thread::sleep(LOOK),
                ended => return Ok(ended),
            }
        }
    }
}

/// Starts the command as the user who started fxtrec. It does not read COMMAND's input, prints to standard error, and gets no signals from
/// the terminal.
fn start(words: &HookCommand, path: &Path) -> io::Result<Child> {
    let mut command = Command::new(words.program());
    command.args(words.arguments()).arg(path).process_group(0).stdin(Stdio::null());
    command.stdout(Stdio::from(io::stderr().as_fd().try_clone_to_owned()?));
    if let Some(caller) = Owner::sudo_caller() {
        // It drops root's groups as well.
        command.gid(caller.gid).uid(caller.uid);
        if let Ok(account) = Account::sudo_caller() {
            command.envs(account.environment());
        }
    }
    command.spawn()
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    /// Runs the command for these files, and returns the failures.
    fn run(command: &str, paths: &[PathBuf]) -> Vec<String> {
        let (tell, reported) = mpsc::channel();
        let command: HookCommand = command.parse().expect("a command");
        let hook = Hook::spawn(command, move |error| tell.send(error).expect("heard"));
        let hook = hook.expect("a thread");
        paths.iter().for_each(|path| hook.run(path).expect("there is room"));
        hook.finish();
        reported.iter().map(|error| error.to_string()).collect()
    }

    #[test]
    fn the_command_gets_the_name_of_each_file_as_its_last_argument() {
        let folder = tempfile::tempdir().expect("a folder");
        let paths = ["a file", "$(touch no)"].map(|name| folder.path().join(name));
        assert_eq!(run("touch --", &paths), Vec::<String>::new());
        assert!(paths.iter().all(|path| path.exists()));
        let shell = "sh -c 'mv \"$1\" \"$1.moved\"' sh";
        assert_eq!(run(shell, &paths[..1]), Vec::<String>::new());
        assert!(folder.path().join("a file.moved").exists());
    }

    #[test]
    fn a_command_that_fails_or_does_not_exist_is_reported() {
        let path = [PathBuf::from("/x")];
        assert_eq!(
            run("sh -c 'exit 3'", &path),
            ["--on-trigger: sh -c 'exit 3' failed for /x: exit status: 3"]
        );
        let said = run("/no/such/program", &path);
        assert!(
            said[0].starts_with("--on-trigger: cannot run /no/such/program for /x: "),
            "{said:?}"
        );
    }

    #[test]
    fn after_the_end_nothing_is_waited_for_or_started() {
        let ends = Arc::new(OnceLock::from(Instant::now()));
        let command: HookCommand = "sleep 60".parse().expect("a command");
        let runner = Runner { command, paths: bounded(1).1, ends };
        let late = runner.run_for(PathBuf::from("/x"));
        assert!(matches!(late, Err(HookError::Busy { .. })), "{late:?}");
        let mut child = Command::new("sleep").arg("60").spawn().expect("there is one");
        assert_eq!(runner.wait(&mut child).expect("a child"), None);
        child.kill().and_then(|()| child.wait()).expect("it is ours");
    }
}
