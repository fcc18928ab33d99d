//! Writers that reserve room and do not finish neither block the others nor
//! corrupt what is saved.
#![cfg(not(loom))]

mod common;

use std::time::Duration;

use common::{Saver, engine, numbered, numbers, save, string_indices};
use fxt_writer::engine::{Config, Engine, Mode, OnFull};
use fxt_writer::record::Record;
use fxt_writer::{Slot, Space};

fn small(mode: Mode, on_full: OnFull) -> Config {
    Config { mode, bytes: 1024, on_full, ..Config::default() }
}

fn write(engine: &Engine, number: u64) {
    numbered(0, number).write(&mut engine.rolling()).expect("room comes back");
}

#[test]
fn a_dead_writer_costs_its_own_record_and_nothing_else() {
    let config = Config { grace: Duration::ZERO, ..small(Mode::Streaming, OnFull::Block) };
    let (engine, saver) = Saver::start(config);
    let mut written = Vec::new();
    for number in 0..2000 {
        write(&engine, number);
        written.push((0, number));
        if number == 500 {
            std::mem::forget(engine.rolling().reserve(4));
        }
    }
    let output = saver.finish(&engine);
    assert_eq!(numbers(&output), written);
    assert_eq!(engine.dropped(), 1);
}

#[test]
fn each_dead_writer_is_counted() {
    let config = Config { grace: Duration::ZERO, ..small(Mode::Streaming, OnFull::Block) };
    let (engine, saver) = Saver::start(Config { bytes: 8 << 10, ..config });
    for number in 0..20_000 {
        write(&engine, number);
        if number % 2000 == 999 {
            std::mem::forget(engine.rolling().reserve(2));
        }
    }
    let output = saver.finish(&engine);
    assert_eq!(numbers(&output), (0..20_000).map(|number| (0, number)).collect::<Vec<_>>());
    assert_eq!(engine.dropped(), 10);
}

#[test]
fn what_a_straggler_writes_late_is_seen_nowhere() {
    for mode in [Mode::Streaming, Mode::Circular] {
        let (engine, inbox) = engine(small(mode, OnFull::Block));
        let mut output = Vec::new();
        write(&engine, 0);
        let mut slot = engine.rolling().reserve(4).expect("there is room");
        // Fill the rest of the first buffer, 52 - 7 words, and switch.
        (1..17).for_each(|number| write(&engine, number));
        engine.abandon_stragglers();
        assert_eq!(engine.dropped(), 1);
        // Use the fenced buffer repeatedly while the straggler keeps writing.
        for number in 17..200 {
            inbox.try_iter().for_each(|packet| save(&engine, packet, &mut output));
            write(&engine, number);
            if [60, 61, 150].contains(&number) {
                slot.put(u64::MAX);
            }
        }
        slot.finish(0x0dad_0000_0043);
        (200..300).for_each(|number| {
            inbox.try_iter().for_each(|packet| save(&engine, packet, &mut output));
            write(&engine, number);
        });
        let last = inbox.try_iter().chain(engine.finish()).collect::<Vec<_>>();
        last.into_iter().for_each(|packet| save(&engine, packet, &mut output));
        let plain: Vec<u64> = numbers(&output).into_iter().map(|(_, number)| number).collect();
        match mode {
            Mode::Streaming => assert_eq!(plain, (0..300).collect::<Vec<_>>()),
            _ => assert_eq!(plain, (300 - plain.len() as u64..300).collect::<Vec<_>>()),
        }
        assert!(plain.len() > 17);
        assert_eq!(engine.dropped(), 1);
    }
}

#[test]
fn a_straggler_that_finishes_gives_its_room_back() {
    let (engine, inbox) = engine(small(Mode::Streaming, OnFull::Drop));
    let mut output = Vec::new();
    // All 52 words of the first buffer.
    let slots: Vec<_> =
        (0..13).map(|_| engine.rolling().reserve(4).expect("there is room")).collect();
    write(&engine, 1);
    engine.abandon_stragglers();
    inbox.try_iter().for_each(|packet| save(&engine, packet, &mut output));
    assert_eq!(output, [0; 0], "all of the first buffer was given up");
    assert_eq!(engine.dropped(), 13);
    assert!(!engine.flush(), "the other buffer is all there is");
    drop(slots);
    assert!(engine.flush());
    (2..8).for_each(|number| write(&engine, number));
    let last = inbox.try_iter().chain(engine.finish()).collect::<Vec<_>>();
    last.into_iter().for_each(|packet| save(&engine, packet, &mut output));
    assert_eq!(numbers(&output), (1..8).map(|number| (0, number)).collect::<Vec<_>>());
    assert_eq!(string_indices(&output), [0; 0], "no filler of a withdrawn record");
}

#[test]
fn finishing_waits_no_longer_than_the_grace_period() {
    let config = Config { grace: Duration::ZERO, ..small(Mode::Streaming, OnFull::Block) };
    let (engine, _inbox) = engine(config);
    write(&engine, 1);
    let slot = engine.rolling().reserve(3).expect("there is room");
    write(&engine, 2);
    let mut output = Vec::new();
    engine.finish().into_iter().for_each(|packet| save(&engine, packet, &mut output));
    assert_eq!(numbers(&output), [(0, 1), (0, 2)]);
    drop(slot);
}
