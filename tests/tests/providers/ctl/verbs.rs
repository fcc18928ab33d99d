//! Every verb, with and without `--json`.

use std::io::{BufRead, Read};
use std::process::Stdio;

use fxtrec_tests::process::Process;
use fxtrec_tests::trace::Trace;
use fxtrec_tests::{root, wait};
use nix::sys::signal::Signal;
use serde_json::{Value, json};

use crate::ctl::daemon::{Daemon, client};

/// The value of the single provider in an answer for this key.
#[track_caller]
fn of_provider<'a>(answer: &'a Value, key: &str) -> &'a Value {
    let stats = answer["provider_stats"].as_array().expect("a list");
    assert_eq!(stats.len(), 1, "{answer}");
    &stats[0][key]
}

#[test]
fn a_detached_session_records_an_application_and_the_scheduler_until_it_is_stopped() {
    if !root::may_record() {
        return;
    }
    let daemon = Daemon::start("");
    assert_eq!(daemon.ctl(&["status"]).expect(0).stdout, "state  ready\n");
    assert_eq!(daemon.ask(&["status"])["state"], "ready");
    let mut application = daemon.spans(50);
    daemon.wait_for_applications(1);
    let listed = daemon.ctl(&["providers"]).expect(0).stdout;
    assert!(
        listed.contains(&application.id().to_string()) && listed.contains("client"),
        "{listed}"
    );
    assert!(listed.contains("told:early"), "{listed}");

    let args = ["start", "-o", "t.fxt", "--categories", "sched,app*", "--buffer-size", "1M"];
    let said = daemon.ctl(&args).expect(0).stdout;
    let path = daemon.folder.text("t.fxt");
    assert_eq!(said, format!("recording to {path}: 1 application\nfxtrec ctl stop ends it\n"));
    let mut line = String::new();
    application.stdout().read_line(&mut line).expect("its number, when it is through");
    let status = daemon.ask(&["status"]);
    assert_eq!(status["state"], "started");
    assert_eq!(status["output"], path.as_str());
    assert_eq!(status["owner_uid"], 0);
    assert_eq!(status["categories"], json!(["sched", "app*"]));
    assert_eq!(status["kernel"]["running"], true);
    let shown = daemon.ctl(&["status"]).expect(0).stdout;
    assert!(shown.contains("owner       root") && shown.contains(&path), "{shown}");
    let second = daemon.ctl(&["start", "-o", "second.fxt"]).expect(125);
    assert!(second.stderr.contains("a session already exists"), "{}", second.stderr);
    assert!(!daemon.folder.path("second.fxt").exists(), "nothing was recorded to it");

    let stopped = daemon.ask(&["stop"]);
    assert_eq!(stopped["state"], "ready");
    assert_eq!(stopped["output"], path.as_str());
    assert_eq!(of_provider(&stopped, "name"), "client");
    assert_eq!(of_provider(&stopped, "pid"), application.id());
    assert_eq!(of_provider(&stopped, "records_dropped"), 0);
    assert_eq!(of_provider(&stopped, "buffering_mode"), "streaming");
    assert_eq!(daemon.state(), "ready");
    let trace = Trace::read(&daemon.folder.path("t.fxt"));
    assert!(!trace.switches.is_empty());
    let begun = trace.events.iter().filter(|event| event.begins()).count();
    assert_eq!(begun, 2 * 50, "every span is there, and the one in it");
    let nothing = daemon.ctl(&["stop"]).expect(125);
    assert!(nothing.stderr.contains("cannot stop: there is no session"), "{}", nothing.stderr);
    assert!(application.finish().success());
    daemon.end();
}

#[test]
fn a_command_finds_the_daemon_and_its_exit_status_is_that_of_ctl() {
    if !root::may_record() {
        return;
    }
    let daemon = Daemon::start("");
    let program = client().to_str().expect("a plain path");
    let words = ["start", "-o", "c.fxt", "--categories", "app*", "--", program, "spans", "1", "20"];
    let done = daemon.ctl(&[&["--json"], &words[..]].concat()).expect(0);
    // COMMAND's own line is first.
    let (_, answer) = done.stdout.split_once('\n').expect("two outputs");
    let answer: Value = serde_json::from_str(answer).expect("JSON");
    assert_eq!(answer["exit_status"], 0);
    assert_eq!(answer["detached"], false);
    assert_eq!(of_provider(&answer, "name"), "client");
    let trace = Trace::read(&daemon.folder.path("c.fxt"));
    assert_eq!(trace.events.iter().filter(|event| event.begins()).count(), 2 * 20);
    assert!(trace.switches.is_empty(), "the scheduler was not asked for");

    let failing = ["start", "--categories", "app*", "--", "sh", "-c", "exit 7"];
    let failed = daemon.ctl(&failing).expect(7);
    assert_eq!(failed.stdout, "", "standard output is the command's");
    assert!(failed.stderr.contains("sh.fxt"), "{}", failed.stderr);
    let killed = ["start", "--categories", "app*", "--", "sh", "-c", "kill -9 $$"];
    daemon.ctl(&killed).expect(137);
    daemon.ctl(&["start", "-o", "none.fxt", "--", "no-such-program"]).expect(127);
    assert!(!daemon.folder.path("none.fxt").exists(), "an empty trace helps nobody");
    wait::until("the last session to end", || daemon.state() == "ready");
    daemon.end();
}

