//! `fxtrec watch`: a line for each incident, and recordings of the worst.

use std::collections::BTreeSet;
use std::io::BufRead;
use std::path::Path;
use std::process::{Command, Stdio};

use fxtrec_tests::binary;
use fxtrec_tests::folder::Folder;
use fxtrec_tests::machine;
use fxtrec_tests::process::{Process, with_usual_signals};
use fxtrec_tests::root::may_record;
use nix::sys::signal::Signal;
use serde_json::Value;

const SPIKE: &str = env!("CARGO_BIN_EXE_spike");

/// Directories for temporary files whose names start with this exist while a watch is running.
fn temporary() -> BTreeSet<String> {
    let entries = std::fs::read_dir(std::env::temp_dir()).expect("a directory");
    let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    names.filter(|name| name.starts_with("fxtrec-watch-")).collect()
}

#[test]
fn what_is_late_in_a_command_is_printed_with_its_cause_and_the_worst_of_it_is_kept() {
    if !may_record() {
        return;
    }
    let _machine = machine::alone();
    let folder = Folder::new();
    let before = temporary();
    let line = ["watch", "--json", "--every", "1s", "--min", "30ms", "--keep", "1", "-o", "."];
    let done = folder.fxtrec(line.into_iter().chain(["--", SPIKE, "20", "tardy"])).expect(0);
    assert_eq!(temporary(), before, "nothing is left of it");
    let lines = done.stdout.lines().filter(|line| line.starts_with('{'));
    let all: Vec<Value> = lines.map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let victim = done.stdout.lines().find_map(|line| line.strip_prefix("victim ")?.parse().ok());
    let victim: u64 = victim.expect("it says so");
    let of_victim: Vec<&Value> =
        all.iter().filter(|line| line["incident"]["thread"]["tid"] == victim).collect();
    assert!(!of_victim.is_empty(), "the last look finds one: {}\n{}", done.stdout, done.stderr);
    let mut ends = BTreeSet::new();
    for line in &of_victim {
        let incident = &line["incident"];
        let sentence = incident["sentence"].as_str().expect("a sentence");
        assert!(sentence.starts_with("tardy["), "{sentence}");
        assert!(sentence.contains(" for CPU") && sentence.contains("spike["), "{sentence}");
        assert_eq!(line["cause"], "runqueue", "{sentence}");
        assert!(line["excess_ns"].as_u64().is_some_and(|excess| excess >= 30_000_000), "{line}");
        assert!(ends.insert(incident["to_ns"].as_u64()), "no incident is printed twice: {line}");
    }
    let kept = std::fs::read_dir(folder.path("")).expect("a directory");
    let kept: Vec<String> =
        kept.filter_map(|entry| entry.ok()?.file_name().into_string().ok()).collect();
    assert_eq!(kept.len(), 1, "the recording of the worst: {kept:?}");
    let worst = all.iter().max_by_key(|line| line["excess_ns"].as_u64()).expect("some");
    let file = worst["file"].as_str().expect("it was kept");
    assert_eq!(Path::new(file).file_name(), Some(kept[0].as_ref()));
    let why = folder.fxtrec(["why", &kept[0], "--top", "20", "--json"]).expect(0);
    let why: Value = serde_json::from_str(&why.stdout).expect("JSON");
    let again = why["explanations"].as_array().expect("a list").iter();
    let same = |it: &&Value| it["to_ns"] == worst["incident"]["to_ns"];
    assert_eq!(again.filter(same).count(), 1, "the file has what was printed");
    assert!(done.stderr.contains(" incident"), "{}", done.stderr);
}

#[test]
fn a_process_that_runs_already_is_watched_until_a_signal() {
    if !may_record() {
        return;
    }
    let _machine = machine::alone();
    let mut spike =
        Process::start(Command::new(SPIKE).args(["1000", "tardier"]).stdout(Stdio::piped()));
    spike.stdout().read_line(&mut String::new()).expect("it says that it has begun");
    let (temporary, spike_id) = (Folder::new(), spike.id().to_string());
    let start = || {
        let mut command = Command::new(binary::fxtrec());
        command.env("TMPDIR", temporary.path("")).stdout(Stdio::piped());
        command.args(["watch", "--every", "1s", "--min", "30ms", "-p", &spike_id]);
        Process::start(with_usual_signals(&mut command))
    };
    let mut watch = start();
    let mut line = String::new();
    watch.stdout().read_line(&mut line).expect("it prints one while it goes on");
    watch.signal(Signal::SIGINT);
    assert_eq!(watch.finish().code(), Some(0));
    assert_eq!(temporary.names(), [""; 0], "nothing is left of it");
    let mut killed = start();
    killed.stdout().read_line(&mut String::new()).expect("it prints one while it goes on");
    killed.kill();
    spike.kill();
    let left = temporary.names();
    let is_its = |name: &String| name.starts_with("fxtrec-watch-");
    assert!(left.len() == 1 && left.iter().all(is_its), "the next watch removes it: {left:?}");
    let words: Vec<&str> = line.split_whitespace().collect();
    assert!(words[0].len() == "12:34:56.789Z".len() && words[0].ends_with('Z'), "{line}");
    assert!(words[2] == "ms" && line.contains("  tardier["), "{line}");
}
