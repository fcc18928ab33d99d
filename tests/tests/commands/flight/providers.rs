//! The records of applications, in windows and snapshots.

use std::path::Path;

use fxt_reader::record::EventKind;
use fxtrec_tests::archive::{Archive, Event, Provider};
use fxtrec_tests::root;
use fxtrec_tests::trace::Trace;
use nix::sys::signal::Signal;

use crate::flight::trigger::lasted;
use crate::flight::{Recorder, fxtrec_says};

const WHY: &str = "it records the machine";

/// The application with trace points.
const APP: &str = env!("CARGO_BIN_EXE_spans");

/// The times around a step, as the application printed them: its thread, before, after.
fn printed(line: &str) -> [u64; 3] {
    let numbers: Vec<u64> = line.split(' ').map(|word| word.parse().expect("a number")).collect();
    numbers.try_into().expect("three numbers")
}

/// The only provider of a file; every reader accepts the file.
fn provider_in(path: &Path) -> Provider {
    fxtrec_says(&["dump", "--check", path.to_str().expect("a plain path")]);
    Archive::read(path).only()
}

/// The events with this name: a begin and an end.
fn pair<'p>(provider: &'p Provider, name: &str) -> (&'p Event, &'p Event) {
    let events: Vec<&Event> = provider.events.iter().filter(|event| event.name == name).collect();
    let [begin, end] = events[..] else { panic!("{name}: {events:?}") };
    assert_eq!((begin.kind, end.kind), (EventKind::DurationBegin, EventKind::DurationEnd));
    (begin, end)
}

fn is_cut(event: &Event) -> bool {
    event.numbers.get("cut") == Some(&1)
}

