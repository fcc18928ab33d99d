//! Gates on spans on a busy machine: the time that others took is distinguished from the time that the code itself needs.
//!
//! `FXTREC_RUNS=200` sets this number of runs instead of a few.

use std::process::Command;

use fxtrec_tests::binary;
use fxtrec_tests::folder::{Done, Folder};
use fxtrec_tests::machine;
use fxtrec_tests::process::Process;
use fxtrec_tests::quota::Quota;
use fxtrec_tests::root::may_record;
use fxtrec_tests::skip::skip;
use fxtrec_tests::tools::or_skip;
use serde_json::Value;

const PLANTED: &str = env!("CARGO_BIN_EXE_planted");

const LENGTH: &str = "span(\"app:request\").max > 6ms";
const OWN: &str = "span(\"app:request\").cpu.max > 4ms";

/// Records this many requests, each of which computes for this many milliseconds, and evaluates these gates.
fn record(folder: &Folder, command: &[&str], options: &[&str]) -> Done {
    let mut fxtrec = binary::command();
    fxtrec.args(["-q", "-o", "t.fxt", "--fail-if", LENGTH, "--fail-if", OWN]).args(options);
    folder.run(fxtrec.arg("--").args(command))
}

/// The report on the file, and its verdicts.
fn verdicts(folder: &Folder) -> (Value, Vec<String>) {
    let line = ["report", "t.fxt", "--json", "--fail-if", LENGTH, "--fail-if", OWN];
    let done = folder.fxtrec(line);
    let json: Value = serde_json::from_str(&done.stdout).expect("JSON");
    let gates = json["gates"].as_array().expect("verdicts").clone();
    let words = gates.iter().map(|gate| gate["finding"].as_str().expect("a word").to_owned());
    let words = words.collect();
    (json, words)
}

fn runs() -> usize {
    std::env::var("FXTREC_RUNS").ok().and_then(|runs| runs.parse().ok()).unwrap_or(3)
}

#[test]
fn the_length_of_spans_fails_next_to_a_busy_machine_and_their_own_cpu_time_never() {
    if !may_record() {
        return;
    }
    if !or_skip(&["stress-ng"]) {
        return;
    }
    let machine = machine::alone();
    let mut stress = Command::new("stress-ng");
    stress.args(["--quiet", "--cpu", "4", "--cpu-method", "int64"]);
    let mut stress = Process::start(&mut stress);
    let recordings: Vec<(Folder, Done)> = (0..runs())
        .map(|_| {
            let folder = Folder::new();
            let command = [PLANTED, "requests", "30", "2"];
            let done = record(&folder, &command, &["--on-disturbed", "exit-4"]);
            (folder, done)
        })
        .collect();
    stress.kill();
    machine.give_back();
    let (mut disturbed, mut kept, mut unclear) = (0, 0, 0);
    for (folder, done) in recordings {
        let (json, words) = verdicts(&folder);
        println!("{} {words:?}", done.stderr);
        // Losses, and unknown time of a span, are not disturbance.
        let unclear_here = json["losses"]["gaps"] != 0 || json["gates"][0]["uncertain"] != 0;
        // The same is true of a switch that no tracepoint reported: if one is missing, there may be others, and the thread that ran in
        // between looks like the thread's own time.
        let missing = json["cpus"].as_array().expect("CPUs").iter().any(|cpu| cpu["inferred"] != 0);
        if missing && words[1] == "broken" {
            unclear += 1;
            continue;
        }
        assert_eq!(words[1], "kept", "its own CPU time does not depend on others: {}", done.stderr);
        match (words[0].as_str(), done.code) {
            ("disturbed", 4) => disturbed += 1,
            ("kept", 0) => kept += 1,
            ("broken", 3) if unclear_here => unclear += 1,
            other => panic!("{other:?}: {}", done.stderr),
        }
    }
    println!("{disturbed} disturbed, {kept} kept, {unclear} unclear, of {}", runs());
    assert!(disturbed >= runs() / 3, "{disturbed} disturbed, {kept} kept, {unclear} unclear");
    assert!(disturbed > 0, "{kept} kept, {unclear} unclear");
}

#[test]
fn spans_that_need_more_themselves_are_not_excused_next_to_a_busy_machine() {
    if !may_record() {
        return;
    }
    let machine = machine::alone();
    let folder = Folder::new();
    let busy = Process::start(Command::new(PLANTED).args(["busy", "60000"]));
    for on_disturbed in ["fail", "pass", "exit-4"] {
        let options = ["--on-disturbed", on_disturbed];
        let done = record(&folder, &[PLANTED, "requests", "10", "8"], &options).expect(3);
        assert_eq!(done.stderr.matches("gate   FAILED").count(), 2, "{}", done.stderr);
        assert!(!done.stderr.contains("gate   DISTURBED"), "{}", done.stderr);
    }
    drop(busy);
    machine.give_back();
    let (_, words) = verdicts(&folder);
    assert_eq!(words, ["broken", "broken"]);
}

#[test]
fn a_thread_that_command_started_is_no_excuse() {
    if !may_record() {
        return;
    }
    let folder = Folder::new();
    // The same program computes on the same CPU, in a separate process and thread.
    for scene in ["requests-beside-thread", "requests-beside-process"] {
        let machine = machine::alone();
        let done = record(&folder, &[PLANTED, scene, "10", "2"], &[]);
        machine.give_back();
        assert_eq!(done.code, 3, "{scene}: {}", done.stderr);
        assert!(
            done.stderr.contains("gate   FAILED  span(\"app:request\").max"),
            "{}",
            done.stderr
        );
        let (_, words) = verdicts(&folder);
        assert_eq!(words, ["broken", "kept"], "{scene}");
    }
}

#[test]
fn a_quota_disturbs_spans() {
    if !may_record() {
        return;
    }
    let machine = machine::alone();
    let Some(quota) = Quota::new("spans", 10_000) else {
        return skip("no cgroup may have a quota here");
    };
    let folder = Folder::new();
    let words = quota.words(&[PLANTED, "requests", "30", "2"]);
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let done = record(&folder, &words, &["--on-disturbed", "pass"]);
    machine.give_back();
    let json = folder.fxtrec(["report", "t.fxt", "--json"]).expect(0).stdout;
    let json: Value = serde_json::from_str(&json).expect("JSON");
    let causes = json["trace"]["recorded"]["causes"].to_string();
    if !causes.contains("throttled") {
        return skip("this kernel does not tell which tasks are throttled");
    }
    assert_eq!(done.code, 0, "{}", done.stderr);
    let (_, words) = verdicts(&folder);
    assert_eq!(words, ["disturbed", "kept"], "{}", done.stderr);
    let throttled = ["--fail-if", "span('request').throttled.max > 5ms"];
    folder.fxtrec([&["report", "t.fxt"][..], &throttled].concat()).expect(3);
}
