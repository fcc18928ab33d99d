//! The interface from outside: every state and request, invalid requests, and a foreign client.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::Command;

use fxtrec::control::wire::{FxtVersion, Nothing};
use fxtrec_tests::root;
use nix::sys::signal::kill;
use nix::unistd::Pid;
use serde_json::{Value, json};

use super::archive::Archive;
use super::python;
use super::*;

/// Sends bytes and returns the answer, or nothing if the connection was closed.
fn tell(socket: &mut UnixStream, bytes: &[u8]) -> Option<Value> {
    socket.write_all(bytes).ok()?;
    let mut answer = Vec::new();
    let mut byte = [0];
    loop {
        match socket.read(&mut byte) {
            Ok(1) if byte[0] == 0 => break,
            Ok(1) => answer.push(byte[0]),
            _ => return None,
        }
    }
    Some(serde_json::from_slice(&answer).expect("an object"))
}

fn call(socket: &mut UnixStream, method: &str, parameters: &Value) -> Option<Value> {
    let mut message = json!({ "method": method, "parameters": parameters }).to_string();
    message.push('\0');
    tell(socket, message.as_bytes())
}

#[test]
fn a_varlink_client_that_is_not_ours_calls_every_method() {
    if !root::may_record() {
        return;
    }
    let Some(python) = python::with_varlink() else { return };
    let daemon = Daemon::start();
    let provider = daemon.provider("alarming");
    daemon.wait_for_provider("alarming");
    let outputs = [daemon.path("all.fxt"), daemon.path("snapshot.fxt")];
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/programs/session_client.py");
    let mut client = Command::new(&python);
    client.arg("-B").arg(script).arg(daemon.control()).args(&outputs);
    let mut client = Process::start(client.stdout(Stdio::piped()));
    let mut said = String::new();
    let mut line = |client: &mut Process| {
        said.clear();
        std::io::BufRead::read_line(client.stdout(), &mut said).expect("text");
        said.trim().to_owned()
    };
    assert_eq!(line(&mut client), "started");
    assert!(daemon.app(&["sleeps", "1", "5", "napper"]).finish().success());
    provider.alert("ring");
    assert_eq!(line(&mut client), "alert ring");
    assert_eq!(
        line(&mut client),
        "states ready initialized starting started stopping stopped terminating ready"
    );
    assert!(client.finish().success());
    for output in outputs {
        let archive = Archive::read(&output);
        assert_eq!(archive.count("napper", "nap"), 5, "{output:?}");
        assert!(!archive.switches.is_empty(), "{output:?}");
    }
}

#[test]
fn the_example_of_the_documentation_records() {
    if !root::may_record() {
        return;
    }
    let Some(python) = python::with_varlink() else { return };
    let text = include_str!("../../../../docs/reference/sessions.md");
    let (_, rest) = text.split_once("```python\n").expect("an example");
    let (example, _) = rest.split_once("```").expect("its end");
    let daemon = Daemon::start();
    let (script, output) = (daemon.path("example.py"), daemon.path("example.fxt"));
    std::fs::write(&script, example).expect("written");
    let mut run = Command::new(python);
    let done = run_to_end(run.arg("-B").arg(script).arg(daemon.control()).arg(&output));
    assert!(done.contains("provider_stats"), "{done}");
    assert!(!Archive::read(&output).switches.is_empty());
}

