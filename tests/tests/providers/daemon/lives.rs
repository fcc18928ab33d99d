//! The owner of a session, and the events that end it.

use std::io::BufRead;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::thread;
use std::time::Instant;

use fxtrec::kernel::stream;
use fxtrec_tests::root;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::archive::Archive;
use super::*;

#[test]
fn a_connection_that_closes_takes_its_session_along_and_a_detached_one_stays() {
    if !root::may_record() {
        return;
    }
    let daemon = Daemon::start();
    let mut states = daemon.client().watch_states().expect("it answers");
    let mut next = || states.next().expect("another").expect("a state").state;
    assert_eq!(next(), SessionState::Ready);

    let mut owner = daemon.client();
    let config = applications(BufferingMode::Streaming);
    owner.initialize(config.clone(), create(&daemon.path("a.fxt"))).expect("none is there");
    owner.start(now()).expect("it starts");
    drop(owner);
    let seen: Vec<SessionState> = (0..5).map(|_| next()).collect();
    assert_eq!(
        seen,
        [
            SessionState::Initialized,
            SessionState::Starting,
            SessionState::Started,
            SessionState::Terminating,
            SessionState::Ready,
        ]
    );

    let mut owner = daemon.client();
    let output = daemon.path("b.fxt");
    let detached = TraceConfig { detached: Some(true), ..config };
    owner.initialize(detached, create(&output)).expect("none is there");
    owner.start(now()).expect("it starts");
    drop(owner);
    let mut app = daemon.app(&["sleeps", "1", "5", "napper"]);
    assert!(app.finish().success());
    let mut other = daemon.client();
    let stats = other.stop(WRITE).expect("it goes on").provider_stats;
    assert_eq!((stats.len(), stats[0].name.as_str()), (1, "napper"));
    assert_eq!(stats[0].records_dropped, 0);
    assert!(stats[0].records_written >= 10, "{stats:?}");
    other.terminate().expect("it ends");
    assert_eq!(daemon.state(), SessionState::Ready);
    assert!(Archive::read(&output).count("napper", "nap") > 0);
}

/// More than there are strings, threads and names.
const LINES: usize = 200;

#[test]
fn figures_and_names_are_those_of_the_session_and_not_of_the_one_before() {
    if !root::may_record() {
        return;
    }
    let daemon = Daemon::start();
    let mut app = daemon.app(&["lines"]);
    for name in ["one.fxt", "two.fxt"] {
        let output = daemon.path(name);
        let mut client = daemon.client();
        client
            .initialize(applications(BufferingMode::Oneshot), create(&output))
            .expect("none is there");
        daemon.wait_for_provider("spans");
        assert_eq!(client.start(now()).expect("it starts").started, 1);
        // With each line a span ends and another begins; every line that it repeats was recorded.
        for _ in 0..LINES {
            app.tell("on");
            let mut line = String::new();
            app.stdout().read_line(&mut line).expect("it says what it did");
        }
        let stats = client.stop(WRITE).expect("it stops").provider_stats;
        client.terminate().expect("it ends");
        assert_eq!(Archive::read(&output).count("spans", "line"), LINES);
        // In addition to spans there are strings, threads and names; the first line did not end a span.
        let others = stats[0].records_written + 1 - 2 * LINES as u64;
        assert!((1..100).contains(&others), "{others} in {name}");
    }
}

#[test]
fn a_daemon_that_is_killed_is_followed_by_another_that_applications_find() {
    if !root::may_record() {
        return;
    }
    let mut daemon = Daemon::start();
    let mut app = daemon.app(&["forever"]);
    let outputs = [daemon.path("one.fxt"), daemon.path("two.fxt")];
    for (number, output) in outputs.iter().enumerate() {
        daemon.wait_for_provider("spans");
        let mut client = daemon.client();
        client
            .initialize(everything(BufferingMode::Streaming), create(output))
            .expect("none is there");
        assert_eq!(client.start(now()).expect("it starts").started, 1);
        for _ in 0..50 {
            let mut line = String::new();
            app.stdout().read_line(&mut line).expect("it says what it did");
        }
        wait::until("something is written", || {
            std::fs::metadata(output).expect("it is there").len() > 100_000
        });
        if number == 0 {
            daemon.process.kill();
            daemon.process = run(daemon.folder.path(), &[]);
            daemon.wait();
            continue;
        }
        client.stop(WRITE).expect("it stops");
        client.terminate().expect("it ends");
    }
    let archive = Archive::read(&outputs[1]);
    assert!(archive.count("spans", "step") > 0);
    assert!(!archive.switches.is_empty());
    // The data that the first process wrote until it was killed can be read, up to where it was cut off.
    let bytes = std::fs::read(&outputs[0]).expect("there");
    let mut reader = fxt_reader::Reader::from_slice(&bytes);
    let mut events = 0;
    while let Ok(Some(item)) = reader.next() {
        events += usize::from(matches!(item.record, fxt_reader::Record::Event(_)));
    }
    assert!(events > 0);
}

