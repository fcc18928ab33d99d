//! Ctrl-C, and signals from other processes.

use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::process::CommandExt;
use std::process::Stdio;

use fxtrec_tests::root::may_record;
use fxtrec_tests::wait;
use nix::pty::{OpenptyResult, openpty};
use nix::sys::signal::Signal;

use crate::command_line::run::{Fxtrec, Running};
use crate::command_line::trace::{Trace, is_ended};

/// A command that reports when it runs, and ends with this status on a signal.
fn trap(signal: &str, code: i32) -> String {
    format!("trap 'exit {code}' {signal}; echo ready; while :; do sleep 0.02; done")
}

/// fxtrec with a separate terminal, as its only and controlling one.
fn in_terminal(args: &[&str]) -> (Running, File) {
    let OpenptyResult { master, slave } = openpty(None, None).unwrap();
    let copy = || slave.try_clone().unwrap();
    let running = Fxtrec::new(args)
        .with(|command| command.stdin(copy()).stdout(copy()).stderr(copy()))
        .in_own_session()
        .start();
    drop(slave);
    (running, File::from(master))
}

fn read_until(terminal: &mut File, text: &str) {
    let mut seen = String::new();
    let mut piece = [0; 1024];
    while !seen.contains(text) {
        let count = terminal.read(&mut piece).unwrap_or_else(|error| panic!("{error}: {seen}"));
        seen.push_str(&String::from_utf8_lossy(&piece[..count]));
    }
}

/// Reads the output until fxtrec has ended, so that no writer blocks.
fn drain(mut terminal: File) {
    let mut rest = Vec::new();
    // The kernel returns EIO when the other side is closed.
    let _ = terminal.read_to_end(&mut rest);
}

#[test]
fn ctrl_c_reaches_command_and_the_trace_is_finished() {
    if !may_record() {
        return;
    }
    for (script, code) in [(trap("INT", 7), 7), ("echo ready; exec sleep 1000".to_owned(), 130)] {
        let (running, mut terminal) = in_terminal(&["-o", "t.fxt", "sh", "-c", &script]);
        read_until(&mut terminal, "ready");
        terminal.write_all(b"\x03").unwrap();
        drain(terminal);
        let done = running.finish().expect(code);
        Trace::open(&done.path("t.fxt")).expect_complete();
    }
}

#[test]
fn ctrl_c_ends_a_recording_of_the_machine() {
    if !may_record() {
        return;
    }
    let running = Fxtrec::new(["-a", "-o", "t.fxt"]).start();
    wait::until("the first records", || {
        std::fs::metadata(running.path("t.fxt")).is_ok_and(|file| file.len() > 0)
    });
    running.signal(Signal::SIGINT);
    let done = running.finish().expect(0);
    Trace::open(&done.path("t.fxt")).expect_complete();
}

#[test]
fn a_second_ctrl_c_loses_nothing_that_was_written() {
    if !may_record() {
        return;
    }
    let script = "trap '' INT; echo ready; while :; do sleep 0.02; done";
    let (running, mut terminal) = in_terminal(&["-o", "t.fxt", "sh", "-c", script]);
    read_until(&mut terminal, "ready");
    let path = running.path("t.fxt");
    let is_begun = || std::fs::metadata(&path).is_ok_and(|file| file.len() > 0);
    wait::until("the first switches", || is_begun() && Trace::open(&path).switches > 0);
    terminal.write_all(b"\x03").unwrap();
    terminal.write_all(b"\x03").unwrap();
    terminal.write_all(b"\x03").unwrap();
    let before = std::fs::metadata(running.path("t.fxt")).unwrap().len();
    running.signal(Signal::SIGTERM);
    drain(terminal);
    let done = running.finish();
    let trace = Trace::open(&done.path("t.fxt"));
    assert!(trace.summary.record_bytes + trace.summary.truncated_tail >= before);
    assert!(trace.switches > 0);
    assert_eq!(trace.summary.damaged_regions, 0);
}

#[test]
fn sigterm_and_sighup_are_passed_on_and_finish_the_trace() {
    if !may_record() {
        return;
    }
    for (signal, name) in [(Signal::SIGTERM, "TERM"), (Signal::SIGHUP, "HUP")] {
        let running = Fxtrec::script(&trap(name, 9)).start();
        running.wait_for_output("ready");
        running.signal(signal);
        let done = running.finish().expect(9);
        Trace::open(&done.path("t.fxt")).expect_complete();
    }
}

#[test]
fn a_hangup_that_was_ignored_at_start_stays_ignored() {
    if !may_record() {
        return;
    }
    let script = "echo ready; read word; echo heard $word; exit 4";
    let mut running = Fxtrec::script(script)
        .with(|command| {
            command.stdin(Stdio::piped());
            // SAFETY: between fork and exec, only one system call is made.
            unsafe {
                command.pre_exec(|| {
                    libc::signal(libc::SIGHUP, libc::SIG_IGN);
                    Ok(())
                })
            }
        })
        .start();
    running.wait_for_output("ready");
    running.signal_all(Signal::SIGHUP);
    running.write_input("word\n");
    let done = running.finish().expect(4);
    assert_eq!(done.stdout, b"ready\nheard word\n");
    Trace::open(&done.path("t.fxt")).expect_complete();
}

#[test]
fn when_the_time_is_over_the_trace_ends_and_command_continues() {
    if !may_record() {
        return;
    }
    let script = "echo ready; read word; exit 5";
    let mut running = Fxtrec::new(["-d", "100ms", "-o", "t.fxt", "sh", "-c", script])
        .with(|command| command.stdin(Stdio::piped()))
        .start();
    running.wait_for_output("ready");
    wait::until("the end of the trace", || is_ended(&running.path("t.fxt")));
    assert!(!running.is_over(), "fxtrec waits for COMMAND");
    running.write_input("word\n");
    let done = running.finish().expect(5);
    Trace::open(&done.path("t.fxt")).expect_complete();
}

#[test]
fn a_trace_is_never_written_to_a_terminal() {
    let (running, terminal) = in_terminal(&["-o", "-", "true"]);
    drain(terminal);
    running.finish().expect(125);
}
