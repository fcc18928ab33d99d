//! ctl without a daemon: it reports that, and requests snapshots from other recorders.

use std::process::{Command, Stdio};

use fxtrec_tests::binary;
use fxtrec_tests::folder::Folder;
use fxtrec_tests::process::Process;
use fxtrec_tests::root;
use fxtrec_tests::trace::Trace;
use fxtrec_tests::wait;

#[test]
fn without_a_daemon_every_verb_says_where_it_looked_and_what_to_do() {
    let folder = Folder::new();
    let socket = folder.text("control");
    let verbs: [&[&str]; 8] = [
        &["status"],
        &["providers"],
        &["categories"],
        &["start"],
        &["start", "--", "touch", "started"],
        &["stop"],
        &["snapshot"],
        &["watch"],
    ];
    for verb in verbs {
        let line = [&["ctl", "--socket", &socket], verb].concat();
        let done = folder.fxtrec(line).expect(125);
        assert!(done.stderr.contains(&socket), "{verb:?}: {}", done.stderr);
        assert!(done.stderr.contains("systemctl start fxtrec"), "{verb:?}: {}", done.stderr);
    }
    let left = std::fs::read_dir(folder.path("")).expect("a folder").count();
    assert_eq!(left, 0, "neither a file was made nor the command run");
}

#[test]
fn what_cannot_be_is_refused_before_anyone_is_asked() {
    let folder = Folder::new();
    let refused = |words: &[&str], expected: &str| {
        let done = folder.fxtrec([&["ctl"], words].concat()).expect(125);
        assert!(done.stderr.contains(expected), "{words:?}: {}", done.stderr);
    };
    refused(&["start", "-o", "-"], "--foreground");
    refused(&["start", "--categories", "sched:wakin"], "did you mean sched:waking?");
    refused(&["start", "--provider", "db"], "NAME:SIZE:CATEGORIES");
    refused(&["snapshot", "--pid", "0"], "a process id is a number from 1 to 4194304");
    refused(&["nothing"], "unrecognized subcommand");
}

#[test]
fn a_running_recorder_is_asked_for_a_snapshot_and_no_other_process_is_touched() {
    if !root::may_record() {
        return;
    }
    let folder = Folder::new();
    let output = folder.text("app.fxt");
    let start = |mode: &str| {
        let mut fxtrec = binary::command();
        fxtrec.args(["-q", "-a", "--mode", mode, "-o", &output]);
        Process::start(fxtrec.stderr(Stdio::null()))
    };
    let ask =
        |process: &Process| folder.fxtrec(["ctl", "snapshot", "--pid", &process.id().to_string()]);

    let mut circular = start("circular");
    let listens = || ask(&circular).code == 0;
    wait::until("the recorder to listen", listens);
    let snapshot = folder.path("app.1.fxt");
    wait::until("the snapshot", || snapshot.exists() && is_whole(&folder, "app.1.fxt"));
    assert!(!Trace::read(&snapshot).switches.is_empty());
    let pid = circular.id().to_string();
    let reported = folder.fxtrec(["ctl", "--json", "snapshot", "-p", &pid]).expect(0);
    let reported: serde_json::Value = serde_json::from_str(&reported.stdout).expect("JSON");
    assert_eq!(reported["pid"], circular.id());
    assert_eq!(reported["beside"], output.as_str());
    assert!(!circular.is_over(), "it goes on");
    circular.kill();

    let mut streaming = start("streaming");
    wait::until("its file", || folder.path("app.fxt").exists());
    let refused = ask(&streaming).expect(125);
    assert!(refused.stderr.contains("does not record with --mode circular"), "{}", refused.stderr);
    let mut sleep = Process::start(Command::new("sleep").arg("1000"));
    let refused = ask(&sleep).expect(125);
    assert!(refused.stderr.contains("it runs /"), "{}", refused.stderr);
    assert!(!sleep.is_over() && !streaming.is_over());
    sleep.kill();
    let gone = ask(&sleep).expect(125);
    assert!(gone.stderr.contains("does not exist"), "{}", gone.stderr);
}

/// Whether the trace contains all records.
fn is_whole(folder: &Folder, name: &str) -> bool {
    folder.fxtrec(["dump", "--check", name]).code == 0
}

#[test]
fn a_recording_takes_the_kernels_categories_next_to_those_of_applications() {
    if !root::may_record() {
        return;
    }
    let folder = Folder::new();
    let application = env!("CARGO_BIN_EXE_provider-client");
    let categories = ["-q", "--categories", "syscall,app*", "-o", "t.fxt"];
    folder.fxtrec(categories.iter().chain(&["--", application, "spans", "1", "5"])).expect(0);
    let trace = Trace::read(&folder.path("t.fxt"));
    let begun = |category: &str| {
        trace.events.iter().filter(|event| event.begins() && event.category == category).count()
    };
    assert_eq!(begun("app"), 2 * 5);
    assert!(begun("syscall") > 0, "of the application, for one");
    let named = ["-q", "--categories", "uprobe:render", "-o", "u.fxt", "--", "true"];
    let refused = folder.fxtrec(named).expect(125);
    assert!(refused.stderr.contains("or -P"), "{}", refused.stderr);
}
