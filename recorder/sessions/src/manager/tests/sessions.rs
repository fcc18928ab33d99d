//! The messages to a provider that follows the protocol.

use fxt_writer::engine::{BufferDisposition, Mode};
use fxt_writer::provider::wire::FromProvider;
use fxt_writer::record::StringRecord;
use fxt_writer::{Koid, StringRef};

use super::*;

#[test]
fn a_provider_streams_and_what_is_left_is_taken_when_it_stops() {
    let stage = Stage::new();
    let provider = stage.register("app");
    stage.wait_for("app", ProviderState::Registered);
    let thread = std::thread::spawn(move || {
        let mut session = provider.start();
        assert_eq!(session.start.mode, Mode::Streaming);
        assert_eq!(session.start.buffer_bytes, DEFAULT_BUFFER_BYTES as u64);
        assert_eq!(session.start.process, Koid(std::process::id().into()));
        let index = StringRef::indexed(1).expect("not zero");
        session.put_durable(&StringRecord { index, content: "text" });
        session.event("one", 1);
        session.save();
        session.event("two", 2);
        session.save();
        session.event("three", 3);
        session.drop_records(5);
        assert_eq!(provider.await_stop(), session.session);
        provider.say(&FromProvider::Stopped(session.session));
        (provider, session)
    });
    assert_eq!(stage.start(Mode::Streaming), Started { started: 1, late: Vec::new() });
    stage.wait_for("app", ProviderState::Started);
    // Both must be in the archive before STOP, since they were answered.
    while stage.events_of("app").len() < 2 {
        std::thread::yield_now();
    }
    let stopped = stage.stop();
    assert_eq!(stage.events_of("app"), ["one", "two", "three"]);
    let status = only(&stopped);
    assert_eq!((status.name.as_str(), status.pid), ("app", std::process::id()));
    assert_eq!((status.state, &status.fault), (ProviderState::Stopped, &None));
    // The initialization, the string, and three events.
    assert_eq!((status.stats.tally.records, status.stats.buffers), (5, 3));
    assert_eq!(status.stats.dropped, 5);
    assert!(stopped.silent.is_empty());

    let (provider, session) = thread.join().expect("the provider keeps to the protocol");
    stage.manager.terminate().expect("it runs");
    assert_eq!(provider.await_terminate(), session.session);
    assert_eq!(session.receive(), None, "the FIFO is closed");
}

#[test]
fn one_that_comes_while_a_session_runs_records_at_once() {
    let stage = Stage::new();
    assert_eq!(stage.start(Mode::Streaming), Started::default());
    let provider = stage.register("late");
    let mut session = provider.start();
    session.event("here", 1);
    stage.wait_for("late", ProviderState::Started);
    drop(provider);
    stage.wait_until_gone("late");
    assert_eq!(stage.events_of("late"), ["here"]);
    let stopped = stage.stop();
    assert_eq!(only(&stopped).state, ProviderState::Gone);
}

#[test]
fn a_provider_that_dies_loses_only_the_record_that_it_was_in() {
    let stage = Stage::new();
    stage.streaming();
    let provider = stage.register("app");
    let mut session = provider.start();
    for round in 0..3 {
        session.event(&format!("saved {round}"), round);
        session.save();
    }
    session.event("asked for", 4);
    session.ask_to_save();
    session.event("in the other buffer", 5);
    // The mark of a reservation of three words that is being filled.
    session.put_words(&[0xffff_0000_0000_0032, 7, 0]);
    session.event("committed after it", 6);
    drop((provider, session));
    stage.wait_until_gone("app");
    let expected =
        ["saved 0", "saved 1", "saved 2", "asked for", "in the other buffer", "committed after it"];
    assert_eq!(stage.events_of("app"), expected);
    assert_eq!(only(&stage.stop()).stats.tally.unfinished, 1);
}

