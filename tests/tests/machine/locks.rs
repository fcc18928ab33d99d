//! Which lock a thread waits for, and who has it, held against what the threads themselves say.

use std::collections::BTreeMap;

use fxt_reader::ThreadState;
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
    let mut waits = BTreeMap::<&str, usize>::new();
    for words in recording.lines() {
        let [waiter, kind, address, owner] = words[..] else { panic!("{words:?}") };
        let waiter: u64 = waiter.parse().expect("a number");
        let address = format!("0x{address}");
        let owner = (owner != "0").then(|| owner.to_owned());
        let on_lock =
            trace.outs(waiter).filter(|out| out.args.get("futex").is_some_and(|it| *it == address));
        let mut count = 0;
        for out in on_lock {
            assert_eq!(out.args.get("futex_owner"), owner.as_ref(), "{kind}: {out:?}");
            assert_eq!(out.state, ThreadState::Blocked, "{out:?}");
            assert!(out.args.contains_key("syscall"), "{out:?}");
            count += 1;
        }
        assert!(count > 0, "{waiter} slept for the lock {kind}");
        *waits.entry(kind).or_default() += 1;
    }
    println!("{waits:?}");
    let kinds = ["checking", "gate", "inheriting", "plain", "robust"];
    assert_eq!(waits, kinds.map(|kind| (kind, ROUNDS)).into());
    // Of no wait on the machine is a thread of another process said to be the owner, nor the waiter itself.
    let home = |koid: u64| trace.threads.get(&koid).map(|(_, process)| *process);
    for out in &trace.switches {
        let Some(owner) = out.args.get("futex_owner") else { continue };
        let owner: u64 = owner.parse().expect("a number");
        assert_ne!(owner, out.outgoing);
        assert_eq!(home(owner), home(out.outgoing), "{out:?}");
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
