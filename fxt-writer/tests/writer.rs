//! The high-level writer: what it registers and when, and how it behaves when it cannot register more.
#![cfg(not(loom))]

mod common;

use common::{engine, records, save, string_indices, words};
use fxt_writer::engine::{Config, Mode, OnFull};
use fxt_writer::lanes::EngineLanes;
use fxt_writer::layout::{event, header, record_type, string};
use fxt_writer::space::BlackHole;
use fxt_writer::writer::TablesFull;
use fxt_writer::{EncodeError, Koid, Ticks, WriteError, Writer};

const THREAD: (Koid, Koid) = (Koid(10), Koid(11));

/// The names of all events as a reader resolves them, with a string table kept
/// while reading.
fn event_names(words: &[u64]) -> Vec<String> {
    let mut table = vec![String::new(); 0x8000];
    let mut names = Vec::new();
    for record in records(words) {
        match header::TYPE.get(record[0]) {
            record_type::STRING => {
                let length = string::LENGTH.get(record[0]) as usize;
                let bytes: Vec<u8> =
                    record[1..].iter().flat_map(|word| word.to_ne_bytes()).collect();
                let content = String::from_utf8(bytes[..length].to_vec()).expect("UTF-8");
                table[string::INDEX.get(record[0]) as usize] = content;
            }
            record_type::EVENT => {
                let name = event::NAME.get(record[0]);
                let inline = name & 0x8000 != 0;
                names.push(if inline { "(inline)".into() } else { table[name as usize].clone() });
            }
            _ => {}
        }
    }
    names
}

#[test]
fn strings_and_threads_are_registered_once() {
    let mut writer = Writer::new(Vec::<u64>::new());
    for number in 0..3 {
        writer
            .instant(Ticks(number), THREAD, "test", "event", &[("n", number.into())])
            .expect("room");
    }
    let output = writer.into_inner();
    let types: Vec<u64> = records(&output).iter().map(|r| header::TYPE.get(r[0])).collect();
    assert_eq!(types, [2, 2, 2, 3, 4, 4, 4]);
    assert_eq!(string_indices(&output), [1, 2, 3]);
    assert_eq!(event_names(&output), ["event"; 3]);
}

#[test]
fn a_full_table_replaces_the_least_recently_used_string() {
    let mut writer = Writer::new(Vec::<u64>::new());
    let mut expected = Vec::new();
    // More names than there are indices, some of them repeatedly.
    for number in 0..0x8000 + 500_u64 {
        let name = if number % 3 == 0 { "often".into() } else { format!("name {number}") };
        writer.instant(Ticks(number), THREAD, "test", &name, &[]).expect("room");
        expected.push(name);
    }
    for number in 0..40_000_u64 {
        let name = format!("again {}", number % 33_000);
        writer.instant(Ticks(number), THREAD, "test", &name, &[]).expect("room");
        expected.push(name);
    }
    let output = writer.into_inner();
    assert_eq!(event_names(&output), expected);
    assert!(string_indices(&output).iter().all(|&index| index <= 0x7fff));
}

#[test]
fn threads_beyond_the_table_replace_the_least_recently_used() {
    let mut writer = Writer::new(Vec::<u64>::new());
    let mut expected = Vec::new();
    for number in 0..1000_u64 {
        let thread = if number % 2 == 0 { THREAD } else { (Koid(1), Koid(number)) };
        writer.instant(Ticks(0), thread, "", "", &[]).expect("room");
        expected.push(thread.1.0);
    }
    let output = writer.into_inner();
    let mut table = [0; 256];
    let mut seen = Vec::new();
    for record in records(&output) {
        match header::TYPE.get(record[0]) {
            record_type::THREAD => table[(record[0] >> 16 & 0xff) as usize] = record[2],
            _ => seen.push(table[event::THREAD.get(record[0]) as usize]),
        }
    }
    assert_eq!(seen, expected);
}

#[test]
fn in_a_circular_engine_full_tables_go_inline() {
    let config = Config { mode: Mode::Circular, bytes: 64 << 10, ..Config::default() };
    let (engine, _inbox) = engine(config);
    let mut writer = Writer::for_engine(&engine);
    for number in 0..5000_u64 {
        writer
            .instant(Ticks(number), THREAD, "test", &format!("name {number}"), &[])
            .expect("room");
    }
    let mut output = Vec::new();
    engine.finish().into_iter().for_each(|packet| save(&engine, packet, &mut output));
    let names = event_names(&output);
    assert!(names.len() > 100);
    assert!(names.iter().all(|name| name == "(inline)"), "the durable part was full long ago");
    let indices = string_indices(&output);
    assert_eq!(indices, (1..=indices.len() as u64).collect::<Vec<_>>());
}

#[test]
fn in_a_streaming_engine_every_name_is_right_though_tables_are_tiny() {
    let config =
        Config { mode: Mode::Streaming, bytes: 4096, on_full: OnFull::Drop, ..Config::default() };
    let (engine, inbox) = engine(config);
    let mut output = Vec::new();
    let mut expected = Vec::new();
    let lanes = EngineLanes::new(&engine);
    let mut writer = Writer::with_table_sizes(lanes, TablesFull::Replace, 20, 3);
    for number in 0..3000_u64 {
        inbox.try_iter().for_each(|packet| save(&engine, packet, &mut output));
        let name = format!("{}", number % 37);
        if writer.instant(Ticks(number), THREAD, "test", &name, &[]).is_ok() {
            expected.push(name);
        }
    }
    let last: Vec<_> = inbox.try_iter().chain(engine.finish()).collect();
    last.into_iter().for_each(|packet| save(&engine, packet, &mut output));
    let names = event_names(&output);
    assert_eq!(names.len(), expected.len());
    for (name, expected) in names.iter().zip(&expected) {
        assert!(name == expected || name == "(inline)", "{name} for {expected}");
    }
    assert!(expected.len() > 2500, "{} events", expected.len());
}

#[test]
fn what_the_format_cannot_express_is_refused_before_anything_is_written() {
    let mut writer = Writer::new(Vec::<u8>::new());
    let args = vec![("a", true.into()); 16];
    let refused = writer.instant(Ticks(0), THREAD, "c", "n", &args);
    assert_eq!(refused, Err(WriteError::Encode(EncodeError::TooManyArgs { count: 16 })));
    let refused = writer.instant(Ticks(0), THREAD, "c\0", "n", &[]);
    assert_eq!(refused, Err(WriteError::Encode(EncodeError::NulInString { at: 1 })));
    assert_eq!(words(&writer.into_inner()).count(), 0);
}

#[test]
fn long_strings_are_written_inline() {
    let mut writer = Writer::new(BlackHole::default());
    let long = "x".repeat(300);
    writer.instant(Ticks(0), THREAD, "", &long, &[]).expect("room");
    // A thread record, and an event with 300 bytes of name.
    assert_eq!(writer.into_inner().words(), 3 + 2 + 38);
}
