//! Comparison of recordings: a later wakeup is distinguished from noise.

use fxtrec_tests::folder::Folder;
use fxtrec_tests::machine;
use fxtrec_tests::root::may_record;

const WORKLOAD: &str = env!("CARGO_BIN_EXE_workload");

/// The number of runs that a side of a comparison needs for one metric.
const RUNS: usize = 4;

/// Records runs in which `latecomer` is late by the given milliseconds. Returns their names.
fn record(folder: &Folder, side: &str, millis: &str) -> Vec<String> {
    let names: Vec<String> = (0..RUNS).map(|run| format!("{side}{run}.fxt.zst")).collect();
    for name in &names {
        folder.fxtrec(["-q", "-o", name, "--", WORKLOAD, "late", "9", millis]).expect(0);
    }
    names
}

fn compare<'a>(options: &[&'a str], base: &'a [String], new: &'a [String]) -> Vec<&'a str> {
    let mut line = vec!["compare", "--metric", "wakeup.p50 if comm = 'latecomer'"];
    line.extend(options);
    line.extend(base.iter().map(String::as_str));
    line.push("--");
    line.extend(new.iter().map(String::as_str));
    line
}

#[test]
fn later_wake_ups_are_found_and_equal_ones_are_not_called_different() {
    if !may_record() {
        return;
    }
    let folder = Folder::new();
    let machine = machine::quiet();
    let (base, new) = (record(&folder, "base", "2"), record(&folder, "new", "30"));
    machine.give_back();

    let done = folder.fxtrec(compare(&["--fail-if-worse", "10%"], &base, &new));
    assert_eq!(done.code, 3, "{}{}", done.stdout, done.stderr);
    assert!(done.stdout.starts_with("4 base runs, 4 new runs\n"), "{}", done.stdout);
    assert!(done.stdout.contains("  larger\n"), "{}", done.stdout);
    assert!(done.stdout.contains("FAILED: wakeup.p50 if comm = 'latecomer'"), "{}", done.stdout);

    let done = folder.fxtrec(compare(&["--fail-if-worse", "10%"], &new, &base));
    assert_eq!(done.code, 0, "getting better is no failure: {}", done.stdout);
    assert!(done.stdout.contains("  smaller\n"), "{}", done.stdout);

    let done = folder.fxtrec(compare(&["--fail-if-worse", "0%"], &base, &base));
    assert_eq!(done.code, 0, "{}", done.stdout);
    assert!(
        done.stdout.contains("\nno difference is larger than the noise of these runs\n"),
        "{}",
        done.stdout
    );

    let done = folder.fxtrec(compare(&["--json"], &base, &new));
    assert_eq!(done.code, 0, "nothing was to fail: {}", done.stdout);
    assert!(done.stdout.contains("\"finding\": \"larger\""), "{}", done.stdout);

    let done = folder.fxtrec(compare(&["--fail-if-worse", "10%"], &base[..1], &new[..1]));
    assert_eq!(done.code, 3, "one run per side shows nothing: {}", done.stdout);
    assert!(done.stdout.contains(": record 4 runs per side\n"), "{}", done.stdout);

    // There are a few wakeups in a run: too few for such a percentile.
    let mut line = compare(&["--fail-if-worse", "10%"], &base, &new);
    line.splice(1..1, ["--metric", "wakeup.p99.9 if comm = 'latecomer'"]);
    let done = folder.fxtrec(line);
    assert_eq!(done.code, 3, "{}", done.stdout);
    assert!(done.stdout.contains("of 1000 needed"), "{}", done.stdout);
    assert!(done.stdout.contains("FAILED: wakeup.p50 if comm = 'latecomer'"), "{}", done.stdout);
    assert!(done.stdout.contains("\nnot judged: wakeup.p99.9"), "{}", done.stdout);
}

#[test]
fn what_is_no_trace_is_refused_by_name() {
    let folder = Folder::new();
    std::fs::write(folder.path("a.fxt"), "text").expect("a file");
    let done = folder.fxtrec(["compare", "a.fxt", "--", "a.fxt"]);
    assert_eq!(done.code, 125, "{}", done.stdout);
    assert!(done.stderr.starts_with("fxtrec: a.fxt: "), "{}", done.stderr);
    let done = folder.fxtrec(["compare", "none.fxt", "--", "a.fxt"]);
    assert_eq!(done.code, 125);
    assert!(done.stderr.contains("none.fxt"), "{}", done.stderr);
}
