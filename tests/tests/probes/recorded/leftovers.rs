//! Nothing is left behind in tracefs.

use std::process::Stdio;

use fxtrec_tests::binary;
use fxtrec_tests::folder::Folder;
use fxtrec_tests::process::Process;

use crate::recorded::ready;

/// The current definitions of the recorder with this process id.
fn definitions_of(pid: u32) -> Vec<String> {
    let places = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];
    let list = places
        .iter()
        .find_map(|place| std::fs::read_to_string(format!("{place}/uprobe_events")).ok());
    let group = format!(":fxtrec_{pid}_");
    let list = list.expect("tracefs is mounted, since fxtrec ran");
    list.lines().filter(|line| line.contains(&group)).map(str::to_owned).collect()
}

/// Starts a recording of a probe that needs a definition, of a command that prints a word and waits. Returns when it waits.
fn waiting(program: &str, folder: &Folder) -> Process {
    let process = Process::start_ready(
        binary::command()
            .args(["-P", ":tick name=arg2:str", "-o"])
            .arg(folder.path("out.fxt"))
            .args(["--", program, "linger"])
            .stderr(Stdio::null()),
    );
    assert_eq!(definitions_of(process.id()).len(), 1, "it is there as long as it is used");
    process
}

/// Makes a recorder leave its definition behind. Returns its process id.
fn killed(program: &str, folder: &Folder) -> u32 {
    let mut process = waiting(program, folder);
    process.kill();
    process.id()
}

const NONE: [&str; 0] = [];

#[test]
fn a_recording_that_ends_takes_its_definitions_back() {
    let Some(program) = ready() else { return };
    let folder = Folder::new();
    let mut process = waiting(program, &folder);
    process.finish();
    assert_eq!(definitions_of(process.id()), NONE);
}

#[test]
fn a_recording_that_fails_takes_its_definitions_back() {
    let Some(program) = ready() else { return };
    let probe = format!("{program}:tick name=arg2:str");
    // The second probe is refused after the first was defined, and the output when everything is set up.
    for words in [
        vec!["-P", &probe, "-e", "sched:no_such_event", "--", "true"],
        vec!["-P", &probe, "-o", "/no/such/folder/out.fxt", "--", "true"],
        vec!["-P", &probe, "--", "/no/such/command"],
    ] {
        let folder = Folder::new();
        let mut process = Process::start(
            binary::command().args(&words).current_dir(folder.path("")).stderr(Stdio::null()),
        );
        assert!(!process.finish().success(), "{words:?}");
        assert_eq!(definitions_of(process.id()), NONE, "{words:?}");
    }
}

#[test]
fn what_a_killed_recorder_leaves_goes_at_the_next_start() {
    let Some(program) = ready() else { return };
    let folder = Folder::new();
    let id = killed(program, &folder);
    folder.fxtrec(["-q", "-o", "next.fxt", "--", "true"]).expect(0);
    assert_eq!(definitions_of(id), NONE);
}

#[test]
fn doctor_removes_what_a_killed_recorder_leaves() {
    let Some(program) = ready() else { return };
    let folder = Folder::new();
    let id = killed(program, &folder);
    folder.fxtrec(["doctor"]);
    assert_eq!(definitions_of(id), NONE);
}
