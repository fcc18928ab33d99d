//! Traces that go into a pipe, and readers that are slow or go away.

use fxtrec_tests::root::may_record;
use fxtrec_tests::wait;
use std::io::Read;
use std::process::Stdio;

use crate::run::{Fxtrec, pingpong};
use crate::trace::Trace;

#[test]
fn a_pipe_gets_the_trace_and_standard_error_the_commands_output() {
    if !may_record() {
        return;
    }
    let done = Fxtrec::new(["-q", "-o", "-", "sh", "-c", "echo words"]).run().expect(0);
    assert_eq!(done.stderr, "words\n");
    Trace::of(&done.stdout[..]).expect_complete();
}

#[test]
fn a_reader_that_is_too_slow_costs_events_which_are_counted() {
    if !may_record() {
        return;
    }
    let (reader, writer) = std::io::pipe().unwrap();
    let fxtrec =
        Fxtrec::new(["-q", "--ring-size", "64k", "--buffer-size", "256k", "-o", "-", "--"])
            .with(|command| command.arg(pingpong()).arg("50000").stdout(writer));
    let said = fxtrec.path("said");
    let fxtrec = fxtrec.with(|command| command.stderr(std::fs::File::create(&said).unwrap()));
    let running = fxtrec.start();
    // Nobody reads while COMMAND runs; it must come to its end all the same.
    wait::until("the end of COMMAND", || {
        std::fs::read_to_string(&said).unwrap().contains("done\n") || running.is_over()
    });
    let trace = Trace::of(reader).expect_complete();
    running.finish().expect(0);
    assert!(trace.lost > 0, "the pipe cannot have held all of it");
    assert_eq!(trace.lost_in_stats, Some(trace.lost));
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    if !may_record() {
        return;
    }
    let (mut reader, writer) = std::io::pipe().unwrap();
    let running = Fxtrec::new(["-q", "-o", "-", "sh", "-c", "read word; exit 6"])
        .with(|command| command.stdin(Stdio::piped()).stdout(writer));
    let mut running = running.start();
    let mut first = [0; 8];
    reader.read_exact(&mut first).unwrap();
    assert_eq!(u64::from_le_bytes(first), 0x0016_5478_4604_0010, "the magic number");
    drop(reader);
    running.write_input("word\n");
    let done = running.finish().expect(6);
    assert_eq!(done.stderr, "");
}
