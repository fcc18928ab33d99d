//! Oneshot and circular buffers, and starting again after a stop.
#![cfg(not(loom))]

mod common;

use common::{engine, numbered, numbers, save, string_indices, string_record, words};
use fxt_writer::engine::{BufferDisposition, Config, Engine, Full, Mode, OnFull, StartError};
use fxt_writer::record::Record;
use fxt_writer::{Space, WriteError};

fn small(mode: Mode) -> Config {
    Config { mode, bytes: 1024, on_full: OnFull::Block, ..Config::default() }
}

fn rolling(engine: &Engine, numbers: std::ops::Range<u64>) -> Result<(), WriteError<Full>> {
    let mut lane = engine.rolling();
    numbers.into_iter().try_for_each(|number| numbered(0, number).write(&mut lane))
}

/// Everything that `finish` leaves, viewed and retained.
fn view_all(engine: &Engine) -> Vec<u64> {
    let mut output = Vec::new();
    for packet in engine.finish() {
        let view = engine.view(packet).expect("a buffer to save");
        view.slices().for_each(|bytes| output.extend(words(bytes)));
    }
    output
}

fn save_all(engine: &Engine) -> Vec<u64> {
    let mut output = Vec::new();
    engine.finish().into_iter().for_each(|packet| save(engine, packet, &mut output));
    output
}

fn plain(output: &[u64]) -> Vec<u64> {
    numbers(output).into_iter().map(|(_, number)| number).collect()
}

#[test]
fn oneshot_keeps_the_beginning_and_counts_the_rest() {
    let (engine, inbox) = engine(small(Mode::Oneshot));
    string_record(1).write(&mut engine.durable()).expect("an empty buffer");
    // 112 words minus 3: 36 records of three words, and one unused word.
    rolling(&engine, 0..36).expect("there is room");
    assert_eq!(rolling(&engine, 36..37), Err(WriteError::Full(Full::Dropped)));
    assert_eq!(string_record(2).write(&mut engine.durable()), Err(WriteError::Full(Full::Dropped)));
    let output = save_all(&engine);
    assert_eq!(string_indices(&output), [1]);
    assert_eq!(plain(&output), (0..36).collect::<Vec<_>>());
    assert_eq!(engine.dropped(), 2);
    assert_eq!(inbox.try_iter().count(), 0);
}

#[test]
fn a_record_that_is_offered_again_is_not_counted_as_dropped() {
    let (engine, _inbox) = engine(small(Mode::Oneshot));
    rolling(&engine, 0..37).expect("there is room");
    let full = Err(WriteError::Full(Full::Dropped));
    assert_eq!(numbered(0, 37).write(&mut engine.rolling().uncounted()), full);
    assert_eq!(string_record(1).write(&mut engine.durable().uncounted()), full);
    let mut too_large = engine.rolling().uncounted();
    let refused = too_large.reserve(engine.max_record_words() + 1);
    assert!(matches!(refused, Err(Full::TooLarge { .. })));
    assert_eq!(engine.dropped(), 0);
    engine.count_dropped(2);
    assert_eq!(engine.dropped(), 2);
}

#[test]
fn circular_keeps_the_end_and_all_that_is_durable() {
    let (engine, inbox) = engine(small(Mode::Circular));
    string_record(1).write(&mut engine.durable()).expect("an empty ring");
    rolling(&engine, 0..1000).expect("the older buffer is overwritten");
    string_record(2).write(&mut engine.durable()).expect("room for two");
    let output = save_all(&engine);
    assert_eq!(string_indices(&output), [1, 2]);
    let kept = plain(&output);
    // 17 records fit into a buffer: the last one began at 986, the previous one at 969.
    assert_eq!(kept, (969..1000).collect::<Vec<_>>());
    assert_eq!(engine.dropped(), 0);
    assert_eq!(inbox.try_iter().count(), 0);
}

#[test]
fn a_full_durable_part_is_refused_in_circular_mode_and_tracing_continues() {
    let (engine, _inbox) = engine(small(Mode::Circular));
    let mut lane = engine.durable();
    string_record(1).write(&mut lane).expect("an empty ring");
    string_record(2).write(&mut lane).expect("room for two");
    assert_eq!(string_record(3).write(&mut lane), Err(WriteError::Full(Full::Dropped)));
    assert_eq!(engine.dropped(), 1);
    rolling(&engine, 0..100).expect("tracing goes on");
    assert_eq!(string_indices(&save_all(&engine)), [1, 2]);
}

