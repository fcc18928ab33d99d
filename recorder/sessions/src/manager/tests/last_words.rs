//! The messages that a provider sends right before it ends.

use fxt_writer::packet::Packet;
use fxt_writer::provider::wire::{FromManager, FromProvider};

use super::*;

/// Registers, raises an alert and exits, without reading any message.
fn alert_and_go(stage: &Stage, name: &str) {
    let provider = ByHand::register(&stage.address, name, &[]);
    provider.say(&FromProvider::Alert("too late".to_owned()));
}

#[test]
fn an_alert_of_a_provider_that_goes_at_once_is_heard_with_its_name() {
    for runs in [false, true] {
        let stage = Stage::new();
        if runs {
            stage.streaming();
        }
        for number in 0..50 {
            alert_and_go(&stage, &format!("app {number}"));
            stage.manager.settle().expect("it runs");
            let alerts: Vec<Alert> = stage.manager.alerts().try_iter().collect();
            assert_eq!(alerts.len(), 1, "{number}, with a session: {runs}");
            assert_eq!((&*alerts[0].name, alerts[0].pid), ("too late", std::process::id()));
            assert_eq!(alerts[0].provider_name, format!("app {number}"));
        }
    }
}

#[test]
fn one_that_leaves_start_unread_is_heard_to_its_end() {
    let stage = Stage::new();
    stage.streaming();
    for number in 0..50 {
        let provider = stage.register("app");
        // This waits until START is in flight.
        stage.wait_for("app", ProviderState::Starting);
        provider.say(&FromProvider::Alert(number.to_string()));
        drop(provider);
        let alert = stage.manager.alerts().recv_timeout(PATIENCE).expect("it is heard");
        assert_eq!(alert.name, number.to_string());
        stage.wait_until_gone("app");
    }
    assert!(stage.stop().providers.iter().all(|provider| provider.fault.is_none()));
}

#[test]
fn a_buffer_that_was_asked_to_be_saved_is_though_its_provider_goes_without_reading_the_answer() {
    let stage = Stage::new();
    stage.streaming();
    let provider = stage.register("app");
    let mut session = provider.start();
    session.event("one", 1);
    session.ask_to_save();
    // The answer stays unread, and the next request is in flight when the provider exits.
    while stage.events_of("app").is_empty() {
        std::thread::yield_now();
    }
    session.event("two", 2);
    session.store(7, session.rolling_end as u64 * 8);
    session.send(Packet::save_buffer(1, session.durable_end * 8));
    drop((provider, session));
    stage.wait_until_gone("app");
    assert_eq!(stage.events_of("app"), ["one", "two"]);
    assert_eq!(only(&stage.stop()).fault, None);
}

#[test]
fn somebody_who_talks_all_the_time_is_not_waited_for() {
    let stage = Stage::new();
    let talker = stage.register("talker");
    let message = FromProvider::Alert("and".to_owned()).encode().expect("a message");
    let over = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(std::sync::atomic::Ordering::Relaxed) {
                // Without space, the manager must act next.
                let _ = talker.connection.send(&message, &[]);
            }
        });
        let _ends = Ends(&over);
        (0..3).for_each(|_| stage.manager.settle().expect("it runs"));
    });
}

#[test]
fn one_that_ends_before_it_recorded_is_told_of() {
    let stage = Stage::new();
    stage.streaming();
    let hasty = stage.register("hasty");
    stage.wait_for("hasty", ProviderState::Starting);
    drop(hasty);
    stage.wait_until_gone("hasty");
    let started = stage.register("started");
    started.start();
    stage.wait_for("started", ProviderState::Started);
    drop(started);
    stage.wait_until_gone("started");
    let stopped = stage.stop();
    let missed =
        |name| stopped.providers.iter().find(|one| one.name == name).map(|it| it.missed_start);
    assert_eq!([missed("hasty"), missed("started")], [Some(true), Some(false)]);
}

#[test]
fn one_that_registers_while_no_session_runs_is_told_so_and_hears_of_the_next() {
    let stage = Stage::new();
    for name in ["first", "second"] {
        let early = stage.register(name);
        early.await_terminate();
        stage.streaming_at_once();
        early.start();
        // A provider that finds a session gets START as its first message.
        let (first, _) = stage.register("late").hear().expect("START");
        assert!(matches!(first, FromManager::Start { .. }), "{first:?}");
        // This provider would not answer, and the session would wait for it.
        drop(early);
        stage.manager.terminate().expect("it runs");
    }
}
