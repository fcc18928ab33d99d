//! A provider that violates the protocol harms only itself.

use fxt_writer::packet::{BUFFER_SAVED, Packet, SAVE_BUFFER, STARTED};
use fxt_writer::provider::wire::{FromProvider, MAX_MESSAGE_BYTES, Session};
use fxt_writer::record::{ContextSwitch, Magic, ProviderSection, ThreadState};
use fxt_writer::{Koid, ProviderId, Ticks};

use super::*;

/// A manager with a session and an honest provider; the end checks that the honest provider was served.
struct Neighbours {
    stage: Stage,
    honest: ByHand,
    session: by_hand::Running,
}

impl Neighbours {
    fn new() -> Neighbours {
        let stage = Stage::new();
        stage.streaming();
        let honest = stage.register("honest");
        let session = honest.start();
        Neighbours { stage, honest, session }
    }

    /// The stage, when the honest provider has received everything it needs.
    fn all_is_well(self) -> Stage {
        let Neighbours { stage, honest, mut session } = self;
        for number in 0..3 {
            session.event(&format!("event {number}"), number);
            session.save();
        }
        session.event("event 3", 3);
        drop((honest, session));
        stage.wait_until_gone("honest");
        assert_eq!(stage.events_of("honest"), ["event 0", "event 1", "event 2", "event 3"]);
        stage
    }
}

#[test]
fn messages_that_are_none_close_the_connection() {
    let neighbours = Neighbours::new();
    let register = FromProvider::Register { name: "bad".to_owned(), categories: Vec::new() };
    let register = register.encode().expect("a message");
    let mut other_version = register.clone();
    other_version[2] = 2;
    let mut other_size = register.clone();
    other_size[4] += 1;
    let mut long = register.clone();
    long.resize(MAX_MESSAGE_BYTES + 1, b'x');
    let reserved = FromProvider::Register { name: "fxtrec".to_owned(), categories: Vec::new() };
    let stopped = Session::new(1).map(FromProvider::Stopped).expect("not zero");
    let alert = FromProvider::Alert("early".to_owned());
    let messages = [
        vec![0],
        other_version,
        other_size,
        long,
        register[..register.len() - 1].to_vec(),
        reserved.encode().expect("a message"),
        stopped.encode().expect("a message"),
        alert.encode().expect("a message"),
    ];
    let count = messages.len() as u64;
    for message in messages {
        let provider = ByHand::connect(&neighbours.stage.address);
        provider.say_bytes(&message);
        assert!(provider.hear().is_none(), "closed after {:?}", &message[..message.len().min(16)]);
    }
    // Before it sees the end, a provider that registers twice sees START.
    let twice = neighbours.stage.register("twice");
    twice.await_start();
    twice.say_bytes(&register);
    assert!(twice.hear().is_none(), "closed");
    let refusals = neighbours.stage.manager.refusals().expect("it runs");
    assert_eq!((refusals.unregistered, refusals.total()), (count, count));
    neighbours.all_is_well();
}

#[test]
fn categories_of_all_providers_have_room_together_and_what_has_none_is_counted() {
    let neighbours = Neighbours::new();
    let mut flood = Vec::new();
    for provider in 0..6_usize {
        let one = neighbours.stage.register(&format!("flood {provider}"));
        for message in 0..32 {
            let name = |number| format!("{provider}:{message}:{number}:{}", "x".repeat(200));
            one.say(&FromProvider::Categories((0..128).map(name).collect()));
        }
        flood.push(one);
    }
    let said = 6 * 32 * 128;
    let count = || {
        let all = neighbours.stage.manager.providers().expect("it runs");
        let listed = all.iter().map(|one| one.categories.len() as u64).sum::<u64>();
        let left_out = all.iter().map(|one| one.stats.categories_left_out).sum::<u64>();
        let bytes = all.iter().flat_map(|one| &one.categories).map(String::len).sum::<usize>();
        (listed, left_out, bytes)
    };
    let until = Instant::now() + PATIENCE;
    while count().0 + count().1 < said {
        assert!(Instant::now() < until, "{:?} of {said}", count());
        std::thread::sleep(Duration::from_millis(1));
    }
    let (listed, left_out, bytes) = count();
    assert_eq!(listed + left_out, said);
    assert!(left_out > 0 && bytes <= 4 << 20, "{listed} {left_out} {bytes}");
    // A provider that has disconnected needs no space, and has none.
    drop(flood);
    for provider in 0..6 {
        neighbours.stage.wait_until_gone(&format!("flood {provider}"));
    }
    let one = ByHand::register(&neighbours.stage.address, "late", &["fits"]);
    neighbours.stage.wait_for("late", ProviderState::Starting);
    assert_eq!(count().0, 1);
    drop(one);
    neighbours.stage.wait_until_gone("late");
    let stage = neighbours.all_is_well();
    assert!(stage.stop().providers.iter().all(|one| one.categories.is_empty()));
}

