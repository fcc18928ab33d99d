//! The action for GitHub and the template for GitLab: their scripts work as documented, and both call the same ones.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use fxtrec_tests::binary::{copy_program, fxtrec};
use fxtrec_tests::folder::{Done, Folder};
use fxtrec_tests::root::may_record;
use fxtrec_tests::trace::Trace;
use saphyr::{LoadableYamlNode, Yaml};

fn file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(name)
}

fn text_of(name: &str) -> String {
    fs::read_to_string(file(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

fn field(map: &Yaml<'_>, name: &str) -> Option<String> {
    map.as_mapping_get(name).and_then(|value| value.as_str()).map(str::to_owned)
}

/// The names and values of a mapping of strings.
fn entries(map: &Yaml<'_>) -> Vec<(String, String)> {
    let map = map.as_mapping().expect("a mapping");
    let text = |value: &Yaml<'_>| value.as_str().unwrap_or_default().to_owned();
    map.iter().map(|(name, value)| (text(name), text(value))).collect()
}

/// Runs `action/measure` on a command, two runs unless `settings` override it, with a summary in `summary.md`.
fn measure(folder: &Folder, command: &str, settings: &[(&str, &str)]) -> Done {
    let summary = folder.path("summary.md");
    fs::write(&summary, "").expect("a file");
    let mut measure = Command::new(file("action/measure"));
    measure.arg(fxtrec()).args(["results", "base"]);
    measure.env("COMMAND", command).env("RUNS", "2");
    measure.envs(settings.iter().copied());
    folder.run(measure.env("GITHUB_STEP_SUMMARY", summary))
}

fn install(folder: &Folder, sum: &str) -> Done {
    let mut install = Command::new(file("action/install"));
    install.arg(folder.path("installed"));
    install.env("FXTREC_URL", format!("file://{}", folder.text("release.tar.gz")));
    folder.run(install.env("FXTREC_SHA256", sum).env("GITHUB_OUTPUT", folder.path("output")))
}

/// A release with a program, and its checksum.
fn release(folder: &Folder, program: &Path) -> String {
    let bin = folder.path("fxtrec-1-linux/bin");
    fs::create_dir_all(&bin).expect("a folder");
    copy_program(program, &bin.join("fxtrec"));
    // A debug build is large, and its compression does not matter.
    let pack = ["-I", "gzip -1", "-cf", "release.tar.gz", "fxtrec-1-linux"];
    folder.run(Command::new("tar").args(pack)).expect(0);
    let sum = folder.run(Command::new("sha256sum").arg("release.tar.gz")).expect(0).stdout;
    sum.split(' ').next().expect("a sum").to_owned()
}

#[test]
fn a_release_is_installed_if_it_is_the_expected_one_and_only_then() {
    let folder = Folder::new();
    // Packing a debug build takes seconds; the test of the template does it.
    folder.write("stub", "#!/bin/sh\n[ \"$1\" = --version ] && echo \"fxtrec 1\"\n");
    folder.run(Command::new("chmod").args(["+x", "stub"])).expect(0);
    let sum = release(&folder, &folder.path("stub"));
    let other = "0".repeat(64);
    let refused = install(&folder, &other).expect(1);
    assert!(refused.stderr.contains(&format!("sum {sum}, not {other}")), "{}", refused.stderr);
    assert!(install(&folder, "").expect(1).stderr.contains("needs its SHA-256 sum"));
    assert!(!folder.path("installed/bin/fxtrec").exists());

    let done = install(&folder, &sum).expect(0);
    assert!(done.stdout.contains("\nfxtrec 1\n"), "its version: {}", done.stdout);
    let path = format!("path={}\n", folder.text("installed/bin/fxtrec"));
    assert_eq!(folder.read("output"), path);
}

#[test]
fn a_command_that_fails_ends_the_measurement_with_its_status() {
    if !may_record() {
        return;
    }
    let folder = Folder::new();
    // A gate would also exit with 3.
    for status in [7, 3] {
        measure(&folder, &format!("exit {status}"), &[]).expect(status);
        let summary = folder.read("summary.md");
        assert!(summary.contains(&format!("run 1 of `COMMAND` exited with status {status}")));
        assert!(!folder.path("results/run-2.fxt.zst").exists());
    }
}

#[test]
fn gates_fail_when_enough_runs_do() {
    if !may_record() {
        return;
    }
    let folder = Folder::new();
    let failing = measure(&folder, "true", &[("GATES", "# always\n  switches > 0\n")]).expect(3);
    assert!(failing.stdout.contains("Gates failed in 2 of 2 runs (1 2): failed."));
    let summary = folder.read("summary.md");
    assert!(summary.contains("failed in 2 of 2 runs") && summary.contains("switches > 0"));
    Trace::read(&folder.path("results/run-2.fxt.zst")).assert_sound();
    assert!(folder.read("results/run-1.xml").contains("failures=\"1\""));

    // Only the first run has a thread with that name.
    folder.run(Command::new("sh").args(["-c", "cp \"$(command -v sleep)\" odd"])).expect(0);
    let once = "if [ ! -e seen ]; then touch seen; ./odd 0.01; fi";
    let settings = |when| {
        [
            ("GATES", "switches > 0 if comm = \"odd\""),
            ("OPTIONS", "--on-too-few pass"),
            ("FAIL_WHEN", when),
        ]
    };
    for (when, status) in [("most", 0), ("every", 0), ("any", 3)] {
        let _ = fs::remove_file(folder.path("seen"));
        let done = measure(&folder, once, &settings(when)).expect(status);
        assert!(done.stdout.contains("Gates failed in 1 of 2 runs (1): "), "{}", done.stdout);
    }
    let wrong = measure(&folder, "true", &settings("sometimes")).expect(125);
    assert!(wrong.stderr.contains("not any, most or every"), "{}", wrong.stderr);
}

#[test]
fn a_disturbed_run_is_neither_failed_nor_passed() {
    if !may_record() {
        return;
    }
    let folder = Folder::new();
    // The verdicts themselves are tested elsewhere: this program simulates fxtrec on a disturbed machine in its second run.
    let stub = "#!/bin/sh\ncase \"$*\" in *run-2*) exit 4 ;; esac\n";
    folder.write("stub", stub);
    folder.run(Command::new("chmod").args(["+x", "stub"])).expect(0);
    let mut measure = Command::new(file("action/measure"));
    measure.args(["./stub", "results"]).env("COMMAND", "true").env("RUNS", "3");
    measure.env("GATES", "span(\"a\").p99 > 5ms");
    let done = folder.run(&mut measure).expect(0);
    let reported =
        "Gates failed in 0 of 3 runs, 1 disturbed (2): passed, since it takes 2 to fail.\n";
    assert_eq!(done.stdout, reported);
}

#[test]
fn recordings_are_compared_with_those_of_the_base() {
    if !may_record() {
        return;
    }
    let folder = Folder::new();
    // Sleeps of 5 and 50 ms: no other activity on the machine comes close to the difference.
    let settings =
        [("RUNS", "4"), ("WORSE", "50%"), ("METRICS", "blocked.max if comm = \"sleep\"")];
    let first = measure(&folder, "sleep 0.005", &settings).expect(0);
    assert!(first.stdout.contains("no earlier recordings to compare with"), "{}", first.stdout);
    fs::rename(folder.path("results"), folder.path("base")).expect("a folder");
    let slower = measure(&folder, "sleep 0.05", &settings).expect(3);
    assert!(slower.stdout.starts_with("4 base runs, 4 new runs\n"), "{}", slower.stdout);
    assert!(folder.read("summary.md").contains(slower.stdout.trim_end()));
}

#[test]
fn the_action_hands_each_input_to_its_scripts() {
    let text = text_of("action/action.yml");
    let documents = Yaml::load_from_str(&text).expect("it is YAML");
    let action = &documents[0];
    for (input, _) in entries(&action["inputs"]) {
        assert!(text.contains(&format!("inputs.{input} ")), "{input} is used nowhere");
    }
    let steps = &action["runs"]["steps"];
    let scripts = text_of("action/measure") + &text_of("action/install");
    let mut called = 0;
    for step in (0..).map_while(|at| steps.as_sequence_get(at)) {
        assert!(field(step, "uses").is_some() != field(step, "run").is_some());
        let Some(run) = field(step, "run") else { continue };
        let checked = Command::new("bash").args(["-n", "-c", &run]).output().expect("bash");
        assert!(checked.status.success() && checked.stderr.is_empty(), "{run}");
        // Inputs reach a shell as variables, never as part of its script.
        assert!(!run.contains("${{"), "{run}");
        for (variable, value) in entries(&step["env"]) {
            let handed = value.contains("inputs.") && !run.contains(&format!("${variable}"));
            assert!(!handed || scripts.contains(&format!("${{{variable}")), "{variable}");
        }
        called += usize::from(run.contains("\"$ACTION/"));
    }
    assert_eq!(called, 2);
}

#[test]
fn the_workflow_gives_the_action_inputs_that_it_has() {
    let (workflow, action) = (text_of("docs/ci/github.yml"), text_of("action/action.yml"));
    let workflow = Yaml::load_from_str(&workflow).expect("it is YAML");
    let action = Yaml::load_from_str(&action).expect("it is YAML");
    let known = entries(&action[0]["inputs"]);
    let steps = &workflow[0]["jobs"]["latency"]["steps"];
    let mut given = Vec::new();
    for step in (0..).map_while(|at| steps.as_sequence_get(at)) {
        if field(step, "uses").is_some_and(|uses| uses.contains("/fxtrec/action@")) {
            given.extend(entries(&step["with"]));
        }
    }
    assert!(given.iter().any(|(name, _)| name == "command"), "{given:?}");
    for (name, _) in given {
        assert!(known.iter().any(|(input, _)| *input == name), "the action has no input {name}");
    }
}

/// The lines of the job's script.
fn template_lines() -> Vec<String> {
    let text = text_of("docs/ci/gitlab.yml");
    let documents = Yaml::load_from_str(&text).expect("it is YAML");
    let lines = &documents[0][".fxtrec"]["script"];
    let line = |at| lines.as_sequence_get(at)?.as_str().map(str::to_owned);
    (0..).map_while(line).collect()
}

#[test]
fn the_template_names_what_the_scripts_read() {
    let text = text_of("docs/ci/gitlab.yml");
    let documents = Yaml::load_from_str(&text).expect("it is YAML");
    let scripts = text_of("action/measure") + &text_of("action/install");
    for (variable, _) in entries(&documents[0][".fxtrec"]["variables"]) {
        let read = scripts.contains(&format!("${{{variable}"))
            || text.contains(&format!("\"${variable}\""));
        assert!(read, "{variable}");
    }
}

#[test]
fn the_template_measures_by_the_scripts_of_the_action_and_keeps_recordings_of_the_default_branch() {
    if !may_record() {
        return;
    }
    let folder = Folder::new();
    let sum = release(&folder, fxtrec());
    let repository = folder.path("repository");
    fs::create_dir_all(repository.join("action")).expect("a folder");
    for script in ["install", "measure"] {
        fs::copy(file("action").join(script), repository.join("action").join(script))
            .expect("a copy");
    }
    let commit = "git init -q && git add . && git -c user.name=tester -c user.email=tester@localhost commit -qm all";
    let mut made = Command::new("sh");
    made.args(["-c", commit]).current_dir(&repository);
    assert!(made.status().expect("git").success());

    let lines = template_lines();
    let mut job = Command::new("sh");
    job.args(["-ec", &lines.join("\n")]);
    job.env("FXTREC_REPOSITORY", format!("file://{}", repository.display()));
    job.env("FXTREC_URL", format!("file://{}", folder.text("release.tar.gz")))
        .env("FXTREC_SHA256", sum);
    job.env("CI_COMMIT_BRANCH", "main").env("CI_DEFAULT_BRANCH", "main");
    let done = folder.run(job.env("COMMAND", "true").env("RUNS", "1").env("GATES", "switches = 0"));
    let done = done.expect(0);
    assert!(done.stdout.contains("Gates failed in 0 of 1 runs: passed"), "{}", done.stdout);
    Trace::read(&folder.path("fxtrec-base/run-1.fxt.zst")).assert_sound();
    assert!(folder.read("fxtrec-results/run-1.xml").contains("failures=\"0\""));
}
