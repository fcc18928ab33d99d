//! A daemon for one test, and its clients.

use std::ffi::OsStr;
use std::fs::Permissions;
use std::io::BufRead;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::Path;
use std::process::{Command, Stdio};

use fxtrec_tests::binary::{self, PublicCopy};
use fxtrec_tests::folder::{Done, Folder};
use fxtrec_tests::process::Process;
use fxtrec_tests::wait;
use nix::sys::signal::Signal;
use nix::unistd::User;
use serde_json::Value;

/// A daemon whose sockets are in a separate directory, where clients run, too. Killed when dropped.
pub(super) struct Daemon {
    pub(super) folder: Folder,
    process: Process,
    nobody: User,
    copy: PublicCopy,
}

impl Daemon {
    /// Starts a daemon with only this policy, which the group of the user `nobody` may connect to.
    pub(super) fn start(policy: &str) -> Daemon {
        let folder = Folder::new();
        let nobody = User::from_name("nobody").expect("users").expect("there is nobody");
        chown(folder.path(""), None, Some(nobody.gid.as_raw())).expect("it is ours");
        std::fs::set_permissions(folder.path(""), Permissions::from_mode(0o770)).expect("ours");
        folder.write("policy.toml", policy);
        std::fs::set_permissions(folder.path("policy.toml"), Permissions::from_mode(0o644))
            .expect("it is ours");
        let mut process = Process::start(
            binary::command()
                .arg("daemon")
                .arg("--runtime-dir")
                .arg(folder.path("run"))
                .arg("--policy")
                .arg(folder.path("policy.toml"))
                .args(["--group", &nobody.gid.to_string()])
                .stderr(Stdio::piped()),
        );
        let mut said = String::new();
        for _ in 0..2 {
            process.stderr().read_line(&mut said).expect("text");
        }
        assert!(said.contains("applications at"), "{said}");
        Daemon { folder, process, nobody, copy: PublicCopy::new() }
    }

    #[track_caller]
    pub(super) fn ctl(&self, args: &[&str]) -> Done {
        self.folder.run(&mut self.ctl_command(args))
    }

    /// The JSON answer to a verb.
    #[track_caller]
    pub(super) fn ask(&self, args: &[&str]) -> Value {
        let done = self.ctl(&[&["--json"], args].concat()).expect(0);
        serde_json::from_str(&done.stdout).unwrap_or_else(|_| panic!("{args:?}: {}", done.stdout))
    }

    /// A ctl of root's that is not running yet.
    pub(super) fn ctl_command(&self, args: &[&str]) -> Command {
        let mut command = binary::command();
        command.arg("ctl").arg("--socket").arg(self.folder.path("run/control")).args(args);
        command.current_dir(self.folder.path(""));
        command
    }

    /// Runs ctl as the user `nobody`, in a directory where that user may create files.
    #[track_caller]
    pub(super) fn ctl_as_nobody(&self, args: &[&str]) -> Done {
        let mut command = self.as_nobody(&self.copy.path(), &self.nobody.gid.to_string());
        command.arg("ctl").arg("--socket").arg(self.folder.path("run/control")).args(args);
        self.folder.run(&mut command)
    }

    /// A program that runs as `nobody`, with only this group.
    pub(super) fn as_nobody(&self, program: &Path, group: &str) -> Command {
        let mut command = Command::new("setpriv");
        command.args(["--reuid", &self.nobody.uid.to_string(), "--regid", group, "--clear-groups"]);
        command.arg("--").arg(program);
        command
    }

    /// Lets `command` find the daemon as an application does, and starts it with pipes.
    pub(super) fn application(&self, mut command: Command) -> Process {
        command.env("FXTREC_PROVIDER_SOCKET", self.folder.path("run/providers"));
        Process::start(command.stdout(Stdio::piped()))
    }

    /// An application that records this many spans once it records, prints a number, and waits for a line.
    pub(super) fn spans(&self, spans: u32) -> Process {
        let mut command = Command::new(client());
        command.args(["spans", "1", &spans.to_string()]);
        self.application(command)
    }

    /// Waits until this many applications have registered.
    pub(super) fn wait_for_applications(&self, count: usize) {
        let registered = || self.ask(&["providers"])["providers"].as_array().map_or(0, Vec::len);
        wait::until("applications to register", || registered() == count);
    }

    #[track_caller]
    pub(super) fn state(&self) -> String {
        self.ask(&["status"])["state"].as_str().expect("a state").to_owned()
    }

    /// Ends it, which must succeed.
    pub(super) fn end(mut self) {
        self.process.signal(Signal::SIGTERM);
        assert!(self.process.finish().success(), "it ends in order");
        let left = !self.folder.path("run/control").exists();
        assert!(left, "its sockets are gone");
    }
}

/// An application with trace points.
pub(super) fn client() -> &'static OsStr {
    OsStr::new(env!("CARGO_BIN_EXE_provider-client"))
}
