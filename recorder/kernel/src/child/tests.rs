use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::SigSet;
use tempfile::TempDir;

use super::*;
use crate::signals::Signals;

/// The signal settings of this thread.
fn inherited() -> Inherited {
    Signals::catch().unwrap().inherited()
}

fn launch(program: impl Into<OsString>, args: &[&str]) -> Launch {
    Launch {
        program: program.into(),
        args: args.iter().map(OsString::from).collect(),
        environment: Vec::new(),
        user: None,
        stdout_to_stderr: false,
    }
}

fn shell(script: &str) -> Launch {
    launch("/bin/sh", &["-c", script])
}

fn run(launch: &Launch) -> Result<u8, LaunchError> {
    let mut child = Held::start(launch, &inherited())?.release()?;
    Ok(child.wait().unwrap().exit_code())
}

/// A file that can be executed immediately. Another process writes it, because children of other tests inherit this one's descriptors, and
/// a file that is open for writing is too busy to be executed (ETXTBSY).
fn file_with_mode(dir: &TempDir, name: &str, content: &str, mode: u32) -> PathBuf {
    let path = dir.path().join(name);
    let source = dir.path().join(format!("{name}.source"));
    fs::write(&source, content).unwrap();
    assert!(std::process::Command::new("cp").arg(&source).arg(&path).status().unwrap().success());
    fs::remove_file(source).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
    path
}

/// A set of signals, as a child finds it in its own /proc/self/status.
fn signals_of_child(field: &str, inherited: &Inherited) -> u64 {
    let dir = TempDir::new().unwrap();
    let out = dir.path().join("out");
    // This is not a shell, since some shells change their signals at start.
    let launch = launch("cp", &["/proc/self/status", out.to_str().unwrap()]);
    let mut child = Held::start(&launch, inherited).unwrap().release().unwrap();
    assert_eq!(child.wait().unwrap().exit_code(), 0);
    let status = fs::read_to_string(out).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(field)).unwrap();
    u64::from_str_radix(line.trim_start_matches(':').trim(), 16).unwrap()
}

/// Signal n is bit n-1 in /proc.
fn bit(signal: Signal) -> u64 {
    2_u64.pow(signal as u32 - 1)
}

#[test]
fn the_exit_status_is_the_commands_own() {
    assert_eq!(run(&shell("exit 0")).unwrap(), 0);
    assert_eq!(run(&shell("exit 3")).unwrap(), 3);
    assert_eq!(run(&shell("exit 255")).unwrap(), 255);
}

#[test]
fn a_signal_gives_128_and_its_number() {
    assert_eq!(run(&shell("kill -TERM $$")).unwrap(), 143);
    assert_eq!(run(&shell("kill -KILL $$")).unwrap(), 137);
}

#[test]
fn nothing_runs_before_release() {
    let dir = TempDir::new().unwrap();
    let proof = dir.path().join("ran");
    let held = Held::start(&launch("touch", &[proof.to_str().unwrap()]), &inherited()).unwrap();
    assert!(held.pid() > 0);
    let exe = fs::read_link(format!("/proc/{}/exe", held.pid())).unwrap();
    assert_eq!(exe, std::env::current_exe().unwrap(), "exec has not happened");
    let pid = held.pid();
    let mut child = held.release().unwrap();
    assert_eq!(child.pid(), pid);
    assert_eq!(child.wait().unwrap().exit_code(), 0);
    assert!(proof.exists());
}

#[test]
fn a_held_child_that_is_dropped_never_runs_and_leaves_no_process() {
    let dir = TempDir::new().unwrap();
    let proof = dir.path().join("ran");
    let held = Held::start(&launch("touch", &[proof.to_str().unwrap()]), &inherited()).unwrap();
    let pid = held.pid();
    drop(held);
    assert!(!proof.exists());
    assert!(!Path::new(&format!("/proc/{pid}")).exists());
}

#[test]
fn a_closed_gate_ends_a_held_child_without_a_run() {
    let dir = TempDir::new().unwrap();
    let proof = dir.path().join("ran");
    let mut held = Held::start(&launch("touch", &[proof.to_str().unwrap()]), &inherited()).unwrap();
    // The kernel's actions when fxtrec is killed.
    held.gate.shutdown(std::net::Shutdown::Both).unwrap();
    let ended = held.child.wait().unwrap();
    assert_eq!(ended.exit_code(), 125);
    assert!(!proof.exists());
}

#[test]
fn what_cannot_be_found_is_127_and_what_cannot_be_run_is_126() {
    let dir = TempDir::new().unwrap();
    let plain = file_with_mode(&dir, "plain", "#!/bin/sh\n", 0o644);
    let garbage = file_with_mode(&dir, "garbage", "no program\n", 0o755);
    let orphan = file_with_mode(&dir, "orphan", "#!/no/such/interpreter\n", 0o755);
    for (program, code, part) in [
        (Path::new("no-such-program-anywhere"), 127, "command not found"),
        (Path::new("/no/such/program"), 127, "command not found"),
        (Path::new(""), 127, "command not found"),
        (&plain.join("below"), 127, "command not found"),
        (&orphan, 127, "interpreter or loader"),
        (&plain, 126, "execute permission"),
        (dir.path(), 126, "Permission denied"),
        (&garbage, 126, "#! line"),
    ] {
        let error = run(&launch(program, &[])).expect_err("must fail");
        assert_eq!(error.exit_code(), code, "{program:?}: {error}");
        assert!(error.to_string().contains(part), "{program:?}: {error}");
    }
}

