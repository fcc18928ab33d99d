//! The lock that a thread waits for and its owner, compared with the output of the threads themselves.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use fxt_reader::ThreadState;
use fxtrec_tests::binary;
use fxtrec_tests::folder::Folder;
use fxtrec_tests::locks;
use fxtrec_tests::machine;
use fxtrec_tests::programs::build;
use fxtrec_tests::recording::{Recording, record, record_in_turn};
use fxtrec_tests::root::may_record;
use fxtrec_tests::skip::skip;
use fxtrec_tests::trace::{Switch, Trace};

use super::causes::has;

const ROUNDS: usize = 20;

const PLANTED: &str = env!("CARGO_BIN_EXE_planted");

#[test]
fn every_wait_for_a_lock_names_its_futex_and_the_owner_that_the_program_printed() {
    if !may_record() {
        return;
    }
    let program = build("locks.c", &[]);
    let rounds = ROUNDS.to_string();
    let folder = Folder::new();
    let options = ["--source", "bpf", "--locks"];
    let command = [program.text(), &rounds];
    let recording =
        record_in_turn(machine::quiet(), binary::command(), &folder, &options, &command);
    let trace = &recording.trace;
    if !has(trace, "futex") {
        return skip("this kernel does not let programs see a task's registers");
    }
    locks::compare(&recording, ROUNDS);
    // The table of locks, requested separately.
    let table =
        folder.fxtrec(["report", "t.fxt", "--show", "locks", "--rows", "0"]).expect(0).stdout;
    for words in recording.lines() {
        let address = format!("futex 0x{} ", words[2]);
        assert!(table.contains(&address), "{address} in {table}");
    }
}

/// A wait for a kernel lock, from the tracepoints: the thread, begin and end, the lock and its flags.
struct Contended {
    thread: u64,
    from: u64,
    to: u64,
    address: String,
    flags: u32,
}

/// The waits of the threads of a process, and separately those in which they only spin.
fn contended(trace: &Trace, process: u64) -> Vec<Contended> {
    let mut open = BTreeMap::<(u64, &str), (u64, u32)>::new();
    let mut waits = Vec::new();
    for event in trace.events.iter().filter(|event| event.process == process) {
        let (thread, address) = (event.thread, event.arg("lock_addr"));
        if event.name == "contention_end" {
            let Some((from, flags)) = open.remove(&(thread, address)) else { continue };
            waits.push(Contended { thread, from, to: event.time, address: address.into(), flags });
        } else if event.name == "contention_begin" {
            let flags: u32 = event.arg("flags").parse().expect("a number");
            if flags & 1 == 0 {
                open.insert((thread, address), (event.time, flags));
            }
        }
    }
    waits
}

#[test]
fn every_sleep_for_a_lock_of_the_kernel_is_reported_as_the_tracepoints_tell_it() {
    if !may_record() {
        return;
    }
    for source in ["bpf", "perf"] {
        let options = ["--source", source, "--locks", "-e", "lock:contention_*"];
        let command = [PLANTED, "kernel-locks"];
        let recording =
            record_in_turn(machine::quiet(), binary::command(), &Folder::new(), &options, &command);
        let trace = &recording.trace;
        if !has(trace, "kernel_lock") {
            return skip("this kernel does not tell when threads wait for its locks");
        }
        compare(source, trace, &contended(trace, trace.info().number("command")));
    }
}

/// ftrace records nothing else at the same time: another recorder records the tracepoints, around it.
#[test]
fn ftrace_reports_the_same_of_locks_of_the_kernel() {
    if !may_record() {
        return;
    }
    let folder = Folder::new();
    let inner = folder.path("inner.fxt");
    let inner = inner.to_str().expect("text");
    let fxtrec = binary::fxtrec();
    let fxtrec = fxtrec.to_str().expect("text");
    let ftrace = [fxtrec, "-q", "--source", "ftrace", "--locks", "-o", inner, "--"];
    let command = [&ftrace[..], &[PLANTED, "kernel-locks"]].concat();
    let options = ["--source", "perf", "-e", "lock:contention_*"];
    let around = record_in_turn(machine::quiet(), binary::command(), &folder, &options, &command);
    let trace = Recording::read(Path::new(inner), String::new(), String::new()).trace;
    if !has(&trace, "kernel_lock") {
        return skip("this kernel does not tell when threads wait for its locks");
    }
    compare("ftrace", &trace, &contended(&around.trace, trace.info().number("command")));
}

