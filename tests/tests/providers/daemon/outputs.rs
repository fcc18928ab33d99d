//! The destinations of a trace: files, slow readers, readers that exit, and deferred data.

use std::io::{Read, pipe};
use std::os::unix::net::UnixStream;

use fxtrec::control::wire::{BufferDisposition, ProviderSpec};
use fxtrec_tests::root;

use super::archive::Archive;
use super::*;

#[test]
fn an_application_and_the_scheduler_are_in_one_archive_and_agree() {
    if !root::may_record() {
        return;
    }
    for mode in [BufferingMode::Streaming, BufferingMode::Oneshot, BufferingMode::Circular] {
        let daemon = Daemon::start();
        let output = daemon.path("all.fxt");
        let mut client = daemon.client();
        client.initialize(everything(mode), create(&output)).expect("none is there");
        client.start(now()).expect("it starts");
        let mut app = daemon.app(&["sleeps", "2", "10", "napper"]);
        assert!(app.finish().success());
        let stopped = client.stop(WRITE).expect("it stops");
        assert_eq!(stopped.provider_stats[0].buffering_mode, mode);
        // It exists when the answer arrives.
        let archive = Archive::read(&output);
        client.terminate().expect("it ends");
        assert_eq!(archive.names[&1], "fxtrec", "{mode:?}");
        assert_eq!(archive.count("napper", "nap"), 20, "{mode:?}: {:?}", archive.events);
        let naps = archive.events["napper"].iter().filter(|(name, ..)| name == "nap");
        for (_, thread, time) in naps {
            // Within the two milliseconds of the nap, the thread is switched out and in again.
            let inside = |at: u64| (*time..time + 1_000_000_000).contains(&at);
            let out = archive.switches.iter().any(|(at, out, _)| out == thread && inside(*at));
            let back = archive.switches.iter().any(|(at, _, next)| next == thread && inside(*at));
            assert!(out && back, "{mode:?}: no switch of {thread} after {time}");
        }
    }
}

#[test]
fn a_reader_that_takes_its_time_blocks_no_thread_and_gets_everything() {
    if !root::may_record() {
        return;
    }
    let daemon = Daemon::start();
    let (mut reader, writer) = pipe().expect("a pipe");
    let mut client = daemon.client();
    client.initialize(everything(BufferingMode::Streaming), writer.into()).expect("none is there");
    client.start(now()).expect("it starts");
    let mut app = daemon.app(&["burst", "2", "100000", "bursting"]);
    assert!(app.finish().success());
    let stats = client.stop(WRITE).expect("nobody waits for the reader").provider_stats;
    assert_eq!(daemon.state(), SessionState::Stopped);
    client.terminate().expect("nor now");
    let mut all = Vec::new();
    reader.read_to_end(&mut all).expect("all of it, and the end");
    assert!(all.len() > 1_000_000, "more than a pipe holds: {}", all.len());
    let archive = Archive::of(&all);
    let events = archive.events["bursting"].len() as u64;
    assert!(events > 0 && events <= stats[0].records_written, "{events}, {stats:?}");
    assert!(!archive.switches.is_empty());
}

#[test]
fn a_reader_that_goes_aborts_the_session() {
    if !root::may_record() {
        return;
    }
    let daemon = Daemon::start();
    let (reader, writer) = UnixStream::pair().expect("a pair");
    let mut client = daemon.client();
    client.initialize(everything(BufferingMode::Streaming), writer.into()).expect("none is there");
    client.start(now()).expect("it starts");
    drop(reader);
    daemon.wait_for(SessionState::Stopped);
    for answer in [refused(client.stop(WRITE)), refused(client.start(now()))] {
        let ControllerError::Aborted { reason } = answer else { panic!("{answer:?}") };
        assert!(reason.contains("reader"), "{reason}");
    }
    client.terminate().expect("it ends");
    client
        .initialize(applications(BufferingMode::Oneshot), create(&daemon.path("next.fxt")))
        .expect("there is room for another");
}

#[test]
fn what_is_deferred_comes_when_the_session_is_stopped() {
    if !root::may_record() {
        return;
    }
    let daemon = Daemon::start();
    let output = daemon.path("deferred.fxt");
    let mut client = daemon.client();
    let config = TraceConfig { defer_transfer: Some(true), ..everything(BufferingMode::Streaming) };
    client.initialize(config, create(&output)).expect("none is there");
    client.start(now()).expect("it starts");
    assert!(daemon.app(&["sleeps", "1", "10", "napper"]).finish().success());
    wait::until("something was collected", || client.status().expect("it answers").bytes > 10_000);
    assert_eq!(std::fs::metadata(&output).expect("there").len(), 0);
    client.stop(WRITE).expect("it stops");
    assert_eq!(Archive::read(&output).count("napper", "nap"), 10);
    client.terminate().expect("it ends");
}

