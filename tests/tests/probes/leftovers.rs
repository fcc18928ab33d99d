//! Nothing stays behind in tracefs.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use fxtrec_tests::binary::fxtrec;

use crate::ready;
use crate::support::run;

/// The definitions of the recorder with this process id that are there now.
fn definitions_of(pid: u32) -> Vec<String> {
    let places = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];
    let list = places
        .iter()
        .find_map(|place| std::fs::read_to_string(format!("{place}/uprobe_events")).ok());
    let group = format!(":fxtrec_{pid}_");
    let list = list.expect("tracefs is mounted, since fxtrec ran");
    list.lines().filter(|line| line.contains(&group)).map(str::to_owned).collect()
}

/// Starts a recording of a probe that needs a definition, of a command that says a word and waits. Returns once it has.
fn waiting(program: &str) -> (std::process::Child, tempfile::TempDir) {
    let folder = tempfile::tempdir().expect("a folder for temporary files");
    let mut child = Command::new(fxtrec())
        .args(["-P", ":tick n=arg1:s32", "-o"])
        .arg(folder.path().join("out.fxt"))
        .args(["--", program, "linger"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("fxtrec can be run");
    let mut line = String::new();
    let mut stdout = BufReader::new(child.stdout.take().expect("a pipe"));
    stdout.read_line(&mut line).expect("a word");
    assert_eq!(line, "ready\n");
    assert_eq!(definitions_of(child.id()).len(), 1, "it is there as long as it is used");
    (child, folder)
}

#[test]
fn a_recording_that_ends_takes_its_definitions_back() {
    let Some(program) = ready() else { return };
    let (mut child, _folder) = waiting(program);
    drop(child.stdin.take());
    child.wait().expect("it is ours");
    assert_eq!(definitions_of(child.id()), [] as [&str; 0]);
}

#[test]
fn a_recording_that_fails_takes_its_definitions_back() {
    let Some(program) = ready() else { return };
    let probe = format!("{program}:tick n=arg1:s32");
    // The second probe is refused after the first was defined, and the output when all is set up.
    for words in [
        vec!["-P", &probe, "-e", "sched:no_such_event", "--", "true"],
        vec!["-P", &probe, "-o", "/no/such/folder/out.fxt", "--", "true"],
        vec!["-P", &probe, "--", "/no/such/command"],
    ] {
        let mut child = Command::new(fxtrec())
            .args(&words)
            .current_dir("/tmp")
            .stderr(Stdio::null())
            .spawn()
            .expect("fxtrec can be run");
        let status = child.wait().expect("it is ours");
        assert!(!status.success(), "{words:?}");
        assert_eq!(definitions_of(child.id()), [] as [&str; 0], "{words:?}");
    }
}

#[test]
fn what_a_killed_recorder_leaves_goes_at_the_next_start() {
    let Some(program) = ready() else { return };
    let (mut child, folder) = waiting(program);
    let pid = child.id();
    child.kill().expect("it runs");
    child.wait().expect("it is ours");
    let out = folder.path().join("next.fxt");
    let output = run(["-q", "-o", out.to_str().expect("plain"), "--", "true"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(definitions_of(pid), [] as [&str; 0]);
}

#[test]
fn doctor_removes_what_a_killed_recorder_leaves() {
    let Some(program) = ready() else { return };
    let (mut child, _folder) = waiting(program);
    let pid = child.id();
    child.kill().expect("it runs");
    child.wait().expect("it is ours");
    run(["doctor"]);
    assert_eq!(definitions_of(pid), [] as [&str; 0]);
}
