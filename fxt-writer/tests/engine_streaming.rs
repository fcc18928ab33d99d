//! Streaming: full buffers are handed over, saved and used again.
#![cfg(not(loom))]

mod common;

use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use common::{Saver, engine, numbered, numbers, records, save, string_indices, string_record};
use fxt_writer::engine::{Batch, Config, Engine, Full, Mode, OnFull, SaveError};
use fxt_writer::packet::Packet;
use fxt_writer::record::Record;
use fxt_writer::{Slot, Space, WriteError};

/// 1 KiB in all: 8 words are durable, each rolling buffer has 52.
fn small(on_full: OnFull) -> Config {
    Config { mode: Mode::Streaming, bytes: 1024, on_full, ..Config::default() }
}

#[test]
fn every_record_comes_out_once_and_in_order() {
    let (engine, inbox) = engine(small(OnFull::Drop));
    let mut output = Vec::new();
    for number in 0..1000 {
        numbered(0, number).write(&mut engine.rolling()).expect("the other buffer is free");
        inbox.try_iter().for_each(|packet| save(&engine, packet, &mut output));
    }
    engine.finish().into_iter().for_each(|packet| save(&engine, packet, &mut output));
    assert_eq!(numbers(&output), (0..1000).map(|number| (0, number)).collect::<Vec<_>>());
    assert_eq!(engine.dropped(), 0);
}

#[test]
fn what_does_not_fit_is_dropped_and_counted() {
    let (engine, inbox) = engine(small(OnFull::Drop));
    let write = |number| numbered(0, number).write(&mut engine.rolling());
    let written = (0..1000).filter(|&number| write(number).is_ok()).count() as u64;
    assert_eq!(engine.dropped(), 1000 - written);
    assert_eq!(engine.header().map(|header| header.dropped), Some(1000 - written));
    let mut output = Vec::new();
    inbox.try_iter().chain(engine.finish()).for_each(|packet| save(&engine, packet, &mut output));
    assert_eq!(numbers(&output), (0..written).map(|number| (0, number)).collect::<Vec<_>>());
}

#[test]
fn only_one_request_is_out_at_a_time() {
    let (engine, inbox) = engine(small(OnFull::Drop));
    while numbered(0, 0).write(&mut engine.rolling()).is_ok() {}
    assert_eq!(inbox.try_iter().collect::<Vec<_>>(), [Packet::save_buffer(0, 0)]);
}

#[test]
fn a_buffer_is_not_handed_over_while_a_record_in_it_is_being_written() {
    let (engine, inbox) = engine(small(OnFull::Drop));
    let slot = engine.rolling().reserve(3).expect("an empty buffer");
    while numbered(0, 0).write(&mut engine.rolling()).is_ok() {}
    assert_eq!(inbox.try_iter().count(), 0, "the first record is not finished");
    drop(slot);
    assert_eq!(inbox.try_iter().count(), 1);
}

#[test]
fn a_slot_dropped_unfinished_becomes_a_filler_without_content() {
    let (engine, _inbox) = engine(small(OnFull::Drop));
    let mut lane = engine.rolling();
    let mut slot = lane.reserve(4).expect("an empty buffer");
    slot.put(u64::MAX);
    drop(slot);
    numbered(0, 7).write(&mut lane).expect("there is room");
    let mut output = Vec::new();
    engine.finish().into_iter().for_each(|packet| save(&engine, packet, &mut output));
    assert_eq!(records(&output)[0], [0x42, 0, 0, 0]);
    assert_eq!(string_indices(&output), [0]);
    assert_eq!(numbers(&output), [(0, 7)]);
    assert_eq!(engine.dropped(), 1);
}

#[test]
fn a_record_finished_with_the_wrong_size_becomes_a_filler() {
    let (engine, _inbox) = engine(small(OnFull::Drop));
    let slot = engine.rolling().reserve(2).expect("an empty buffer");
    slot.finish(0x13);
    let mut slot = engine.rolling().reserve(2).expect("there is room");
    slot.put(1);
    slot.finish(0x73);
    let mut output = Vec::new();
    engine.finish().into_iter().for_each(|packet| save(&engine, packet, &mut output));
    assert_eq!(output, [0x22, 0, 0x22, 0]);
}

