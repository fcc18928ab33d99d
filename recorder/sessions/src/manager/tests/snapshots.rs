//! The records of all providers so far, while they continue.

use fxt_writer::engine::Mode;
use fxt_writer::provider::wire::FromProvider;
use fxt_writer::record::{Event, EventKind, StringRecord};
use fxt_writer::{Koid, StringRef, Text, ThreadName, Ticks};

use super::*;

fn texts(names: &[&str]) -> Vec<String> {
    names.iter().map(|&name| name.to_owned()).collect()
}

/// Registers a string and records an event with that name by its index.
fn named_event(session: &mut by_hand::Running, index: u16, name: &str) {
    register(session, index, name);
    event_called(session, index);
}

fn register(session: &mut by_hand::Running, index: u16, content: &str) {
    let index = StringRef::indexed(index).expect("not zero");
    let record = StringRecord { index, content };
    match session.start.mode {
        Mode::Oneshot => session.put(&record),
        _ => session.put_durable(&record),
    }
}

fn event_called(session: &mut by_hand::Running, index: u16) {
    let process = session.start.process;
    session.put(&Event {
        kind: EventKind::Instant,
        time: Ticks(1),
        thread: ThreadName::Inline { process, thread: Koid(process.0) },
        category: Text::Inline("test"),
        name: Text::Indexed(StringRef::indexed(index).expect("not zero")),
        args: &[],
    });
}

#[test]
fn in_every_mode_a_snapshot_has_what_is_there_and_leaves_it_there() {
    for mode in [Mode::Streaming, Mode::Circular, Mode::Oneshot] {
        let stage = Stage::new();
        stage.start(mode);
        let gone = stage.register("gone");
        let mut session = gone.start();
        named_event(&mut session, 1, "before it went");
        drop((gone, session));
        stage.wait_until_gone("gone");
        let provider = stage.register("app");
        let mut session = provider.start();
        named_event(&mut session, 1, "one");
        stage.wait_for("app", ProviderState::Started);
        let mut expected = BTreeMap::from([("app".to_owned(), texts(&["one"]))]);
        if mode != Mode::Streaming {
            expected.insert("gone".to_owned(), texts(&["before it went"]));
        }
        assert_eq!(stage.events_in_snapshot(), expected, "{mode:?}");
        named_event(&mut session, 2, "two");
        expected.insert("app".to_owned(), texts(&["one", "two"]));
        assert_eq!(stage.events_in_snapshot(), expected, "{mode:?}");
        // At the end, all of it is in the archive, once.
        provider.say(&FromProvider::Stopped(session.session));
        stage.stop();
        expected.insert("gone".to_owned(), texts(&["before it went"]));
        assert_eq!(stage.events(), expected, "{mode:?}");
        assert!(stage.events_in_snapshot().is_empty(), "{mode:?}");
    }
}

#[test]
fn what_was_saved_is_not_in_a_snapshot_but_the_names_that_were_saved_with_it_are() {
    let stage = Stage::new();
    stage.streaming();
    let provider = stage.register("app");
    let mut session = provider.start();
    named_event(&mut session, 1, "saved");
    session.save();
    event_called(&mut session, 1);
    named_event(&mut session, 2, "new");
    assert_eq!(stage.events_in_snapshot()["app"], ["saved", "new"]);
    assert_eq!(stage.events_of("app"), ["saved"]);
}

#[test]
fn what_is_held_refers_to_names_though_the_piece_that_had_them_was_let_go_of() {
    // Space for one piece with one event, but not for two.
    let stage = Stage::with(Options { held_bytes: 300, ..Options::default() });
    let config = SessionConfig { hold: true, ..SessionConfig::default() };
    stage.manager.start(config, StartOptions::default()).expect("none runs");
    let provider = stage.register("app");
    let mut session = provider.start();
    for index in 1..=3 {
        register(&mut session, index, &format!("name {index}"));
    }
    for _ in 0..2 {
        event_called(&mut session, 2);
        event_called(&mut session, 3);
        session.save();
    }
    let held = BTreeMap::from([("app".to_owned(), texts(&["name 2", "name 3"]))]);
    assert_eq!(stage.events_in_snapshot(), held);
    provider.say(&FromProvider::Stopped(session.session));
    let stopped = stage.stop();
    assert_eq!(stopped.forgotten, 1);
    assert_eq!(stage.events(), held);
}