#[test]
fn one_that_does_not_answer_is_left_out_and_what_it_had_committed_is_not() {
    let stage = Stage::new();
    let provider = stage.register("hung");
    stage.wait_for("hung", ProviderState::Registered);
    let options = StartOptions { timeout: Duration::ZERO, ..StartOptions::default() };
    let started = stage.manager.start(SessionConfig::default(), options).expect("none runs");
    assert_eq!(started, Started { started: 0, late: vec!["hung".to_owned()] });
    let mut session = provider.start();
    session.event("committed", 1);
    stage.wait_for("hung", ProviderState::Started);
    let stopped = stage.manager.stop(true, Duration::ZERO).expect("one runs");
    assert_eq!(stopped.silent, ["hung"]);
    assert_eq!(stage.events_of("hung"), ["committed"]);

    // An answer that is late does not count for the next session.
    provider.await_stop();
    stage.streaming_at_once();
    provider.say(&FromProvider::Stopped(session.session));
    let mut session = provider.start();
    session.event("again", 1);
    stage.wait_for("hung", ProviderState::Started);
    provider.connection.send(&[], &[]).expect("an empty message is the end");
    stage.wait_until_gone("hung");
    assert_eq!(stage.events_of("hung"), ["committed", "again"]);
}

#[test]
fn other_modes_are_read_at_the_end_and_not_before() {
    for mode in [Mode::Oneshot, Mode::Circular] {
        let stage = Stage::new();
        stage.start(mode);
        let gone = stage.register("gone");
        let mut session = gone.start();
        session.event("first", 1);
        drop((gone, session));
        let provider = stage.register("app");
        let mut session = provider.start();
        session.event("second", 2);
        if mode == Mode::Circular {
            session.store(6, session.rolling_end as u64 * 8);
            (session.wrapped, session.rolling_end) = (1, 0);
            session.write_header();
            session.event("third", 3);
        }
        stage.wait_for("app", ProviderState::Started);
        stage.wait_until_gone("gone");
        assert!(stage.events().is_empty(), "{mode:?}: nothing is written before the stop");
        let thread = std::thread::spawn(move || {
            provider.say(&FromProvider::Stopped(provider.await_stop()));
            provider
        });
        let stopped = stage.stop();
        thread.join().expect("the provider keeps to the protocol");
        assert_eq!(stage.events_of("gone"), ["first"]);
        let all = ["second", "third"];
        let expected = if mode == Mode::Circular { &all[..] } else { &all[..1] };
        assert_eq!(stage.events_of("app"), expected, "{mode:?}");
        assert_eq!(stopped.providers.len(), 2);
    }
}

#[test]
fn what_was_not_written_is_kept_for_the_next_session_or_cleared() {
    let dispositions = [
        (BufferDisposition::Retain, vec!["first", "second"]),
        (BufferDisposition::ClearEntire, vec!["second"]),
        (BufferDisposition::ClearNondurable, vec!["second"]),
    ];
    for (disposition, expected) in dispositions {
        let stage = Stage::new();
        let config = SessionConfig { mode: Mode::Circular, ..SessionConfig::default() };
        let provider = stage.register("app");
        for (name, write) in [("first", false), ("second", true)] {
            let options =
                StartOptions { disposition, timeout: Duration::ZERO, ..StartOptions::default() };
            stage.wait_for_any("app");
            stage.manager.start(config.clone(), options).expect("none runs");
            let mut session = provider.start();
            session.event(name, 1);
            stage.wait_for("app", ProviderState::Started);
            let stopping = std::thread::scope(|scope| {
                scope.spawn(|| provider.say(&FromProvider::Stopped(provider.await_stop())));
                stage.manager.stop(write, PATIENCE).expect("one runs")
            });
            assert!(stopping.silent.is_empty());
        }
        assert_eq!(stage.events_of("app"), expected, "{disposition:?}");
    }
}

