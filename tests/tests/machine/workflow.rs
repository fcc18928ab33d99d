//! The workflow file that users copy: the README links to it, and its steps work as documented.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use fxtrec_tests::binary::{copy_program, fxtrec};
use fxtrec_tests::folder::{Done, Folder};
use fxtrec_tests::root::may_record;
use fxtrec_tests::tools;
use fxtrec_tests::trace::Trace;
use saphyr::{LoadableYamlNode, Yaml};

const WORKLOAD: &str = env!("CARGO_BIN_EXE_workload");

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn text_of(name: &str) -> String {
    fs::read_to_string(repository().join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// A step: its name, the action it uses, and the script it runs.
#[derive(Clone, Debug, Default)]
struct Step {
    name: String,
    uses: Option<String>,
    run: Option<String>,
}

/// The steps of a job.
fn steps(job: &str) -> Vec<Step> {
    let text = text_of("docs/ci/latency.yml");
    let documents = Yaml::load_from_str(&text).expect("it is YAML");
    let steps = &documents[0]["jobs"][job]["steps"];
    let field = |step: &Yaml<'_>, name: &str| {
        step.as_mapping_get(name).and_then(|value| value.as_str()).map(str::to_owned)
    };
    let step = |step: &Yaml<'_>| Step {
        name: field(step, "name").unwrap_or_default(),
        uses: field(step, "uses"),
        run: field(step, "run"),
    };
    (0..).map_while(|at| steps.as_sequence_get(at)).map(step).collect()
}

/// The script of the step of that name.
fn script(job: &str, name: &str) -> String {
    let found = steps(job).into_iter().find(|step| step.name == name);
    found.and_then(|step| step.run).unwrap_or_else(|| panic!("{job} has no step {name}"))
}

/// Runs a step as the CI does, with this command in place of the tests, and with the fxtrec that the previous step installed.
fn run_step(folder: &Folder, script: &str, tests: &str) -> Done {
    let home = folder.path("home");
    let bin = home.join(".local/bin");
    fs::create_dir_all(&bin).expect("a folder");
    if !bin.join("fxtrec").exists() {
        copy_program(fxtrec(), &bin.join("fxtrec"));
    }
    let mut bash = Command::new("bash");
    bash.args(["--noprofile", "--norc", "-eo", "pipefail", "-c", script]);
    folder.run(bash.env("HOME", home).env("TESTS", tests))
}

/// Whether the steps can be run here.
fn can_run() -> bool {
    may_record() && tools::or_skip(&["sudo"])
}

#[test]
fn the_readme_and_the_docs_link_to_the_workflow_and_repeat_none_of_it() {
    for (page, link) in [("README.md", "(docs/ci/latency.yml)"), ("docs/ci.md", "(ci/latency.yml)")]
    {
        let text = text_of(page);
        assert!(text.contains(link), "{page}");
        assert!(!text.contains("```yaml"), "{page} has a copy, which may become another workflow");
    }
}

#[test]
fn every_step_uses_an_action_or_runs_what_a_shell_understands() {
    for job in ["gates", "compare"] {
        let steps = steps(job);
        assert!(steps.len() >= 5, "{steps:?}");
        for step in steps {
            assert!(step.uses.is_some() != step.run.is_some(), "{step:?}");
            if let Some(run) = &step.run {
                let checked = Command::new("bash").args(["-n", "-c", run]).output().expect("bash");
                assert!(checked.status.success() && checked.stderr.is_empty(), "{step:?}");
            }
        }
    }
}

#[test]
fn the_recording_step_keeps_the_status_of_the_tests_and_leaves_trace_and_verdicts() {
    if !can_run() {
        return;
    }
    let folder = Folder::new();
    let script = script("gates", "Record the tests and check the recording");
    let done = run_step(&folder, &script, "exit 7");
    assert_eq!(done.code, 7, "{}", done.stderr);
    assert!(folder.read("latency.xml").contains("tests=\"3\""), "three gates");
    let trace = Trace::read(&folder.path("latency.fxt.zst"));
    trace.assert_sound();
    assert!(!trace.switches.is_empty());
}

#[test]
fn the_comparing_steps_record_five_runs_a_side_and_compare_them() {
    if !can_run() {
        return;
    }
    let folder = Folder::new();
    for side in ["base", "new"] {
        fs::create_dir(folder.path(side)).expect("a folder");
    }
    let record = script("compare", "Record both sides in turn, five times");
    let done = run_step(&folder, &record, &format!("{WORKLOAD} late 2 1"));
    assert_eq!(done.code, 0, "{}", done.stderr);
    let done = run_step(&folder, &script("compare", "Compare"), "");
    assert!(done.stdout.starts_with("5 base runs, 5 new runs\n"), "{}{}", done.stdout, done.stderr);
    let too_few = "runqueue.p99 if command: 5 base runs and 5 new runs have too few values";
    assert!(done.stdout.contains(too_few), "{}", done.stdout);
    // So few waits have no 99th percentile, so this fails nothing; the two sides are the same, so almost no difference is found.
    let larger = done.stdout.lines().any(|line| line.ends_with("  larger"));
    let passed = done.stdout.contains("\npassed: nothing is larger by more than 10 %");
    assert!(passed || larger, "only what is larger fails it: {}", done.stdout);
    assert_eq!(done.code, if passed { 0 } else { 3 }, "{}", done.stdout);
}