#[test]
fn a_daemon_that_is_asked_to_end_writes_what_was_recorded() {
    if !root::may_record() {
        return;
    }
    let mut daemon = Daemon::start();
    let output = daemon.path("end.fxt");
    let mut client = daemon.client();
    client.initialize(everything(BufferingMode::Oneshot), create(&output)).expect("none is there");
    client.start(now()).expect("it starts");
    let mut app = daemon.app(&["sleeps", "1", "5", "napper"]);
    assert!(app.finish().success());
    let control = daemon.control();
    daemon.end();
    assert!(!control.exists(), "its sockets go with it");
    let archive = Archive::read(&output);
    assert_eq!(archive.count("napper", "nap"), 5);
    assert!(!archive.switches.is_empty());
}

#[test]
fn a_second_daemon_is_refused_and_says_which_is_there() {
    if !root::may_record() {
        return;
    }
    let daemon = Daemon::start();
    let second = binary::command()
        .args(["daemon", "--runtime-dir"])
        .arg(daemon.runtime_dir())
        .output()
        .expect("it runs");
    let said = String::from_utf8(second.stderr).expect("text");
    assert_eq!(second.status.code(), Some(125), "{said}");
    assert!(said.contains(&format!("pid {}", daemon.process.id())), "{said}");
    assert_eq!(daemon.state(), SessionState::Ready);
}

