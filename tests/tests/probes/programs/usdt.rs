//! USDT probes, open and guarded.

use std::process::Command;

use fxtrec_tests::programs::{build, succeed};

use crate::programs::{numbers, ready, record};

#[test]
fn usdt_probes_are_hit_with_their_arguments_and_open_their_guards() {
    if !ready() {
        return;
    }
    for flags in [["-fPIE", "-pie"], ["-fno-pie", "-no-pie"]] {
        let program = build("usdt.c", &flags);
        assert_eq!(succeed(Command::new(program.path()).arg("15")), "0\n", "the guard is shut");
        let recording = record(&[":usdt:app:*"], &[program.text(), "15"]);
        assert_eq!(recording.printed, "15\n", "the guard is open as long as fxtrec records");
        let squares: Vec<_> = (0..15).map(|n| (n * n).to_string()).collect();
        assert_eq!(recording.values("app:tick", "arg1"), numbers(0..15));
        assert_eq!(recording.values("app:tick", "arg3"), ["-7"; 15]);
        assert_eq!(recording.values("app:guarded", "arg1"), squares);
        assert_eq!(recording.count("app:done"), 1);
        assert!(recording.trace.events.iter().all(|hit| hit.category == "usdt"));
        assert_eq!(succeed(Command::new(program.path()).arg("15")), "0\n", "and shut again");
    }
}

#[test]
fn a_text_argument_is_read_where_it_points_to() {
    if !ready() {
        return;
    }
    let program = build("usdt.c", &[]);
    succeed(Command::new("strip").arg(program.path()));
    let recording = record(&["tick=:usdt:app:tick text=arg2:str n=arg1"], &[program.text(), "4"]);
    assert_eq!(recording.values("tick", "text"), ["tick-0", "tick-1", "tick-2", "tick-3"]);
    assert_eq!(recording.values("tick", "n"), ["0", "1", "2", "3"]);
    assert_eq!(recording.printed, "0\n", "nobody looks at the guarded one");
}