fn run_to_end(command: &mut Command) -> String {
    let output = command.output().expect("it runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    String::from_utf8(output.stdout).expect("text")
}

/// The outcome of a request: the state after it, or the error.
fn reported<T: std::fmt::Debug>(client: &mut Client, result: Result<T, ClientError>) -> String {
    match result {
        Ok(_) => client.status().expect("it answers").state.name().to_owned(),
        Err(ClientError::Refused(error)) => format!("{error:?}"),
        Err(other) => panic!("{other}"),
    }
}

#[test]
fn every_request_gets_the_answer_of_the_table_in_every_state_that_lasts() {
    if !root::may_record() {
        return;
    }
    // The states in which a session stays; the others are below.
    let rows = [
        (
            SessionState::Ready,
            ["initialized", "NotInitialized", "NotInitialized", "NotInitialized", "NotInitialized"],
        ),
        (
            SessionState::Initialized,
            ["AlreadyInitialized", "started", "NotStarted", "ready", "NotStarted"],
        ),
        (
            SessionState::Started,
            ["AlreadyInitialized", "AlreadyStarted", "stopped", "ready", "started"],
        ),
        (
            SessionState::Stopped,
            ["AlreadyInitialized", "started", "NotStarted", "ready", "NotStarted"],
        ),
    ];
    let daemon = Daemon::start();
    for (state, answers) in rows {
        for (request, expected) in answers.into_iter().enumerate() {
            let mut client = daemon.client();
            let config = applications(BufferingMode::Circular);
            let output = || create(&daemon.path("any.fxt"));
            if state != SessionState::Ready {
                client.initialize(config.clone(), output()).expect("none is there");
            }
            if matches!(state, SessionState::Started | SessionState::Stopped) {
                client.start(now()).expect("it starts");
            }
            if state == SessionState::Stopped {
                client.stop(KEEP).expect("it stops");
            }
            assert_eq!(client.status().expect("it answers").state, state);
            // Queries are answered in every state.
            assert!(client.providers().expect("it answers").providers.is_empty());
            assert!(!client.known_categories().expect("it answers").categories.is_empty());
            let mut states = daemon.client().watch_states().expect("it answers");
            assert_eq!(states.next().expect("at once").expect("a state").state, state);
            let answer = match request {
                0 => client.initialize(config, output()),
                1 => client.start(now()).map(drop),
                2 => client.stop(WRITE).map(drop),
                3 => client.terminate().map(drop),
                _ => client.snapshot(output()).map(drop),
            };
            assert_eq!(reported(&mut client, answer), expected, "request {request} when {state:?}");
            drop(client);
            daemon.wait_for(SessionState::Ready);
        }
    }
}

/// All requests of another connection of root's, in the order of the table, except those in `allowed`.
fn answers(daemon: &Daemon, allowed: &[usize]) -> Vec<(usize, String)> {
    let mut client = daemon.client();
    let output = || create(&daemon.path("other.fxt"));
    let refused = (0..5).filter(|request| !allowed.contains(request)).map(|request| {
        let answer = match request {
            0 => client.initialize(applications(BufferingMode::Circular), output()),
            1 => client.start(now()).map(drop),
            2 => client.stop(WRITE).map(drop),
            3 => client.terminate().map(drop),
            _ => client.snapshot(output()).map(drop),
        };
        (request, reported(&mut client, answer))
    });
    refused.collect()
}

fn expected(answers: &[(usize, &str)]) -> Vec<(usize, String)> {
    answers.iter().map(|(request, answer)| (*request, (*answer).to_owned())).collect()
}

#[test]
fn a_session_that_starts_answers_as_in_the_table() {
    if !root::may_record() {
        return;
    }
    let daemon = Daemon::start();
    // It never reports that it records, and is waited for.
    let _silent = daemon.provider("silent");
    daemon.wait_for_provider("silent");
    for (end, after) in [(2, "stopped"), (3, "ready")] {
        let mut owner = daemon.client();
        let config = TraceConfig {
            start_timeout_milliseconds: Some(600_000),
            ..applications(BufferingMode::Circular)
        };
        owner.initialize(config, create(&daemon.path("any.fxt"))).expect("none is there");
        let starting = std::thread::spawn(move || {
            let answer = owner.start(now());
            (owner, answer)
        });
        daemon.wait_for(SessionState::Starting);
        let refused =
            expected(&[(0, "AlreadyInitialized"), (1, "AlreadyStarted"), (4, "NotStarted")]);
        assert_eq!(answers(&daemon, &[2, 3]), refused);
        assert_eq!(daemon.state(), SessionState::Starting);
        let others: Vec<usize> = (0..5).filter(|request| *request != end).collect();
        assert_eq!(answers(&daemon, &others), expected(&[(end, after)]));
        let (owner, started) = starting.join().expect("no panic");
        match end {
            2 => assert_eq!(started.expect("what had started").late, ["silent"]),
            _ => assert_eq!(super::refused(started), ControllerError::Terminating),
        }
        drop(owner);
        daemon.wait_for(SessionState::Ready);
    }
}

#[test]
fn a_session_that_stops_and_one_that_ends_answer_as_in_the_table() {
    if !root::may_record() {
        return;
    }
    let daemon = Daemon::start();
    let mut owner = daemon.client();
    let config = everything(BufferingMode::Circular);
    owner.initialize(config, create(&daemon.path("any.fxt"))).expect("none is there");
    owner.start(now()).expect("it starts");
    // The kernel's recorder does not end before it continues.
    let recorder = Pid::from_raw(recorder_of(&daemon));
    kill(recorder, Signal::SIGSTOP).expect("it runs");
    let stopping = std::thread::spawn(move || {
        let answer = owner.stop(WRITE);
        (owner, answer)
    });
    daemon.wait_for(SessionState::Stopping);
    let refused = [(0, "AlreadyInitialized"), (1, "Stopping"), (2, "NotStarted"), (4, "Stopping")];
    assert_eq!(answers(&daemon, &[3]), expected(&refused));
    let ending = std::thread::spawn({
        let mut other = daemon.client();
        move || other.terminate()
    });
    daemon.wait_for(SessionState::Terminating);
    let refused = [
        (0, "Terminating"),
        (1, "Terminating"),
        (2, "NotStarted"),
        (3, "Terminating"),
        (4, "Terminating"),
    ];
    assert_eq!(answers(&daemon, &[]), expected(&refused));
    kill(recorder, Signal::SIGCONT).expect("it was not given up");
    ending.join().expect("no panic").expect("it ends");
    let (_owner, stopped) = stopping.join().expect("no panic");
    stopped.expect("it was stopped before it was ended");
    assert_eq!(daemon.state(), SessionState::Ready);
}

#[test]
fn a_bad_initialize_is_explained_and_closes_the_connection() {
    if !root::may_record() {
        return;
    }
    let daemon = Daemon::start();
    let bad = [
        (
            "version",
            TraceConfig {
                version: Some(FxtVersion { major: 0, minor: 0 }),
                ..TraceConfig::default()
            },
        ),
        (
            "buffer_size_megabytes_hint",
            TraceConfig { buffer_size_megabytes_hint: Some(0), ..TraceConfig::default() },
        ),
        (
            "categories",
            TraceConfig { categories: Some(vec!["a*b".to_owned()]), ..TraceConfig::default() },
        ),
    ];
    for (field, config) in bad {
        let mut client = daemon.client();
        let error = refused(client.initialize(config, create(&daemon.path("any.fxt"))));
        let ControllerError::BadRequest { field: reported, .. } = &error else {
            panic!("{error:?}")
        };
        assert_eq!(reported, field);
        let closed = client.status().expect_err("it is closed");
        assert!(matches!(closed, ClientError::Closed { .. }), "{closed}");
    }
    // Not a descriptor, or not a writable one.
    let mut client = daemon.client();
    let read_only: OwnedFd = File::open("/proc/version").expect("there").into();
    let error = refused(client.initialize(TraceConfig::default(), read_only));
    assert!(error.to_string().contains("not open for writing"), "{error}");
    let mut socket = UnixStream::connect(daemon.control()).expect("it listens");
    let method = "fxtrec.Controller.InitializeTracing";
    let answer = call(&mut socket, method, &json!({ "config": {}, "output": 0 })).expect("told");
    assert_eq!(answer["error"], "fxtrec.Controller.BadRequest");
    assert_eq!(answer["parameters"]["field"], "output");
    assert_eq!(call(&mut socket, "fxtrec.Controller.GetStatus", &json!({})), None);
    assert_eq!(daemon.state(), SessionState::Ready);
}

#[test]
fn what_is_no_call_ends_its_own_connection_only() {
    if !root::may_record() {
        return;
    }
    let daemon = Daemon::start();
    for bytes in [&b"\0"[..], b"no json\0", b"{}\0", b"[1]\0", b"{\"method\": 7}\0"] {
        let mut socket = UnixStream::connect(daemon.control()).expect("it listens");
        assert_eq!(tell(&mut socket, bytes), None);
    }
    // A message without an end is not read forever.
    let mut socket = UnixStream::connect(daemon.control()).expect("it listens");
    let sent = (0..64).try_for_each(|_| socket.write_all(&[b' '; 64 * 1024]));
    assert!(sent.is_err(), "four MiB of nothing were taken");
    // A known service with an unknown method; and the reverse.
    let mut socket = UnixStream::connect(daemon.control()).expect("it listens");
    let answer = call(&mut socket, "fxtrec.Controller.Fly", &json!({})).expect("told");
    assert_eq!(answer["error"], "org.varlink.service.MethodNotFound");
    let answer = call(&mut socket, "io.example.Fly", &json!({})).expect("told");
    assert_eq!(answer["error"], "org.varlink.service.InterfaceNotFound");
    let misspelt = json!({ "option": {} });
    let answer = call(&mut socket, "fxtrec.Controller.StartTracing", &misspelt).expect("told");
    assert_eq!(answer["parameters"]["field"], "option");
    // It is still usable after all that.
    let answer = call(&mut socket, "fxtrec.Controller.GetStatus", &Value::Null).expect("told");
    assert_eq!(answer["parameters"]["state"], "ready");
    let status: Result<Nothing, _> = daemon.client().call("GetStatus", &Nothing {}, Vec::new());
    assert!(status.is_ok());
    assert!(Path::new(&daemon.control()).exists());
}
