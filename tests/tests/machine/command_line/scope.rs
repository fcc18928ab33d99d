//! The recorded threads, and the length of the recording.

use std::process::{Command, Stdio};

use fxtrec_tests::process::Process;
use fxtrec_tests::root::may_record;
use fxtrec_tests::wait;
use nix::sys::signal::Signal;

use crate::command_line::run::{Fxtrec, pingpong};
use crate::command_line::trace::{Trace, is_ended};

/// A process that existed before fxtrec.
fn start_before() -> Process {
    Process::start(Command::new(pingpong()).arg("forever").stdout(Stdio::null()))
}

#[test]
fn a_recording_of_a_process_ends_with_it() {
    if !may_record() {
        return;
    }
    let process = start_before();
    let file = format!("pid-{}.fxt", process.id());
    let running = Fxtrec::new(["-p", &process.id().to_string()]).start();
    wait::until("the first records", || {
        std::fs::metadata(running.path(&file)).is_ok_and(|file| file.len() > 100_000)
    });
    drop(process);
    let done = running.finish().expect(0);
    let trace = Trace::open(&done.path(&file)).expect_complete();
    assert!(trace.names.iter().any(|name| name == "pingpong"), "{:?}", trace.names);
}

#[test]
fn a_process_can_be_recorded_while_a_command_runs() {
    if !may_record() {
        return;
    }
    let process = start_before();
    let pid = process.id().to_string();
    let command = ["-p", &pid, "-o", "t.fxt", "--", "sh", "-c", "sleep 0.3; exit 3"];
    let done = Fxtrec::new(command).run().expect(3);
    let trace = Trace::open(&done.path("t.fxt")).expect_complete();
    assert!(trace.names.iter().any(|name| name == "pingpong"), "{:?}", trace.names);
    drop(process);
}

#[test]
fn a_process_that_is_not_there_is_named() {
    if !may_record() {
        return;
    }
    // Ids are assigned in ascending order, so the id of a process that has just ended stays unused for long.
    let mut gone = Command::new("true").spawn().unwrap();
    let pid = gone.id().to_string();
    gone.wait().unwrap();
    let done = Fxtrec::new(["-p", &pid]).run().expect(125);
    assert!(
        done.stderr.contains(&format!("cannot record process {pid}: it does not exist")),
        "{}",
        done.stderr
    );
    assert!(done.files().is_empty(), "{:?}", done.files());
    let here = std::process::id();
    let done = Fxtrec::new(["-p", &format!("{here},{pid}"), "-d", "100ms"]).run().expect(0);
    let said = format!("process {pid} does not exist; the others are recorded");
    assert!(done.stderr.contains(&said), "{}", done.stderr);
}

#[test]
fn a_full_buffer_ends_a_oneshot_recording_and_not_the_command() {
    if !may_record() {
        return;
    }
    let done = Fxtrec::new(["--mode", "oneshot", "--buffer-size", "256k", "-o", "t.fxt", "--"])
        .with(|command| command.arg(pingpong()).arg("20000"))
        .run()
        .expect(0);
    assert_eq!(done.stdout, b"ready\ndone\n");
    assert!(done.stderr.contains("buffer is full"), "{}", done.stderr);
    let trace = Trace::open(&done.path("t.fxt")).expect_complete();
    assert!(trace.summary.record_bytes < 300 * 1024, "{:?}", trace.summary);
    assert!(trace.switches < 40_000);
}

#[test]
fn after_its_time_is_over_fxtrec_still_passes_signals_on_and_waits() {
    if !may_record() {
        return;
    }
    let script = "trap 'sleep 0.2; exit 9' TERM; echo ready; while :; do sleep 0.02; done";
    let running = Fxtrec::new(["-d", "50ms", "-o", "t.fxt", "sh", "-c", script]).start();
    running.wait_for_output("ready");
    wait::until("the end of the trace", || is_ended(&running.path("t.fxt")));
    running.signal(Signal::SIGTERM);
    let done = running.finish().expect(9);
    Trace::open(&done.path("t.fxt")).expect_complete();
}