#[test]
fn durable_records_precede_the_rolling_records_written_after_them() {
    // The durable part has room for two strings, so it wraps and fills all the
    // time, with the rolling buffer anywhere between empty and full.
    let (engine, saver) = Saver::start(small(OnFull::Block));
    for index in 1..500_u16 {
        string_record(index).write(&mut engine.durable()).expect("room comes back");
        for _ in 0..index % 23 {
            numbered(0, index.into()).write(&mut engine.rolling()).expect("room comes back");
        }
    }
    let output = saver.finish(&engine);
    assert_eq!(string_indices(&output), (1..500).collect::<Vec<_>>());
    let mut known = 0;
    for record in records(&output) {
        match record[0] & 0xf {
            2 => known = string_indices(record)[0],
            _ => assert!(record[2] <= known, "{} refers to more than {known}", record[2]),
        }
    }
    let rolling: Vec<u64> = numbers(&output).into_iter().map(|(_, number)| number).collect();
    let expected = (1..500_u64).flat_map(|index| (0..index % 23).map(move |_| index));
    assert_eq!(rolling, expected.collect::<Vec<_>>());
}

#[test]
fn a_full_durable_part_hands_the_rolling_buffer_over_early() {
    let (engine, inbox) = engine(small(OnFull::Drop));
    numbered(0, 1).write(&mut engine.rolling()).expect("an empty buffer");
    string_record(1).write(&mut engine.durable()).expect("an empty ring");
    string_record(2).write(&mut engine.durable()).expect("6 of 8 words");
    let refused = string_record(3).write(&mut engine.durable());
    assert_eq!(refused, Err(WriteError::Full(Full::Dropped)));
    let packet = inbox.try_recv().expect("handed over, though not full");
    assert_eq!(packet, Packet::save_buffer(0, 48));
    let mut output = Vec::new();
    save(&engine, packet, &mut output);
    // Its words are the ring's last two and its first.
    string_record(3).write(&mut engine.durable()).expect("saved room is free again");
    engine.finish().into_iter().for_each(|packet| save(&engine, packet, &mut output));
    assert_eq!(string_indices(&output), [1, 2, 3]);
    assert_eq!(records(&output).len(), 4);
}

#[test]
fn flush_hands_over_what_there_is_and_nothing_else() {
    let (engine, inbox) = engine(small(OnFull::Drop));
    assert!(!engine.flush(), "there is nothing");
    numbered(0, 1).write(&mut engine.rolling()).expect("an empty buffer");
    assert!(engine.flush());
    numbered(0, 2).write(&mut engine.rolling()).expect("the other buffer");
    assert!(!engine.flush(), "the first buffer has not been saved");
    let mut output = Vec::new();
    inbox.try_iter().for_each(|packet| save(&engine, packet, &mut output));
    assert_eq!(numbers(&output), [(0, 1)]);
    assert!(engine.flush());
    inbox.try_iter().for_each(|packet| save(&engine, packet, &mut output));
    string_record(1).write(&mut engine.durable()).expect("an empty ring");
    assert!(engine.flush(), "durable data alone is worth a packet");
    inbox.try_iter().for_each(|packet| save(&engine, packet, &mut output));
    assert_eq!(string_indices(&output), [1]);
    assert!(engine.finish().is_empty());
}

#[test]
fn a_blocked_writer_continues_when_a_buffer_is_saved() {
    let (engine, saver) = Saver::start(small(OnFull::Block));
    for number in 0..10_000 {
        numbered(0, number).write(&mut engine.rolling()).expect("room comes back");
    }
    let output = saver.finish(&engine);
    assert_eq!(numbers(&output), (0..10_000).map(|number| (0, number)).collect::<Vec<_>>());
}

#[test]
fn a_batch_is_written_like_single_records() {
    let (engine, saver) = Saver::start(small(OnFull::Block));
    let mut batch = engine.rolling().batch();
    for number in 0..1000 {
        numbered(0, number).write(&mut batch).expect("room comes back");
        if number % 7 == 0 {
            batch.close();
        }
        if number % 11 == 0 {
            batch.close();
            numbered(1, number).write(&mut engine.rolling()).expect("room comes back");
        }
    }
    drop(batch);
    let output = saver.finish(&engine);
    let expected = (0..1000).flat_map(|number| {
        [(0, number), (1, number)].into_iter().take(if number % 11 == 0 { 2 } else { 1 })
    });
    assert_eq!(numbers(&output), expected.collect::<Vec<_>>());
}

#[test]
fn a_shared_batch_keeps_its_engine_and_moves_between_threads() {
    let (engine, _inbox) = engine(small(OnFull::Drop));
    let mut batch = Batch::shared(Arc::clone(&engine));
    numbered(0, 1).write(&mut batch).expect("an empty buffer");
    let writer = std::thread::spawn(move || {
        numbered(0, 2).write(&mut batch).expect("there is room");
        Arc::strong_count(&engine)
    });
    assert_eq!(writer.join().expect("no panic"), 2, "the batch holds one of them");
}

