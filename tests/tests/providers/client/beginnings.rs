//! The first events of a program: `init` waits for the session for a while, and returns at once if there is none.

use super::app::App;
use super::manager::{Ask, Manager};

/// The longest wait of `init`, in milliseconds.
const BOUND: u64 = 500;

fn hasty(address: &str) -> App {
    App::start_at(env!("CARGO_BIN_EXE_provider-client"), address, "hasty", &[])
}

fn only_app() -> Ask {
    Ask { categories: vec!["app".to_owned()], ..Ask::default() }
}

#[test]
fn what_is_recorded_right_after_init_is_in_the_trace_or_counted_as_dropped() {
    let manager = Manager::new();
    for _ in 0..20 {
        let mut app = hasty(manager.address());
        let mut peer = manager.accept();
        let recording = peer.start(only_app());
        let waited = app.number().expect("how long it waited");
        app.go_on();
        app.go_on();
        let archive = peer.save_to_death(recording);
        // A span is two records, and a dropped begin also drops the end.
        let early =
            archive.named("early span").count().div_ceil(2) + archive.named("early").count();
        assert_eq!(early as u64 + archive.dropped, 2, "after {waited} ms");
        assert!(archive.dropped == 0 || waited >= BOUND, "{} dropped", archive.dropped);
        assert_eq!(archive.named("late").count(), 1);
    }
}

#[test]
fn of_a_session_that_starts_too_late_the_events_before_it_are_counted() {
    let manager = Manager::new();
    let mut app = hasty(manager.address());
    let mut peer = manager.accept();
    // START comes only after the application has begun to record.
    assert!(app.number().expect("how long it waited") >= BOUND);
    let recording = peer.start(only_app());
    app.go_on();
    app.go_on();
    let archive = peer.save_to_death(recording);
    let names: Vec<_> = archive.events.iter().map(|event| event.name.as_str()).collect();
    assert_eq!(names, ["late"]);
    // Neither categories that the session does not record nor queries about them.
    assert_eq!(archive.dropped, 2);
    assert_eq!(archive.events[0].arg("asked"), Some("false"));
}

#[test]
fn a_manager_without_a_session_ends_the_wait_and_nothing_is_missing_then() {
    let manager = Manager::new();
    let mut app = hasty(manager.address());
    let mut peer = manager.accept();
    peer.say_that_no_session_runs();
    app.number().expect("it goes on");
    let recording = peer.start(only_app());
    app.go_on();
    app.go_on();
    let archive = peer.save_to_death(recording);
    assert_eq!((archive.named("late").count(), archive.dropped), (1, 0));
}

#[test]
fn without_a_manager_nothing_waits() {
    // No process listens at the first address; the second disables the search.
    for address in ["@fxtrec-test-nobody", "/nowhere/at-all", ""] {
        // The fastest of several shows how long it takes when nothing else runs.
        let fastest = (0..10).map(|_| {
            let mut app = hasty(address);
            app.number().expect("how long it waited")
        });
        assert!(fastest.min() < Some(BOUND / 5), "{address}");
    }
}
