//! Recording with a tracing instance of ftrace: the content of the trace, and the removal of the instance.

use std::collections::HashSet;
use std::path::PathBuf;
use std::process::Command;

use fxtrec_tests::binary::fxtrec;
use fxtrec_tests::folder::{Done, Folder};
use fxtrec_tests::machine::{self, Turn};
use fxtrec_tests::recording::{Ongoing, record_by, record_in};
use fxtrec_tests::root;
use fxtrec_tests::trace::Trace;
use nix::sys::signal::Signal;

/// One test at a time: each looks for leftover instances. `None` without root.
fn ready() -> Option<Turn> {
    if !root::or_skip("it makes tracing instances") {
        return None;
    }
    let turn = machine::alone();
    // Doctor mounts tracefs if it is not mounted.
    Folder::new().fxtrec(["doctor"]);
    Some(turn)
}

/// fxtrec's current instances.
fn instances() -> HashSet<PathBuf> {
    let folder = std::fs::read_dir("/sys/kernel/tracing/instances").expect("tracefs is mounted");
    let paths = folder.map(|entry| entry.expect("it can be listed").path());
    paths.filter(|path| path.to_string_lossy().contains("/fxtrec-")).collect()
}

/// Runs fxtrec with ftrace, which may fail.
fn try_record(folder: &Folder, output: &str, command: &str) -> Done {
    folder.fxtrec(["--source", "ftrace", "-o", output, "--", command])
}

/// A running recording of the machine.
fn record_on(folder: &Folder, name: &str, options: &[&str]) -> Ongoing {
    let options = [&["--source", "ftrace"], options].concat();
    Ongoing::start(&folder.path(name), &options).unwrap_or_else(|said| panic!("{said}"))
}

#[test]
fn every_switch_that_the_kernel_counted_for_a_thread_is_in_a_trace_by_ftrace() {
    let Some(_machine) = ready() else { return };
    let folder = Folder::new();
    let before = instances();
    let workload = [env!("CARGO_BIN_EXE_workload"), "threads", "2", "5000"];
    let recording = record_in(&folder, &["--source", "ftrace"], &workload);
    assert_eq!(instances(), before, "the instance went with fxtrec");

    let (trace, lines) = (&recording.trace, recording.lines());
    assert_eq!(lines.len(), 5, "{lines:?}");
    for line in lines {
        let words: Vec<u64> = line.iter().map(|word| word.parse().expect("a number")).collect();
        let [koid, begin, end, switches, _] = words[..] else { panic!("{line:?}") };
        let outs = trace.outs(koid).filter(|out| begin <= out.time && out.time <= end).count();
        assert_eq!(outs as u64, switches, "thread {koid}");
        let (_, process) = &trace.threads[&koid];
        assert_eq!(trace.processes[process], "workload", "thread {koid} belongs to the command");
    }
    // The command, and each of its threads.
    let stats = trace.stats();
    assert!(stats.number("forks") >= 6, "{stats:?}");
    assert!(stats.number("exits") >= 6, "{stats:?}");
    assert_eq!(trace.info().args["source"], "ftrace");
}

#[test]
fn nothing_remains_of_a_recording_that_failed() {
    let Some(_machine) = ready() else { return };
    let before = instances();
    let folder = Folder::new();
    assert_ne!(try_record(&folder, "no such folder/trace.fxt", "true").code, 0);
    assert_eq!(instances(), before, "the output could not be made");
    try_record(&folder, "trace.fxt", "/no/such/command").expect(127);
    assert_eq!(instances(), before, "the command could not be run");
}

#[test]
fn what_a_killed_recorder_leaves_behind_is_gone_after_the_next_start() {
    let Some(_machine) = ready() else { return };
    let before = instances();
    let folder = Folder::new();
    let killed = record_on(&folder, "killed.fxt", &[]);
    let made: Vec<PathBuf> = instances().difference(&before).cloned().collect();
    assert_eq!(made.len(), 1, "one recorder, one instance: {made:?}");
    killed.kill();
    assert!(made[0].exists(), "nobody could remove it");

    try_record(&folder, "next.fxt", "true").expect(0);
    assert!(!made[0].exists(), "the next start removes it");

    // Doctor also removes and reports them; an instance whose owner lives stays.
    let killed = record_on(&folder, "again.fxt", &[]);
    let living = record_on(&folder, "living.fxt", &[]);
    let made: HashSet<PathBuf> = instances().difference(&before).cloned().collect();
    assert_eq!(made.len(), 2);
    killed.kill();
    let said = folder.fxtrec(["doctor"]).stdout;
    let left: HashSet<PathBuf> = instances().difference(&before).cloned().collect();
    let gone = made.difference(&left).next().expect("the dead one's").file_name().expect("a name");
    assert!(said.contains(&format!("removed {}", gone.to_string_lossy())), "{said}");
    assert_eq!(left.len(), 1, "the living one's: {left:?}");
    living.stop();
    assert_eq!(instances(), before);
}

#[test]
fn what_a_full_ring_overwrote_is_counted_and_marked() {
    let Some(_machine) = ready() else { return };
    let folder = Folder::new();
    let recorder = record_on(&folder, "trace.fxt", &["--ring-size", "64K"]);
    // While it is stopped, far more happens than a ring of 64 KiB holds.
    recorder.signal(Signal::SIGSTOP);
    let load = Command::new(env!("CARGO_BIN_EXE_pingpong")).arg("20000").output();
    assert!(load.expect("it runs").status.success());
    recorder.signal(Signal::SIGCONT);
    // The recorder has caught up when it has seen a program that was started only after that.
    let late = Command::new(env!("CARGO_BIN_EXE_pingpong")).arg("100").output();
    assert!(late.expect("it runs").status.success());
    let (path, said) = recorder.stop();

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
    // 40 000 switches at least, of which the rings keep a few hundreds on each CPU.
    assert!(marks > 20_000, "{said}");
    assert!(said.contains("EVENTS, in"), "{said}");
}

#[test]
fn where_bpf_and_perf_are_refused_the_machine_is_recorded_by_ftrace_and_that_is_reported() {
    let Some(_machine) = ready() else { return };
    let folder = Folder::new();
    let mut setpriv = Command::new("setpriv");
    setpriv
        .args(["--bounding-set", "-perfmon,-sys_admin,-bpf", "--inh-caps", "-all"])
        .arg(fxtrec());
    let command = [env!("CARGO_BIN_EXE_pingpong"), "1000"];
    let recording = record_by(setpriv, &folder, &[], &command);
    let (trace, said) = (&recording.trace, &recording.said);
    assert!(said.contains("using --source ftrace, because bpf is refused"), "{said}");
    assert!(trace.stats().number("switches") >= 2000, "{said}");
    let named = |name: &str| trace.threads.values().any(|(thread, _)| thread == name);
    assert!(named("pingpong"), "the command has its own name");
}
