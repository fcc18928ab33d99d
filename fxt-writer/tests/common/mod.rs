//! Shared by the engine's tests: small numbered records, and a saver that keeps
//! the output as words.
#![allow(dead_code, reason = "each test file uses its part")]

use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::{self, JoinHandle};

use fxt_writer::engine::{Config, Engine};
use fxt_writer::layout::{header, limits::WORD_BYTES, record_type, string};
use fxt_writer::packet::Packet;
use fxt_writer::record::{StringRecord, ThreadRecord};
use fxt_writer::{Koid, StringRef, ThreadRef};

/// A record of three words with its writer and a number.
pub(crate) fn numbered(writer: u64, number: u64) -> ThreadRecord {
    let index = ThreadRef::indexed(1).expect("1 is an index");
    ThreadRecord { index, process: Koid(writer), thread: Koid(number) }
}

/// A string record of three words.
pub(crate) fn string_record(index: u16) -> StringRecord<'static> {
    let index = StringRef::indexed(index).expect("an index in range");
    StringRecord { index, content: "sixteen bytes..." }
}

/// An engine that sends its packets to the receiver.
pub(crate) fn engine(config: Config) -> (Arc<Engine>, Receiver<Packet>) {
    let (packets, inbox) = mpsc::channel();
    // A test may drop its receiver early.
    let engine = Engine::new(config, move |packet| packets.send(packet).unwrap_or(()));
    (engine.expect("a size in range"), inbox)
}

/// Saves one buffer in the same way as a receiver of packets.
pub(crate) fn save(engine: &Engine, packet: Packet, output: &mut Vec<u64>) {
    let view = engine.view(packet).expect("a buffer to save");
    view.slices().for_each(|bytes| output.extend(words(bytes)));
    drop(view);
    engine.saved(packet.buffer_saved()).expect("the buffer was waiting");
}

/// The words in `bytes`.
pub(crate) fn words(bytes: &[u8]) -> impl Iterator<Item = u64> {
    let (words, rest) = bytes.as_chunks::<WORD_BYTES>();
    assert!(rest.is_empty(), "whole words only");
    words.iter().map(|word| u64::from_ne_bytes(*word))
}

/// A thread that saves every packet it gets; see [`Saver::finish`].
pub(crate) struct Saver {
    packets: Sender<Option<Packet>>,
    thread: JoinHandle<Vec<u64>>,
}

impl Saver {
    /// An engine with a saver.
    pub(crate) fn start(config: Config) -> (Arc<Engine>, Self) {
        let (packets, inbox) = mpsc::channel::<Option<Packet>>();
        let notify = packets.clone();
        let engine = Engine::new(config, move |packet| notify.send(Some(packet)).unwrap_or(()));
        let engine = engine.expect("a size in range");
        let saved = Arc::clone(&engine);
        let thread = thread::spawn(move || {
            let mut output = Vec::new();
            for packet in inbox.iter().map_while(|packet| packet) {
                save(&saved, packet, &mut output);
            }
            output
        });
        (engine, Self { packets, thread })
    }

    /// Finishes the engine and returns all that was saved.
    pub(crate) fn finish(self, engine: &Engine) -> Vec<u64> {
        let last = engine.finish().into_iter().map(Some);
        last.chain([None]).for_each(|packet| self.packets.send(packet).expect("a live saver"));
        self.thread.join().expect("the saver saved all")
    }
}

/// Splits words into records by their headers, which must lead to the very end.
pub(crate) fn records(words: &[u64]) -> Vec<&[u64]> {
    let mut records = Vec::new();
    let mut rest = words;
    while let Some(&word) = rest.first() {
        let (record, after) = rest.split_at(header::SIZE.get(word) as usize);
        assert!(!record.is_empty(), "a record of size 0");
        records.push(record);
        rest = after;
    }
    records
}

/// Writer and number of every [`numbered`] record, in order.
pub(crate) fn numbers(words: &[u64]) -> Vec<(u64, u64)> {
    let records = records(words);
    let numbered = records.iter().filter(|r| header::TYPE.get(r[0]) == record_type::THREAD);
    numbered.map(|record| (record[1], record[2])).collect()
}

/// The index of every string record, in order; fillers have index 0.
pub(crate) fn string_indices(words: &[u64]) -> Vec<u64> {
    let records = records(words);
    let strings = records.iter().filter(|r| header::TYPE.get(r[0]) == record_type::STRING);
    strings.map(|record| string::INDEX.get(record[0])).collect()
}