#[test]
fn a_batch_gives_back_what_it_does_not_use() {
    let (engine, _inbox) = engine(Config { bytes: 64 << 10, ..small(OnFull::Drop) });
    let mut batch = engine.rolling().batch();
    numbered(0, 1).write(&mut batch).expect("an empty buffer");
    drop(batch);
    let mut output = Vec::new();
    engine.finish().into_iter().for_each(|packet| save(&engine, packet, &mut output));
    assert_eq!(output.len(), 3);
}

#[test]
fn a_batch_that_was_overtaken_leaves_a_filler() {
    let (engine, _inbox) = engine(Config { bytes: 64 << 10, ..small(OnFull::Drop) });
    let mut batch = engine.rolling().batch();
    numbered(0, 1).write(&mut batch).expect("an empty buffer");
    numbered(1, 2).write(&mut engine.rolling()).expect("there is room");
    drop(batch.reserve(3));
    drop(batch);
    let mut output = Vec::new();
    engine.finish().into_iter().for_each(|packet| save(&engine, packet, &mut output));
    assert_eq!(numbers(&output), [(0, 1), (1, 2)]);
    assert_eq!(string_indices(&output), [0]);
    assert_eq!(engine.dropped(), 1, "the slot of the batch that was not finished");
}

/// Fills both buffers of a blocking engine without a saver.
fn full_engine() -> (Arc<Engine>, mpsc::Receiver<Packet>) {
    let (engine, inbox) = engine(small(OnFull::Block));
    for _ in 0..2 * (52 / 3) {
        numbered(0, 0).write(&mut engine.rolling()).expect("two empty buffers");
    }
    (engine, inbox)
}

#[test]
fn stopping_wakes_blocked_writers() {
    let (engine, _inbox) = full_engine();
    let writer = thread::spawn({
        let engine = Arc::clone(&engine);
        move || numbered(0, 0).write(&mut engine.rolling())
    });
    engine.stop();
    let result = writer.join().expect("no panic");
    assert_eq!(result, Err(WriteError::Full(Full::Stopped)));
    assert_eq!(engine.dropped(), 0);
}

#[test]
fn a_writer_with_a_deadline_gives_up() {
    let (engine, _inbox) = engine(small(OnFull::BlockFor(Duration::from_millis(1))));
    for _ in 0..2 * (52 / 3) {
        numbered(0, 0).write(&mut engine.rolling()).expect("two empty buffers");
    }
    let refused = numbered(0, 0).write(&mut engine.rolling());
    assert_eq!(refused, Err(WriteError::Full(Full::Dropped)));
    assert_eq!(engine.dropped(), 1);
}

#[test]
fn a_stopped_engine_takes_nothing_and_drops_nothing() {
    let (engine, _inbox) = engine(small(OnFull::Drop));
    engine.stop();
    let stopped = Err(WriteError::Full(Full::Stopped));
    assert_eq!(numbered(0, 0).write(&mut engine.rolling()), stopped);
    assert_eq!(string_record(1).write(&mut engine.durable()), stopped);
    assert_eq!(engine.dropped(), 0);
    assert!(engine.finish().is_empty());
}

#[test]
fn a_record_reserved_before_the_stop_is_saved() {
    let (engine, _inbox) = engine(small(OnFull::Drop));
    let mut slot = engine.rolling().reserve(2).expect("an empty buffer");
    engine.stop();
    slot.put(5);
    slot.finish(0x21);
    let mut output = Vec::new();
    engine.finish().into_iter().for_each(|packet| save(&engine, packet, &mut output));
    assert_eq!(output, [0x21, 5]);
}

#[test]
fn a_record_larger_than_a_buffer_is_refused() {
    let (engine, _inbox) = engine(small(OnFull::Block));
    let refused = engine.rolling().reserve(53).err();
    assert_eq!(refused, Some(Full::TooLarge { words: 53, max: 52 }));
    let refused = engine.durable().reserve(9).err();
    assert_eq!(refused, Some(Full::TooLarge { words: 9, max: 8 }));
}

#[test]
fn a_packet_that_no_thread_sent_is_refused() {
    let (engine, inbox) = engine(small(OnFull::Drop));
    numbered(0, 1).write(&mut engine.rolling()).expect("an empty buffer");
    let nothing = Packet::save_buffer(0, 0);
    assert_eq!(engine.saved(nothing), Err(SaveError::NotWaiting { wrapped_count: 0 }));
    assert!(engine.flush());
    let packet = inbox.try_recv().expect("a packet");
    let later = Packet::save_buffer(0, 8);
    assert_eq!(engine.saved(later), Err(SaveError::DurableEnd { durable_end: 8 }));
    let view = engine.view(packet).expect("a buffer to save");
    assert_eq!(engine.saved(packet), Err(SaveError::InView));
    drop(view);
    assert_eq!(engine.saved(packet), Ok(()));
    assert_eq!(engine.saved(packet), Err(SaveError::NotWaiting { wrapped_count: 0 }));
}
