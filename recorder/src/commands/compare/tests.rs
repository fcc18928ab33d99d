use std::fs;

use tempfile::TempDir;

use super::*;
use crate::cli::{Cli, Command};
use crate::commands::trace_file::tests::through_a_pipe;
use crate::report::scene::{Leaves, Scene};

/// A directory with a trace for each of `waits`, in which a thread waits for a CPU that many
/// microseconds.
fn traces(side: &str, waits: &[u64], folder: &TempDir) -> Vec<String> {
    let write = |(at, wait): (usize, &u64)| {
        let mut scene = Scene::new();
        scene.switch(0, 0, 0, Leaves::R, 102);
        scene.wake(20, 0, 101);
        scene.switch(20 + wait, 0, 102, Leaves::S, 101);
        scene.switch(1000, 0, 101, Leaves::S, 0);
        scene.span((20, 1000), 101, "request");
        scene.end(1001);
        let path = folder.path().join(format!("{side}{at}.fxt"));
        fs::write(&path, scene.bytes()).expect("a trace");
        path.display().to_string()
    };
    waits.iter().enumerate().map(write).collect()
}

/// Runs a command line; returns whether it passed, and its output.
fn run(options: &[&str], base: &[u64], new: &[u64]) -> (bool, String) {
    let folder = tempfile::tempdir().expect("a folder");
    let (base, new) = (traces("base", base, &folder), traces("new", new, &folder));
    let mut line: Vec<&str> = vec!["fxtrec", "compare"];
    line.extend(options);
    line.extend(base.iter().map(String::as_str));
    line.push("--");
    line.extend(new.iter().map(String::as_str));
    let args = match Cli::parse_line(&line) {
        Ok(Command::Compare(args)) => args,
        other => panic!("{line:?}: {other:?}"),
    };
    let mut out = Vec::new();
    let passed = compare(&args, &mut out).expect("traces");
    (passed, String::from_utf8(out).expect("text"))
}

const MAX: [&str; 2] = ["--metric", "wakeup.max"];

/// The strings of all measures that are compared by default.
#[test]
fn what_is_compared_by_default_can_be_read() {
    for text in OF_COMMAND.iter().chain(&OF_MACHINE) {
        let measure: Result<Measure, _> = text.parse();
        assert_eq!(measure.expect(text).to_string(), *text);
    }
}

#[test]
fn of_a_command_what_it_took_is_compared_by_default() {
    let folder = tempfile::tempdir().expect("a folder");
    // COMMAND computes for this many microseconds; another thread of the machine always runs for the same time.
    let traces = |side: &str, computes: [u64; 5]| -> Vec<String> {
        let write = |(at, computes): (usize, u64)| {
            let mut scene = Scene::recorded_by(300, "waker,syscall", Some(100));
            scene.switch(0, 0, 0, Leaves::R, 100).switch(5, 0, 100, Leaves::S, 0);
            scene.wake_by(20, 0, 100, 300).switch(25, 0, 0, Leaves::R, 100);
            scene.switch(25 + computes, 0, 100, Leaves::S, 0).wake(125 + computes, 0, 100);
            scene.switch(130 + computes, 0, 0, Leaves::R, 100);
            scene.switch(140 + computes, 0, 100, Leaves::X, 0);
            scene.wake(5_000, 0, 201).switch(5_010, 0, 0, Leaves::R, 201);
            scene.switch(6_000, 0, 201, Leaves::S, 0).end(7_000);
            let path = folder.path().join(format!("{side}{at}.fxt"));
            fs::write(&path, scene.bytes()).expect("a trace");
            path.display().to_string()
        };
        computes.into_iter().enumerate().map(write).collect()
    };
    let (base, new) =
        (traces("base", [100, 101, 102, 103, 104]), traces("new", [200, 201, 202, 203, 204]));
    let line = [
        &["fxtrec".to_owned(), "compare".to_owned()][..],
        &["--fail-if-worse".to_owned(), "10%".to_owned()],
    ];
    let line = [&line.concat()[..], &base[..], &["--".to_owned()][..], &new[..]].concat();
    let Ok(Command::Compare(args)) = Cli::parse_line(&line) else { panic!("{line:?}") };
    let mut out = Vec::new();
    let passed = compare(&args, &mut out).expect("traces");
    let text = String::from_utf8(out).expect("text");
    assert!(!passed, "{text}");
    let row =
        |measure: &str| text.lines().find(|line| line.trim().starts_with(measure)).unwrap_or("");
    // From when the recorder let it run until it ended.
    for part in ["duration", "222 us", "322 us", "larger"] {
        assert!(row("duration").contains(part), "{part}: {text}");
    }
    assert!(row("cpu_time if command").contains("larger"), "{text}");
    let same = row("blocked_time if command");
    assert!(same.contains("100 us") && !same.contains("larger"), "without the recorder's: {text}");
    assert!(row("runqueue.sum if command").contains("10.0 us"), "{text}");
}

