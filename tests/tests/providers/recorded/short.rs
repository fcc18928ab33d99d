//! Programs that end as soon as they have recorded something: all of it is in the trace.

use std::path::Path;

use fxt_reader::record::EventKind;
use fxtrec_tests::archive::Archive;
use fxtrec_tests::folder::Folder;
use fxtrec_tests::{c_example, root, tools};

use super::APP;

/// The longest wait of `init`, and fxtrec's message if that was not enough.
const TOO_LATE: &str = "exited before it started to record";

/// Runs the programs one after the other in separate recordings, and asserts that each span of each is in the trace, or counted as dropped,
/// or that fxtrec names the program that it missed.
fn assert_nothing_is_missing(mode: &str, programs: &[String]) {
    let folder = Folder::new();
    let mut whole = 0;
    for program in programs {
        let words = program.split(' ');
        let done = folder.fxtrec(["-o", "t.fxt", "--mode", mode, "--"].into_iter().chain(words));
        let code = if program.ends_with("kill") { 128 + 9 } else { 0 };
        assert_eq!(done.code, code, "{}", done.stderr);
        let archive = Archive::read(&folder.path("t.fxt"));
        let Some(provider) = archive.providers.values().next() else {
            panic!("{mode}, {program}: nothing was recorded, and fxtrec says {}", done.stderr);
        };
        let begun = provider.events.iter().filter(|it| it.kind == EventKind::DurationBegin).count();
        let reported = provider.stats["dropped"] as usize;
        if done.stderr.contains(TOO_LATE) {
            continue;
        }
        assert_eq!(begun + reported, 3, "{mode}, {program}: {}", done.stderr);
        whole += usize::from(reported == 0 && provider.events.len() == 6);
    }
    // Whatever else runs on the machine, the exception must stay rare.
    assert!(whole * 10 >= programs.len() * 9, "{mode}: {whole} of {} were whole", programs.len());
}

/// `count` runs of a program, which ends in each of these ways in turn.
fn runs(count: usize, program: &str, ways: &[&str]) -> Vec<String> {
    ways.iter().cycle().take(count).map(|way| format!("{program} {way}")).collect()
}

#[test]
fn the_spans_of_a_short_program_are_all_in_the_trace_however_it_ends() {
    assert_none_of_them_is_missing(15);
}

#[test]
#[ignore = "slow: .ci/nightly runs it"]
fn the_spans_of_many_short_programs_are_all_in_the_trace() {
    assert_none_of_them_is_missing(50);
}

fn assert_none_of_them_is_missing(times: usize) {
    if !root::may_record() {
        return;
    }
    let program = format!("{APP} brief");
    let ways = ["leave", "exit", "kill"];
    assert_nothing_is_missing("streaming", &runs(times, &program, &ways));
    for mode in ["oneshot", "circular"] {
        assert_nothing_is_missing(mode, &runs(times / 5, &program, &ways));
    }
}

#[test]
fn so_are_those_of_a_program_that_uses_tracing() {
    if !root::may_record() {
        return;
    }
    let program = env!("CARGO_BIN_EXE_provider-traced");
    assert_nothing_is_missing("streaming", &runs(20, program, &["brief"]));
}

#[test]
fn and_those_of_a_program_in_c() {
    if !root::may_record() || !tools::or_skip(&["gcc"]) {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder for the program");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("programs/brief.c");
    let program = c_example::compile_statically(&source, folder.path());
    let program = program.to_str().expect("a plain path");
    assert_nothing_is_missing("streaming", &runs(20, program, &["leave", "exit", "kill"]));
}