impl Stage {
    /// Waits until a provider with this name is connected.
    fn wait_for_any(&self, name: &str) {
        let until = Instant::now() + PATIENCE;
        while !self.manager.providers().expect("it runs").iter().any(|one| one.name == name) {
            assert!(Instant::now() < until, "{name} does not come");
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

#[test]
fn a_session_is_started_once_and_stopped_once() {
    let stage = Stage::new();
    let stop = || stage.manager.stop(true, PATIENCE).map(drop);
    let start = || stage.manager.start(SessionConfig::default(), StartOptions::default()).map(drop);
    assert_eq!(stop(), Err(ManagerError::NotStarted));
    assert_eq!(start(), Ok(()));
    assert_eq!(start(), Err(ManagerError::AlreadyStarted));
    assert_eq!(stop(), Ok(()));
    assert_eq!(stop(), Err(ManagerError::NotStarted));
    assert_eq!(start(), Ok(()));
    assert_eq!(stage.manager.terminate(), Ok(()));
    assert_eq!(stop(), Err(ManagerError::NotStarted));
}

#[test]
fn categories_and_alerts_are_passed_on() {
    let stage = Stage::new();
    let web = ByHand::register(&stage.address, "web", &["net", "app:web"]);
    let db = ByHand::register(&stage.address, "db", &["net"]);
    db.say(&FromProvider::Categories(vec!["app:db".to_owned()]));
    db.say(&FromProvider::Alert("full".to_owned()));
    web.say(&FromProvider::Alert("slow".to_owned()));
    let alerts: BTreeMap<String, u32> = (0..2)
        .map(|_| stage.manager.alerts().recv_timeout(PATIENCE).expect("an alert"))
        .map(|alert| (alert.name, alert.provider.0))
        .collect();
    let providers = stage.manager.providers().expect("it runs");
    for provider in providers {
        let alert = if provider.name == "db" { "full" } else { "slow" };
        assert_eq!(alerts[alert], provider.id.0);
        assert_eq!(provider.stats.alerts, 1);
    }
    let known: Vec<String> =
        stage.manager.known_categories().expect("it runs").into_iter().collect();
    assert_eq!(known, ["app:db", "app:web", "net"]);

    let config = SessionConfig {
        categories: vec!["net".to_owned()],
        buffer_bytes: 1 << 20,
        overrides: vec![ProviderOverride {
            name: "db".to_owned(),
            buffer_bytes: Some(1 << 19),
            categories: vec!["app*".to_owned()],
        }],
        ..SessionConfig::default()
    };
    let options = StartOptions {
        additional_categories: vec!["io".to_owned()],
        timeout: Duration::ZERO,
        ..StartOptions::default()
    };
    stage.manager.start(config, options).expect("none runs");
    let (web, db) = (web.await_start().start, db.await_start().start);
    assert_eq!(
        (web.buffer_bytes, &web.categories[..]),
        (1 << 20, &["net".to_owned(), "io".to_owned()][..])
    );
    assert_eq!(
        (db.buffer_bytes, &db.categories[..]),
        (1 << 19, &["app*".to_owned(), "io".to_owned()][..])
    );
}

#[test]
fn a_hundred_are_let_in_and_the_next_is_not() {
    let stage = Stage::new();
    let mut providers: Vec<ByHand> =
        (0..MAX_PROVIDERS).map(|number| stage.register(&format!("app {number}"))).collect();
    stage.wait_for(&format!("app {}", MAX_PROVIDERS - 1), ProviderState::Registered);
    let refused = ByHand::connect(&stage.address);
    assert!(refused.hear().is_none(), "it is closed");
    assert_eq!(stage.manager.refusals().expect("it runs").too_many, 1);

    let starting = std::thread::scope(|scope| {
        let sessions = scope.spawn(|| {
            let start = |(number, provider): (usize, &ByHand)| {
                let mut session = provider.start();
                session.event(&format!("event {number}"), 1);
                session
            };
            providers.iter().enumerate().map(start).collect::<Vec<_>>()
        });
        let started = stage.start(Mode::Streaming);
        (started, sessions.join().expect("all start"))
    });
    assert_eq!(starting.0.started, MAX_PROVIDERS);
    providers.clear();
    stage.wait_until_gone("app 0");
    let stopped = stage.stop();
    assert_eq!(stopped.providers.len(), MAX_PROVIDERS);
    let events = stage.events();
    assert_eq!(events.len(), MAX_PROVIDERS);
    for number in 0..MAX_PROVIDERS {
        assert_eq!(events[&format!("app {number}")], [format!("event {number}")]);
    }
    // There is space again.
    let _again = stage.register("again");
    stage.wait_for("again", ProviderState::Registered);
}

#[test]
fn anyone_who_may_not_is_not_let_in() {
    let stage = Stage::with(Options { uids: vec![1], ..Options::default() });
    let provider = ByHand::connect(&stage.address);
    let root = nix::unistd::geteuid().is_root();
    let refused = u64::from(!root);
    if root {
        // Root always may.
        provider.say(&FromProvider::Register { name: "root".to_owned(), categories: Vec::new() });
        stage.wait_for("root", ProviderState::Registered);
    } else {
        assert!(provider.hear().is_none(), "it is closed");
    }
    assert_eq!(stage.manager.refusals().expect("it runs").foreign_user, refused);
}
