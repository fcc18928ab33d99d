//! The effect of each option of the configuration, of a start and of a stop.

use fxt_writer::engine::Mode;
use fxtrec::control::wire::{BufferDisposition, FxtVersion, ProviderSpec};
use fxtrec_tests::root;

use super::archive::Archive;
use super::*;

fn texts(list: &[&str]) -> Vec<String> {
    list.iter().map(|&name| name.to_owned()).collect()
}

#[test]
fn each_application_is_shown_what_the_configuration_says_of_it() {
    if !root::may_record() {
        return;
    }
    let daemon = Daemon::start();
    let [usual, special] = ["usual", "special"].map(|name| daemon.provider(name));
    daemon.wait_for_provider("special");
    let modes = [
        (BufferingMode::Oneshot, Mode::Oneshot),
        (BufferingMode::Circular, Mode::Circular),
        (BufferingMode::Streaming, Mode::Streaming),
    ];
    for (mode, engine) in modes {
        let spec = ProviderSpec {
            name: "special".to_owned(),
            buffer_size_megabytes_hint: Some(3),
            categories: Some(texts(&["special*"])),
        };
        let config = TraceConfig {
            categories: Some(texts(&["app*", "net"])),
            buffer_size_megabytes_hint: Some(2),
            // They never report that they record.
            start_timeout_milliseconds: Some(1),
            provider_specs: Some(vec![spec]),
            version: Some(FxtVersion { major: 0, minor: 1 }),
            ..applications(mode)
        };
        let mut client = daemon.client();
        client.initialize(config, create(&daemon.path("any.fxt"))).expect("none is there");
        let more = StartOptions { additional_categories: Some(texts(&["more"])), ..now() };
        let started = client.start(more).expect("it starts");
        assert_eq!((started.started, started.late), (0, texts(&["usual", "special"])));
        let [start, other] = [&usual, &special].map(ByHand::start);
        assert_eq!((start.mode, start.buffer_bytes), (engine, 2 << 20));
        assert_eq!(start.categories, ["app*", "net", "more"]);
        assert_eq!((other.mode, other.buffer_bytes), (engine, 3 << 20));
        assert_eq!(other.categories, ["special*"]);
        // Additional categories applied only to that start.
        client.stop(KEEP).expect("it stops");
        client.start(now()).expect("it starts again");
        assert_eq!(usual.start().categories, ["app*", "net"]);
        assert_eq!(special.start().categories, ["special*"]);
        client.terminate().expect("it ends");
    }
}

#[test]
fn what_is_left_out_is_as_documented() {
    if !root::may_record() {
        return;
    }
    let daemon = Daemon::start();
    let provider = daemon.provider("any");
    daemon.wait_for_provider("any");
    let output = daemon.path("default.fxt");
    let mut client = daemon.client();
    let config = TraceConfig { start_timeout_milliseconds: Some(0), ..TraceConfig::default() };
    client.initialize(config, create(&output)).expect("none is there");
    client.start(now()).expect("it starts");
    let start = provider.start();
    assert_eq!((start.mode, start.buffer_bytes), (Mode::Oneshot, 4 << 20));
    assert!(start.categories.is_empty(), "everything");
    assert!(client.status().expect("it answers").kernel.running, "and the scheduler");
    assert!(daemon.app(&["sleeps", "1", "3", "napper"]).finish().success());
    client.stop(StopOptions::default()).expect("it stops");
    client.terminate().expect("it ends");
    let archive = Archive::read(&output);
    assert!(archive.events.is_empty() && archive.switches.is_empty(), "nothing was to be written");
}

#[test]
fn every_disposition_does_what_it_says_to_what_was_not_written() {
    if !root::may_record() {
        return;
    }
    let daemon = Daemon::start();
    let naps = |name: &str| {
        assert!(daemon.app(&["sleeps", "1", "3", name]).finish().success());
    };
    let cases = [
        (None, 0),
        (Some(BufferDisposition::ClearEntire), 0),
        (Some(BufferDisposition::ClearNondurable), 0),
        (Some(BufferDisposition::Retain), 3),
    ];
    for mode in [BufferingMode::Oneshot, BufferingMode::Circular] {
        for (buffer_disposition, kept) in cases {
            let output = daemon.path("runs.fxt");
            let mut client = daemon.client();
            client.initialize(applications(mode), create(&output)).expect("none is there");
            client.start(now()).expect("it starts");
            naps("first");
            client.stop(KEEP).expect("it stops");
            client.start(StartOptions { buffer_disposition, ..now() }).expect("it starts again");
            naps("second");
            client.stop(WRITE).expect("it stops");
            client.terminate().expect("it ends");
            let archive = Archive::read(&output);
            let found = ["first", "second"].map(|app| archive.count(app, "nap"));
            assert_eq!(found, [kept, 3], "{mode:?}, {buffer_disposition:?}");
        }
    }
}
