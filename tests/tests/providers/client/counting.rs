//! Written and dropped records add up to the attempted ones.

use std::collections::HashMap;
use std::time::Duration;

use fxt_reader::record::EventKind;
use fxt_writer::engine::Mode;

use super::app::App;
use super::manager::{Ask, Manager};

#[test]
fn every_event_of_8_threads_arrives_once() {
    let manager = Manager::new();
    let mut app = App::start(&manager, "threads", &[8, 20_000]);
    let mut peer = manager.accept();
    // Large enough for all records: nothing may be lost, however slow the machine is.
    let recording = peer.start(Ask { bytes: 64 << 20, ..Ask::default() });
    assert_eq!(app.number(), Some(160_000));
    let archive = peer.save_to_death(recording);
    app.end_well();
    assert_eq!((archive.events.len(), archive.dropped), (160_000, 0));
    let mut next: HashMap<u64, u64> = HashMap::new();
    let mut ids: HashMap<u64, u64> = HashMap::new();
    for event in &archive.events {
        let thread = event.number("thread");
        let number = next.entry(thread).or_default();
        assert_eq!(event.number("number"), *number, "thread {thread}, each in its order");
        *number += 1;
        assert_eq!(*ids.entry(thread).or_insert(event.thread), event.thread);
    }
    assert_eq!(next.len(), 8);
}

#[test]
fn with_a_slow_manager_written_and_dropped_are_what_was_attempted() {
    let manager = Manager::new();
    let mut app = App::start(&manager, "threads", &[8, 20_000]);
    let mut peer = manager.accept();
    let mut recording = peer.start(Ask { bytes: 64 << 10, ..Ask::default() });
    // Nothing is saved until the application has finished.
    let request = recording.packet(Duration::from_secs(20)).expect("a full buffer");
    let attempted = app.number().expect("how many");
    recording.save(request);
    let archive = peer.save_to_death(recording);
    app.end_well();
    assert!(archive.dropped > 0);
    assert_eq!(archive.written() + archive.dropped, attempted);
}

#[test]
fn spans_nest_even_where_records_were_dropped() {
    let manager = Manager::new();
    let mut app = App::start(&manager, "spans", &[4, 20_000]);
    let mut peer = manager.accept();
    let ask = Ask { mode: Mode::Streaming, bytes: 64 << 10, ..Ask::default() };
    let mut recording = peer.start(ask);
    // Buffers are saved one at a time, each when the next has been full for a while.
    for _ in 0..6 {
        let Some(request) = recording.packet(Duration::from_secs(20)) else { break };
        while recording.header().dropped == 0 {
            std::thread::yield_now();
        }
        recording.save(request);
    }
    let attempted = app.number().expect("how many");
    let archive = peer.stop(recording);
    app.end_well();
    assert!(archive.dropped > 0);
    // A thread may end before there is room for the ends of its spans.
    assert!(archive.open_spans() <= 4 * 2);
    // A span is lost as a whole: if its begin is lost, or its end.
    let ends = archive.events.iter().filter(|event| event.kind == EventKind::DurationEnd).count();
    assert_eq!(ends as u64 + archive.dropped, attempted);
}

#[test]
fn a_stop_saves_everything_before_it_is_answered() {
    let manager = Manager::new();
    let mut app = App::start(&manager, "sessions", &[]);
    let mut peer = manager.accept();
    for session in 0..3 {
        let recording = peer.start(Ask::default());
        assert_eq!(app.number(), Some(session));
        let id = recording.id;
        let archive = peer.stop(recording);
        let numbers: Vec<_> =
            archive.named("session").map(|event| event.number("number")).collect();
        assert_eq!(numbers, [session]);
        assert_eq!(archive.threads.len(), 1, "named anew in each buffer");
        peer.terminate(id);
        app.go_on();
    }
    drop(peer);
    app.kill();
}

#[test]
fn a_flush_has_saved_what_was_recorded_before() {
    let manager = Manager::new();
    let mut app = App::start(&manager, "flush", &[]);
    let mut peer = manager.accept();
    let mut recording = peer.start(Ask::default());
    let request = recording.packet(Duration::from_secs(20)).expect("it flushes");
    recording.save(request);
    assert_eq!(app.number(), Some(1), "it knows that all is saved");
    assert_eq!(recording.saves, 1);
    app.go_on();
    let archive = peer.save_to_death(recording);
    app.end_well();
    let names: Vec<_> = archive.events.iter().map(|event| event.name.as_str()).collect();
    assert_eq!(names, ["before", "after"]);
}
