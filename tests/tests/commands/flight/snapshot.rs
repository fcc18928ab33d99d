//! Circular mode: the last events, written at the end and on SIGUSR2.

use std::path::Path;

use fxtrec_tests::root;
use fxtrec_tests::trace::Trace;
use nix::sys::signal::Signal;

use crate::flight::Recorder;

const BUFFER_BYTES: u64 = 256 * 1024;

/// A trace that is complete in itself, and contains only the last part of the recording.
fn assert_last_part(path: &Path) -> Trace {
    let trace = Trace::read(path);
    trace.assert_sound();
    assert!(!trace.switches.is_empty());
    let stats = trace.stats();
    assert!((trace.switches.len() as u64) < stats.number("switches"), "some were overwritten");
    let scheduling = 48 * trace.switches.len() as u64 + 32 * trace.wakeups.len() as u64;
    assert!(scheduling <= BUFFER_BYTES + 8 * 1024, "{scheduling} bytes of scheduling records");
    let last = trace.switches.last().expect("there are some").time;
    assert!(last <= stats.time && stats.time - last < 1_000_000_000, "up to the end");
    trace
}

#[test]
fn circular_mode_keeps_the_last_events_and_writes_them_when_asked_and_at_the_end() {
    if !root::or_skip("it records the machine") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder for temporary files");
    let output = folder.path().join("flight.fxt");
    let size = BUFFER_BYTES.to_string();
    // A thousand short-lived processes before the request and after it, so that names come and go.
    let script =
        "run() { for i in $(seq 1000); do /bin/true; done; }; run; echo ready; read go; run; run";
    let options = ["--mode", "circular", "--buffer-size", &size];
    let mut recorder = Recorder::start(&options, &output, &["sh", "-c", script]);
    recorder.wait_for("ready");

    recorder.0.signal(Signal::SIGUSR2);
    let line = recorder.said();
    assert!(line.contains("snapshot of") && line.ends_with("flight.1.fxt"), "{line}");
    let first = assert_last_part(&folder.path().join("flight.1.fxt"));

    recorder.say("go");
    assert_eq!(recorder.end().0, 0);
    let second = assert_last_part(&output);
    let end_of_first = first.switches.last().expect("there are some").time;
    let end_of_second = second.switches.last().expect("there are some").time;
    assert!(end_of_second > end_of_first, "recording went on after the snapshot");
    let began = |trace: &Trace| trace.own[0].time;
    assert!(
        began(&first) > 0 && began(&second) >= began(&first),
        "each begins where its events do"
    );
}

#[test]
fn a_snapshot_is_for_circular_mode_and_recording_continues_without_it() {
    if !root::or_skip("it records the machine") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder for temporary files");
    let output = folder.path().join("stream.fxt");
    let mut recorder = Recorder::start(&[], &output, &["sh", "-c", "echo ready; read go; exit 3"]);
    recorder.wait_for("ready");
    recorder.0.signal(Signal::SIGUSR2);
    let line = recorder.said();
    assert!(line.contains("--mode circular"), "{line}");
    recorder.say("go");
    assert_eq!(recorder.end().0, 3);
    Trace::read(&output).assert_sound();
    assert!(!folder.path().join("stream.1.fxt").exists());
}
