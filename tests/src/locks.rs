//! The lock that a thread waits for, and its owner: runs `programs/locks.c` and parses its output.

use std::collections::BTreeMap;

use fxt_reader::ThreadState;

use crate::recording::Recording;

/// The kinds of locks that the program waits for.
const KINDS: [&str; 5] = ["checking", "gate", "inheriting", "plain", "robust"];

/// Compares a recording of the program with `--locks` with the program's output. Returns the number of waits.
///
/// # Panics
/// When a wait has no futex or has an owner that differs from the program's output, or when another thread's wait has an impossible owner.
#[track_caller]
pub fn compare(recording: &Recording, rounds: usize) -> usize {
    let trace = &recording.trace;
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
    assert_eq!(waits, KINDS.map(|kind| (kind, rounds)).into());
    // The main thread waits for the end of the others: each of them ends a wait.
    let process = recording.lines().first().map(|words| words[0].parse::<u64>().expect("an id"));
    let process = process.and_then(|waiter| trace.threads.get(&waiter)).map(|it| it.1);
    let mut ends = 0;
    for out in trace.switches.iter().filter(|out| Some(out.outgoing) == process) {
        let Some(thread) = out.args.get("futex_end_of") else { continue };
        let thread: u64 = thread.parse().expect("a number");
        assert!(!out.args.contains_key("futex_owner"), "{out:?}");
        assert_eq!(trace.threads.get(&thread).map(|it| it.1), process, "{out:?}");
        let is_end = |it: &crate::trace::Switch| {
            it.time > out.time && matches!(it.state, ThreadState::Dying | ThreadState::Dead)
        };
        assert!(trace.outs(thread).any(is_end), "{thread} ends after {out:?}");
        ends += 1;
    }
    assert!(ends > 0, "somebody is joined while it runs");
    // No wait on the machine may name a thread of another process as the owner, nor the waiter itself.
    let home = |koid: u64| trace.threads.get(&koid).map(|(_, process)| *process);
    for out in &trace.switches {
        let Some(owner) = out.args.get("futex_owner") else { continue };
        let owner: u64 = owner.parse().expect("a number");
        assert_ne!(owner, out.outgoing);
        assert_eq!(home(owner), home(out.outgoing), "{out:?}");
    }
    waits.values().sum()
}
