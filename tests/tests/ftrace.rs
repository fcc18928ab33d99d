//! Recording by a tracing instance of ftrace: what is in the trace, and that the instance goes.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use fxtrec_tests::binary::fxtrec;
use fxtrec_tests::root;
use fxtrec_tests::trace::Trace;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

const WHY: &str = "it makes tracing instances";

/// One test at a time: each looks for instances that are left.
static MACHINE: Mutex<()> = Mutex::new(());

/// fxtrec's instances that there are now.
fn instances() -> HashSet<PathBuf> {
    let folder = std::fs::read_dir("/sys/kernel/tracing/instances").expect("tracefs is mounted");
    let paths = folder.map(|entry| entry.expect("it can be listed").path());
    paths.filter(|path| path.to_string_lossy().contains("/fxtrec-")).collect()
}

/// Mounts tracefs where it is not, by asking doctor.
fn mount_tracefs() {
    Command::new(fxtrec()).arg("doctor").output().expect("fxtrec runs");
}

fn record(output: &Path, options: &[&str], command: &[&str]) -> Output {
    Command::new(fxtrec())
        .args(["--source", "ftrace", "-o"])
        .arg(output)
        .args(options)
        .arg("--")
        .args(command)
        .stdin(Stdio::null())
        .output()
        .expect("fxtrec runs")
}

fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < Duration::from_secs(30), "{what} did not come to be");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// A recording of the machine that goes on until it is ended.
fn record_on(output: &Path, options: &[&str]) -> Child {
    let child = Command::new(fxtrec())
        .args(["--source", "ftrace", "-a", "-o"])
        .arg(output)
        .args(options)
        .stderr(Stdio::piped())
        .spawn()
        .expect("fxtrec runs");
    wait_until("the trace", || output.metadata().is_ok_and(|file| file.len() > 0));
    child
}

fn signal(child: &Child, signal: Signal) {
    let pid = i32::try_from(child.id()).expect("a process id");
    kill(Pid::from_raw(pid), signal).expect("it runs");
}

