//! The records that trace points write.

use fxt_reader::record::EventKind;
use fxt_writer::engine::Mode;

use super::app::App;
use super::archive::{Archive, Event};
use super::manager::{Ask, Manager};

/// The archive of a case that runs to its end in one session.
fn archive_of(case: &str, numbers: &[u64], ask: Ask) -> Archive {
    let manager = Manager::new();
    let app = App::start(&manager, case, numbers);
    let mut peer = manager.accept();
    let recording = peer.start(ask);
    let archive = peer.save_to_death(recording);
    app.end_well();
    archive
}

fn args(event: &Event) -> Vec<(&str, &str)> {
    event.args.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect()
}

#[test]
fn every_kind_of_event_is_recorded_once_with_its_arguments() {
    let manager = Manager::new();
    let mut app = App::start(&manager, "everything", &[]);
    let mut peer = manager.accept();
    assert_eq!(
        (peer.name.as_str(), peer.categories.as_slice()),
        ("client", &["told:early".into()][..])
    );
    let recording = peer.start(Ask::default());
    let (process, pointer) = (app.number().expect("its id"), app.number().expect("an address"));
    let archive = peer.save_to_death(recording);
    app.end_well();

    let outer = archive.named("outer").next().expect("its begin");
    assert_eq!(outer.kind, EventKind::DurationBegin);
    let large = i64::MIN.to_string();
    let key = u64::MAX.to_string();
    assert_eq!(args(outer), [("small", "-1"), ("large", &large), ("any key", &key)]);

    let moment = archive.named("moment").next().expect("a moment");
    let address = format!("{pointer:#x}");
    let expected = [
        ("double", "0.5"),
        ("yes", "true"),
        ("text", "\"words\""),
        ("owned", "\"more\""),
        ("pointer", &address),
        ("koid", "koid:77"),
        ("none", "null"),
        ("some", "7"),
    ];
    assert_eq!(args(moment), expected);

    let kinds: Vec<_> =
        archive.events.iter().map(|event| (event.name.as_str(), event.kind)).collect();
    let expected = [
        ("outer", EventKind::DurationBegin),
        ("inner", EventKind::DurationBegin),
        ("moment", EventKind::Instant),
        ("flow", EventKind::FlowBegin { id: 9 }),
        ("flow", EventKind::FlowStep { id: 9 }),
        ("flow", EventKind::FlowEnd { id: 9 }),
        ("inner", EventKind::DurationEnd),
        ("outer", EventKind::DurationEnd),
        ("queue", EventKind::Counter { id: 0 }),
        ("queue", EventKind::Counter { id: 4 }),
        ("request", EventKind::AsyncBegin { id: 11 }),
        ("headers", EventKind::AsyncInstant { id: 11 }),
        ("request", EventKind::AsyncEnd { id: 11 }),
    ];
    assert_eq!(kinds, expected);
    assert!(archive.events.iter().all(|event| event.category == "app:all"));
    assert!(archive.events.is_sorted_by_key(|event| event.time), "one thread's times");

    assert_eq!(archive.blobs["short"], b"bytes");
    assert_eq!(archive.blobs["long"], vec![7; 70_000]);
    assert_eq!(archive.blobs["empty"], b"");
    assert_eq!(archive.logs, [(process, "plain".into()), (process, "formatted and 5".into())]);
    assert_eq!(peer.alerts, ["look here", "a name that is"]);
    assert_eq!(peer.categories, ["told:early", "app:all"]);

    assert_eq!(archive.ticks_per_second, Some(1_000_000_000));
    assert_eq!(archive.processes[&4242], "provider-client");
    assert_eq!(archive.threads[&process], ("provider-client".into(), 4242));
    assert!(archive.events.iter().all(|event| (event.process, event.thread) == (4242, process)));
    assert!(archive.strings.is_superset(&["app:all", "outer", "any key"].map(String::from).into()));
    assert_eq!(archive.dropped, 0);
}

#[test]
fn times_are_those_of_the_monotonic_clock() {
    let now = || {
        let time = nix::time::clock_gettime(nix::time::ClockId::CLOCK_MONOTONIC).expect("a clock");
        u64::try_from(std::time::Duration::from(time).as_nanos()).expect("not centuries")
    };
    let before = now();
    let archive = archive_of("threads", &[1, 10], Ask::default());
    let after = now();
    assert_eq!(archive.events.len(), 10);
    assert!(archive.events.iter().all(|event| (before..after).contains(&event.time)));
}