/// Compares a recording by this source with the waits of COMMAND's threads.
fn compare(source: &str, trace: &Trace, waits: &[Contended]) {
    let process = trace.info().number("command");
    let mut ids = BTreeMap::<&str, &str>::new();
    let mut slept = 0;
    for wait in waits {
        let within = |out: &&Switch| wait.from < out.time && out.time < wait.to;
        for out in trace.outs(wait.thread).filter(within) {
            if out.state != ThreadState::Blocked || out.inferred {
                continue;
            }
            let id = out.args.get("kernel_lock").unwrap_or_else(|| panic!("{out:?}"));
            let first = *ids.entry(&wait.address).or_insert(id);
            assert_eq!(first, id, "one id for each lock");
            let kind = match wait.flags {
                2 => "rwsem_read",
                4 => "rwsem_write",
                32 => "mutex",
                _ => continue,
            };
            assert_eq!(out.args.get("kernel_lock_kind").map(String::as_str), Some(kind), "{out:?}");
            assert!(!out.args.contains_key("kernel_lock_name"), "it was allocated: {out:?}");
            slept += 1;
        }
    }
    println!("{source}: {slept} sleeps in {} waits for {} locks", waits.len(), ids.len());
    assert!(slept >= 60, "{source}: {slept}");
    let different: BTreeSet<&&str> = ids.values().collect();
    assert_eq!(different.len(), ids.len(), "{ids:?}");
    // No other thread is recorded as waiting for one.
    let ours = |out: &&Switch| trace.threads.get(&out.outgoing).is_some_and(|it| it.1 == process);
    for out in trace.switches.iter().filter(ours).filter(|out| out.args.contains_key("kernel_lock"))
    {
        let is_in = |wait: &&Contended| {
            wait.thread == out.outgoing && wait.from < out.time && out.time < wait.to
        };
        assert!(waits.iter().any(|wait| is_in(&wait)), "{out:?}");
    }
}

/// A process that creates a tracing instance holds two mutexes that are variables of the kernel, for a few milliseconds.
#[test]
fn a_lock_that_is_a_variable_of_the_kernel_has_its_name() {
    const NAMES: [&str; 2] = ["event_mutex", "trace_types_lock"];
    let instances = Path::new("/sys/kernel/tracing/instances");
    if !may_record() || !instances.exists() {
        return;
    }
    let listed = std::fs::read_to_string("/proc/kallsyms").unwrap_or_default();
    let is_seen = |name: &&str| {
        let is_it =
            |line: &&str| line.ends_with(&format!(" {name}")) && !line.starts_with("000000000000");
        listed.lines().any(|line| is_it(&line))
    };
    if !NAMES.iter().any(is_seen) {
        println!("this kernel lists no variables, or no addresses of them");
        return;
    }
    let make = "for n in 1 2 3 4; do (for i in 1 2 3 4 5; do mkdir $0/named-lock-$n; rmdir $0/named-lock-$n; done) & done; wait";
    for source in ["bpf", "perf"] {
        let options = ["--source", source, "--locks"];
        let command = ["sh", "-c", make, instances.to_str().expect("text")];
        let recording =
            record_in_turn(machine::quiet(), binary::command(), &Folder::new(), &options, &command);
        for n in 1..=4 {
            let _ = std::fs::remove_dir(instances.join(format!("named-lock-{n}")));
        }
        let trace = &recording.trace;
        if !has(trace, "kernel_lock") {
            return skip("this kernel does not tell when threads wait for its locks");
        }
        let named = trace.switches.iter().filter_map(|out| out.args.get("kernel_lock_name"));
        let mut counts = BTreeMap::<&str, usize>::new();
        named.for_each(|name| *counts.entry(name).or_default() += 1);
        println!("{source}: {counts:?}");
        assert!(NAMES.iter().any(|name| counts.contains_key(name)), "{source}: {counts:?}");
        assert!(counts.keys().all(|name| !name.contains("ffff")), "{counts:?}");
    }
}

#[test]
fn without_the_option_nothing_is_reported_for_futexes() {
    if !may_record() {
        return;
    }
    let program = build("locks.c", &[]);
    let recording = record(&["--source", "bpf"], &[program.text(), "1"]);
    assert!(!has(&recording.trace, "futex"));
    for out in &recording.trace.switches {
        assert!(!out.args.contains_key("futex") && !out.args.contains_key("futex_owner"));
        assert!(!out.args.contains_key("kernel_lock"));
    }
}