#[test]
fn every_switch_that_the_kernel_counted_for_a_thread_is_in_a_trace_by_ftrace() {
    if !root::or_skip(WHY) {
        return;
    }
    let _machine = MACHINE.lock().unwrap_or_else(PoisonError::into_inner);
    mount_tracefs();
    let folder = tempfile::tempdir().expect("a folder for temporary files");
    let path = folder.path().join("trace.fxt");
    let before = instances();
    let output = record(&path, &[], &[env!("CARGO_BIN_EXE_workload"), "threads", "2", "5000"]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    assert_eq!(instances(), before, "the instance went with fxtrec");

    let trace = Trace::read(&path);
    trace.assert_sound();
    let stats = trace.stats();
    assert_eq!((stats.number("lost"), stats.number("undecoded")), (0, 0), "{said}");
    let lines = String::from_utf8(output.stdout).expect("the workload prints text");
    assert_eq!(lines.lines().count(), 5, "{lines}");
    for line in lines.lines() {
        let words: Vec<u64> = line.split(' ').map(|word| word.parse().expect("a number")).collect();
        let [koid, begin, end, switches, _] = words[..] else { panic!("{line}") };
        let outs = trace.outs(koid).filter(|out| begin <= out.time && out.time <= end).count();
        assert_eq!(outs as u64, switches, "thread {koid}");
        let (_, process) = &trace.threads[&koid];
        assert_eq!(trace.processes[process], "workload", "thread {koid} belongs to the command");
    }
    // The command, and each of its threads.
    assert!(stats.number("forks") >= 6, "{stats:?}");
    assert!(stats.number("exits") >= 6, "{stats:?}");
    let info = trace.own.iter().find(|event| event.name == "trace_info").expect("a head");
    assert_eq!(info.args["source"], "ftrace");
}

#[test]
fn nothing_remains_of_a_recording_that_failed() {
    if !root::or_skip(WHY) {
        return;
    }
    let _machine = MACHINE.lock().unwrap_or_else(PoisonError::into_inner);
    mount_tracefs();
    let before = instances();
    let folder = tempfile::tempdir().expect("a folder for temporary files");
    let nowhere = folder.path().join("no such folder/trace.fxt");
    let output = record(&nowhere, &[], &["true"]);
    assert!(!output.status.success());
    assert_eq!(instances(), before, "the output could not be made");
    let output = record(&folder.path().join("trace.fxt"), &[], &["/no/such/command"]);
    assert_eq!(output.status.code(), Some(127));
    assert_eq!(instances(), before, "the command could not be run");
}

#[test]
fn what_a_killed_recorder_leaves_behind_is_gone_after_the_next_start() {
    if !root::or_skip(WHY) {
        return;
    }
    let _machine = MACHINE.lock().unwrap_or_else(PoisonError::into_inner);
    mount_tracefs();
    let before = instances();
    let folder = tempfile::tempdir().expect("a folder for temporary files");
    let mut killed = record_on(&folder.path().join("killed.fxt"), &[]);
    let made: Vec<PathBuf> = instances().difference(&before).cloned().collect();
    assert_eq!(made.len(), 1, "one recorder, one instance: {made:?}");
    signal(&killed, Signal::SIGKILL);
    killed.wait().expect("it was ours");
    assert!(made[0].exists(), "nobody could remove it");

    let output = record(&folder.path().join("next.fxt"), &["-q"], &["true"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(!made[0].exists(), "the next start removes it");

    // Doctor removes them as well, and says so; an instance whose owner lives stays.
    let mut killed = record_on(&folder.path().join("again.fxt"), &[]);
    let mut living = record_on(&folder.path().join("living.fxt"), &[]);
    let made: HashSet<PathBuf> = instances().difference(&before).cloned().collect();
    assert_eq!(made.len(), 2);
    signal(&killed, Signal::SIGKILL);
    killed.wait().expect("it was ours");
    let output = Command::new(fxtrec()).arg("doctor").output().expect("fxtrec runs");
    let said = String::from_utf8_lossy(&output.stdout);
    let left: HashSet<PathBuf> = instances().difference(&before).cloned().collect();
    let gone = made.difference(&left).next().expect("the dead one's").file_name().expect("a name");
    assert!(said.contains(&format!("removed {}", gone.to_string_lossy())), "{said}");
    assert_eq!(left.len(), 1, "the living one's: {left:?}");
    signal(&living, Signal::SIGINT);
    assert!(living.wait().expect("it was ours").success());
    assert_eq!(instances(), before);
}

#[test]
fn what_a_full_ring_overwrote_is_counted_and_marked() {
    if !root::or_skip(WHY) {
        return;
    }
    let _machine = MACHINE.lock().unwrap_or_else(PoisonError::into_inner);
    mount_tracefs();
    let folder = tempfile::tempdir().expect("a folder for temporary files");
    let path = folder.path().join("trace.fxt");
    let recorder = record_on(&path, &["--ring-size", "64K"]);
    // While it stands still, far more happens than a ring of 64 KiB holds.
    signal(&recorder, Signal::SIGSTOP);
    let load = Command::new(env!("CARGO_BIN_EXE_pingpong")).arg("20000").output();
    assert!(load.expect("it runs").status.success());
    signal(&recorder, Signal::SIGCONT);
    // It has caught up when it has seen a program that began only now.
    let late = Command::new(env!("CARGO_BIN_EXE_pingpong")).arg("100").output();
    assert!(late.expect("it runs").status.success());
    signal(&recorder, Signal::SIGINT);
    let output = recorder.wait_with_output().expect("it was ours");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");

    let trace = Trace::read(&path);
    trace.assert_sound();
    let stats = trace.stats();
    let marks: u64 = trace
        .own
        .iter()
        .filter(|event| event.name == "lost")
        .map(|event| event.number("count"))
        .sum();
    assert_eq!(stats.number("lost"), marks, "each loss has its mark: {said}");
    // 40 000 switches at least, of which the rings keep some hundreds on each CPU.
    assert!(marks > 20_000, "{said}");
    assert!(said.contains("EVENTS, in"), "{said}");
}

#[test]
fn where_perf_is_refused_the_machine_is_recorded_by_ftrace_and_that_is_said() {
    if !root::or_skip(WHY) {
        return;
    }
    let _machine = MACHINE.lock().unwrap_or_else(PoisonError::into_inner);
    mount_tracefs();
    let folder = tempfile::tempdir().expect("a folder for temporary files");
    let path = folder.path().join("trace.fxt");
    let output = Command::new("setpriv")
        .args(["--bounding-set", "-perfmon,-sys_admin,-bpf", "--inh-caps", "-all"])
        .arg(fxtrec())
        .arg("-o")
        .arg(&path)
        .args(["--", env!("CARGO_BIN_EXE_pingpong"), "1000"])
        .output()
        .expect("setpriv is installed (util-linux)");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    assert!(said.contains("recording by ftrace, since perf is refused"), "{said}");
    let trace = Trace::read(&path);
    trace.assert_sound();
    assert!(trace.stats().number("switches") >= 2000, "{said}");
    let named = |name: &str| trace.threads.values().any(|(thread, _)| thread == name);
    assert!(named("pingpong"), "the command has its own name");
}
