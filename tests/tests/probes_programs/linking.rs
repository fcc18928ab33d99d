//! One program of C, linked and stripped in every way.

use std::process::Command;

use fxt_reader::record::EventKind;
use fxtrec_tests::programs::{Built, build, succeed};

use crate::{Hit, count, ready, record, values};

const N: usize = 12;

/// Records `work` under this spec, which may name it by address, and compares every call.
fn every_call_of_work_is_there(program: &Built, place: &str) {
    let spec = format!("w={}:{place} n=%di:i32 name=+0(%si):string id=+0(%dx):i32", program.text());
    let spec = if cfg!(target_arch = "x86_64") {
        spec
    } else {
        spec.replace("%di", "%x0").replace("%si", "%x1").replace("%dx", "%x2")
    };
    let (hits, _) = record(&[&spec], &[program.text(), &N.to_string()]);
    let numbers = |first: usize| (first..first + N).map(|n| n.to_string()).collect::<Vec<_>>();
    assert_eq!(values(&hits, "w", "n"), numbers(0), "{spec}");
    assert_eq!(values(&hits, "w", "id"), numbers(1000), "{spec}");
    let names: Vec<_> = (0..N).map(|n| format!("job-{n}")).collect();
    assert_eq!(values(&hits, "w", "name"), names, "{spec}");
    assert!(hits.iter().all(|hit| hit.category == "uprobe" && hit.kind == EventKind::Instant));
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
        every_call_of_work_is_there(&program, &format!("0x{}", &line[..16]));
    }
}

#[test]
fn arguments_on_the_stack_and_returned_values_are_what_was_passed() {
    if !ready() {
        return;
    }
    let program = build("calls.c", &[]);
    // On x86-64 the seventh is the first on the stack; aarch64 has registers for all eight.
    let (hits, _) = record(
        &[":many%span a=arg1 f=arg6:u8 g=arg7:i64 h=arg8:u32 back=ret", ":work%return v=ret:i32"],
        &[program.text(), "5"],
    );
    for (name, value) in [("a", "1"), ("f", "6"), ("g", "77"), ("h", "7"), ("back", "70")] {
        assert_eq!(values(&hits, "many", name), [value], "{name}");
    }
    assert_eq!(values(&hits, "work%return", "v"), ["0", "2", "4", "6", "8"]);
}

#[test]
fn recursion_is_as_deep_in_the_trace_as_in_the_program() {
    if !ready() {
        return;
    }
    let program = build("calls.c", &[]);
    let (hits, _) = record(&[":descend%span depth=arg1:i32 ret:i32"], &[program.text(), "20"]);
    let (mut deep, mut deepest) = (0_usize, 0);
    for Hit { kind, .. } in &hits {
        match kind {
            EventKind::DurationBegin => deep += 1,
            EventKind::DurationEnd => deep -= 1,
            _ => {}
        }
        deepest = deepest.max(deep);
    }
    assert_eq!((deep, deepest, hits.len()), (0, 21, 42));
    let down: Vec<_> = (0..=20).rev().map(|n| n.to_string()).collect();
    let up: Vec<_> = (0..=20).map(|n| n.to_string()).collect();
    assert_eq!(values(&hits, "descend", "depth"), down);
    assert_eq!(values(&hits, "descend", "ret"), up);
}

#[test]
fn a_program_runs_on_when_all_of_its_functions_are_spans() {
    if !ready() {
        return;
    }
    let program = build("calls.c", &[]);
    let (hits, _) = record(&[":*%span"], &[program.text(), "6"]);
    // A begin and an end each; vanish() ends with its thread.
    for (name, calls) in [("main", 1), ("work", 6), ("leaf", 6), ("descend", 7), ("vanish", 1)] {
        assert_eq!(count(&hits, name), 2 * calls, "{name}");
    }
}

#[test]
fn a_function_of_a_library_is_hit_by_command() {
    if !ready() {
        return;
    }
    let program = build("calls.c", &[]);
    let (hits, _) = record(&["libc:pthread_join", ":vanish"], &[program.text(), "1"]);
    assert_eq!((count(&hits, "pthread_join"), count(&hits, "vanish")), (1, 1));
    let thread = |name: &str| hits.iter().find(|hit| hit.name == name).expect("hit").thread;
    assert_ne!(thread("pthread_join"), thread("vanish"), "it is another thread that ends");
}
