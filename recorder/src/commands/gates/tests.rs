use std::fs;

use fxt_reader::Reader;

use super::*;
use crate::report::scene::{Leaves, Scene};
use crate::sink::Compression;

fn args(fail_if: &[&str], junit: Option<PathBuf>) -> GateArgs {
    let fail_if = fail_if.iter().map(|gate| gate.parse().expect("a gate")).collect();
    GateArgs { fail_if, junit, ..GateArgs::default() }
}

/// Thread 101 waits 30 us for CPU 0.
fn late() -> Scene {
    let mut scene = Scene::new();
    scene.switch(0, 0, 0, Leaves::R, 102);
    scene.wake(20, 0, 101);
    scene.switch(50, 0, 102, Leaves::S, 101);
    scene.switch(60, 0, 101, Leaves::S, 0);
    scene.end(100);
    scene
}

/// Whether all gates passed, and the output.
fn judged(gates: Gates, style: Style) -> (bool, String) {
    let scene = late();
    let open = || Ok(Reader::from_slice(scene.bytes()));
    let mut out = Vec::new();
    let passed = gates.judge(
        Path::new("t.fxt"),
        (&scene.report(), &Selection::default()),
        style,
        open,
        |_| Ok(()),
        &mut out,
    );
    (passed.expect("nothing fails") == Outcome::Passed, String::from_utf8(out).expect("text"))
}

#[test]
fn without_gates_nothing_is_prepared() {
    assert!(Gates::prepare(&args(&[], None), &[]).expect("nothing to do").is_none());
}

#[test]
fn all_gates_must_pass_and_each_is_printed() {
    let judge = |fail_if: &[&str]| {
        let gates = Gates::prepare_with(&args(fail_if, None), &[], None).expect("ready");
        judged(gates.expect("gates"), Style::default())
    };
    let (passed, text) = judge(&["wakeup.max > 31us", "lost > 0", "wakeup.max > 20us if cpu = 1"]);
    assert!(!passed, "no event on CPU 1: {text}");
    let (passed, text) = judge(&["wakeup.max > 31us", "wakeup.max > 30us if cpu = 0"]);
    assert!(passed && text.matches("gate   passed").count() == 2, "{text}");
    let (passed, text) = judge(&["wakeup.max > 31us", "wakeup.max > 29us if cpu = 0"]);
    assert!(!passed && text.contains("gate   FAILED  wakeup.max > 29us if cpu = 0"), "{text}");
}

#[test]
fn the_verdicts_go_to_a_junit_file_and_behind_what_a_summary_holds() {
    let folder = tempfile::tempdir().expect("a folder");
    let (junit, summary) = (folder.path().join("j.xml"), folder.path().join("summary.md"));
    fs::write(&summary, "# Before\n").expect("a file");
    let args = args(&["wakeup.max > 1us"], Some(junit.clone()));
    let gates = Gates::prepare_with(&args, &[], Some(summary.clone().into())).expect("ready");
    assert!(!judged(gates.expect("a gate"), Style::default()).0);
    let xml = fs::read_to_string(junit).expect("there");
    assert!(xml.contains("<failure message=\"wakeup.max is 30.0 us, of 1 value\""), "{xml}");
    let page = fs::read_to_string(summary).expect("there");
    assert!(page.starts_with("# Before\n### fxtrec: the gate failed\n"), "{page}");
    assert!(
        page.contains("Recording: `t.fxt`") && page.contains("`t101 (101) for CPU 0"),
        "{page}"
    );
}

#[test]
fn a_junit_file_that_cannot_be_is_refused_before_anything_is_recorded() {
    let error = Gates::prepare(&args(&["lost > 0"], Some("/no/such/folder/j.xml".into())), &[]);
    let text = error.expect_err("no such folder").to_string();
    assert!(text.starts_with("--junit /no/such/folder/j.xml: No such file"), "{text}");
}

#[test]
fn a_summary_that_cannot_be_written_is_reported_and_changes_no_verdict() {
    let args = args(&["lost > 0"], None);
    let gates =
        Gates::prepare_with(&args, &[], Some("/no/such/folder/s.md".into())).expect("ready");
    let (passed, text) =
        judged(gates.expect("a gate"), Style { failures_only: true, ..Style::default() });
    assert!(passed);
    assert!(text.starts_with("fxtrec: cannot write the summary to GITHUB_STEP_SUMMARY"), "{text}");
}

#[test]
fn a_trace_that_is_not_kept_or_would_have_to_be_read_twice_is_refused() {
    let output = |target: &Target| Output {
        target: target.clone(),
        compression: Compression::None,
        named: true,
    };
    let prepare =
        |gate: &str, target: &Target| Gates::prepare_for(&args(&[gate], None), &output(target));
    let device = Target::Path("/dev/null".into());
    let error = prepare("lost > 0", &device).expect_err("a device").to_string();
    assert!(error.contains("/dev/null keeps none"), "{error}");
    let without = Gates::prepare_for(&args(&[], None), &output(&device));
    assert!(without.expect("nobody asks for a verdict").is_none());

    let folder = tempfile::tempdir().expect("a folder");
    let pipe = folder.path().join("pipe");
    nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).expect("a pipe");
    let file = Target::Path(folder.path().join("new.fxt"));
    let with_cpu = "wakeup.max > 1ms if cpu = 1";
    assert!(prepare("lost > 0", &Target::Path(pipe.clone())).expect("read once").is_some());
    assert!(prepare(with_cpu, &file).expect("a file").is_some());
    let error = prepare(with_cpu, &Target::Path(pipe)).expect_err("a pipe").to_string();
    assert!(error.starts_with("\"wakeup.max > 1ms if cpu = 1\" needs a second pass"), "{error}");
}

#[test]
fn on_disturbed_is_refused_where_no_gate_can_be_disturbed_and_said_to_excuse_no_other() {
    let with = |fail_if: &[&str]| {
        let pass = crate::cli::OnDisturbed(OnDisturbed::Pass);
        Gates::prepare_with(&GateArgs { on_disturbed: pass, ..args(fail_if, None) }, &[], None)
    };
    let error = with(&["wakeup.max > 1us", "span('a').cpu.max > 1us"]).expect_err("no length");
    assert!(error.to_string().contains("\"wakeup.max > 1us\" cannot be disturbed"), "{error}");
    let both = with(&["wakeup.max > 1us", "span('a').max > 1us"]).expect("a length").expect("two");
    let (_, text) = judged(both, Style::default());
    let line = "--on-disturbed does not excuse wakeup.max > 1us: only the length of a span";
    assert!(text.contains(line), "{text}");
}

#[test]
fn without_a_report_there_is_no_verdict() {
    let gates = Gates::prepare(&args(&["lost > 0"], None), &[]).expect("ready").expect("a gate");
    let judged =
        gates.judge_recording((Path::new("t.fxt"), None), None, Style::default(), &mut Vec::new());
    assert!(matches!(judged, Err(GatesError::NoReport)));
}
