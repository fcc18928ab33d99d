//! Ctrl-Z, `fg` and `bg`, as in a shell at a terminal: fxtrec and COMMAND stop and continue together.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use fxtrec_tests::machine;
use fxtrec_tests::process::spawn;
use fxtrec_tests::root::may_record;
use fxtrec_tests::{binary, tools, wait};
use nix::pty::{OpenptyResult, openpty};
use nix::sys::signal::{Signal, kill};
use nix::sys::termios::{FlowArg, LocalFlags, tcflow, tcgetattr};
use nix::unistd::Pid;
use tempfile::TempDir;

use crate::command_line::trace::Trace;

/// An interactive shell with job control on a separate terminal. It is ended with all of its jobs when dropped.
struct Shell {
    child: Child,
    terminal: File,
    /// Reads the output, so that no program waits for room.
    reader: Option<JoinHandle<()>>,
    folder: TempDir,
    jobs: Vec<Pid>,
}

impl Shell {
    fn start() -> Shell {
        let folder = TempDir::new().unwrap();
        let OpenptyResult { master, slave } = openpty(None, None).unwrap();
        let copy = || slave.try_clone().unwrap();
        let mut command = Command::new("bash");
        command.args(["--norc", "--noprofile", "--noediting", "-i"]).current_dir(folder.path());
        command.stdin(copy()).stdout(copy()).stderr(copy());
        // SAFETY: between fork and exec, only two system calls are made.
        unsafe {
            command.pre_exec(|| {
                nix::unistd::setsid()?;
                if libc::ioctl(0, libc::TIOCSCTTY, 0) < 0 {
                    return Err(std::io::Error::last_os_error());
                }
                Ok(())
            });
        }
        machine::share();
        let child = spawn(&mut command);
        drop((command, slave));
        let terminal = File::from(master);
        let mut output = terminal.try_clone().unwrap();
        let reader = std::thread::spawn(move || {
            let mut piece = [0; 4096];
            while let Ok(1..) = output.read(&mut piece) {}
        });
        Shell { child, terminal, reader: Some(reader), folder, jobs: Vec::new() }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn type_in(&mut self, text: &str) {
        self.terminal.write_all(text.as_bytes()).unwrap();
    }

    /// Records a script in the foreground. Returns the ids of fxtrec and of COMMAND.
    fn record(&mut self, script: &str) -> [Pid; 2] {
        fs::write(self.path("script"), format!("echo $PPID $$ >ids\n{script}\n")).unwrap();
        let line = format!("{} -o t.fxt -- sh script\n", binary::fxtrec().display());
        self.type_in(&line);
        let ids = self.path("ids");
        let read = || fs::read_to_string(&ids).unwrap_or_default();
        wait::until("COMMAND", || read().ends_with('\n'));
        let ids: Vec<Pid> =
            read().split_whitespace().map(|id| Pid::from_raw(id.parse().unwrap())).collect();
        self.jobs.extend(&ids);
        [ids[0], ids[1]]
    }
}

impl Drop for Shell {
    fn drop(&mut self) {
        for job in &self.jobs {
            let _ = kill(*job, Signal::SIGKILL);
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
        drop(self.reader.take());
    }
}

/// The state of a process: `T` for stopped; `None` if it has ended.
fn state(pid: Pid) -> Option<char> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(") ")?.1.chars().next()
}

fn wait_for_stop(ids: [Pid; 2]) {
    wait::until("fxtrec and COMMAND to stop", || ids.iter().all(|pid| state(*pid) == Some('T')));
}

fn wait_for_go(ids: [Pid; 2]) {
    let goes = |pid: &Pid| !matches!(state(*pid), Some('T') | None);
    wait::until("fxtrec and COMMAND to go on", || ids.iter().all(goes));
}

fn wait_for_file(path: &Path) {
    wait::until(&format!("{}", path.display()), || path.exists());
}

#[test]
fn fxtrec_and_command_are_stopped_and_continued_together() {
    if !may_record() || !tools::or_skip(&["bash"]) {
        return;
    }
    let mut shell = Shell::start();
    // A shell that has just created a process by vfork(2) stops only when that process has executed its program.
    let script = "trap 'exit 9' TERM; while :; do echo >tick; done";
    let ids = shell.record(script);
    let modes = tcgetattr(&shell.terminal).unwrap();
    for way in ["fg", "bg", "fg"] {
        shell.type_in("\x1a");
        wait_for_stop(ids);
        shell.type_in(&format!("{way}\n"));
        wait_for_go(ids);
        // COMMAND works again.
        let _ = fs::remove_file(shell.path("tick"));
        wait_for_file(&shell.path("tick"));
        if way == "bg" {
            shell.type_in("fg\n");
            let is_in_front =
                || nix::unistd::tcgetpgrp(&shell.terminal).is_ok_and(|group| group == ids[0]);
            wait::until("fxtrec in the foreground", is_in_front);
        }
    }
    let after = tcgetattr(&shell.terminal).unwrap();
    let flags = LocalFlags::ICANON | LocalFlags::ECHO | LocalFlags::ISIG;
    assert_eq!(after.local_flags & flags, modes.local_flags & flags);
    kill(ids[1], Signal::SIGTERM).unwrap();
    shell.type_in("echo $? >status\n");
    wait_for_file(&shell.path("status"));
    wait::until("the status", || fs::read_to_string(shell.path("status")).unwrap() == "9\n");
    Trace::open(&shell.path("t.fxt")).expect_complete();
}

#[test]
fn fxtrec_continues_when_command_does_not_stop() {
    if !may_record() || !tools::or_skip(&["bash"]) {
        return;
    }
    let mut shell = Shell::start();
    let script = "trap ': >seen' TSTP; trap 'exit 0' TERM; while :; do :; done";
    let ids = shell.record(script);
    shell.type_in("\x1a");
    wait_for_file(&shell.path("seen"));
    wait_for_go(ids);
    let before = fs::metadata(shell.path("t.fxt")).unwrap().len();
    wait::until("more records", || {
        fs::metadata(shell.path("t.fxt")).is_ok_and(|file| file.len() > before)
    });
    kill(ids[1], Signal::SIGTERM).unwrap();
    wait::until("the end", || matches!(state(ids[0]), None | Some('Z')));
    Trace::open(&shell.path("t.fxt")).expect_complete();
}

#[test]
fn a_recording_of_the_machine_is_stopped_and_continued() {
    if !may_record() || !tools::or_skip(&["bash"]) {
        return;
    }
    let mut shell = Shell::start();
    shell.type_in(&format!("{} -a -o t.fxt & echo $! >ids\n", binary::fxtrec().display()));
    let ids = shell.path("ids");
    let read = || fs::read_to_string(&ids).unwrap_or_default();
    wait::until("fxtrec", || read().ends_with('\n'));
    let pid = Pid::from_raw(read().trim().parse().unwrap());
    shell.jobs.push(pid);
    wait::until("records", || fs::metadata(shell.path("t.fxt")).is_ok_and(|file| file.len() > 0));
    shell.type_in("fg\n");
    wait::until("fxtrec in the foreground", || {
        nix::unistd::tcgetpgrp(&shell.terminal).is_ok_and(|group| group == pid)
    });
    shell.type_in("\x1a");
    wait::until("fxtrec to stop", || state(pid) == Some('T'));
    shell.type_in("bg\n");
    wait::until("fxtrec to go on", || !matches!(state(pid), Some('T') | None));
    kill(pid, Signal::SIGTERM).unwrap();
    wait::until("the end", || matches!(state(pid), None | Some('Z')));
    Trace::open(&shell.path("t.fxt")).expect_complete();
}

#[test]
fn a_command_of_another_user_cannot_type_into_the_shell_that_fxtrec_was_started_from() {
    if !may_record() || !tools::or_skip(&["bash", "python3"]) {
        return;
    }
    let mut shell = Shell::start();
    // 0x5412 is TIOCSTI. Otherwise it would succeed: this is its own terminal.
    let script = "import fcntl, sys\ntry:\n    for byte in b'touch typed\\n':\n        fcntl.ioctl(0, 0x5412, bytes([byte]))\n\
                  except OSError as error:\n    sys.exit(40 + error.errno)\n";
    fs::write(shell.path("type.py"), script).unwrap();
    let line = format!(
        "chmod 755 .; {} -q -o t.fxt -u nobody -- python3 type.py; echo $? >status\n",
        binary::fxtrec().display()
    );
    shell.type_in(&line);
    let status = shell.path("status");
    let read = || fs::read_to_string(&status).unwrap_or_default();
    wait::until("the end", || read().ends_with('\n'));
    assert_eq!(read(), format!("{}\n", 40 + libc::EPERM));
    assert!(!shell.path("typed").exists());
}

#[test]
fn a_signal_ends_the_wait_for_a_terminal_that_was_stopped_with_commands_status() {
    if !may_record() {
        return;
    }
    machine::share();
    let folder = TempDir::new().unwrap();
    let OpenptyResult { master: _master, slave } = openpty(None, None).unwrap();
    tcflow(&slave, FlowArg::TCOOFF).unwrap();
    let mut command = binary::command();
    command.current_dir(folder.path()).args([
        "-o",
        "t.fxt",
        "--",
        "sh",
        "-c",
        "echo >begun; exit 7",
    ]);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(slave);
    let mut fxtrec = spawn(&mut command);
    let tasks = format!("/proc/{}/task", fxtrec.id());
    let drains = || {
        let tasks = fs::read_dir(&tasks).unwrap().flatten();
        let mut names = tasks.filter_map(|it| fs::read_to_string(it.path().join("comm")).ok());
        names.any(|name| name.trim_end() == "fxtrec-drain")
    };
    wait::until("COMMAND runs", || folder.path().join("begun").exists());
    wait::until("the trace is complete", || !drains());
    let mut ended = None;
    // The first one may be read before fxtrec waits.
    for _ in 0..10 {
        kill(Pid::from_raw(fxtrec.id() as i32), Signal::SIGTERM).unwrap();
        let until = Instant::now() + Duration::from_secs(5);
        while ended.is_none() && Instant::now() < until {
            ended = fxtrec.try_wait().unwrap();
            std::thread::sleep(Duration::from_millis(20));
        }
        if ended.is_some() {
            break;
        }
    }
    if ended.is_none() {
        fxtrec.kill().unwrap();
    }
    assert_eq!(fxtrec.wait().unwrap().code(), Some(7), "it does not wait for ever");
    Trace::open(&folder.path().join("t.fxt")).expect_complete();
}
