//! Gates on real recordings: a wakeup that is late on purpose fails one, and others pass.

use std::process::Command;

use fxtrec_tests::binary::{self, fxtrec};
use fxtrec_tests::folder::{Done, Folder};
use fxtrec_tests::machine;
use fxtrec_tests::root::may_record;
use fxtrec_tests::trace::Trace;

const WORKLOAD: &str = env!("CARGO_BIN_EXE_workload");

/// A workload in which `latecomer` waits 25 ms for CPU 0, three times, since `hog` has it.
const LATE: [&str; 4] = [WORKLOAD, "late", "3", "25"];

const LATE_GATE: &str = "wakeup.max > 20ms if comm = \"latecomer\"";

/// Records a command to t.fxt with these options.
fn record(folder: &Folder, options: &[&str], command: &[&str]) -> Done {
    let line = [&["-o", "t.fxt"], options, &["--"], command].concat();
    folder.fxtrec(line)
}

#[test]
fn a_late_wake_up_fails_its_gate_which_names_who_had_the_cpu() {
    if !may_record() {
        return;
    }
    let machine = machine::quiet();
    let folder = Folder::new();
    let summary = folder.path("summary.md");
    let mut fxtrec = binary::command();
    fxtrec.args(["-o", "t.fxt", "--junit", "junit.xml", "--fail-if", LATE_GATE]);
    fxtrec.args(["--fail-if", "wakeup.max > 1h", "--"]).args(LATE);
    let done = folder.run(fxtrec.env("GITHUB_STEP_SUMMARY", &summary));
    machine.give_back();
    assert_eq!(done.code, 3, "{}", done.stderr);
    let verdict = done.stderr.split("gate   ").nth(1).expect("a verdict").to_owned();
    assert!(verdict.starts_with(&format!("FAILED  {LATE_GATE}\n")), "{}", done.stderr);
    let worst = verdict.lines().find(|line| line.contains("latecomer (")).expect("the worst");
    let (who, meanwhile) = worst.split_once("; ran instead: ").expect("who had the CPU");
    assert!(who.contains("for CPU 0"), "{worst}");
    let (antagonists, waker) = meanwhile.split_once("; woken by ").expect("who woke it");
    assert!(antagonists.contains("hog (") && waker.starts_with("hog ("), "{worst}");
    assert!(done.stderr.contains("gate   passed  wakeup.max > 1h\n"), "{}", done.stderr);

    let xml = folder.read("junit.xml");
    assert!(xml.contains("tests=\"2\" failures=\"1\""), "{xml}");
    assert!(xml.contains("latecomer (") && xml.contains("hog ("), "{xml}");
    let page = folder.read("summary.md");
    assert!(page.starts_with("### fxtrec: 1 of 2 gates failed\n"), "{page}");
    Trace::read(&folder.path("t.fxt")).assert_sound();
}

#[test]
fn gates_that_are_kept_let_the_build_pass() {
    if !may_record() {
        return;
    }
    let _machine = machine::quiet();
    let folder = Folder::new();
    let gates = [
        "--fail-if",
        "wakeup.max > 1min if comm = 'latecomer'",
        "--fail-if",
        "blocked.count < 3 if comm ~ 'late*' and cpu = 0",
        "--fail-if",
        "lost > 1000000",
    ];
    let done = record(&folder, &gates, &LATE);
    assert_eq!(done.code, 0, "{}", done.stderr);
    assert_eq!(done.stderr.matches("gate   passed").count(), 3, "{}", done.stderr);
}

#[test]
fn when_quiet_only_failures_are_printed() {
    if !may_record() {
        return;
    }
    let folder = Folder::new();
    let gates = ["-q", "--fail-if", "switches > 0", "--fail-if", "lost > 1000000"];
    let done = record(&folder, &gates, &["true"]);
    assert_eq!(done.code, 3);
    assert!(done.stderr.starts_with("gate   FAILED  switches > 0\n"), "{}", done.stderr);
    assert!(!done.stderr.contains("lost"), "{}", done.stderr);
}

#[test]
fn the_failure_of_command_goes_before_that_of_a_gate() {
    if !may_record() {
        return;
    }
    let folder = Folder::new();
    let done = record(&folder, &["--fail-if", "switches > 0"], &["sh", "-c", "exit 7"]);
    assert_eq!(done.code, 7);
    assert!(done.stderr.contains("gate   FAILED  switches > 0"), "{}", done.stderr);
}

