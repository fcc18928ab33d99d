//! Functions and lines of Go programs that were stripped.

use std::path::Path;
use std::process::Command;
use std::sync::{Mutex, PoisonError};

use fxtrec_tests::folder::Folder;
use fxtrec_tests::programs::{source, succeed};
use fxtrec_tests::recording::record_in;
use fxtrec_tests::unwinding::may_unwind;
use serde_json::Value;

/// How often the program blocks.
const ROUNDS: usize = 12;

/// Builds the program without symbols and debug information.
fn build(folder: &Folder, flags: &[&str]) -> String {
    build_source(folder, flags, &source("blocks.go"))
}

fn build_source(folder: &Folder, flags: &[&str], source: &Path) -> String {
    // Go's own packages take seconds, so they are built once, and one test waits for the other.
    static BUILDING: Mutex<()> = Mutex::new(());
    let _building = BUILDING.lock().unwrap_or_else(PoisonError::into_inner);
    let cache = Path::new(env!("CARGO_TARGET_TMPDIR")).join("go");
    let program = folder.path("blocks").to_str().expect("a plain path").to_owned();
    let mut go = Command::new("go");
    go.args(["build", "-trimpath", "-ldflags=-s -w", "-o", &program]).args(flags);
    go.env("GO111MODULE", "off").env("GOCACHE", cache).env("GOFLAGS", "");
    succeed(go.arg(source));
    program
}

/// The waits in which the program read, according to `report --stacks --lines`: for each, its functions from the one that called
/// `syscall.Read`, whose body is inlined, and the missing parts of the stack.
fn reads(folder: &Folder, trace: &str) -> Vec<(Vec<Value>, usize)> {
    let args = ["report", trace, "--stacks", "--lines", "--json", "--worst", "100000"];
    let printed = folder.fxtrec(args).expect(0).stdout;
    let report: Value = serde_json::from_str(&printed).expect("JSON");
    let mut found = Vec::new();
    for wait in report["worst"].as_array().expect("waits") {
        let frames = wait["frames"].as_array().map_or(&[][..], Vec::as_slice);
        let is_read = |frame: &Value| {
            frame["kernel"] == true
                && frame["function"].as_str().is_some_and(|it| it.contains("pipe_read"))
        };
        if frames.iter().any(is_read) {
            let own = |frame: &&Value| {
                frame["function"].as_str().is_some_and(|it| it.starts_with("main."))
            };
            let lacks = wait["lacks"].as_array().map_or(0, Vec::len);
            found.push((frames.iter().filter(own).cloned().collect(), lacks));
        }
    }
    found
}

/// Asserts that the reads of a trace are named by function, file and line.
#[track_caller]
fn assert_named(folder: &Folder, trace: &str) {
    let reads = reads(folder, trace);
    assert!(reads.len() * 4 >= ROUNDS * 3, "{} of {ROUNDS}", reads.len());
    for (frames, _) in &reads {
        let names: Vec<&str> = frames.iter().flat_map(|frame| frame["function"].as_str()).collect();
        assert_eq!(names, ["main.blocksInRead", "main.servesOne", "main.main"], "{reads:#?}");
        let line = &frames[1]["lines"][0];
        let file = line["file"].as_str().expect("a file");
        assert!(file.ends_with("blocks.go") && line["line"] == 21, "{line}");
    }
}

#[test]
fn a_stripped_go_program_is_named_by_the_table_of_its_runtime() {
    if !may_unwind(&["go"]) {
        return;
    }
    for flags in [&[][..], &["-buildmode=pie"]] {
        let folder = Folder::new();
        let program = build(&folder, flags);
        let stacks = ["--source", "bpf", "--stacks", "--scope", "app"];
        record_in(&folder, &stacks, &[&program]);
        assert_named(&folder, "t.fxt");
        // The caller of the function that makes the system call can only be found by the size of the frame.
        if cfg!(target_arch = "x86_64") {
            let whole = reads(&folder, "t.fxt").iter().filter(|(_, lacks)| *lacks == 0).count();
            assert!(whole * 4 >= ROUNDS * 3, "{whole} of {ROUNDS} lack nothing");
        }
        let why = folder.fxtrec(["why", "t.fxt", "--critical-path", "--json"]).expect(0).stdout;
        let why: Value = serde_json::from_str(&why).expect("JSON");
        let stack = why["explanations"][0]["waits"][0]["stack"].as_array().expect("a stack");
        let at = stack.iter().position(|name| name == "main.blocksInRead").expect("it is named");
        assert_eq!(stack[at + 1], "main.servesOne", "{stack:?}");
    }
}

#[test]
fn a_go_program_without_section_headers_is_named_while_it_is_recorded() {
    if !may_unwind(&["go"]) {
        return;
    }
    let folder = Folder::new();
    let program = build(&folder, &[]);
    let mut bytes = std::fs::read(&program).expect("built");
    // Where section headers are, how many they are, and which has their names.
    bytes[0x28..0x30].fill(0);
    bytes[0x3C..0x40].fill(0);
    std::fs::write(&program, bytes).expect("writable");
    record_in(&folder, &["--source", "bpf", "--stacks", "--scope", "app"], &[&program]);
    let reads = reads(&folder, "t.fxt");
    assert!(reads.len() * 4 >= ROUNDS * 3, "{} of {ROUNDS}", reads.len());
    assert!(reads.iter().all(|(frames, _)| frames.len() == 3), "{reads:#?}");
}

#[test]
fn a_stripped_go_program_is_named_afterwards_by_its_own_build_id() {
    if !may_unwind(&["go"]) {
        return;
    }
    let folder = Folder::new();
    let program = build(&folder, &[]);
    let stacks = ["--source", "bpf", "--stacks", "--scope", "app", "--no-symbols"];
    record_in(&folder, &stacks, &[&program]);
    folder.fxtrec(["symbolize", "t.fxt", "-o", "named.fxt", "-q"]).expect(0);
    assert_named(&folder, "named.fxt");
    // Another program at the same path is not used instead.
    let other = std::fs::read_to_string(source("blocks.go")).expect("it is there");
    let other = other.replace("20 * time", "21 * time");
    let path: &Path = &folder.path("other.go");
    std::fs::write(path, other).expect("room");
    build_source(&folder, &[], path);
    let reported = folder.fxtrec(["symbolize", "t.fxt", "-o", "other.fxt"]).expect(0);
    assert!(reported.stderr.contains("another build: "), "{}", reported.stderr);
}