#[test]
fn a_snapshot_keeps_what_is_durable_for_the_next() {
    let (engine, _inbox) = engine(small(Mode::Circular));
    string_record(1).write(&mut engine.durable()).expect("an empty ring");
    rolling(&engine, 0..100).expect("the older buffer is overwritten");
    let first = save_all(&engine);
    engine.start(BufferDisposition::ClearNondurable).expect("a stopped engine");
    rolling(&engine, 100..105).expect("running again");
    let second = save_all(&engine);
    assert_eq!(string_indices(&first), [1]);
    assert_eq!(plain(&first).last(), Some(&99));
    assert_eq!(string_indices(&second), [1]);
    assert_eq!(plain(&second), (100..105).collect::<Vec<_>>());
}

#[test]
fn retained_data_is_followed_by_new_data() {
    for mode in [Mode::Oneshot, Mode::Circular] {
        let (engine, _inbox) = engine(small(mode));
        string_record(1).write(&mut engine.durable()).expect("an empty ring");
        rolling(&engine, 0..5).expect("there is room");
        assert_eq!(plain(&view_all(&engine)), (0..5).collect::<Vec<_>>());
        engine.start(BufferDisposition::Retain).expect("a stopped engine");
        rolling(&engine, 5..8).expect("running again");
        engine.stop();
        engine.start(BufferDisposition::Retain).expect("a stopped engine");
        rolling(&engine, 8..10).expect("running again");
        let output = save_all(&engine);
        assert_eq!(string_indices(&output), [1]);
        assert_eq!(plain(&output), (0..10).collect::<Vec<_>>());
    }
}

#[test]
fn clearing_everything_leaves_nothing() {
    for mode in [Mode::Oneshot, Mode::Circular, Mode::Streaming] {
        let (engine, _inbox) = engine(small(mode));
        string_record(1).write(&mut engine.durable()).expect("an empty ring");
        rolling(&engine, 0..5).expect("there is room");
        engine.stop();
        engine.start(BufferDisposition::ClearEntire).expect("a stopped engine");
        string_record(2).write(&mut engine.durable()).expect("an empty ring");
        rolling(&engine, 5..7).expect("running again");
        let output = save_all(&engine);
        assert_eq!(string_indices(&output), [2], "{mode:?}");
        assert_eq!(plain(&output), [5, 6], "{mode:?}");
    }
}

#[test]
fn streaming_continues_after_it_was_finished_and_saved() {
    let (engine, inbox) = engine(small(Mode::Streaming));
    rolling(&engine, 0..5).expect("there is room");
    assert_eq!(plain(&save_all(&engine)), (0..5).collect::<Vec<_>>());
    let retain = BufferDisposition::Retain;
    for disposition in [retain, retain, BufferDisposition::ClearNondurable, retain] {
        engine.start(disposition).expect("a stopped engine");
        rolling(&engine, 5..7).expect("running again");
        assert!(engine.flush());
        let mut output = Vec::new();
        inbox.try_iter().for_each(|packet| save(&engine, packet, &mut output));
        assert_eq!(plain(&output), [5, 6]);
        assert!(engine.finish().is_empty());
    }
}

#[test]
fn starting_is_refused_while_something_is_in_the_way() {
    let (engine, _inbox) = engine(small(Mode::Circular));
    assert_eq!(engine.start(BufferDisposition::Retain), Err(StartError::Running));
    let slot = engine.rolling().reserve(3).expect("an empty buffer");
    engine.stop();
    assert_eq!(engine.start(BufferDisposition::ClearEntire), Err(StartError::Unfinished));
    drop(slot);
    let packets = engine.finish();
    let view = engine.view(packets[0]).expect("a buffer to save");
    assert_eq!(engine.start(BufferDisposition::ClearEntire), Err(StartError::InUse));
    drop(view);
    assert_eq!(engine.start(BufferDisposition::ClearEntire), Ok(()));
}
