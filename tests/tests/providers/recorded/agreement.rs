//! An application's spans and the scheduler's records agree.

use fxt_reader::record::EventKind;
use fxtrec_tests::archive::{Archive, Provider};
use fxtrec_tests::folder::Folder;
use fxtrec_tests::programs::{source, succeed};
use fxtrec_tests::trace::Trace;
use fxtrec_tests::{binary, root, tools};

use super::Recording;

/// The clocks are the same, so the printed times enclose a span, by as much as recording takes.
pub(super) const MICROSECOND: u64 = 1000;

/// They sleep for two milliseconds, and get a CPU again no earlier.
const SLEPT: u64 = 1_900_000;

/// A span as the application printed it: its thread, and times just before and just after.
fn printed(lines: &[String]) -> Vec<(u64, u64, u64)> {
    let numbers = |line: &String| -> Vec<u64> {
        line.split(' ').map(|word| word.parse().expect("a number")).collect()
    };
    lines.iter().map(numbers).map(|words| (words[0], words[1], words[2])).collect()
}

/// Spans with one name in the trace: thread, begin, end.
fn recorded(provider: &Provider, name: &str) -> Vec<(u64, u64, u64)> {
    let mut open = std::collections::HashMap::new();
    let mut spans = Vec::new();
    for event in provider.events.iter().filter(|event| event.name == name) {
        match event.kind {
            EventKind::DurationBegin => {
                assert_eq!(open.insert(event.thread, event.time), None, "naps do not nest");
            }
            EventKind::DurationEnd => {
                let begin = open.remove(&event.thread).expect("it has begun");
                spans.push((event.thread, begin, event.time));
            }
            EventKind::DurationComplete { end } => spans.push((event.thread, event.time, end.0)),
            other => panic!("{other:?} is no part of a span"),
        }
    }
    assert!(open.is_empty(), "all have ended");
    spans
}

/// Asserts that each span is at the printed time, and that its thread slept in it. How close the printed times were to the closest span, in
/// nanoseconds.
pub(super) fn agreement(provider: &Provider, name: &str, lines: &[String], trace: &Trace) -> u64 {
    let mut spans = recorded(provider, name);
    let mut expected = printed(lines);
    assert_eq!(spans.len(), expected.len());
    spans.sort_unstable();
    expected.sort_unstable();
    assert_eq!(trace.stats().number("lost"), 0, "what was lost says nothing");
    let (mut gaps, mut inferred) = (u64::MAX, 0);
    for (span, said) in spans.iter().zip(&expected) {
        let (thread, begin, end) = *span;
        assert_eq!(thread, said.0);
        assert!(said.1 <= begin && end <= said.2, "{span:?} is not within {said:?}");
        gaps = gaps.min((begin - said.1).max(said.2 - end));
        let inside = |time: u64| begin <= time && time <= end;
        let asleep = trace.outs(thread).map(|switch| switch.time).find(|time| inside(*time));
        let ins = trace.switches.iter().filter(|switch| switch.incoming == thread);
        let back = ins.map(|switch| switch.time).rfind(|time| inside(*time));
        let slept = asleep.zip(back).filter(|(asleep, back)| back.saturating_sub(*asleep) >= SLEPT);
        if slept.is_none() {
            // The kernel omitted a switch, which the trace shows at the thread's next event.
            let mut reported = trace.switches.iter().filter(|it| it.inferred && it.time >= begin);
            let reported = reported.any(|it| it.incoming == thread || it.outgoing == thread);
            assert!(reported, "{span:?}: out at {asleep:?}, in at {back:?}");
            inferred += 1;
            continue;
        }
        let (name, process) = &trace.threads[&thread];
        assert!(!name.is_empty());
        assert_eq!(*process, provider.events[0].process);
    }
    assert!(inferred * 10 <= spans.len(), "{inferred} of {} were inferred", spans.len());
    gaps
}

