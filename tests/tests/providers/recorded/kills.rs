//! The application, fxtrec, or both are killed.

use fxtrec_tests::archive::Archive;
use fxtrec_tests::folder::Folder;
use fxtrec_tests::root;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::Recording;

/// Lets the application record for a while; returns the last number that it reported as recorded.
fn let_it_run(recording: &mut Recording) -> u64 {
    (0..20).map(|_| recording.line().parse().expect("a number")).last().expect("some lines")
}

/// The children of a process.
fn children(of: u32) -> Vec<Pid> {
    let path = format!("/proc/{of}/task/{of}/children");
    let children = std::fs::read_to_string(path).expect("the kernel tells children");
    children.split_whitespace().map(|pid| Pid::from_raw(pid.parse().expect("a pid"))).collect()
}

#[test]
fn a_killed_application_leaves_all_that_it_had_recorded() {
    if !root::may_record() {
        return;
    }
    for mode in ["streaming", "oneshot"] {
        let folder = Folder::new();
        let output = folder.path("killed.fxt");
        let options = ["--mode", mode, "--provider-buffer", "32M"];
        let mut recording = Recording::of_app(&options, &output, &["forever"]);
        let said = let_it_run(&mut recording);
        let [app] = children(recording.recorder.id())[..] else { panic!("one application") };
        kill(app, Signal::SIGKILL).expect("it runs");
        let (code, lines, message) = recording.end();
        assert_eq!(code, Some(128 + 9), "{message}");
        let last = lines.last().map_or(said, |line| line.parse().expect("a number"));

        let provider = Archive::read(&output).only();
        let numbers = provider.numbers("step");
        let written = numbers.len() as u64;
        assert!(numbers.windows(2).all(|pair| pair[0] < pair[1]), "each once, in order");
        // Everything that it reported is in the trace, or was dropped and counted; only the last record is uncertain.
        assert!(written + provider.stats["dropped"] > last, "{mode}: {written} of {last}");
        if provider.stats["dropped"] == 0 {
            assert_eq!(numbers, (0..written).collect::<Vec<_>>(), "{mode}");
        }
        assert!(provider.stats["unfinished"] <= 1, "{:?}", provider.stats);
    }
}

#[test]
fn when_both_are_killed_at_once_what_was_saved_can_be_read() {
    if !root::may_record() {
        return;
    }
    let folder = Folder::new();
    let output = folder.path("both.fxt");
    let options = ["--provider-buffer", "256k"];
    let mut recording = Recording::of_app(&options, &output, &["forever"]);
    let_it_run(&mut recording);
    let [app] = children(recording.recorder.id())[..] else { panic!("one application") };
    // Both continue until several buffers are in the file.
    let size = || std::fs::metadata(&output).map_or(0, |file| file.len());
    let enough = size() + (1 << 20);
    while size() < enough {
        recording.line();
    }
    for pid in [Pid::from_raw(recording.recorder.id() as i32), app] {
        kill(pid, Signal::SIGKILL).expect("it runs");
    }
    recording.recorder.wait().expect("it was killed");

    let checked = folder.fxtrec(["dump", "--check", "both.fxt"]);
    assert_eq!(checked.code, 0, "{}{}", checked.stdout, checked.stderr);
    let numbers = Archive::read(&output).only().numbers("step");
    assert!(numbers.windows(2).all(|pair| pair[0] < pair[1]), "each once, in order");
    // Each takes 40 bytes; the rest of the file is the scheduler's.
    assert!(numbers.len() > 5000, "{} events of the application", numbers.len());
}

#[test]
fn an_application_continues_when_fxtrec_is_killed_and_the_trace_can_be_read() {
    if !root::may_record() {
        return;
    }
    let folder = Folder::new();
    let output = folder.path("orphan.fxt");
    let mut recording = Recording::of_app(&[], &output, &["forever"]);
    let said = let_it_run(&mut recording);
    let [app] = children(recording.recorder.id())[..] else { panic!("one application") };
    kill(Pid::from_raw(recording.recorder.id() as i32), Signal::SIGKILL).expect("it runs");
    recording.recorder.wait().expect("it was killed");
    // It still reports progress, at the same pace.
    let later = (0..100).map(|_| recording.line().parse::<u64>().expect("a number")).last();
    assert!(later.expect("a hundred lines") > said + 90_000);
    kill(app, Signal::SIGKILL).expect("it runs");

    let checked = folder.fxtrec(["dump", "--check", "orphan.fxt"]);
    assert_eq!(checked.code, 0, "{}{}", checked.stdout, checked.stderr);
    let saved = Archive::read(&output);
    for provider in saved.providers.values() {
        let numbers = provider.numbers("step");
        assert!(numbers.windows(2).all(|pair| pair[0] < pair[1]));
    }
}