#[test]
fn too_few_values_fail_or_pass_as_asked() {
    if !may_record() {
        return;
    }
    let folder = Folder::new();
    let gate = ["--fail-if", "wakeup.p99 > 1h if comm = 'latecomer'"];
    let command = [WORKLOAD, "late", "3", "2"];
    let done = record(&folder, &gate, &command);
    assert_eq!(done.code, 3, "{}", done.stderr);
    assert!(done.stderr.contains("wakeup.p99 needs 100 values, but there are "), "{}", done.stderr);
    let done = record(&folder, &[&gate[..], &["--on-too-few", "pass"]].concat(), &command);
    assert_eq!(done.code, 0, "{}", done.stderr);
    let done = record(&folder, &["--fail-if", "wakeup.max > 1h if comm = 'nobody'"], &["true"]);
    assert_eq!(done.code, 3, "{}", done.stderr);
    assert!(done.stderr.contains("no thread of the recording matches"), "{}", done.stderr);
}

#[test]
fn what_cannot_be_judged_is_refused_before_anything_runs() {
    for (line, why) in [
        (&["--fail-if", "wakeup.p98 > 2ms"][..], "\n  wakeup.p98 > 2ms\n         ^^^\n"),
        (&["--fail-if", "wakeup.p99 > 2"], "             ^\n"),
        (&["--fail-if", "lost > 0", "--junit", "no/such/folder/j.xml"], "--junit no/such/folder"),
        (&["--fail-if", "lost > 0", "-o", "/dev/null"], "name a file with -o"),
        (
            &["--fail-if", "slice.max > 1s if cpu = 0", "-o", "-"],
            "needs a second pass over the trace",
        ),
    ] {
        let folder = Folder::new();
        let done = folder.fxtrec([line, &["--", "touch", "ran"]].concat());
        assert_eq!(done.code, 125, "{line:?}: {}", done.stderr);
        assert!(done.stderr.contains(why), "{line:?}: {}", done.stderr);
        let left: Vec<_> = std::fs::read_dir(folder.path("")).expect("a folder").collect();
        assert!(left.is_empty(), "{line:?} left {left:?}");
    }
}

#[test]
fn a_recording_that_never_began_leaves_no_junit_file() {
    if !may_record() {
        return;
    }
    let folder = Folder::new();
    let options = ["--fail-if", "lost > 0", "--junit", "j.xml"];
    let done = record(&folder, &options, &["no-such-command-anywhere"]);
    assert_eq!(done.code, 127, "{}", done.stderr);
    assert!(!folder.path("j.xml").exists());
}

#[test]
fn a_trace_that_goes_into_a_pipe_is_judged_too_and_a_report_says_the_same_later() {
    if !may_record() {
        return;
    }
    let machine = machine::quiet();
    let folder = Folder::new();
    let script = format!(
        "{} -o - --fail-if '{LATE_GATE}' -- {} > >(cat > t.fxt); status=$?; wait $!; exit $status",
        fxtrec().display(),
        LATE.join(" ")
    );
    let done = folder.run(Command::new("bash").args(["-c", &script]));
    machine.give_back();
    assert_eq!(done.code, 3, "{}", done.stderr);
    let verdicts = |text: &str| {
        let at = text.find("gate   FAILED").unwrap_or_else(|| panic!("no verdict: {text}"));
        text[at..].to_owned()
    };
    let while_recording = verdicts(&done.stderr);
    assert!(while_recording.contains("; woken by hog ("), "{while_recording}");

    let done = folder.fxtrec(["report", "t.fxt", "--fail-if", LATE_GATE]);
    assert_eq!((done.code, verdicts(&done.stderr)), (3, while_recording));
    assert!(done.stdout.contains("latecomer"), "the report is there as well: {}", done.stdout);
    let gate = ["report", "t.fxt", "--json", "--comm", "hog", "--fail-if", "wakeup.max > 1h"];
    let done = folder.fxtrec(gate);
    assert_eq!(done.code, 0, "{}", done.stderr);
    assert!(done.stdout.starts_with('{') && done.stderr.starts_with("gate   passed"), "JSON alone");
}