#[test]
fn anyone_who_asks_while_somebody_waits_is_answered_at_once() {
    if !root::may_record() {
        return;
    }
    let daemon = Daemon::start();
    // It never reports that it records.
    let _silent = daemon.provider("silent");
    daemon.wait_for_provider("silent");
    let mut owner = daemon.client();
    let config = TraceConfig {
        start_timeout_milliseconds: Some(600_000),
        detached: Some(true),
        ..applications(BufferingMode::Streaming)
    };
    owner.initialize(config.clone(), create(&daemon.path("a.fxt"))).expect("none is there");
    let starting = thread::spawn(move || {
        let started = owner.start(now());
        (owner, started)
    });
    daemon.wait_for(SessionState::Starting);
    let mut other = daemon.client();
    assert_eq!(refused(other.start(now())), ControllerError::AlreadyStarted);
    let again = other.initialize(config.clone(), create(&daemon.path("b.fxt")));
    assert_eq!(refused(again), ControllerError::AlreadyInitialized);
    // A stop ends the wait.
    other.stop(KEEP).expect("what is starting can be stopped");
    let (owner, started) = starting.join().expect("no panic");
    let started = started.expect("it is told what had started");
    assert_eq!((started.started, started.late), (0, vec!["silent".to_owned()]));
    other.terminate().expect("it ends");
    drop(owner);

    // The end of the waiting connection does so, too.
    let raw = UnixStream::connect(daemon.control()).expect("it listens");
    let output = create(&daemon.path("c.fxt"));
    let initialize = concat!(
        r#"{"method": "fxtrec.Controller.InitializeTracing", "parameters": {"output": 0, "config": "#,
        r#"{"categories": ["*"], "start_timeout_milliseconds": 600000}}}"#,
        "\0"
    );
    stream::send(&raw, initialize.as_bytes(), &[output.as_fd()]).expect("sent");
    let start = concat!(r#"{"method": "fxtrec.Controller.StartTracing"}"#, "\0");
    stream::send(&raw, start.as_bytes(), &[]).expect("sent");
    daemon.wait_for(SessionState::Starting);
    drop(raw);
    daemon.wait_for(SessionState::Ready);
}

#[test]
fn alerts_wait_for_whoever_asks_and_whoever_asks_waits_for_alerts() {
    if !root::may_record() {
        return;
    }
    let daemon = Daemon::start();
    let provider = daemon.provider("alarming");
    daemon.wait_for_provider("alarming");
    // Nothing is recorded: no client is notified.
    provider.alert("too early");
    // The manager receives them one after the other.
    daemon.wait_for_provider("alarming");
    let mut owner = daemon.client();
    let mut config = applications(BufferingMode::Streaming);
    config.start_timeout_milliseconds = Some(0);
    config.detached = Some(true);
    owner.initialize(config, create(&daemon.path("a.fxt"))).expect("none is there");
    owner.start(now()).expect("it starts");
    provider.alert("one");
    provider.alert("two");
    let mut alerts = daemon.client().watch_alerts().expect("it answers");
    let mut next = || alerts.next().expect("another").expect("an alert").alert_name;
    assert_eq!([next(), next()], ["one", "two"]);
    let waiting = thread::spawn(move || next_of(alerts));
    provider.alert("three");
    assert_eq!(waiting.join().expect("no panic"), "three");
    // An application's alert is delivered even if the application ends right after it.
    let mut watching = daemon.client().watch_alerts().expect("it answers");
    assert!(daemon.app(&["alert", "exit"]).finish().success());
    let last = watching.next().expect("another").expect("an alert").alert_name;
    assert_eq!(last, "last words");
    owner.terminate().expect("it ends");
}

fn next_of(mut alerts: fxtrec::control::client::Answers<fxtrec::control::wire::Alert>) -> String {
    alerts.next().expect("another").expect("an alert").alert_name
}

#[test]
fn a_client_that_goes_while_its_snapshot_is_made_is_noticed_and_not_waited_for() {
    if !root::may_record() {
        return;
    }
    let daemon = Daemon::start();
    let mut states = daemon.client().watch_states().expect("it answers");
    let mut next = || states.next().expect("another").expect("a state").state;
    let raw = UnixStream::connect(daemon.control()).expect("it listens");
    let output = create(&daemon.path("a.fxt"));
    let call = |method: &str, parameters: &str, descriptors: &[BorrowedFd<'_>]| {
        let message =
            format!(r#"{{"method": "fxtrec.Controller.{method}", "parameters": {parameters}}}"#);
        stream::send(&raw, format!("{message}\0").as_bytes(), descriptors).expect("sent");
    };
    let config =
        r#"{"output": 0, "config": {"categories": ["sched"], "buffering_mode": "circular"}}"#;
    call("InitializeTracing", config, &[output.as_fd()]);
    call("StartTracing", "{}", &[]);
    daemon.wait_for(SessionState::Started);
    // It writes no snapshot, and does not end either.
    let recorder = Pid::from_raw(recorder_of(&daemon));
    kill(recorder, Signal::SIGSTOP).expect("it runs");
    call("Snapshot", r#"{"output": 0}"#, &[output.as_fd()]);
    let gone = Instant::now();
    drop(raw);
    while next() != SessionState::Terminating {}
    let noticed = gone.elapsed();
    kill(recorder, Signal::SIGCONT).expect("it was not given up");
    assert_eq!(next(), SessionState::Ready);
    // The daemon itself abandons a recorder that writes no snapshot, but only after 20 s.
    assert!(noticed.as_secs() < 20, "{noticed:?}");
    // The next client gets a session as usual.
    let mut client = daemon.client();
    let output = daemon.path("b.fxt");
    client.initialize(everything(BufferingMode::Circular), create(&output)).expect("none is there");
    client.start(now()).expect("it starts");
    client.snapshot(create(&daemon.path("c.fxt"))).expect("it is made");
    client.terminate().expect("it ends");
}

#[test]
fn a_snapshot_of_a_session_that_is_ended_meanwhile_is_refused_as_in_the_table() {
    if !root::may_record() {
        return;
    }
    let daemon = Daemon::start();
    let mut owner = daemon.client();
    let config = everything(BufferingMode::Circular);
    owner.initialize(config, create(&daemon.path("a.fxt"))).expect("none is there");
    owner.start(now()).expect("it starts");
    let recorder = Pid::from_raw(recorder_of(&daemon));
    kill(recorder, Signal::SIGSTOP).expect("it runs");
    let output = create(&daemon.path("b.fxt"));
    let snapshot = thread::spawn(move || {
        let answer = owner.snapshot(output);
        (owner, answer)
    });
    let ending = thread::spawn({
        let mut other = daemon.client();
        move || other.terminate()
    });
    daemon.wait_for(SessionState::Terminating);
    let (_owner, answer) = snapshot.join().expect("no panic");
    kill(recorder, Signal::SIGCONT).expect("it was not given up");
    ending.join().expect("no panic").expect("root may");
    // If it was requested after the end, the table has that as well.
    assert_eq!(refused(answer), ControllerError::Terminating);
    assert_eq!(daemon.state(), SessionState::Ready);
}

#[test]
fn the_recorder_of_the_kernel_goes_with_a_daemon_that_is_killed() {
    if !root::may_record() {
        return;
    }
    let mut daemon = Daemon::start();
    let mut client = daemon.client();
    client
        .initialize(everything(BufferingMode::Circular), create(&daemon.path("a.fxt")))
        .expect("none is there");
    client.start(now()).expect("it starts");
    let recorder = recorder_of(&daemon);
    daemon.process.signal(Signal::SIGKILL);
    daemon.process.finish();
    wait::until("the end of the recorder", || {
        let stat = std::fs::read_to_string(format!("/proc/{recorder}/stat")).unwrap_or_default();
        stat.is_empty() || stat.contains(") Z ")
    });
}
