//! Applications of every kind and the scheduler in one archive, which others can read.

use std::path::Path;
use std::process::Command;

use fxtrec_tests::archive::{Archive, Provider};
use fxtrec_tests::folder::Folder;
use fxtrec_tests::trace::Trace;
use fxtrec_tests::{binary, c_example, root, skip, tools};

use super::APP;
use super::agreement::{MICROSECOND, agreement};

/// The lines of a file that tell a span.
fn spans_in(path: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(path).expect("it was written");
    text.lines().filter(|line| line.split(' ').count() == 3).map(str::to_owned).collect()
}

/// Asserts that the thread of a span was switched out and in again inside of it, as the scheduler saw it.
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

/// Has the reader from PyPI read a trace, and compares its counts with fxtrec's.
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
    // All at once, so that they are mixed.
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
    // What `tracing` itself takes around a span is not what is judged here.
    agreement(called("traced"), "nap", &traced, &trace);
    // Its main function ends with waiting for what it recorded to be saved.
    assert_slept_in(called("c example"), "everything", &trace);
    for provider in archive.providers.values() {
        assert_eq!(provider.stats["dropped"], 0, "{}", provider.name);
    }
    read_by_the_other_reader(&output);
}
