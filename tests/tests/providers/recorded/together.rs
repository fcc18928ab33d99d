//! Applications of every kind and the scheduler in one archive, which other readers can read.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

use fxt_reader::record::EventKind;
use fxtrec_tests::archive::{Archive, Provider};
use fxtrec_tests::folder::Folder;
use fxtrec_tests::trace::{self, Trace};
use fxtrec_tests::{binary, c_example, root, skip, tools};

use super::APP;
use super::agreement::{MICROSECOND, agreement};

/// The lines of a file that describe a span.
fn spans_in(path: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(path).expect("it was written");
    text.lines().filter(|line| line.split(' ').count() == 3).map(str::to_owned).collect()
}

/// Asserts that the thread of a span was switched out and in again inside it, according to the scheduler.
fn assert_slept_in(provider: &Provider, name: &str, trace: &Trace) {
    let times: Vec<_> = provider.events.iter().filter(|event| event.name == name).collect();
    let [begin, end] = times[..] else { panic!("{name}: {times:?}") };
    let inside = |time: u64| begin.time <= time && time <= end.time;
    let (_, process) = &trace.threads[&begin.thread];
    assert_eq!(*process, begin.process, "the scheduler knows it by the same ids");
    let asleep = trace.outs(begin.thread).find(|switch| inside(switch.time));
    let inferred = trace.switches.iter().any(|it| it.inferred && it.incoming == begin.thread);
    assert!(asleep.is_some() || inferred, "it waited in {name}");
}

/// Reads a trace with the reader from PyPI, and compares its counts with fxtrec's.
fn read_by_the_other_reader(path: &Path) {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../scripts/check-trace");
    let done = Command::new(script).env("FXTREC", binary::fxtrec()).arg(path).output();
    let done = done.expect("bash");
    let said = String::from_utf8_lossy(&done.stderr);
    match done.status.code() {
        Some(2) => skip::skip(&format!("needs the Python package fxt: {said}")),
        code => {
            assert_eq!(code, Some(0), "{}{said}", String::from_utf8_lossy(&done.stdout));
        }
    }
}

#[test]
fn macros_tracing_c_and_the_scheduler_are_in_one_archive_on_one_clock() {
    if !root::may_record() || !tools::or_skip(&["gcc", "python3"]) {
        return;
    }
    let folder = Folder::new();
    let scratch = tempfile::tempdir().expect("a folder for temporary files");
    let example = c_example::build_statically(scratch.path());
    let traced = env!("CARGO_BIN_EXE_provider-traced");
    let example = example.display();
    // All of them at once, so that they are mixed.
    let script = format!(
        "{APP} sleeps 2 100 >spans.txt & {traced} sleeps >traced.txt </dev/null & {example} & wait"
    );
    let done = folder.fxtrec(["-a", "-o", "all.fxt", "--", "sh", "-c", &script]);
    assert_eq!(done.code, 0, "{}", done.stderr);
    assert!(done.stderr.contains("providers  3: "), "{}", done.stderr);

    let output = folder.path("all.fxt");
    let trace = Trace::read(&output);
    trace.assert_sound();
    let archive = Archive::read(&output);
    let called = |name: &str| {
        let mut found = archive.providers.values().filter(|provider| provider.name == name);
        found.next().unwrap_or_else(|| panic!("no provider {name}"))
    };
    let (spans, traced) =
        (spans_in(&folder.path("spans.txt")), spans_in(&folder.path("traced.txt")));
    assert_eq!((spans.len(), traced.len()), (200, 25));
    let gap = agreement(called("spans"), "nap", &spans, &trace);
    assert!(gap <= MICROSECOND, "the closest span is {gap} ns from what was printed");
    // The overhead of `tracing` itself around a span does not matter here.
    agreement(called("traced"), "nap", &traced, &trace);
    // Its main function ends by waiting until its records are saved.
    assert_slept_in(called("c example"), "everything", &trace);
    for provider in archive.providers.values() {
        assert_eq!(provider.stats["dropped"], 0, "{}", provider.name);
    }
    read_by_the_other_reader(&output);
}