#[test]
fn spans_lie_where_the_scheduler_saw_their_threads() {
    if !root::may_record() {
        return;
    }
    let folder = Folder::new();
    let output = folder.path("spans.fxt");
    let recording = Recording::of_app(&[], &output, &["sleeps", "4", "25"]);
    let (code, lines, said) = recording.end();
    assert_eq!((code, lines.len()), (Some(0), 100), "{said}");
    assert!(said.contains("providers  1: spans "), "{said}");

    let trace = Trace::read(&output);
    trace.assert_sound();
    let provider = Archive::read(&output).only();
    let gap = agreement(&provider, "nap", &lines, &trace);
    // The printed times enclose every span; the closest pair shows the difference without other delays.
    assert!(gap <= MICROSECOND, "the closest span is {gap} ns from what was printed");
    assert_eq!((provider.stats["dropped"], provider.filled_up), (0, 0));

    // Every command that reads traces accepts one of several providers.
    for command in [&["dump", "--check", "spans.fxt"][..], &["report", "spans.fxt"]] {
        let done = folder.fxtrec(command);
        assert_eq!(done.code, 0, "{command:?}: {}", done.stderr);
    }
}

#[test]
fn a_client_in_another_language_needs_nothing_but_the_protocol() {
    if !root::may_record() || !tools::or_skip(&["python3"]) {
        return;
    }
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/programs/provider.py");
    for mode in ["streaming", "circular", "oneshot"] {
        for end in ["leave", "kill"] {
            let folder = Folder::new();
            let args = ["--mode", mode, "-o", "python.fxt", "--", "python3", script, "20", end];
            let done = folder.fxtrec(args);
            let expected = if end == "kill" { 128 + 9 } else { 0 };
            assert_eq!(done.code, expected, "{mode}: {}", done.stderr);
            assert!(done.stderr.contains("providers  1: by hand "), "{mode}: {}", done.stderr);
            let lines: Vec<String> = done.stdout.lines().map(str::to_owned).collect();
            assert_eq!(lines.len(), 20, "{mode}");
            let output = folder.path("python.fxt");
            let provider = Archive::read(&output).only();
            assert_eq!(recorded(&provider, "sleep").len(), 20, "{mode}, {end}");
            let trace = Trace::read(&output);
            trace.assert_sound();
            if mode == "streaming" {
                let mut spans = recorded(&provider, "sleep");
                spans.sort_unstable();
                assert_eq!(spans, printed(&lines), "the script prints the very times");
                let process = &trace.processes[&spans[0].0];
                assert!(process.starts_with("python"), "{process}");
            }
        }
    }
}

#[test]
fn a_client_in_go_needs_no_library_of_ours_either() {
    if !root::may_record() || !tools::or_skip(&["go"]) {
        return;
    }
    let folder = Folder::new();
    let program = folder.path("provider");
    // A single file needs no module, and the build stays in the test's directory.
    let mut go = std::process::Command::new("go");
    go.args(["build", "-o"]).arg(&program).arg(source("provider.go"));
    let cache = folder.path("cache");
    succeed(go.env("GO111MODULE", "off").env("GOCACHE", cache).env("GOFLAGS", ""));
    for mode in ["streaming", "oneshot"] {
        let output = folder.path(format!("{mode}.fxt"));
        let mut fxtrec = binary::command();
        fxtrec.args(["--mode", mode, "-o"]).arg(&output).arg("--").arg(&program).arg("20");
        let done = folder.run(&mut fxtrec).expect(0);
        assert!(done.stderr.contains("providers  1: in go "), "{mode}: {}", done.stderr);
        let lines: Vec<String> = done.stdout.lines().map(str::to_owned).collect();
        let trace = Trace::read(&output);
        trace.assert_sound();
        let provider = Archive::read(&output).only();
        assert_eq!(provider.stats["dropped"], 0, "{mode}");
        let mut spans = recorded(&provider, "sleep");
        spans.sort_unstable();
        assert_eq!(spans, printed(&lines), "{mode}: the program prints the very times");
        assert_eq!(spans.len(), 20);
    }
}
