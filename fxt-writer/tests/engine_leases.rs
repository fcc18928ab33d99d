//! A thread's own piece of the buffer: its records are handed over with the
//! buffer, whatever the thread does.
#![cfg(not(loom))]

mod common;

use common::{engine, numbered, numbers, records, save, string_record};
use fxt_writer::engine::{
    BufferDisposition, Config, Engine, Lease, Mode, OnFull, Recovered, recover,
};
use fxt_writer::layout::{header, record_type};
use fxt_writer::record::{Event, EventKind, Record};
use fxt_writer::{Arg, Koid, Text, ThreadName, Ticks, Value};

const BYTES: usize = 256 << 10;

fn config(mode: Mode) -> Config {
    Config { mode, bytes: BYTES, on_full: OnFull::Drop, ..Config::default() }
}

fn write(lease: &Lease, numbers: std::ops::Range<u64>) {
    numbers.for_each(|number| lease.write(&numbered(1, number)).expect("there is room"));
}

fn pairs(numbers: std::ops::Range<u64>) -> Vec<(u64, u64)> {
    numbers.map(|number| (1, number)).collect()
}

#[test]
fn what_a_sleeping_thread_has_written_is_handed_over() {
    let (engine, inbox) = engine(config(Mode::Streaming));
    assert!(engine.lend());
    let lease = engine.lease();
    let mut output = Vec::new();
    for round in 0..10 {
        write(&lease, 100 * round..100 * (round + 1));
        assert!(engine.flush());
        save(&engine, inbox.try_recv().expect("nobody is waited for"), &mut output);
        assert_eq!(numbers(&output), pairs(0..100 * (round + 1)));
    }
}

#[test]
fn stopping_and_starting_again_continues_with_leases() {
    let (engine, _inbox) = engine(config(Mode::Circular));
    assert!(engine.lend());
    let lease = engine.lease();
    write(&lease, 0..50);
    engine.stop();
    assert!(lease.write(&numbered(1, 999)).is_err());
    engine.start(BufferDisposition::Retain).expect("it was stopped");
    write(&lease, 50..100);
    let mut output = Vec::new();
    engine.finish().into_iter().for_each(|packet| save(&engine, packet, &mut output));
    assert_eq!(numbers(&output), pairs(0..100));
    assert_eq!(engine.dropped(), 0);
}

#[test]
fn a_record_that_is_larger_than_the_piece_goes_on_its_own() {
    let (engine, _inbox) = engine(config(Mode::Circular));
    assert!(engine.lend());
    let lease = engine.lease();
    write(&lease, 0..10);
    let long = "x".repeat(20_000);
    let args = [Arg::new(Text::Inline("it"), Value::Str(Text::Inline(&long)))];
    let event = Event {
        kind: EventKind::Instant,
        time: Ticks(5),
        thread: ThreadName::Inline { process: Koid(1), thread: Koid(2) },
        category: Text::Inline("a"),
        name: Text::Inline("b"),
        args: &args,
    };
    lease.write(&event).expect("there is room");
    write(&lease, 10..20);
    let mut output = Vec::new();
    engine.finish().into_iter().for_each(|packet| save(&engine, packet, &mut output));
    let text = bytes_of(&output);
    assert!(text.windows(long.len()).any(|window| window == long.as_bytes()));
    assert_eq!(numbers(&output), pairs(0..20));
}

fn bytes_of(words: &[u64]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_ne_bytes()).collect()
}

/// The records found in a copy of an engine's memory while a thread holds a
/// lease.
fn found(write: impl FnOnce(&Lease)) -> Recovered {
    let words = BYTES / 8;
    let memory = Box::leak(vec![0_u64; words].into_boxed_slice());
    let base = std::ptr::NonNull::from(&mut *memory).cast();
    // SAFETY: leaked, hence valid for as long as the process runs; only the copy below also accesses it, and that copy is made while no
    // thread writes.
    let engine = unsafe { Engine::with_memory(config(Mode::Circular), base, (), |_| ()) };
    let engine = engine.expect("a size in range");
    assert!(engine.lend());
    let lease = engine.lease();
    write(&lease);
    // SAFETY: as above; the only writer is this thread.
    let copy = unsafe { std::slice::from_raw_parts(base.cast::<u64>().as_ptr(), words) }.to_vec();
    recover(&copy).expect("an engine's memory")
}

#[test]
fn anyone_who_finds_the_memory_has_every_record_and_no_vacant_room() {
    let recovered = found(|lease| write(lease, 0..333));
    assert_eq!(numbers(&recovered.rolling), pairs(0..333));
    assert_eq!(recovered.rolling.len(), 3 * 333, "nothing but the records");
    assert_eq!((recovered.unfinished, recovered.dropped), (0, 0));
}

#[test]
fn in_oneshot_mode_what_is_durable_precedes_what_refers_to_it() {
    let (engine, _inbox) = engine(config(Mode::Oneshot));
    assert!(!engine.lend());
    let lease = engine.lease();
    let mut output = Vec::new();
    for index in 1..100 {
        string_record(index).write(&mut engine.durable()).expect("there is room");
        write(&lease, index.into()..u64::from(index) + 1);
    }
    engine.finish().into_iter().for_each(|packet| save(&engine, packet, &mut output));
    let is_string = |record: &&[u64]| header::TYPE.get(record[0]) == record_type::STRING;
    let all = records(&output);
    assert!(all.iter().step_by(2).all(is_string) && !all.iter().skip(1).step_by(2).any(is_string));
    assert_eq!(numbers(&output), pairs(1..100));
}

#[test]
fn without_lending_records_are_reserved_on_their_own() {
    let (engine, _inbox) = engine(config(Mode::Circular));
    let lease = engine.lease();
    write(&lease, 0..100);
    lease.give_back();
    let mut output = Vec::new();
    engine.finish().into_iter().for_each(|packet| save(&engine, packet, &mut output));
    assert_eq!(output.len(), 300);
    assert_eq!(numbers(&output), pairs(0..100));
}