#[test]
fn what_was_not_written_is_kept_or_cleared_and_never_comes_twice() {
    if !root::may_record() {
        return;
    }
    let daemon = Daemon::start();
    let naps = |daemon: &Daemon, name: &str| {
        assert!(daemon.app(&["sleeps", "1", "3", name]).finish().success());
    };
    for (disposition, expected) in
        [(BufferDisposition::Retain, [3, 3]), (BufferDisposition::ClearEntire, [0, 3])]
    {
        let output = daemon.path("runs.fxt");
        let mut client = daemon.client();
        client
            .initialize(everything(BufferingMode::Oneshot), create(&output))
            .expect("none is there");
        client.start(now()).expect("it starts");
        naps(&daemon, "first");
        client.stop(KEEP).expect("it stops");
        let how = StartOptions { buffer_disposition: Some(disposition), ..now() };
        client.start(how.clone()).expect("it starts again");
        naps(&daemon, "second");
        client.stop(WRITE).expect("it stops");
        let count = |archive: &Archive| ["first", "second"].map(|app| archive.count(app, "nap"));
        assert_eq!(count(&Archive::read(&output)), expected, "{disposition:?}");
        // The data was written, whatever the next request is.
        client
            .start(StartOptions { buffer_disposition: Some(BufferDisposition::Retain), ..now() })
            .expect("it starts again");
        client.stop(WRITE).expect("it stops");
        assert_eq!(count(&Archive::read(&output)), expected, "{disposition:?}");
        client.terminate().expect("it ends");
    }
}

#[test]
fn what_nobody_asked_to_be_written_is_discarded_at_the_end() {
    if !root::may_record() {
        return;
    }
    let daemon = Daemon::start();
    let output = daemon.path("nothing.fxt");
    let mut client = daemon.client();
    client.initialize(everything(BufferingMode::Oneshot), create(&output)).expect("none is there");
    client.start(now()).expect("it starts");
    assert!(daemon.app(&["sleeps", "1", "3", "napper"]).finish().success());
    client.terminate().expect("it ends");
    let archive = Archive::read(&output);
    assert!(archive.events.is_empty() && archive.switches.is_empty(), "{archive:?}");
}

#[test]
fn a_snapshot_has_what_is_held_and_the_session_continues() {
    if !root::may_record() {
        return;
    }
    let daemon = Daemon::start();
    let (output, snapshot) = (daemon.path("all.fxt"), daemon.path("snapshot.fxt"));
    let mut client = daemon.client();
    client.initialize(everything(BufferingMode::Circular), create(&output)).expect("none is there");
    assert_eq!(refused(client.snapshot(create(&snapshot))), ControllerError::NotStarted);
    client.start(now()).expect("it starts");
    assert!(daemon.app(&["sleeps", "1", "5", "before"]).finish().success());
    let bytes = client.snapshot(create(&snapshot)).expect("it holds something");
    assert_eq!(std::fs::metadata(&snapshot).expect("there").len(), bytes);
    assert!(daemon.app(&["sleeps", "1", "5", "after"]).finish().success());
    client.stop(WRITE).expect("it stops");
    client.terminate().expect("it ends");
    let early = Archive::read(&snapshot);
    assert_eq!((early.count("before", "nap"), early.count("after", "nap")), (5, 0));
    assert!(!early.switches.is_empty());
    let all = Archive::read(&output);
    assert_eq!((all.count("before", "nap"), all.count("after", "nap")), (5, 5));
}

#[test]
fn categories_choose_what_is_recorded_of_whom() {
    if !root::may_record() {
        return;
    }
    let daemon = Daemon::start();
    let categories = |list: &[&str]| Some(list.iter().map(|&name| name.to_owned()).collect());
    // The application's spans have the category app:sleep.
    let cases = [
        (categories(&["irq", "app*"]), None, 3, false),
        (categories(&["sched", "other"]), None, 0, true),
        (categories(&["other"]), categories(&["app:*"]), 3, false),
    ];
    for (list, more, naps, scheduling) in cases {
        let output = daemon.path("some.fxt");
        let mut client = daemon.client();
        let config = TraceConfig { categories: list, ..everything(BufferingMode::Streaming) };
        client.initialize(config, create(&output)).expect("none is there");
        let how = StartOptions { additional_categories: more, ..now() };
        client.start(how).expect("it starts");
        assert!(daemon.app(&["sleeps", "1", "3", "napper"]).finish().success());
        client.stop(WRITE).expect("it stops");
        client.terminate().expect("it ends");
        let archive = Archive::read(&output);
        assert_eq!(archive.count("napper", "nap"), naps);
        assert_eq!(!archive.switches.is_empty(), scheduling);
    }
    // An override applies only to its provider.
    let output = daemon.path("special.fxt");
    let mut client = daemon.client();
    let spec = ProviderSpec {
        name: "special".to_owned(),
        categories: categories(&["app*"]),
        ..ProviderSpec::default()
    };
    let config = TraceConfig {
        categories: categories(&["other"]),
        provider_specs: Some(vec![spec]),
        ..everything(BufferingMode::Streaming)
    };
    client.initialize(config, create(&output)).expect("none is there");
    client.start(now()).expect("it starts");
    for name in ["special", "usual"] {
        assert!(daemon.app(&["sleeps", "1", "3", name]).finish().success());
    }
    client.stop(WRITE).expect("it stops");
    let archive = Archive::read(&output);
    assert_eq!((archive.count("special", "nap"), archive.count("usual", "nap")), (3, 0));
}