#[test]
fn buffers_of_all_providers_have_room_together() {
    let stage = Stage::new();
    let config = SessionConfig {
        mode: fxt_writer::engine::Mode::Circular,
        buffer_bytes: 16 << 20,
        ..SessionConfig::default()
    };
    stage.manager.start(config, StartOptions::default()).expect("none runs");
    let all: Vec<_> = (0..40)
        .map(|number| {
            let provider = stage.register(&format!("app {number}"));
            let session = provider.start();
            (provider, session)
        })
        .collect();
    let sizes: Vec<u64> = all.iter().map(|(_, session)| session.start.buffer_bytes).collect();
    assert_eq!(sizes[0], 16 << 20, "{sizes:?}");
    assert!(sizes.iter().sum::<u64>() <= 64 << 20, "{sizes:?}");
    drop(all);
    (0..40).for_each(|number| stage.wait_until_gone(&format!("app {number}")));
    // Their space is free again.
    let provider = stage.register("late");
    assert_eq!(provider.start().start.buffer_bytes, 16 << 20);
    drop(provider);
    stage.wait_until_gone("late");
    let stopped = stage.stop();
    let short = stopped.providers.iter().filter(|one| one.stats.buffer_short > 0).count();
    assert_eq!(short, sizes.iter().filter(|size| **size < 16 << 20).count());
}

#[test]
fn a_connection_that_says_nothing_is_closed() {
    let options = Options { patience: Duration::from_millis(1), ..Options::default() };
    let stage = Stage::with(options);
    let silent = ByHand::connect(&stage.address);
    assert!(silent.hear().is_none(), "it is closed");
    assert_eq!(stage.manager.refusals().expect("it runs").unregistered, 1);
}

/// Runs a provider that violates the protocol of the FIFO; returns the fault.
fn blamed_for(deed: impl FnOnce(&ByHand, by_hand::Running) -> by_hand::Running) -> String {
    let neighbours = Neighbours::new();
    let bad = neighbours.stage.register("bad");
    let session = bad.await_start();
    let session = deed(&bad, session);
    // An answer to its valid requests may precede it.
    let closed = (0..3).any(|_| session.receive().is_none());
    assert!(closed, "the manager closes its side");
    let status = neighbours.stage.wait_for("bad", ProviderState::Failed);
    let stage = neighbours.all_is_well();
    drop(bad);
    stage.wait_until_gone("bad");
    assert!(!stage.events_of("bad").contains(&"late".to_owned()), "what came after is ignored");
    status.fault.expect("it is blamed")
}

/// A session that has started and has an event to save.
fn started(mut session: by_hand::Running) -> by_hand::Running {
    session.write_header();
    session.send(Packet::started());
    session.event("late", 1);
    session
}

#[test]
fn another_version_of_the_fifo_protocol_closes_it() {
    let fault = blamed_for(|_, mut session| {
        session.write_header();
        session.event("late", 1);
        session.send(Packet { data32: 7, ..Packet::started() });
        session
    });
    assert!(fault.contains("version 7"), "{fault}");
}

#[test]
fn packets_out_of_order_close_the_fifo() {
    let save = Packet::save_buffer(0, 0);
    let sequences: [&[Packet]; 7] = [
        // Before STARTED.
        &[save],
        // STARTED twice.
        &[Packet::started(), Packet::started()],
        // The same buffer twice; a buffer that is not next; a buffer from before the first.
        &[Packet::started(), save, save],
        &[Packet::started(), Packet::save_buffer(1, 0)],
        &[Packet::started(), Packet::save_buffer(u32::MAX, 0)],
        // Packets that only the manager sends, and undefined packets.
        &[Packet::started(), Packet { request: BUFFER_SAVED, ..save }],
        &[Packet { request: 99, ..save }],
    ];
    for packets in sequences {
        blamed_for(|_, session| {
            session.write_header();
            packets.iter().for_each(|packet| session.send(*packet));
            session
        });
    }
    for request in [STARTED, SAVE_BUFFER] {
        let fault = blamed_for(|_, session| {
            session.write_header();
            session.send(Packet { request, reserved: 1, data32: 1, data64: 0 });
            session
        });
        assert!(fault.contains("unexpected request"), "{fault}");
    }
}

