//! One C program, linked and stripped in every way.

use std::process::Command;

use fxt_reader::record::EventKind;
use fxtrec_tests::programs::{Built, build, succeed};

use crate::programs::{numbers, ready, record};

const N: usize = 12;

/// Records `work` with two specs, and compares every call: one spec has the place of each value in the kernel's syntax, the other one
/// numbers of arguments, which are known only if a function has a name.
fn every_call_of_work_is_there(program: &Built, place: &str) {
    let (n, name, id) = match cfg!(target_arch = "x86_64") {
        true => ("n=%di:i32", "name=+0(%si):string", "id=+0(%dx):i32"),
        false => ("n=%x0:i32", "name=+0(%x1):string", "id=+0(%x2):i32"),
    };
    let spec = format!("w={}:{place} {n} {name} {id}", program.text());
    let (other, called) = match place.starts_with("0x") {
        true => (format!("v=:{place} {n} {name}"), "v"),
        false => (format!(":{place} n=arg1:s32 name=arg2:str"), place),
    };
    let recording = record(&[&spec, &other], &[program.text(), &N.to_string()]);
    let names: Vec<_> = (0..N).map(|n| format!("job-{n}")).collect();
    for probe in ["w", called] {
        assert_eq!(recording.values(probe, "n"), numbers(0..N), "{spec}");
        assert_eq!(recording.values(probe, "name"), names, "{spec}");
    }
    assert_eq!(recording.values("w", "id"), numbers(1000..1000 + N), "{spec}");
    let events = &recording.trace.events;
    assert_eq!(events.len(), 2 * N);
    assert!(events.iter().all(|hit| hit.category == "uprobe" && hit.kind == EventKind::Instant));
}

#[test]
fn position_independent_or_not_every_call_is_there() {
    if !ready() {
        return;
    }
    for flags in [&["-fPIE", "-pie"][..], &["-fno-pie", "-no-pie"], &["-static"]] {
        every_call_of_work_is_there(&build("calls.c", flags), "work");
    }
}

#[test]
fn stripped_with_dynamic_symbols_every_call_is_there() {
    if !ready() {
        return;
    }
    let program = build("calls.c", &["-rdynamic"]);
    succeed(Command::new("strip").arg(program.path()));
    every_call_of_work_is_there(&program, "work");
}

#[test]
fn stripped_of_all_symbols_every_call_is_there_by_address() {
    if !ready() {
        return;
    }
    for flags in [&["-fPIE", "-pie"], &["-fno-pie", "-no-pie"]] {
        let program = build("calls.c", flags);
        let nm = succeed(Command::new("nm").arg(program.path()));
        let line = nm.lines().find(|line| line.ends_with(" work")).expect("it has names yet");
        succeed(Command::new("strip").arg(program.path()));
        every_call_of_work_is_there(&program, &format!("0x{}", line[..16].trim_start_matches('0')));
    }
}

#[test]
fn arguments_on_the_stack_and_returned_values_are_what_was_passed() {
    if !ready() {
        return;
    }
    let program = build("calls.c", &[]);
    // On x86-64 the seventh is the first on the stack; aarch64 has registers for all eight.
    let recording = record(
        &[":many%span a=arg1 f=arg6:u8 g=arg7:i64 h=arg8:u32 back=ret", ":work%return v=ret:i32"],
        &[program.text(), "5"],
    );
    for (name, value) in [("a", "1"), ("f", "6"), ("g", "77"), ("h", "7"), ("back", "70")] {
        assert_eq!(recording.values("many", name), [value], "{name}");
    }
    assert_eq!(recording.values("work%return", "v"), ["0", "2", "4", "6", "8"]);
}

#[test]
fn recursion_is_as_deep_in_the_trace_as_in_the_program() {
    if !ready() {
        return;
    }
    let program = build("calls.c", &[]);
    let recording = record(&[":descend%span depth=arg1:i32 ret:i32"], &[program.text(), "20"]);
    let (mut deep, mut deepest) = (0, 0);
    for hit in &recording.trace.events {
        deep += i32::from(hit.begins()) - i32::from(hit.ends());
        deepest = deepest.max(deep);
    }
    assert_eq!((deep, deepest, recording.trace.events.len()), (0, 21, 42));
    let up = numbers(0..21);
    let down: Vec<_> = up.iter().rev().cloned().collect();
    assert_eq!(recording.values("descend", "depth"), down);
    assert_eq!(recording.values("descend", "ret"), up);
}

#[test]
fn a_program_runs_on_when_all_of_its_functions_are_spans() {
    if !ready() {
        return;
    }
    let program = build("calls.c", &[]);
    let recording = record(&[":*%span"], &[program.text(), "6"]);
    // A begin and an end each; vanish() ends its thread.
    for (name, calls) in [("main", 1), ("work", 6), ("leaf", 6), ("descend", 7), ("vanish", 1)] {
        assert_eq!(recording.count(name), 2 * calls, "{name}");
    }
}

#[test]
fn a_function_of_a_library_is_hit_by_command() {
    if !ready() {
        return;
    }
    let program = build("calls.c", &[]);
    let recording = record(&["libc:pthread_join", ":vanish"], &[program.text(), "1"]);
    assert_eq!((recording.count("pthread_join"), recording.count("vanish")), (1, 1));
    let thread = |name| recording.named(name).next().expect("a hit").thread;
    assert_ne!(thread("pthread_join"), thread("vanish"), "it is another thread that ends");
}