#[test]
fn worse_runs_fail_beyond_the_share_and_pass_within_it() {
    let with = |limit| [&MAX[..], &["--fail-if-worse", limit]].concat();
    let (base, new) = ([10, 11, 12, 13], [20, 21, 22, 23]);
    let (passed, text) = run(&with("10%"), &base, &new);
    assert!(!passed && text.contains("FAILED: wakeup.max is larger by more than 10 %"), "{text}");
    let (passed, text) = run(&with("200%"), &base, &new);
    assert!(passed && text.contains("passed: nothing is larger by more than 200 %"), "{text}");
    let (passed, text) = run(&with("10%"), &new, &base);
    assert!(passed && text.contains("smaller"), "{text}");
    let (passed, text) = run(&MAX, &base, &new);
    assert!(passed && text.contains("larger\n"), "without a limit nothing fails: {text}");
}

#[test]
fn of_spans_it_is_said_which_part_of_their_time_changed() {
    let options =
        ["--metric", "span('app:request').max", "--metric", "span('app:request').cpu.max"];
    let (_, text) = run(&options, &[100, 100], &[300, 500]);
    let line =
        "span \"app:request\": mean 980 us, then 980 us, +0 ns: cpu -300 us, runqueue +300 us\n";
    assert_eq!(text.matches(line).count(), 1, "{text}");
    let (_, json) = run(&[&options[..], &["--json"]].concat(), &[100, 100], &[300, 500]);
    let json: serde_json::Value = serde_json::from_str(&json).expect("JSON");
    assert_eq!(json["spans"][0]["parts_ns"]["runqueue"], 300_000.0);
    assert_eq!(json["metrics"][1]["new"]["runs"], serde_json::json!([680_000.0, 480_000.0]));
    let (_, text) = run(&MAX, &[100], &[300]);
    assert!(!text.contains("span "), "{text}");
}

#[test]
fn runs_that_differ_by_chance_are_not_called_different() {
    let line = [&MAX[..], &["--fail-if-worse", "0%"]].concat();
    let (passed, text) = run(&line, &[10, 14, 12, 18], &[11, 13, 15, 19]);
    assert!(
        passed && text.contains("no difference is larger than the noise of these runs"),
        "{text}"
    );
}

#[test]
fn too_few_runs_fail_or_pass_as_asked() {
    let line = [&MAX[..], &["--fail-if-worse", "10%"]].concat();
    let (passed, text) = run(&line, &[10, 11], &[20, 21]);
    assert!(
        !passed
            && text.contains(
                "FAILED: no metric could be judged: wakeup.max (too few runs); record 4 runs per side"
            ),
        "{text}"
    );
    let (passed, text) = run(&[&line[..], &["--on-too-few", "pass"]].concat(), &[10], &[20]);
    assert!(passed && text.contains("passed: no metric could be judged"), "{text}");
}

#[test]
fn a_metric_with_too_few_values_fails_no_other() {
    let line = ["--metric", "wakeup.p50", "--metric", "wakeup.p99", "--fail-if-worse", "10%"];
    let (base, new) = ([10, 11, 12, 13], [20, 21, 22, 23]);
    let too_few = "wakeup.p99 (too few values: 1 of 100 needed)";
    // On its own, the other metric needs only four runs per side.
    let (passed, text) = run(&line, &base, &base);
    assert!(passed && text.contains("passed: nothing is larger by more than 10 %"), "{text}");
    assert!(text.contains(&format!("\nnot judged: {too_few}\n")), "{text}");
    let (passed, text) = run(&line, &base, &new);
    assert!(!passed && text.contains("FAILED: wakeup.p50 is larger by more than 10 %"), "{text}");
    // If it is the only metric, there is no verdict.
    let (passed, text) = run(&line[2..], &base, &new);
    assert!(!passed, "{text}");
    assert!(text.contains(&format!("FAILED: no metric could be judged: {too_few};")), "{text}");
    let (passed, text) = run(&[&line[2..], &["--on-too-few", "pass"]].concat(), &base, &new);
    assert!(passed && text.contains("passed: no metric could be judged"), "{text}");
}

