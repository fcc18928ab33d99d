//! Impossible requests are rejected before the command runs.

use fxtrec_tests::folder::Folder;
use fxtrec_tests::root;

/// Asserts that this is rejected with this message, and that the command was not run.
fn assert_refused(options: &[&str], words: &[&str]) {
    let folder = Folder::new();
    let command = ["-o", "trace.fxt", "--", "touch", "started"];
    let done = folder.fxtrec(options.iter().chain(&command));
    assert_eq!(done.code, 125, "{options:?}: {}", done.stderr);
    for word in words {
        assert!(done.stderr.contains(word), "{options:?}: {}", done.stderr);
    }
    for file in ["started", "trace.fxt", "trace.0001.fxt"] {
        assert!(!folder.path(file).exists(), "{options:?} made {file}");
    }
}

#[test]
fn an_expression_that_is_none_is_refused_where_it_stops_being_one() {
    let circular = |trigger| ["--mode", "circular", "--trigger", trigger];
    assert_refused(
        &circular("wakeup > 5 parsecs"),
        &["does not take the unit 'parsecs'", "^^^^^^^"],
    );
    assert_refused(&circular("wakeup.p99 > 5ms"), &["a trigger tests each wakeup value", "^^^"]);
    assert_refused(&circular("probe"), &["the name of a probe"]);
    assert_refused(&circular("lost > 0 if cpu = 1"), &["takes no condition"]);
    assert_refused(&circular("span(x) > 1ms"), &["a string in quotes", "^"]);
    let hook = [&circular("lost > 0")[..], &["--on-trigger", "sh -c 'x"]].concat();
    assert_refused(&hook, &["unterminated quote"]);
}

#[test]
fn options_that_contradict_each_other_are_refused_with_a_way_out() {
    assert_refused(&["--trigger", "lost > 0"], &["--mode circular"]);
    assert_refused(&["--rotate", "10"], &["write 10M for a size or 10s for a time"]);
    assert_refused(&["--rotate", "1GB", "--mode", "circular"], &["streaming mode"]);
    assert_refused(&["--disk-budget", "1GB"], &["--trigger", "--rotate"]);
    assert_refused(&["--keep", "3"], &["--rotate"]);
}

#[test]
fn a_probe_that_is_not_recorded_is_refused_with_those_that_are() {
    if !root::or_skip("probes are looked up before a recording") {
        return;
    }
    let trigger = ["--mode", "circular", "--trigger", "probe works"];
    assert_refused(&trigger, &["unknown probe"]);
}