#[test]
fn threads_of_an_application_in_a_pid_namespace_are_those_of_the_scheduler() {
    if !root::may_record() || !tools::or_skip(&["unshare"]) {
        return;
    }
    let folder = Folder::new();
    let script = format!("{APP} sleeps 2 100 >spans.txt");
    let command = ["unshare", "--pid", "--fork", "sh", "-c", &script];
    let options = ["-a", "-o", "inner.fxt", "--"];
    let done = folder.fxtrec(options.iter().chain(&command));
    assert_eq!(done.code, 0, "{}", done.stderr);
    let (trace, archive) =
        (Trace::read(&folder.path("inner.fxt")), Archive::read(&folder.path("inner.fxt")));
    let provider = archive.providers.values().find(|it| it.name == "spans").expect("it came");
    // It printed the ids of its namespace, which begin with 1. The times of its spans identify its threads outside.
    let mut outer = BTreeMap::new();
    let mut lines = Vec::new();
    for line in spans_in(&folder.path("spans.txt")) {
        let words: Vec<u64> = line.split(' ').map(|it| it.parse().expect("a number")).collect();
        let [inner, from, to] = words[..] else { panic!("{line}") };
        assert!(inner < 100, "{line}");
        let named = provider.events.iter().filter(|event| event.name == "nap");
        // Both threads nap at the same time, but no nap of the other thread lies entirely within the bounds of this one.
        let within: BTreeSet<u64> = named
            .filter(|event| (from..=to).contains(&event.time))
            .map(|event| event.thread)
            .filter(|thread| naps_of(provider, *thread).any(|nap| from <= nap.0 && nap.1 <= to))
            .collect();
        let candidates = outer.entry(inner).or_insert_with(|| within.clone());
        candidates.retain(|thread| within.contains(thread));
        lines.push((inner, from, to));
    }
    let outer: BTreeMap<u64, u64> = outer
        .into_iter()
        .map(|(inner, candidates)| {
            let found: Vec<u64> = candidates.into_iter().collect();
            assert_eq!(found.len(), 1, "{inner} is one of {found:?}");
            (inner, found[0])
        })
        .collect();
    assert_eq!(outer.len(), 2);
    let lines: Vec<String> =
        lines.iter().map(|(inner, from, to)| format!("{} {from} {to}", outer[inner])).collect();
    let gap = agreement(provider, "nap", &lines, &trace);
    assert!(gap <= MICROSECOND, "the closest span is {gap} ns from what was printed");
}

/// When the naps of a thread began and ended.
fn naps_of(provider: &Provider, thread: u64) -> impl Iterator<Item = (u64, u64)> {
    let naps = provider.events.iter();
    let times: Vec<u64> = naps
        .filter(|event| event.name == "nap" && event.thread == thread)
        .flat_map(|event| match event.kind {
            EventKind::DurationComplete { end } => vec![event.time, end.0],
            _ => vec![event.time],
        })
        .collect();
    times.chunks_exact(2).map(|nap| (nap[0], nap[1])).collect::<Vec<_>>().into_iter()
}

/// If the clock that an application reads is a day ahead, its events still have the times of the scheduler's.
#[test]
fn spans_of_an_application_in_a_time_namespace_lie_within_the_recording() {
    if !root::may_record() || !tools::or_skip(&["unshare", "python3"]) {
        return;
    }
    let package = concat!(env!("CARGO_MANIFEST_DIR"), "/../fxt-writer/python");
    let program = concat!(env!("CARGO_MANIFEST_DIR"), "/programs/traced.py");
    let python = format!("PYTHONPATH={package} python3 -B {program} 2 10");
    for app in [format!("{APP} sleeps 2 10"), python] {
        let folder = Folder::new();
        let script = format!("{app} >printed");
        let unshare = ["unshare", "-T", "--monotonic", "86400", "--fork", "sh", "-c", &script];
        let begin = trace::now();
        folder.fxtrec(["-a", "-o", "t.fxt", "--"].iter().chain(&unshare)).expect(0);
        let end = trace::now();
        let provider = Archive::read(&folder.path("t.fxt")).only();
        let naps: Vec<u64> =
            provider.events.iter().filter(|it| it.name == "nap").map(|it| it.time).collect();
        assert!(naps.len() >= 40, "{app}: {} events", naps.len());
        let outside = naps.iter().filter(|time| !(begin..end).contains(*time)).count();
        assert_eq!(outside, 0, "{app}: {begin} to {end}, and {naps:?}");
    }
}
