//! Which lock a thread waits for, and who has it, held against what the threads themselves say.

use fxtrec_tests::folder::Folder;
use fxtrec_tests::locks;
use fxtrec_tests::machine;
use fxtrec_tests::programs::build;
use fxtrec_tests::recording::{record, record_in};
use fxtrec_tests::root::may_record;
use fxtrec_tests::skip::skip;

use super::causes::has;

const ROUNDS: usize = 20;

#[test]
fn every_wait_for_a_lock_names_its_futex_and_the_owner_that_the_program_printed() {
    if !may_record() {
        return;
    }
    let _turn = machine::alone();
    let program = build("locks.c", &[]);
    let rounds = ROUNDS.to_string();
    let folder = Folder::new();
    let options = ["--source", "bpf", "--locks"];
    let recording = record_in(&folder, &options, &[program.text(), &rounds]);
    let trace = &recording.trace;
    if !has(trace, "futex") {
        return skip("this kernel does not let programs see a task's registers");
    }
    locks::compare(&recording, ROUNDS);
    // The table of them, alone as it is asked for.
    let table =
        folder.fxtrec(["report", "t.fxt", "--show", "locks", "--rows", "0"]).expect(0).stdout;
    for words in recording.lines() {
        let address = format!("futex 0x{} ", words[2]);
        assert!(table.contains(&address), "{address} in {table}");
    }
}

#[test]
fn without_the_option_nothing_is_told_of_futexes() {
    if !may_record() {
        return;
    }
    let _turn = machine::alone();
    let program = build("locks.c", &[]);
    let recording = record(&["--source", "bpf"], &[program.text(), "1"]);
    assert!(!has(&recording.trace, "futex"));
    for out in &recording.trace.switches {
        assert!(!out.args.contains_key("futex") && !out.args.contains_key("futex_owner"));
    }
}