#[test]
fn a_session_in_the_foreground_ends_with_a_signal_and_streams_to_a_pipe() {
    if !root::may_record() {
        return;
    }
    let daemon = Daemon::start("");
    let args = ["start", "--foreground", "-o", "-", "--categories", "sched"];
    let file = std::fs::File::create(daemon.folder.path("f.fxt")).expect("a file");
    let mut ctl = daemon.ctl_command(&args);
    let mut ctl = Process::start(ctl.stdout(file).stderr(Stdio::piped()));
    wait::until("it to record", || daemon.state() == "started");
    ctl.signal(Signal::SIGINT);
    assert!(ctl.finish().success());
    assert_eq!(daemon.state(), "ready");
    assert!(!Trace::read(&daemon.folder.path("f.fxt")).switches.is_empty());
    // A file that is removed meanwhile is missing.
    let mut ctl = daemon.ctl_command(&["start", "--foreground", "-o", "r.fxt"]);
    let mut ctl = Process::start(ctl.stderr(Stdio::piped()));
    wait::until("it to record", || daemon.state() == "started");
    std::fs::remove_file(daemon.folder.path("r.fxt")).expect("it is there");
    ctl.signal(Signal::SIGINT);
    let mut said = String::new();
    ctl.stderr().read_to_string(&mut said).expect("text");
    assert_eq!(ctl.finish().code(), Some(125), "{said}");
    assert!(said.contains("r.fxt"), "{said}");
    // When a client is killed, its session ends as well.
    let mut ctl = daemon.ctl_command(&["start", "--foreground", "--categories", "app*"]);
    let mut ctl = Process::start(ctl.stderr(Stdio::null()));
    wait::until("it to record", || daemon.state() == "started");
    ctl.kill();
    wait::until("the session to end", || daemon.state() == "ready");
    daemon.end();
}

#[test]
fn a_stopped_session_can_be_kept_and_started_again() {
    if !root::may_record() {
        return;
    }
    let daemon = Daemon::start("");
    let mut application = daemon.spans(30);
    daemon.wait_for_applications(1);
    daemon.ctl(&["start", "-o", "k.fxt", "--categories", "app*", "--mode", "oneshot"]).expect(0);
    let mut line = String::new();
    application.stdout().read_line(&mut line).expect("its number, when it is through");
    let kept = daemon.ask(&["stop", "--keep", "--no-write"]);
    assert_eq!(kept["state"], "stopped");
    assert_eq!(daemon.state(), "stopped");
    let again = daemon.ask(&["start", "--again", "--disposition", "retain", "--categories", "irq"]);
    assert_eq!(again["started"], 1);
    let said = daemon.ctl(&["stop", "--keep"]).expect(0).stdout;
    assert!(said.contains("fxtrec ctl start --again continues it"), "{said}");
    let said = daemon.ctl(&["stop"]).expect(0).stdout;
    assert!(said.contains("the session has ended") && said.contains("k.fxt"), "{said}");
    let trace = Trace::read(&daemon.folder.path("k.fxt"));
    let spans = trace.events.iter().filter(|event| event.begins() && event.category == "app");
    assert_eq!(spans.count(), 2 * 30, "what was recorded before was retained");
    assert!(trace.switches.is_empty(), "interrupts were asked for, not the scheduler");
    daemon.end();
}

#[test]
fn changes_of_state_and_alerts_are_reported_as_they_come() {
    if !root::may_record() {
        return;
    }
    let daemon = Daemon::start("");
    let mut watch = daemon.ctl_command(&["watch", "--json"]);
    let mut watch = Process::start(watch.stdout(Stdio::piped()));
    let mut next = || {
        let mut line = String::new();
        watch.stdout().read_line(&mut line).expect("text");
        serde_json::from_str::<Value>(&line).unwrap_or_else(|_| panic!("{line}"))
    };
    assert_eq!(next(), json!({ "version": 1, "state": "ready" }));
    let mut command = std::process::Command::new(client());
    command.arg("everything");
    let mut application = daemon.application(command);
    daemon.wait_for_applications(1);
    daemon.ctl(&["start", "-o", "w.fxt", "--categories", "app*"]).expect(0);
    // The application may raise alerts before everything records.
    let reported: Vec<Value> = (0..5).map(|_| next()).collect();
    let of = |key: &str| reported.iter().filter_map(|line| line[key].as_str()).collect::<Vec<_>>();
    assert_eq!(of("state"), ["initialized", "starting", "started"]);
    assert_eq!(of("alert"), ["look here", "a name that is"], "cut to what an alert has room for");
    assert!(application.finish().success());
    daemon.ctl(&["stop"]).expect(0);
    for state in ["stopping", "stopped", "terminating", "ready"] {
        assert_eq!(next(), json!({ "version": 1, "state": state }));
    }
    let mut plain = daemon.ctl_command(&["watch"]);
    let mut plain = Process::start(plain.stdout(Stdio::piped()));
    let mut line = String::new();
    plain.stdout().read_line(&mut line).expect("text");
    assert_eq!(line, "state ready\n");
    daemon.end();
}
