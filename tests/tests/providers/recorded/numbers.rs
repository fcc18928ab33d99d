//! Every loss is counted.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Read};
use std::process::{Command, Stdio};

use fxtrec_tests::archive::{Archive, Provider};
use fxtrec_tests::binary::fxtrec;
use fxtrec_tests::folder::Folder;
use fxtrec_tests::process::spawn;
use fxtrec_tests::root;

use super::{APP, Recording};

/// Asserts that written and dropped records add up to the recorded ones.
fn assert_counted(provider: &Provider, recorded: u64) {
    let written = provider.numbers("numbered").len() as u64;
    assert_eq!(written + provider.stats["dropped"], recorded, "{:?}", provider.stats);
    assert_eq!((provider.stats["unfinished"], provider.stats["cut_bytes"]), (0, 0));
    assert_eq!(provider.filled_up > 0, provider.stats["dropped"] > 0);
}

#[test]
fn a_burst_through_a_small_buffer_is_written_or_counted() {
    if !root::may_record() {
        return;
    }
    for mode in ["streaming", "oneshot"] {
        let folder = Folder::new();
        let output = folder.path("burst.fxt");
        let options = ["--mode", mode, "--provider-buffer", "256k"];
        let recording = Recording::of_app(&options, &output, &["burst", "8", "20000"]);
        let (code, lines, said) = recording.end();
        assert_eq!((code, &lines[..]), (Some(0), &["160000".to_owned()][..]), "{said}");
        let provider = Archive::read(&output).only();
        assert_counted(&provider, 160_000);
        if mode == "oneshot" {
            assert!(provider.stats["dropped"] > 100_000, "it holds a few thousand events");
            assert!(said.contains("EVENTS OF PROVIDERS DROPPED"), "{said}");
        }
    }
}

#[test]
fn a_slow_output_costs_applications_events_and_none_uncounted() {
    if !root::may_record() {
        return;
    }
    let folder = Folder::new();
    // More than can be in flight: the pipe is not read until the application is done.
    let args = ["burst", "4", "400000"];
    let mut recorder = spawn(
        Command::new(fxtrec())
            .args(["-q", "-o", "-", "--scope", "app", "--provider-buffer", "1M", "--", APP])
            .args(args)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped()),
    );
    // With the trace on standard output, COMMAND prints to standard error.
    let mut said = recorder.stderr.take().expect("piped");
    let mut line = [0; 8];
    said.read_exact(&mut line).expect("the application is through");
    assert_eq!(&line, b"1600000\n");
    let mut trace = Vec::new();
    recorder.stdout.take().expect("piped").read_to_end(&mut trace).expect("the trace");
    assert!(recorder.wait().expect("it ends").success());
    std::fs::write(folder.path("slow.fxt"), trace).expect("room for it");
    let provider = Archive::read(&folder.path("slow.fxt")).only();
    assert_counted(&provider, 1_600_000);
    assert!(provider.stats["dropped"] > 0, "{:?}", provider.stats);
}

#[test]
fn with_a_slow_output_each_of_a_hundred_providers_counts_what_it_drops() {
    if !root::may_record() {
        return;
    }
    let folder = Folder::new();
    let (processes, events) = (100, 16_000);
    // All buffers and everything in flight together hold less than they record.
    let mut recorder = spawn(
        Command::new(fxtrec())
            .args([
                "-q",
                "-o",
                "-",
                "--scope",
                "app",
                "--provider-buffer",
                "256k",
                "--",
                APP,
                "fleet",
            ])
            .args([processes.to_string(), events.to_string()])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped()),
    );
    // With the trace on standard output, COMMAND prints to standard error.
    let mut said = BufReader::new(recorder.stderr.take().expect("piped")).lines();
    for _ in 0..processes {
        assert_eq!(said.next().expect("one more is through").expect("text"), events.to_string());
    }
    let mut trace = Vec::new();
    recorder.stdout.take().expect("piped").read_to_end(&mut trace).expect("the trace");
    assert!(recorder.wait().expect("it ends").success());
    std::fs::write(folder.path("slow.fxt"), trace).expect("room for it");
    let archive = Archive::read(&folder.path("slow.fxt"));
    assert_eq!(archive.providers.len(), processes);
    archive.providers.values().for_each(|provider| assert_counted(provider, events));
    let dropped: u64 = archive.providers.values().map(|provider| provider.stats["dropped"]).sum();
    assert!(dropped > 0, "the output was slow");
}

#[test]
fn a_hundred_providers_are_recorded_at_once() {
    if !root::may_record() {
        return;
    }
    let folder = Folder::new();
    let output = folder.path("fleet.fxt");
    let recording =
        Recording::of_app(&["--provider-buffer", "256k"], &output, &["fleet", "100", "200"]);
    let (code, lines, said) = recording.end();
    assert_eq!((code, lines.len()), (Some(0), 100), "{said}");
    assert!(said.contains("providers  100: ship "), "{said}");
    let archive = Archive::read(&output);
    let names: BTreeSet<&str> = archive.providers.values().map(|one| one.name.as_str()).collect();
    assert_eq!((archive.providers.len(), names.len()), (100, 100));
    for provider in archive.providers.values() {
        assert_counted(provider, 200);
        assert_eq!(provider.stats["dropped"], 0);
    }
}
