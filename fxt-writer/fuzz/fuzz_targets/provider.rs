//! A hostile provider: memory with any content, which changes while it is read, and packets of any kind in any order.
//! Everything that is saved must be whole records of kinds that providers may write, no larger than the memory, and an archive of it must
//! read without damage.
//!
//! The input's first bytes determine the mode, the size and how the memory changes; then come packets, up to a byte 0xff; the rest is the
//! memory's content after a valid header.

#![no_main]

use std::cell::Cell;

use fxt_reader::Reader;
use fxt_writer::ProviderId;
use fxt_writer::engine::{Config, Engine, HEADER_WORDS, Mode, Piece, Remote, SharedWords};
use fxt_writer::layout::{header, record_type};
use fxt_writer::packet::Packet;
use fxt_writer::record::{Magic, ProviderInfo, Record};
use libfuzzer_sys::fuzz_target;

/// Memory from which some loads return a different value.
struct Fickle<'a> {
    words: Vec<u64>,
    changes: &'a [u8],
    loads: Cell<usize>,
}

impl SharedWords for Fickle<'_> {
    fn words(&self) -> usize {
        self.words.len()
    }

    fn load(&self, index: usize) -> u64 {
        let word = self.words[index];
        let load = self.loads.get();
        self.loads.set(load + 1);
        let Some(&change) = self.changes.get(load % self.changes.len().max(1)) else { return word };
        match change % 8 {
            0 if index > 4 => word ^ u64::from(change),
            1 if index > 4 => u64::from(change) * 8,
            2 if index > 4 => !word,
            _ => word,
        }
    }
}

/// The header that an engine of this kind writes.
fn honest_header(mode: Mode, bytes: usize) -> [u64; HEADER_WORDS] {
    let engine = Engine::new(Config { mode, bytes, ..Config::default() }, |_| ());
    let header = engine.expect("a size in range").header().expect("an engine has one");
    let mut words = [0; HEADER_WORDS];
    words[0] = fxt_writer::engine::MAGIC;
    words[1] = u64::from(header.version) + u64::from(header.mode) * 0x1_0000;
    (words[2], words[3], words[4]) = (header.total_bytes, header.durable_bytes, header.rolling_bytes);
    words
}

fn assert_sound(piece: &Piece, bytes: usize) {
    let mut archive = Vec::new();
    let info = ProviderInfo { id: ProviderId(2), name: "fuzz" };
    Magic.write(&mut archive).expect("a vector");
    info.write(&mut archive).expect("a vector");
    let words = piece.durable.iter().chain(&piece.rolling);
    let mut saved = 0;
    for word in words {
        archive.extend_from_slice(&word.to_ne_bytes());
        saved += 8;
    }
    assert!(saved <= bytes, "{saved} bytes of {bytes}");
    let mut reader = Reader::from_slice(&archive);
    let mut framed = 0;
    let mut seen = 0;
    loop {
        match reader.next() {
            Ok(Some(item)) => {
                seen += 1;
                if seen > 2 {
                    let word = item.raw.header();
                    assert_ne!(header::TYPE.get(word), record_type::METADATA);
                    framed += item.raw.words().len() * 8;
                }
            }
            Ok(None) => break,
            // The provider is responsible for the content of a record.
            Err(fxt_reader::Error::Damaged(_)) => return,
            Err(error) => panic!("{error}"),
        }
    }
    assert!(framed <= saved);
    assert_eq!(reader.summary().truncated_tail, 0, "the last record is whole");
}

fuzz_target!(|input: &[u8]| {
    let Some((&[mode, size, changing], rest)) = input.split_first_chunk() else { return };
    let mode = [Mode::Oneshot, Mode::Circular, Mode::Streaming][usize::from(mode % 3)];
    let bytes = 512 + usize::from(size) * 8;
    let end = rest.iter().position(|&byte| byte == 0xff).unwrap_or(rest.len());
    let (packets, memory) = rest.split_at(end);
    let changes = &memory[..memory.len().min(usize::from(changing))];

    let mut words = honest_header(mode, bytes).to_vec();
    let content = memory.get(1..).unwrap_or_default().chunks(8).map(|chunk| {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        u64::from_le_bytes(word)
    });
    // The first few words are the header's fields about the data.
    for (index, word) in content.enumerate() {
        match index {
            0..=6 => words[5 + index] = word,
            _ => words.push(word),
        }
    }
    words.resize(bytes / 8, 0);
    let memory = Fickle { words, changes, loads: Cell::new(0) };
    let mut remote = Remote::new(memory, mode).expect("a size in range");
    let mut refused = 0;
    let mut admit = |record: &mut [u64]| {
        assert!(!record.is_empty());
        let wanted = record[0] % 32 != 31;
        refused += u64::from(!wanted);
        wanted
    };
    for packet in packets.chunks(2).take(64) {
        if let Ok(piece) = remote.view(&mut admit) {
            assert_sound(&piece, bytes);
        }
        let durable_end = packet.get(1).map_or(0, |&end| u64::from(end) * 8);
        let request = Packet::save_buffer(u32::from(packet[0]), durable_end);
        if let Ok(piece) = remote.save(request, &mut admit) {
            assert_sound(&piece, bytes);
        }
    }
    for _ in 0..2 {
        if let Ok(piece) = remote.rest(&mut admit) {
            assert_sound(&piece, bytes);
        }
    }
    let _ = remote.durable_used();
});