#[test]
fn packets_of_another_size_close_the_fifo() {
    for bytes in [1, 15, 17, 32, 1000] {
        let fault = blamed_for(|_, session| {
            session.write_header();
            session.send_bytes(&vec![1; bytes]);
            session
        });
        assert!(fault.contains("a packet on its FIFO has"), "{fault}");
    }
}

#[test]
fn a_header_that_lies_costs_its_provider_the_recording() {
    // Each entry is a word of the header, and its value.
    let lies = [
        (0, 0),
        (1, 2),
        (2, 1 << 40),
        (3, u64::MAX),
        (4, 8),
        (6, u64::MAX),
        (6, 1 << 40),
        (6, 9),
        (10, u64::MAX),
        (10, 1 << 22),
    ];
    for (index, word) in lies {
        let fault = blamed_for(|_, session| {
            let session = started(session);
            session.store(6, 8 * 8);
            session.store(index, word);
            session.send(Packet::save_buffer(0, 0));
            session
        });
        assert!(fault.contains("header") || fault.contains("rolling buffer"), "{fault}");
    }
}

#[test]
fn a_durable_end_that_cannot_be_costs_its_provider_the_recording() {
    for end in [1, 1 << 40, u64::MAX, u64::MAX - 7] {
        let fault = blamed_for(|_, session| {
            let session = started(session);
            session.send(Packet::save_buffer(0, end));
            session
        });
        assert!(fault.contains("the reported end of durable data"), "{fault}");
    }
}

#[test]
fn records_that_spoil_the_archive_are_left_out() {
    let neighbours = Neighbours::new();
    let bad = neighbours.stage.register("bad");
    let mut session = bad.start();
    session.put_durable(&ProviderSection { id: ProviderId(1) });
    session.put(&Magic);
    session.put(&ContextSwitch {
        cpu: 0,
        time: Ticks(1),
        outgoing: Koid(1),
        incoming: Koid(2),
        outgoing_state: ThreadState::Blocked,
        args: &[],
    });
    session.event("good", 1);
    session.save();
    // A record that reaches beyond its buffer, and one that seems longer to a reader than it is.
    session.event("better", 2);
    session.put_words(&[0x0000_0000_0000_fff4, 1, 2]);
    session.save();
    session.event("best", 3);
    session.put_words(&[0x0000_000f_ffff_002f, 1]);
    drop((bad, session));
    neighbours.stage.wait_until_gone("bad");
    let stage = neighbours.all_is_well();
    assert_eq!(stage.events_of("bad"), ["good", "better", "best"]);
    let stopped = stage.stop();
    let bad = stopped.providers.iter().find(|one| one.name == "bad").expect("it was there");
    assert_eq!(bad.stats.tally.refused, 3);
    assert_eq!(bad.stats.tally.records, 4);
    assert!(bad.stats.tally.cut_bytes >= 24, "{:?}", bad.stats.tally);
}

#[test]
fn a_flood_blocks_no_thread() {
    let neighbours = Neighbours::new();
    let flooding = neighbours.stage.register("flood");
    let stop = std::sync::atomic::AtomicBool::new(false);
    let message = FromProvider::Alert("flood".to_owned()).encode().expect("a message");
    let stage = std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut sent = 0_u64;
            while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                match flooding.connection.send(&message, &[]) {
                    Ok(()) => sent += 1,
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                    Err(error) => panic!("{error}"),
                }
            }
            assert!(sent > 0);
        });
        let _ends = Ends(&stop);
        neighbours.all_is_well()
    });
    let raised = stage.manager.providers().expect("it runs")[0].stats.alerts;
    assert!(raised > 0 && stage.manager.alerts().len() <= ALERTS);
}

#[test]
fn a_provider_that_reads_nothing_is_given_up() {
    let neighbours = Neighbours::new();
    let deaf = neighbours.stage.register("deaf");
    let session = deaf.start();
    // It sends requests and never reads an answer, until the manager cannot answer any more. All its buffers are empty.
    for asked in 0.. {
        let packet = Packet::save_buffer(asked, 16).to_bytes();
        let sent = std::iter::repeat_with(|| session.fifo.send(&packet, &[]))
            .find(|sent| !matches!(sent, Err(error) if error.kind() == io::ErrorKind::WouldBlock));
        if sent.is_some_and(|sent| sent.is_err()) {
            break;
        }
        assert!(asked < 100_000, "it is given up at some time");
    }
    let status = neighbours.stage.wait_for("deaf", ProviderState::Failed);
    assert!(status.fault.expect("it is blamed").contains("does not read"));
    neighbours.all_is_well();
}