#[test]
fn an_argument_with_a_zero_byte_is_refused() {
    let error = run(&launch("true", &["a\0b"])).expect_err("must fail");
    assert_eq!(error.exit_code(), 125);
}

#[test]
fn the_child_gets_the_signal_mask_from_before_and_not_that_of_fxtrec() {
    SigSet::empty().thread_set_mask().unwrap();
    let inherited = inherited();
    assert!(SigSet::thread_get_mask().unwrap().contains(Signal::SIGTERM));
    assert_eq!(signals_of_child("SigBlk", &inherited), 0);
}

#[test]
fn a_signal_blocked_before_fxtrec_stays_blocked_for_the_child() {
    let mut set = SigSet::empty();
    set.add(Signal::SIGUSR1);
    set.thread_set_mask().unwrap();
    assert_eq!(signals_of_child("SigBlk", &inherited()), bit(Signal::SIGUSR1));
}

#[test]
fn sigpipe_is_ignored_for_the_child_only_if_it_was_for_fxtrec() {
    let mut inherited = inherited();
    for ignored in [false, true] {
        inherited.pipe_ignored = ignored;
        let set = signals_of_child("SigIgn", &inherited);
        assert_eq!(set & bit(Signal::SIGPIPE) != 0, ignored, "{set:x}");
    }
}

#[test]
fn the_child_gets_none_of_fxtrecs_descriptors() {
    let secret = TempDir::new().unwrap();
    let _open = File::create(secret.path().join("fxtrec's own file")).unwrap();
    let out = secret.path().join("out");
    let mut launch = shell("ls -l /proc/$$/fd >$1");
    launch.args.extend(["sh".into(), out.clone().into()]);
    assert_eq!(run(&launch).unwrap(), 0);
    let links = fs::read_to_string(out).unwrap();
    assert!(links.contains(" 0 -> "), "{links}");
    assert!(!links.contains("fxtrec's own file"), "{links}");
}

#[test]
fn the_commands_output_moves_to_stderr_when_the_trace_has_stdout() {
    let mut launch = shell("test $(readlink /proc/$$/fd/1) = $(readlink /proc/$$/fd/2)");
    launch.stdout_to_stderr = true;
    assert_eq!(run(&launch).unwrap(), 0);
}

#[test]
fn root_can_run_a_command_as_nobody_and_others_are_told_why_not() {
    let nobody = Account::by_name("nobody").unwrap();
    let script = format!(
        "test $(id -u) = {} && test $(id -g) = {} && test $USER = nobody && test $HOME = {}",
        nobody.uid,
        nobody.gid,
        nobody.home.display()
    );
    let mut launch = shell(&script);
    launch.user = Some(nobody);
    if nix::unistd::geteuid().is_root() {
        assert_eq!(run(&launch).unwrap(), 0);
    } else {
        let error = run(&launch).expect_err("only root can");
        assert_eq!(error.exit_code(), 125);
        assert!(error.to_string().contains("use sudo"), "{error}");
    }
}

#[test]
fn a_running_child_can_be_signalled_and_its_end_is_seen_by_poll() {
    let mut child =
        Held::start(&launch("sleep", &["1000"]), &inherited()).unwrap().release().unwrap();
    assert_eq!(child.try_wait().unwrap(), None);
    child.signal(Signal::SIGTERM).unwrap();
    if let Some(fd) = child.exit_fd() {
        let mut wanted = [PollFd::new(fd, PollFlags::POLLIN)];
        assert_eq!(poll(&mut wanted, PollTimeout::NONE).unwrap(), 1);
    }
    let ended = child.wait().unwrap();
    assert_eq!((ended.exit_code(), ended.signal()), (143, Some(15)));
    // The id is free again; no other process may get the signal.
    child.signal(Signal::SIGTERM).unwrap();
    assert_eq!(child.try_wait().unwrap(), Some(ended));
}

#[test]
fn a_child_killed_while_held_is_reported_by_its_wait_status() {
    let held = Held::start(&launch("true", &[]), &inherited()).unwrap();
    // This is not SIGINT, which a test that was started in the background ignores, as does its child.
    held.child.signal(Signal::SIGTERM).unwrap();
    let mut child = held.release().unwrap();
    let code = child.wait().unwrap().exit_code();
    assert_eq!(code, 143);
}

#[test]
fn a_child_stopped_while_held_is_returned_and_runs_when_it_is_continued() {
    let held = Held::start(&launch("true", &[]), &inherited()).unwrap();
    held.child.signal(Signal::SIGSTOP).unwrap();
    let mut child = held.release().unwrap();
    assert!(child.is_stopped());
    child.signal(Signal::SIGCONT).unwrap();
    assert_eq!(child.wait().unwrap().exit_code(), 0);
    assert!(!child.is_stopped());
}
