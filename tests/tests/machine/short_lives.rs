//! Stacks of programs that end before they could be inspected.

use std::collections::BTreeSet;

use fxtrec_tests::folder::Folder;
use fxtrec_tests::programs::build;
use fxtrec_tests::recording::record_in;
use fxtrec_tests::unwinding::may_unwind;
use serde_json::Value;

const RUNS: usize = 10;
const TRIES: usize = 3;

/// Records a command, of which this many processes called `soon` wait in each of these functions. How many stacks each has, and how many
/// others the kernel may not have reported.
fn record(command: &[&str], functions: &[&str], count: usize) -> (Vec<usize>, usize) {
    let folder = Folder::new();
    let recording = record_in(&folder, &["--source", "bpf", "--stacks", "--scope", "app"], command);
    let mut events = recording.trace.own.iter();
    let stats = events.find(|event| event.name == "stack_stats").expect("they are counted");
    let lost = ["lost", "given_up", "unseen", "unknown_threads"].map(|name| stats.number(name));
    // No program runs at a switch that the kernel does not report.
    let inferred = recording.trace.switches.iter().filter(|switch| switch.inferred).count();
    let missing = inferred + usize::try_from(lost.iter().sum::<u64>()).expect("few");
    let printed = folder.fxtrec(["report", "t.fxt", "--stacks", "--json", "--worst", "1000000"]);
    let json: Value = serde_json::from_str(&printed.expect(0).stdout).expect("JSON");
    let waits = json["worst"].as_array().expect("waits");
    let mut found = vec![BTreeSet::new(); functions.len()];
    for wait in waits.iter().filter(|wait| wait["comm"] == "soon") {
        let Some(frames) = wait["frames"].as_array() else { continue };
        let has = |name: &str| frames.iter().any(|frame| frame["function"] == name);
        // In the middle of execve(2), the registers are still those of the previous program.
        if has("bprm_execve") {
            continue;
        }
        let mut user = frames.iter().filter(|frame| frame["kernel"] == false).peekable();
        let is_named = |frame: &Value| frame["function"].is_string();
        assert!(user.peek().is_none() || user.any(is_named), "without a name: {frames:?}");
        for (found, function) in found.iter_mut().zip(functions) {
            // A thread may wait for a page in it as well.
            found.extend(has(function).then(|| wait["tid"].as_u64()));
        }
    }
    let found: Vec<usize> = found.iter().map(BTreeSet::len).collect();
    for (&found, function) in found.iter().zip(functions) {
        println!("{function}: {found} of {count}, {missing} may be missing");
        assert!(found <= count, "{function}: {found} of {count}");
    }
    (found, missing)
}

/// The same for a shell command, many times.
fn record_many(command: &str, functions: &[&str]) {
    let command = format!("for run in $(seq {RUNS}); do {command}; done");
    // In one of about twenty recordings, the function is missing in one wait in ten, for an unknown reason. If a kind of process has
    // unknown code, the function is missing in each of its stacks.
    let is_whole = (0..TRIES).any(|_| {
        let (found, missing) = record(&["sh", "-c", &command], functions, RUNS);
        assert!(found.iter().all(|found| found * 2 >= RUNS), "{functions:?}: {found:?} of {RUNS}");
        found.iter().all(|found| found + missing >= RUNS)
    });
    assert!(is_whole, "{functions:?} are told of {RUNS} runs in none of {TRIES} recordings");
}

#[test]
fn a_program_of_a_few_milliseconds_has_names_in_each_of_ten_runs() {
    if !may_unwind(&["gcc"]) {
        return;
    }
    let program = build("soon.c", &["-O2", "-ldl"]);
    let runs = (0..RUNS).map(|_| record(&[program.text()], &["waits_here"], 1));
    let (found, missing) = runs.fold((0, 0), |sum, run| (sum.0 + run.0[0], sum.1 + run.1));
    assert!(found * 2 >= RUNS && found + missing >= RUNS, "{found} of {RUNS}, {missing} missing");
}

#[test]
fn short_programs_have_names_however_they_began() {
    if !may_unwind(&["gcc", "unshare"]) {
        return;
    }
    let program = build("soon.c", &["-O2", "-ldl"]);
    let soon = program.text();
    record_many(soon, &["waits_here"]);
    record_many(&format!("{soon} exec"), &["waits_before", "waits_here"]);
    // On a busy machine, the child may have ended before the parent begins to wait for it.
    record_many(&format!("{soon} fork"), &["waits_here"]);
    record_many(&format!("unshare --pid --fork {soon} fork"), &["waits_here"]);
    let library = build("soon.c", &["-O2", "-shared", "-fPIC", "-DLIBRARY"]);
    record_many(&format!("{soon} load {}", library.text()), &["waits_loaded"]);
}