#[test]
fn a_measure_may_have_a_condition_and_a_cpu_in_it() {
    let metric = ["--metric", "wakeup.max if tid = 101 and cpu = 0"];
    let (_, text) = run(&metric, &[10, 11, 12, 13], &[20, 21, 22, 23]);
    assert!(text.contains("larger\n"), "{text}");
    let (_, text) = run(&["--metric", "wakeup.max if comm = 'x'"], &[10], &[20]);
    assert!(text.contains("too few values"), "{text}");
}

#[test]
fn json_is_the_only_thing_printed_when_asked_for() {
    let line = [&MAX[..], &["--json", "--fail-if-worse", "10%"]].concat();
    let (passed, text) = run(&line, &[10, 11, 12, 13], &[20, 21, 22, 23]);
    let value: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    assert!(!passed && value["failed"] == true);
    assert_eq!(value["metrics"][0]["base"]["runs"][3], 13_000.0);
}

#[test]
fn what_cannot_be_read_or_says_nothing_is_refused_by_name() {
    let folder = tempfile::tempdir().expect("a folder");
    let empty = folder.path().join("empty.fxt");
    fs::write(&empty, Scene::new().end(10).bytes()).expect("a trace");
    let compare_with_itself = |path: PathBuf| {
        let path = path.display().to_string();
        match Cli::parse_line(["fxtrec", "compare", &path, "--", &path]) {
            Ok(Command::Compare(args)) => compare(&args, &mut Vec::new()),
            other => panic!("{other:?}"),
        }
    };
    let error = compare_with_itself(empty).expect_err("nothing happened").to_string();
    assert!(
        error.contains("empty.fxt: nothing to compare: the trace has no context switch"),
        "{error}"
    );
    let error = compare_with_itself(folder.path().join("none.fxt")).expect_err("no file");
    assert!(error.to_string().contains("none.fxt"), "{error}");
}

#[test]
fn a_directory_stands_for_the_runs_in_it() {
    let folder = tempfile::tempdir().expect("a folder");
    for (side, waits) in [("base", [10, 11, 12, 13]), ("new", [20, 21, 22, 23])] {
        let name = folder.path().join(side);
        fs::create_dir(&name).expect("room");
        for path in traces(side, &waits, &folder) {
            let file = std::path::Path::new(&path);
            fs::rename(file, name.join(file.file_name().expect("a name"))).expect("moved");
        }
    }
    let side = |side: &str| folder.path().join(side).display().to_string();
    let (base, new) = (side("base"), side("new"));
    let line = ["fxtrec", "compare", "--metric", "wakeup.max", "--json", &base, "--", &new];
    let Ok(Command::Compare(args)) = Cli::parse_line(line) else { panic!("{line:?}") };
    let mut out = Vec::new();
    assert!(compare(&args, &mut out).expect("traces"));
    let text = String::from_utf8(out).expect("text");
    assert!(text.contains("base0.fxt") && text.contains("new3.fxt"), "{text}");
}

#[test]
fn a_trace_may_come_through_a_pipe() {
    let folder = tempfile::tempdir().expect("a folder");
    let traces = traces("t", &[20, 30], &folder);
    let compared = |base: &str| {
        let line = ["fxtrec", "compare", "--metric", "wakeup.max", base, "--", &traces[1]];
        let Ok(Command::Compare(args)) = Cli::parse_line(line) else { panic!("{line:?}") };
        let mut out = Vec::new();
        compare(&args, &mut out).expect("traces");
        String::from_utf8(out).expect("text").replace(base, "base")
    };
    let bytes = fs::read(&traces[0]).expect("it was written");
    let piped = through_a_pipe(&bytes, |path| compared(&path.display().to_string()));
    assert_eq!(piped, compared(&traces[0]));
}