#[test]
fn texts_that_no_record_can_carry_are_cut() {
    let archive = archive_of("odd_texts", &[], Ask::default());
    let only = |name: &str| {
        let events: Vec<_> = archive.named(name).collect();
        assert_eq!(events.len(), 1, "{name}");
        events[0].clone()
    };
    let quoted = |text: &str| format!("{text:?}");
    assert_eq!(only("long").arg("text"), Some(quoted(&"x".repeat(1024)).as_str()));
    assert_eq!(only("long").number("number"), 1);
    assert_eq!(only("nul").arg("text"), Some("\"before\""));
    assert_eq!(only("two big").arg("two"), Some(quoted(&"y".repeat(1024)).as_str()));
    assert_eq!(only("bad name").args, []);
    assert_eq!(only("unnamed").args.len(), 15);
    let logs: Vec<_> = archive.logs.iter().map(|(_, message)| message.as_str()).collect();
    assert_eq!(logs, ["x".repeat(32_000).as_str(), "log"]);
    assert_eq!(archive.dropped, 0);
}

#[test]
fn categories_are_names_or_prefixes() {
    let manager = Manager::new();
    let mut app = App::start(&manager, "categories", &[]);
    let mut peer = manager.accept();
    let categories = ["app*", "exact"].map(String::from).to_vec();
    let recording = peer.start(Ask { categories, ..Ask::default() });
    assert_eq!((app.number(), app.number()), (Some(1), Some(0)));
    let archive = peer.save_to_death(recording);
    app.end_well();
    let categories: Vec<_> = archive.events.iter().map(|event| event.category.as_str()).collect();
    assert_eq!(categories, ["app:yes", "application", "exact"]);
    let known = ["told:early", "app:yes", "other", "application", "exact", "exactly"];
    assert_eq!(peer.categories, known, "what is off is known all the same");
}

#[test]
fn more_strings_than_the_table_holds_are_written_inline() {
    let names = 33_000;
    let archive = archive_of("strings", &[names], Ask { bytes: 16 << 20, ..Ask::default() });
    assert_eq!(archive.dropped, 0);
    let found: Vec<_> = archive.events.iter().map(|event| event.name.clone()).collect();
    let expected: Vec<_> = (0..names).map(|number| format!("name {number}")).collect();
    assert_eq!(found, expected);
    assert_eq!(archive.strings.len(), 0x7fff, "the table is used to its end");
}

#[test]
fn more_threads_than_the_table_holds_are_named_inline() {
    let archive = archive_of("one_by_one", &[300], Ask::default());
    let numbers: Vec<_> = archive.named("alone").map(|event| event.number("thread")).collect();
    assert_eq!(numbers, (0..300).collect::<Vec<_>>());
    let mut threads: Vec<_> = archive.events.iter().map(|event| event.thread).collect();
    threads.sort_unstable();
    threads.dedup();
    assert_eq!(threads.len(), 300);
    assert!(threads.iter().all(|thread| archive.threads[thread].1 == 4242), "all have names");
}

#[test]
fn circular_mode_keeps_the_last_events() {
    let ask = Ask { mode: Mode::Circular, bytes: 64 << 10, ..Ask::default() };
    let archive = archive_of("threads", &[1, 20_000], ask);
    let numbers: Vec<_> = archive.events.iter().map(|event| event.number("number")).collect();
    let first = numbers[0];
    assert!(first > 0, "the first ones were overwritten");
    assert_eq!(numbers, (first..20_000).collect::<Vec<_>>());
    assert_eq!(archive.dropped, 0);
}

#[test]
fn oneshot_mode_keeps_the_first_events_and_counts_the_others() {
    let ask = Ask { mode: Mode::Oneshot, bytes: 64 << 10, ..Ask::default() };
    let archive = archive_of("threads", &[1, 20_000], ask);
    let numbers: Vec<_> = archive.events.iter().map(|event| event.number("number")).collect();
    assert_eq!(numbers, (0..archive.written()).collect::<Vec<_>>());
    assert_eq!(archive.written() + archive.dropped, 20_000);
}
