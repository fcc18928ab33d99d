//! Traces that are written to a pipe, and readers that are slow or go away.

use fxtrec_tests::root::may_record;
use fxtrec_tests::wait;
use std::io::{PipeReader, Read};
use std::path::PathBuf;
use std::process::Stdio;

use crate::command_line::run::{Fxtrec, Running, pingpong};
use crate::command_line::trace::Trace;

#[test]
fn a_pipe_gets_the_trace_and_standard_error_the_commands_output() {
    if !may_record() {
        return;
    }
    let done = Fxtrec::new(["-q", "-o", "-", "sh", "-c", "echo words"]).run().expect(0);
    assert_eq!(done.stderr, "words\n");
    Trace::of(&done.stdout[..]).expect_complete();
}

/// Starts fxtrec with small buffers and waits for the end of COMMAND, without reading the trace. Returns the trace's pipe and the path of
/// the printed output.
fn unread(option: &str) -> (PipeReader, Running, PathBuf) {
    let (reader, writer) = std::io::pipe().unwrap();
    let fxtrec =
        Fxtrec::new([option, "--ring-size", "64k", "--buffer-size", "256k", "-o", "-", "--"])
            .with(|command| command.arg(pingpong()).arg("50000").stdout(writer));
    let said = fxtrec.path("said");
    let fxtrec = fxtrec.with(|command| command.stderr(std::fs::File::create(&said).unwrap()));
    let running = fxtrec.start();
    // Nothing is read while COMMAND runs; it must reach its end all the same.
    wait::until("the end of COMMAND", || {
        std::fs::read_to_string(&said).unwrap().contains("done\n") || running.is_over()
    });
    (reader, running, said)
}

#[test]
fn a_reader_that_is_too_slow_costs_events_which_are_counted() {
    if !may_record() {
        return;
    }
    let (reader, running, _) = unread("-q");
    let trace = Trace::of(reader).expect_complete();
    running.finish().expect(0);
    assert!(trace.lost > 0, "the pipe cannot have held all of it");
    assert_eq!(trace.lost_in_stats, Some(trace.lost));
}

#[test]
fn a_reader_that_goes_away_early_is_a_failure_that_counts_what_is_missing() {
    if !may_record() {
        return;
    }
    // COMMAND's own failure takes precedence.
    for (script, code) in [("read word", 125), ("read word; exit 6", 6)] {
        let (mut reader, writer) = std::io::pipe().unwrap();
        let running = Fxtrec::new(["-q", "-o", "-", "sh", "-c", script])
            .with(|command| command.stdin(Stdio::piped()).stdout(writer));
        let mut running = running.start();
        let mut first = [0; 8];
        reader.read_exact(&mut first).unwrap();
        assert_eq!(u64::from_le_bytes(first), 0x0016_5478_4604_0010, "the magic number");
        drop(reader);
        running.write_input("word\n");
        let done = running.finish().expect(code);
        let said = &done.stderr;
        let begin = "fxtrec: the reader of standard output closed it before the end of the trace: ";
        let missing = said.strip_prefix(begin).unwrap_or_else(|| panic!("{said}"));
        let records: String =
            missing.chars().take_while(|c| *c != 'r').filter(|c| *c != ' ').collect();
        assert!(records.parse::<u64>().unwrap() > 10, "{said}");
        assert!(missing.contains(" records (") && missing.ends_with(" are missing\n"), "{said}");
    }
}

#[test]
fn a_reader_that_goes_away_is_reported_in_the_summary_and_not_with_twice_quiet() {
    if !may_record() {
        return;
    }
    for option in ["--no-summary", "--progress=never", "-qq"] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let done = Fxtrec::new([option, "-o", "-", "true"])
            .with(|command| command.stdout(writer))
            .run()
            .expect(125);
        assert!(!done.stderr.contains("lost       nothing\n"), "{}", done.stderr);
        assert_eq!(done.stderr.contains(" are missing\n"), option != "-qq", "{}", done.stderr);
        assert_eq!(done.stderr.contains("  unsaved "), option == "--progress=never");
    }
}

#[test]
fn losses_are_reported_even_when_no_summary_is_wanted() {
    if !may_record() {
        return;
    }
    for (option, reported) in [("-q", true), ("--no-summary", true), ("-qq", false)] {
        let (reader, running, said) = unread(option);
        let trace = Trace::of(reader);
        let said = std::fs::read_to_string(&said);
        let done = running.finish().expect(0);
        let said = std::fs::read_to_string(done.path("said")).or(said).unwrap();
        assert!(trace.lost > 0, "the pipe cannot have held all of it");
        assert_eq!(said.contains("fxtrec: LOST "), reported, "{option}: {said}");
        assert!(!said.contains("recorded"), "no summary: {said}");
    }
}

#[test]
fn mistakes_in_the_arguments_are_told_however_quiet() {
    for line in [["-qq", "-a", "-p", "1"], ["-qq", "-a", "--scope", "app"]] {
        let done = Fxtrec::new(line).run();
        assert!(done.stderr.contains("-a records the whole machine"), "{line:?}: {}", done.stderr);
    }
}
