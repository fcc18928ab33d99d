//! Merging, cutting and opening real recordings.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::Stdio;

use fxtrec_tests::binary;
use fxtrec_tests::folder::Folder;
use fxtrec_tests::process::spawn;
use fxtrec_tests::recording::record_in;
use fxtrec_tests::root::may_record;
use fxtrec_tests::trace::{Switch, Trace};

use serde_json::Value;

use super::recording;

#[test]
fn a_real_recording_keeps_its_scheduling_through_json_and_back() {
    let Some((folder, whole)) = recording() else { return };
    folder.fxtrec(["convert", "-q", "t.fxt", "t.json"]).expect(0);
    folder.fxtrec(["convert", "-q", "t.json", "back.fxt"]).expect(0);
    let after = Trace::read(&folder.path("back.fxt"));
    assert!(!whole.switches.is_empty());
    assert_eq!(after.switches, whole.switches);
    assert_eq!(after.wakeups, whole.wakeups);
    assert_eq!(after.thread_names, whole.thread_names);
    assert_eq!(after.own, whole.own);
    after.assert_sound();
}

#[test]
fn a_window_of_a_real_recording_stands_alone() {
    let Some((folder, whole)) = recording() else { return };
    let times: Vec<u64> = whole.switches.iter().map(|switch| switch.time).collect();
    let (from, to) = (times[times.len() / 4], times[times.len() * 3 / 4]);
    // As `fxtrec dump` prints them.
    let [from_text, to_text] =
        [from, to].map(|time| format!("{}.{:09}", time / 1_000_000_000, time % 1_000_000_000));
    let window = ["cut", "-q", "t.fxt", "piece.fxt", "--from", &from_text, "--to", &to_text];
    folder.fxtrec(window).expect(0);
    folder.fxtrec(["dump", "piece.fxt", "--check"]).expect(0);
    let piece = Trace::read(&folder.path("piece.fxt"));
    piece.assert_sound();
    let real = |trace: &Trace| -> Vec<_> {
        let inside = |switch: &&Switch| (from..=to).contains(&switch.time);
        trace.switches.iter().filter(inside).filter(|switch| !switch.inferred).cloned().collect()
    };
    assert_eq!(real(&piece), real(&whole));
}

#[test]
fn a_piece_of_one_program_has_its_figures_and_none_that_need_the_rest_of_the_machine() {
    if !may_record() {
        return;
    }
    let folder = Folder::new();
    // Outsiders have the CPUs in between.
    let command = ["stress-ng", "--quiet", "--switch", "1", "--timeout", "1"];
    record_in(&folder, &["-q"], &command);
    let report = |file: &str| -> Value {
        let json = folder.fxtrec(["report", "--json", file]).expect(0).stdout;
        serde_json::from_str(&json).expect("JSON")
    };
    let process = |report: &Value| -> Vec<Value> {
        let processes = report["processes"].as_array().expect("processes").iter();
        processes.filter(|process| process["name"] == "stress-ng").cloned().collect()
    };
    let whole = report("t.fxt");
    // By its id: a slice may have been recorded before its exec, when it had another name, and a piece selected by name would not contain
    // that slice.
    let pid = process(&whole)[0]["pid"].to_string();
    folder.fxtrec(["cut", "-q", "t.fxt", "piece.fxt", "--pid", &pid]).expect(0);
    folder.fxtrec(["dump", "piece.fxt", "--check"]).expect(0);
    let piece = report("piece.fxt");
    assert!(process(&whole)[0]["cpu_time_ns"].as_u64().expect("a number") > 1_000_000, "{whole:#}");
    assert_eq!(process(&piece), process(&whole));
    folder.fxtrec(["cut", "-q", "t.fxt", "named.fxt", "--comm", "stress-ng"]).expect(0);
    let named = process(&report("named.fxt"));
    let [cpu, of] =
        [&named, &process(&whole)].map(|it| it[0]["cpu_time_ns"].as_u64().expect("a number"));
    assert!(cpu > of / 2 && cpu <= of, "{cpu} of {of}");
    assert_eq!(piece["trace"]["recorded"]["scope"], "cut");
    assert!(!whole["work_not_conserved_ns"].is_null() && piece["work_not_conserved_ns"].is_null());
    let cpus = |report: &Value| report["cpus"].as_array().expect("CPUs").clone();
    for figure in ["utilisation", "queue_mean", "queue_max"] {
        assert!(cpus(&whole).iter().all(|cpu| !cpu[figure].is_null()), "{figure}: {whole:#}");
        assert!(cpus(&piece).iter().all(|cpu| cpu[figure].is_null()), "{figure}: {piece:#}");
    }
    let idle = |report: &Value| -> u64 {
        cpus(report).iter().map(|cpu| cpu["idle_ns"].as_u64().expect("a number")).sum()
    };
    assert!(idle(&piece) <= idle(&whole), "{} of {}", idle(&piece), idle(&whole));
}