#[test]
fn a_circular_buffer_shows_both_halves_in_order_and_the_one_that_is_cleared_not_at_all() {
    let stage = Stage::new();
    stage.start(Mode::Circular);
    let provider = stage.register("app");
    let mut session = provider.start();
    session.event("older", 1);
    session.store(6, session.rolling_end as u64 * 8);
    (session.wrapped, session.rolling_end) = (1, 0);
    session.write_header();
    session.event("newer", 2);
    stage.wait_for("app", ProviderState::Started);
    assert_eq!(stage.events_in_snapshot()["app"], ["older", "newer"]);
    let size = session.division.rolling as u64 * 8;
    session.store(6, size);
    session.store(10, size);
    assert_eq!(stage.events_in_snapshot()["app"], ["newer"]);
}

#[test]
fn a_provider_whose_buffer_makes_no_sense_is_left_out_and_others_are_not() {
    let stage = Stage::new();
    stage.start(Mode::Circular);
    let (bad, good) = (stage.register("bad"), stage.register("good"));
    let (mut lies, mut session) = (bad.start(), good.start());
    lies.event("lie", 1);
    session.event("truth", 1);
    for name in ["bad", "good"] {
        stage.wait_for(name, ProviderState::Started);
    }
    for (index, word) in [(0, 0), (2, 1 << 40), (5, u64::MAX), (6, u64::MAX), (10, 9)] {
        let stage_of = |lies: &by_hand::Running| {
            lies.store(index, word);
            stage.events_in_snapshot()
        };
        let expected = BTreeMap::from([("good".to_owned(), texts(&["truth"]))]);
        assert_eq!(stage_of(&lies), expected, "word {index}");
        [5, 6, 10].iter().for_each(|&index| lies.store(index, 0));
        lies.store(5, lies.durable_end * 8);
        lies.write_header();
    }
    assert_eq!(stage.events_in_snapshot().len(), 2);
}

#[test]
fn what_there_is_no_time_to_copy_is_reported_in_its_place_and_is_still_there_at_the_end() {
    let stage = Stage::with(Options { copying: Duration::ZERO, ..Options::default() });
    stage.start(Mode::Circular);
    let provider = stage.register("app");
    let mut session = provider.start();
    session.event("one", 1);
    stage.wait_for("app", ProviderState::Started);
    let reported = stage.events_in_snapshot();
    assert_eq!(reported, BTreeMap::from([("fxtrec".to_owned(), texts(&["lost_records"]))]));
    let sections = stage.manager.sections().expect("it runs");
    let loss = sections[0].losses[0];
    assert!(loss.records.is_none() && loss.since < loss.until, "{loss:?}");
    drop((provider, session));
    stage.wait_until_gone("app");
    stage.stop();
    assert_eq!(stage.events(), BTreeMap::from([("app".to_owned(), texts(&["one"]))]));
}

#[test]
fn one_that_has_not_said_that_it_started_is_not_looked_at() {
    let stage = Stage::new();
    let provider = stage.register("app");
    stage.wait_for("app", ProviderState::Registered);
    assert!(stage.events_in_snapshot().is_empty(), "without a session");
    let options = StartOptions { timeout: Duration::ZERO, ..StartOptions::default() };
    stage.manager.start(SessionConfig::default(), options).expect("none runs");
    let mut session = provider.await_start();
    session.write_header();
    session.event("too early", 1);
    assert!(stage.events_in_snapshot().is_empty());
}

/// The header word that counts dropped records.
const DROPPED: usize = 8;

#[test]
fn what_a_provider_dropped_is_reported_in_each_snapshot_and_once_in_the_archive() {
    for mode in [Mode::Circular, Mode::Streaming] {
        let stage = Stage::new();
        stage.start(mode);
        let provider = stage.register("app");
        let mut session = provider.start();
        session.event("one", 1);
        stage.wait_for("app", ProviderState::Started);
        assert_eq!(stage.events_in_snapshot().remove("fxtrec"), None, "{mode:?}");
        session.store(DROPPED, 5);
        for _ in 0..2 {
            let reported = stage.events_in_snapshot().remove("fxtrec");
            assert_eq!(reported, Some(vec!["lost_records".to_owned()]), "{mode:?}");
        }
        session.store(DROPPED, 7);
        drop((provider, session));
        stage.wait_until_gone("app");
        let stopped = stage.stop();
        assert_eq!(only(&stopped).stats.dropped, 7);
        assert_eq!(stage.events_of("fxtrec"), ["lost_records", "lost_records"], "{mode:?}");
    }
}