#[test]
fn a_window_holds_what_applications_recorded_in_it_next_to_the_scheduler() {
    if !root::or_skip(WHY) {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder for temporary files");
    let output = folder.path().join("app.fxt");
    let options =
        ["--mode", "circular", "--trigger", "alert look", "--before", "1s", "--after", "1ms"];
    let mut recorder = Recorder::start(&options, &output, &[APP, "window"]);
    let steps = [recorder.printed(), recorder.printed()].map(|line| printed(&line));
    let line = recorder.said();
    assert!(line.contains("trigger alert look: raised by spans ("), "{line}");
    let path = folder.path().join("app.1.fxt");
    let window = Trace::read(&path);
    let provider = provider_in(&path);
    recorder.say("on");
    let last = printed(&recorder.printed());
    let (code, said) = recorder.end();
    assert_eq!(code, 0, "{said}");

    window.assert_sound();
    assert_eq!((provider.name.as_str(), provider.numbers("step")), ("spans", vec![1]));
    let (begin, end) = pair(&provider, "step");
    let [thread, before, after] = steps[1];
    assert!(before <= begin.time && end.time <= after, "{begin:?} {end:?} {:?}", steps[1]);
    assert_eq!((begin.thread, is_cut(begin), is_cut(end)), (thread, false, false));
    // The thread slept in this step; the scheduler's records show it at the same time.
    let asleep = window.outs(thread).find(|out| begin.time <= out.time && out.time <= end.time);
    let inferred = window.switches.iter().any(|it| it.inferred && it.incoming == thread);
    assert!(asleep.is_some() || inferred, "{thread} between {} and {}", begin.time, end.time);
    // Spans that last the whole time are cut at both ends of the window.
    let (life_begin, life_end) = pair(&provider, "life");
    assert!(is_cut(life_begin) && is_cut(life_end));
    let mark = window.own.iter().find(|event| event.name == "trigger").expect("it fired").time;
    assert_eq!(life_begin.time, mark - 1_000_000_000);
    assert!((begin.time..=mark + 1_000_000).contains(&life_end.time));
    assert_eq!(window.own.last().map(|event| event.name.as_str()), Some("trace_stats"));

    // Snapshots remove nothing: the file at the end has all of it.
    let whole = provider_in(&output);
    assert_eq!(whole.numbers("step"), [0, 1, 2]);
    let (life_begin, life_end) = pair(&whole, "life");
    assert!(life_begin.time <= steps[0][1] && last[2] <= life_end.time);
}

#[test]
fn a_snapshot_has_all_that_applications_remember_and_the_end_what_they_were_in_the_middle_of() {
    if !root::or_skip(WHY) {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder for temporary files");
    let output = folder.path().join("app.fxt");
    let options = ["--mode", "circular", "--provider-buffer", "256k"];
    let mut recorder = Recorder::start(&options, &output, &[APP, "flood", "50000"]);
    recorder.wait_for("through");
    recorder.0.signal(Signal::SIGUSR2);
    let line = recorder.said();
    assert!(line.ends_with("app.1.fxt"), "{line}");
    let snapshot = provider_in(&folder.path().join("app.1.fxt"));
    recorder.say("on");
    let (code, said) = recorder.end();
    assert_eq!(code, 0, "{said}");

    let numbers = snapshot.numbers("numbered");
    assert!(numbers.len() > 1000 && numbers[0] > 0, "the last that were recorded: {numbers:?}");
    let last: Vec<u64> = (50_000 - numbers.len() as u64..50_000).collect();
    assert_eq!(numbers, last);
    assert!(
        snapshot.events.iter().all(|event| event.name == "numbered"),
        "what began before is unknown"
    );
    // Its end shows that it was open.
    let whole = provider_in(&output);
    let (begin, end) = pair(&whole, "life");
    assert!(is_cut(begin) && !is_cut(end));
    assert_eq!(begin.time, whole.events[1].time, "it is as old as what is remembered, at least");
    assert_eq!(whole.numbers("numbered"), last);
}

#[test]
fn an_alert_right_before_the_end_fires() {
    if !root::or_skip(WHY) {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder for temporary files");
    let output = folder.path().join("app.fxt");
    let options = ["--mode", "circular", "--trigger", "alert 'last words'", "--before", "10s"];
    for (how, status) in [("leave", 0), ("exit", 0), ("kill", 128 + 9)] {
        let (code, said) = Recorder::start(&options, &output, &[APP, "alert", how]).end();
        assert_eq!(code, status, "{said}");
        assert!(said.contains("alert 'last words': raised by spans ("), "{how}: {said}");
    }
}

#[test]
fn a_span_that_takes_too_long_fires_at_its_end_and_all_of_it_is_in_the_file() {
    if !root::or_skip(WHY) {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder for temporary files");
    let output = folder.path().join("app.fxt");
    let trigger = "span(\"app:line\") > 40ms";
    // The history before a trigger is shorter than the span.
    let options = ["--mode", "circular", "--trigger", trigger, "--before", "1ms", "--after", "1ms"];
    let mut recorder = Recorder::start(&options, &output, &[APP, "lines"]);
    for line in ["one", "two"] {
        recorder.say(line);
        recorder.wait_for(line);
        std::thread::sleep(std::time::Duration::from_millis(60));
    }
    // The application and the recording continue.
    let line = recorder.said();
    assert!(line.contains(&format!("trigger {trigger}: spans (")), "{line}");
    let path = folder.path().join("app.1.fxt");
    let (_, from, at) = lasted(&path, trigger, 40);
    let provider = provider_in(&path);
    let lines = provider.events.iter().filter(|event| event.name == "line");
    let lines: Vec<_> = lines.filter(|event| (from..=at).contains(&event.time)).collect();
    assert_eq!((lines[0].time, lines[1].time), (from, at));
    assert!(!is_cut(lines[0]) && !is_cut(lines[1]));
    let (code, said) = recorder.end();
    assert_eq!(code, 0, "{said}");
}

#[test]
fn a_span_right_before_the_end_fires() {
    if !root::or_skip(WHY) {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder for temporary files");
    let output = folder.path().join("app.fxt");
    let options = ["--mode", "circular", "--trigger", "span('brief') > 0ns"];
    for (how, status) in [("leave", 0), ("exit", 0), ("kill", 128 + 9)] {
        let (code, said) = Recorder::start(&options, &output, &[APP, "brief", how]).end();
        assert_eq!(code, status, "{said}");
        assert!(said.contains("trigger span('brief') > 0ns: "), "{how}: {said}");
    }
    let options = ["--mode", "circular", "--trigger", "span('x') > 1ms", "--no-providers"];
    let (code, said) = Recorder::start(&options, &output, &[APP, "brief", "leave"]).end();
    assert_eq!(code, 125, "{said}");
    assert!(said.contains("alerts and spans come from COMMAND"), "{said}");
}
