//! Which lock a thread waits for, and who has it, held against what the threads themselves say.

use fxtrec_tests::locks;
use fxtrec_tests::machine;
use fxtrec_tests::programs::build;
use fxtrec_tests::recording::record;
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
    let recording = record(&["--source", "bpf", "--locks"], &[program.text(), &rounds]);
    let trace = &recording.trace;
    if !has(trace, "futex") {
        return skip("this kernel does not let programs see a task's registers");
    }
    locks::compare(&recording, ROUNDS);
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
