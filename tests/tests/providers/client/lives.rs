//! Managers and applications that start, exit and are killed.

use std::time::Duration;

use fxt_writer::engine::BufferDisposition;

use super::app::App;
use super::manager::{Ask, Manager, buffer};

#[test]
fn a_killed_application_leaves_all_that_it_committed() {
    let manager = Manager::new();
    let mut app = App::start(&manager, "forever", &[]);
    let mut peer = manager.accept();
    let recording = peer.start(Ask { bytes: 16 << 20, ..Ask::default() });
    let mut said = 0;
    while said < 20_000 {
        said = app.number().expect("a number");
    }
    app.kill();
    let archive = peer.save_to_death(recording);
    let begun: Vec<_> = archive
        .events
        .iter()
        .filter(|event| !event.args.is_empty())
        .map(|event| event.number("number"))
        .collect();
    assert!(begun.len() as u64 > said, "what it said it had recorded");
    if archive.dropped == 0 {
        assert_eq!(begun, (0..begun.len() as u64).collect::<Vec<_>>());
    }
    assert!(archive.open_spans() <= 1);
}

#[test]
fn when_the_manager_is_gone_the_application_continues_and_finds_the_next_one() {
    let manager = Manager::new();
    let address = manager.address().to_owned();
    let mut app = App::start(&manager, "sessions", &[]);
    let peer = manager.accept();
    let recording = peer.start(Ask::default());
    assert_eq!(app.number(), Some(0));
    // As with kill -9, no message is sent.
    drop((manager, peer, recording));

    let next = Manager::at(&address);
    let mut peer = next.accept();
    app.go_on();
    let recording = peer.start(Ask::default());
    assert_eq!(app.number(), Some(1));
    let archive = peer.stop(recording);
    assert_eq!(archive.events.len(), 1);
    drop(peer);
    app.end_well();
}

#[test]
fn a_manager_that_dies_in_the_middle_stops_no_application() {
    let manager = Manager::new();
    let mut app = App::start(&manager, "threads", &[8, 200_000]);
    let peer = manager.accept();
    let mut recording = peer.start(Ask { bytes: 64 << 10, ..Ask::default() });
    recording.packet(Duration::from_secs(20)).expect("the first buffer is full");
    drop((manager, peer, recording));
    assert_eq!(app.number(), Some(1_600_000));
    app.end_well();
}

#[test]
fn an_application_whose_fifo_is_closed_ends_tracing_and_stays() {
    let manager = Manager::new();
    let mut app = App::start(&manager, "sessions", &[]);
    let mut peer = manager.accept();
    let recording = peer.start(Ask::default());
    assert_eq!(app.number(), Some(0));
    recording.refuse();
    // The connection can be used for another session.
    let recording = peer.start(Ask::default());
    app.go_on();
    assert_eq!(app.number(), Some(1));
    assert_eq!(peer.stop(recording).named("session").count(), 1);
    app.kill();
}

#[test]
fn without_a_manager_nothing_happens() {
    let manager = Manager::new();
    let mut app = App::start(&manager, "idle", &[]);
    assert_eq!(app.number(), Some(1));
    app.end_well();
}

#[test]
fn the_same_buffer_goes_on_where_it_was_retained() {
    let manager = Manager::new();
    let mut app = App::start(&manager, "sessions", &[]);
    let mut peer = manager.accept();
    let ask = Ask { mode: fxt_writer::engine::Mode::Circular, ..Ask::default() };
    let mut file = buffer(ask.bytes);
    let mut seen = Vec::new();
    let dispositions = [
        BufferDisposition::ClearEntire,
        BufferDisposition::Retain,
        BufferDisposition::ClearNondurable,
        BufferDisposition::ClearEntire,
    ];
    for (number, disposition) in (0..).zip(dispositions) {
        let recording = peer.start_in(file, ask.clone(), disposition);
        assert_eq!(app.number(), Some(number));
        let (archive, same) = peer.stop_and_keep(recording);
        let numbers: Vec<_> =
            archive.named("session").map(|event| event.number("number")).collect();
        seen.push((numbers, archive.strings.contains("session")));
        file = same;
        app.go_on();
    }
    let expected = [(vec![0], true), (vec![0, 1], true), (vec![2], true), (vec![3], true)];
    assert_eq!(seen, expected);
    app.kill();
}
