//! `fxtrec daemon`: sessions through the control socket, on the running kernel.

mod archive;
mod kernel;
mod lives;
mod options;
mod outputs;
mod protocol;
mod python;
mod rights;
mod stuck;

use std::fs::File;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use fxt_writer::provider::wire::{FromManager, FromProvider, Start};
use fxtrec::control::client::{Client, ClientError};
use fxtrec::control::wire::{
    BufferingMode, ControllerError, SessionState, StartOptions, StopOptions, TraceConfig,
};
use fxtrec::control::{control_socket, providers_socket};
use fxtrec::kernel::seqpacket::{Address, Received, Seqpacket};
use fxtrec_tests::process::Process;
use fxtrec_tests::{binary, wait};
use nix::sys::signal::Signal;
use tempfile::TempDir;

/// The application with trace points.
const APP: &str = env!("CARGO_BIN_EXE_spans");

/// The user and group without privileges.
const NOBODY: u32 = 65534;

/// A daemon with separate sockets. Killed when dropped.
struct Daemon {
    folder: TempDir,
    process: Process,
}

impl Daemon {
    fn start() -> Daemon {
        Daemon::with(&[])
    }

    fn with(options: &[&str]) -> Daemon {
        let folder = tempfile::tempdir().expect("a folder");
        // Other users can reach the sockets, as in /run.
        allow(folder.path(), 0o755);
        let process = run(folder.path(), options);
        let daemon = Daemon { folder, process };
        daemon.wait();
        daemon
    }

    fn wait(&self) {
        wait::until("the daemon's socket", || Client::connect(&self.control()).is_ok());
    }

    fn runtime_dir(&self) -> PathBuf {
        self.folder.path().join("run")
    }

    fn control(&self) -> PathBuf {
        control_socket(&self.runtime_dir())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn client(&self) -> Client {
        Client::connect(&self.control()).expect("it listens")
    }

    fn state(&self) -> SessionState {
        self.client().status().expect("it answers").state
    }

    fn wait_for(&self, state: SessionState) {
        wait::until(state.name(), || self.state() == state);
    }

    /// The application with trace points, which finds the daemon by its environment.
    fn app(&self, args: &[&str]) -> Process {
        let mut command = Command::new(APP);
        command.args(args).env("FXTREC_PROVIDER_SOCKET", providers_socket(&self.runtime_dir()));
        Process::start(command.stdout(Stdio::piped()))
    }

    fn wait_for_provider(&self, name: &str) {
        let known = |client: &mut Client| {
            let providers = client.providers().expect("it answers").providers;
            providers.iter().any(|provider| provider.name == name)
        };
        wait::until(name, || known(&mut self.client()));
    }

    /// A provider that has registered, and does nothing by itself.
    fn provider(&self, name: &str) -> ByHand {
        ByHand::register(&providers_socket(&self.runtime_dir()), name)
    }

    /// Ends it as systemd does.
    fn end(&mut self) {
        self.process.signal(Signal::SIGTERM);
        assert!(self.process.finish().success());
    }
}

fn run(folder: &Path, options: &[&str]) -> Process {
    let group = NOBODY.to_string();
    let mut command = binary::command();
    command
        .arg("daemon")
        .arg("--runtime-dir")
        .arg(folder.join("run"))
        .args(["--group", &group])
        .args(options)
        .stderr(Stdio::null());
    Process::start(&mut command)
}

/// The process that records the kernel.
fn recorder_of(daemon: &Daemon) -> i32 {
    let children = format!("/proc/{}/task", daemon.process.id());
    let of_thread = |entry: std::io::Result<std::fs::DirEntry>| {
        let list = entry.expect("a thread").path().join("children");
        std::fs::read_to_string(list).unwrap_or_default()
    };
    let tasks = std::fs::read_dir(children).expect("it runs");
    let children: String = tasks.map(of_thread).collect();
    // There may be another one that writes an output.
    let records = |pid: &&str| {
        let name = std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        name.trim() != "fxtrec-output"
    };
    let recorders: Vec<&str> = children.split_whitespace().filter(records).collect();
    let [recorder] = recorders[..] else { panic!("one recorder: {recorders:?}") };
    recorder.parse().expect("a process id")
}

fn allow(path: &Path, mode: u32) {
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).expect("it is ours");
}

/// A provider that sends only the requested messages.
struct ByHand(Seqpacket);

impl ByHand {
    fn register(socket: &Path, name: &str) -> ByHand {
        let connection = Seqpacket::connect(&Address::Path(socket.to_owned())).expect("it listens");
        let provider = ByHand(connection);
        let categories = vec![format!("of:{name}")];
        provider.say(&FromProvider::Register { name: name.to_owned(), categories });
        provider
    }

    fn say(&self, message: &FromProvider) {
        self.0.send(&message.encode().expect("it can be said"), &[]).expect("room");
    }

    /// The content of START, when it arrives. Before it there may be messages of an earlier session.
    fn start(&self) -> Start {
        let mut buffer = [0; 4096];
        let mut start = None;
        wait::until("START", || {
            if let Ok(Received::Message(bytes)) = self.0.receive_with(&mut buffer, &mut Vec::new())
                && let Ok(FromManager::Start { start: came, .. }) =
                    FromManager::decode(&buffer[..bytes])
            {
                start = Some(came);
            }
            start.is_some()
        });
        start.expect("it came")
    }

    fn alert(&self, name: &str) {
        self.say(&FromProvider::Alert(name.to_owned()));
    }
}

/// Applications only, without the kernel.
fn applications(mode: BufferingMode) -> TraceConfig {
    TraceConfig {
        categories: Some(vec!["*".to_owned()]),
        buffering_mode: Some(mode),
        ..TraceConfig::default()
    }
}

fn everything(mode: BufferingMode) -> TraceConfig {
    TraceConfig { buffering_mode: Some(mode), ..TraceConfig::default() }
}

fn create(path: &Path) -> OwnedFd {
    File::create(path).expect("a file").into()
}

const WRITE: StopOptions = StopOptions { write_results: Some(true) };

const KEEP: StopOptions = StopOptions { write_results: Some(false) };

fn now() -> StartOptions {
    StartOptions::default()
}

/// The service's own refusal.
fn refused<T: std::fmt::Debug>(result: Result<T, ClientError>) -> ControllerError {
    match result.expect_err("it is refused") {
        ClientError::Refused(error) => error,
        other => panic!("{other}"),
    }
}
