//! Merging, cutting and opening real recordings.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Command, Stdio};

use fxtrec_tests::trace::Trace;

use super::*;

#[test]
fn a_real_recording_keeps_its_scheduling_through_json_and_back() {
    let folder = tempfile::tempdir().expect("a folder");
    if !recording(folder.path()) {
        return;
    }
    run_well(&["convert", "-q", "true.fxt", "true.json"], folder.path());
    run_well(&["convert", "-q", "true.json", "back.fxt"], folder.path());
    let before = Trace::read(&folder.path().join("true.fxt"));
    let after = Trace::read(&folder.path().join("back.fxt"));
    assert!(!before.switches.is_empty());
    assert_eq!(after.switches, before.switches);
    assert_eq!(after.wakeups, before.wakeups);
    assert_eq!(after.thread_names, before.thread_names);
    assert_eq!(after.own, before.own);
    after.assert_sound();
}

#[test]
fn a_window_of_a_real_recording_stands_alone() {
    let folder = tempfile::tempdir().expect("a folder");
    if !recording(folder.path()) {
        return;
    }
    let whole = Trace::read(&folder.path().join("true.fxt"));
    let times: Vec<u64> = whole.switches.iter().map(|switch| switch.time).collect();
    let (from, to) = (times[times.len() / 4], times[times.len() * 3 / 4]);
    let (from_text, to_text) = (format!("{from}ns"), format!("{to}ns"));
    let window = ["cut", "-q", "true.fxt", "piece.fxt", "--from", &from_text, "--to", &to_text];
    run_well(&window, folder.path());
    run_well(&["dump", "piece.fxt", "--check"], folder.path());
    let piece = Trace::read(&folder.path().join("piece.fxt"));
    piece.assert_sound();
    let real = |trace: &Trace| -> Vec<_> {
        let inside = |switch: &&fxtrec_tests::trace::Switch| (from..=to).contains(&switch.time);
        trace.switches.iter().filter(inside).filter(|switch| !switch.inferred).cloned().collect()
    };
    assert_eq!(real(&piece), real(&whole));
}

#[test]
fn two_recordings_of_one_machine_share_one_clock() {
    let folder = tempfile::tempdir().expect("a folder");
    if !recording(folder.path()) {
        return;
    }
    run_well(&["-q", "-o", "second.fxt", "--", "true"], folder.path());
    run_well(&["merge", "-q", "true.fxt", "second.fxt", "-o", "both.fxt"], folder.path());
    run_well(&["dump", "both.fxt", "--check", "--spec-only"], folder.path());
    let first = Trace::read(&folder.path().join("true.fxt"));
    let second = Trace::read(&folder.path().join("second.fxt"));
    let both = Trace::read(&folder.path().join("both.fxt"));
    assert_eq!(both.switches.len(), first.switches.len() + second.switches.len());
    assert!(both.switches.is_sorted_by_key(|switch| switch.time));
    let cpus: std::collections::BTreeSet<u16> = both.switches.iter().map(|s| s.cpu).collect();
    let each = |trace: &Trace| {
        trace.switches.iter().map(|switch| switch.cpu).collect::<std::collections::BTreeSet<_>>()
    };
    assert_eq!(cpus.len(), each(&first).len() + each(&second).len(), "each has CPUs of its own");
}

#[test]
fn opening_serves_the_file_converted_and_ends_when_it_was_fetched() {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("t.json"), r#"[{"name":"a","ph":"i","ts":1}]"#)
        .expect("room");
    let mut open = Command::new(fxtrec())
        .args(["open", "--no-browser", "--port", "0", "t.json"])
        .current_dir(folder.path())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it runs");
    let mut said = BufReader::new(open.stderr.take().expect("a pipe"));
    let mut link = String::new();
    said.read_line(&mut link).expect("a line");
    let (page, url) = link.trim().split_once("/#!/?url=http://").expect("a link");
    assert_eq!(page, "https://ui.perfetto.dev");
    let (host, name) = url.split_once('/').expect("a path");
    let mut peer = TcpStream::connect(host).expect("it listens");
    write!(peer, "GET /{name} HTTP/1.1\r\nHost: {host}\r\n\r\n").expect("sent");
    let mut answer = Vec::new();
    peer.read_to_end(&mut answer).expect("answered");
    let magic = 0x0016_5478_4604_0010_u64.to_le_bytes();
    let body = answer.windows(4).position(|four| four == b"\r\n\r\n").expect("an empty line") + 4;
    assert_eq!(answer[body..body + 8], magic, "the JSON was converted");
    assert!(open.wait().expect("it ends").success());
}