#[test]
fn two_recordings_of_one_machine_share_one_clock() {
    let Some((folder, whole)) = recording() else { return };
    folder.fxtrec(["-q", "-o", "second.fxt", "--", "true"]).expect(0);
    folder.fxtrec(["merge", "-q", "t.fxt", "second.fxt", "-o", "both.fxt"]).expect(0);
    folder.fxtrec(["dump", "both.fxt", "--check", "--spec-only"]).expect(0);
    let second = Trace::read(&folder.path("second.fxt"));
    let both = Trace::read(&folder.path("both.fxt"));
    assert_eq!(both.switches.len(), whole.switches.len() + second.switches.len());
    assert!(both.switches.is_sorted_by_key(|switch| switch.time));
    let cpus: std::collections::BTreeSet<u16> = both.switches.iter().map(|s| s.cpu).collect();
    let each = |trace: &Trace| {
        trace.switches.iter().map(|switch| switch.cpu).collect::<std::collections::BTreeSet<_>>()
    };
    assert_eq!(cpus.len(), each(&whole).len() + each(&second).len(), "each has CPUs of its own");
}

#[test]
fn opening_serves_the_file_converted_and_ends_when_it_was_fetched() {
    let folder = Folder::new();
    folder.write("t.json", r#"[{"name":"a","ph":"i","ts":1}]"#);
    let mut open = spawn(
        binary::command()
            .args(["open", "--no-browser", "--port", "0", "t.json"])
            .current_dir(folder.path(""))
            .stderr(Stdio::piped()),
    );
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
    // The file counts as fetched when the peer has closed the connection.
    drop(peer);
    assert!(open.wait().expect("it ends").success());
}

#[test]
fn what_is_shared_has_the_same_figures_and_no_names() {
    if !may_record() {
        return;
    }
    let folder = Folder::new();
    let command = ["sh", "-c", "sleep 0.01; : --token=abc"];
    record_in(&folder, &["-q"], &command);
    let said = folder.fxtrec(["cut", "t.fxt", "shared.fxt", "--for-sharing"]).expect(0).stderr;
    let stays = "names of functions stay (--redact functions replaces them too); fxtrec dump --strings shared.fxt lists";
    assert!(said.contains(stays), "{said}");
    folder.fxtrec(["cut", "-q", "t.fxt", "piece.fxt", "--for-sharing", "--from", "+1ms"]).expect(0);
    let strings = |file: &str| folder.fxtrec(["dump", "--strings", file]).expect(0).stdout;
    let before = strings("t.fxt");
    assert!(
        before.lines().any(|line| line.starts_with("names ") && line.ends_with(" sleep")),
        "{before}"
    );
    assert!(!before.contains("--token"), "{before}");
    for file in ["shared.fxt", "piece.fxt"] {
        folder.fxtrec(["dump", "--check", file]).expect(0);
        let after = strings(file);
        let is_left = |line: &&str| {
            let kind = line.split(' ').next().expect("a word");
            let text = line.rsplit(' ').next().expect("a word");
            let is_pseudonym = ["arg-", "file-", "name-", "cgroup-", "host-"]
                .iter()
                .any(|prefix| text.trim_start_matches('/').starts_with(prefix));
            matches!(kind, "args" | "paths" | "cgroups" | "hosts") && !is_pseudonym && text != "/"
        };
        let left: Vec<&str> = after.lines().filter(is_left).collect();
        assert!(left.is_empty(), "{file}: {left:#?}");
        assert!(
            !after.lines().any(|line| line.ends_with(" sleep") || line.ends_with(" sh")),
            "{after}"
        );
    }
    let figures = |file: &str| -> Vec<Value> {
        let json = folder.fxtrec(["report", "--json", file]).expect(0).stdout;
        let report: Value = serde_json::from_str(&json).expect("JSON");
        let threads = report["threads"].as_array().expect("threads").iter();
        let mut figures: Vec<Value> = threads
            .map(|it| serde_json::json!([it["tid"], it["cpu_time_ns"], it["wakeup_latency"]]))
            .collect();
        figures.push(report["events_lost"].clone());
        figures.push(report["lost"].clone());
        figures.sort_by_key(Value::to_string);
        figures
    };
    assert_eq!(figures("shared.fxt"), figures("t.fxt"));
}
