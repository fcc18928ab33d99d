//! The engine's memory from outside: unwritten words are zero, and finished
//! records can be found without the engine.
#![cfg(not(loom))]

mod common;

use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver};

use common::{numbered, numbers, records, save, string_indices, string_record};
use fxt_writer::engine::{
    Config, ConfigError, Engine, Full, HEADER_WORDS, Header, Mode, OnFull, RecoverError, Recovered,
    recover,
};
use fxt_writer::packet::Packet;
use fxt_writer::record::Record;
use fxt_writer::{Slot, Space, WriteError};

const BYTES: usize = 1024;
const WORDS: usize = BYTES / 8;

/// An engine in memory that outlives the engine.
struct Left {
    engine: Arc<Engine>,
    inbox: Receiver<Packet>,
    memory: NonNull<[u64]>,
}

impl Left {
    fn new(mode: Mode) -> Self {
        let memory = NonNull::from(Box::leak(vec![0_u64; WORDS].into_boxed_slice()));
        let (packets, inbox) = mpsc::channel();
        let config = Config { mode, bytes: BYTES, on_full: OnFull::Drop, ..Config::default() };
        let notify = move |packet| packets.send(packet).unwrap_or(());
        // SAFETY: the memory is a box of this size, leaked until `behind` takes it
        // back when the engine is gone; nothing else accesses it until then.
        let engine = unsafe { Engine::with_memory(config, memory.cast(), (), notify) };
        Self { engine: engine.expect("a size in range"), inbox, memory }
    }

    /// The memory after the engine is dropped.
    fn behind(self) -> Box<[u64]> {
        let engine = Arc::into_inner(self.engine).expect("no other owner");
        drop(engine);
        // SAFETY: leaked from a box in `new`; the engine is gone.
        unsafe { Box::from_raw(self.memory.as_ptr()) }
    }

    fn write(&self, number: u64) -> Result<(), WriteError<Full>> {
        numbered(0, number).write(&mut self.engine.rolling())
    }
}

fn plain(output: &[u64]) -> Vec<u64> {
    numbers(output).into_iter().map(|(_, number)| number).collect()
}

#[test]
fn memory_that_was_never_handed_out_is_zero() {
    for mode in [Mode::Oneshot, Mode::Circular, Mode::Streaming] {
        let left = Left::new(mode);
        string_record(1).write(&mut left.engine.durable()).expect("an empty ring");
        (0..3).for_each(|number| left.write(number).expect("there is room"));
        let memory = left.behind();
        let used = memory[HEADER_WORDS..].iter().filter(|&&word| word != 0).count();
        // The string: a header and 16 bytes; each record: a header, writer 0, and
        // a number, which is 0 once.
        assert_eq!(used, 3 + 2 + 2 + 1, "{mode:?}");
    }
}

#[test]
fn saved_buffers_are_zero_again() {
    let left = Left::new(Mode::Streaming);
    let mut output = Vec::new();
    let mut slot = None;
    for number in 1..500 {
        if number == 200 {
            slot = left.engine.rolling().reserve(5).ok();
        }
        left.write(number).expect("the other buffer is free");
        left.engine.abandon_stragglers();
        left.inbox.try_iter().for_each(|packet| save(&left.engine, packet, &mut output));
        if number == 400 {
            slot.as_mut().expect("reserved at 200").put(u64::MAX);
            slot = None;
        }
    }
    drop(slot);
    for packet in left.engine.finish() {
        save(&left.engine, packet, &mut output);
    }
    assert_eq!(plain(&output), (1..500).collect::<Vec<_>>());
    assert_eq!(left.engine.dropped(), 1);
    let memory = left.behind();
    assert!(memory[HEADER_WORDS..].iter().all(|&word| word == 0));
}

#[test]
fn a_record_is_written_whole_or_not_at_all_wherever_room_ends() {
    // Oneshot: 112 words. Fill up to every distance from the end, then try every
    // size of record.
    for free in 0..8_usize {
        for words in 1..=8_usize {
            let left = Left::new(Mode::Oneshot);
            let filler = WORDS - HEADER_WORDS - free;
            let mut slot = left.engine.rolling().reserve(filler).expect("an empty buffer");
            (1..filler).for_each(|_| slot.put(u64::MAX));
            slot.finish(((filler << 4) | 4) as u64);
            match left.engine.rolling().reserve(words) {
                Ok(mut slot) => {
                    assert!(words <= free, "{words} words in {free}");
                    (1..words).for_each(|_| slot.put(7));
                    slot.finish(((words << 4) | 4) as u64);
                }
                Err(full) => {
                    assert_eq!(full, Full::Dropped);
                    assert!(words > free, "{words} words fit {free}");
                }
            }
            let memory = left.behind();
            let tail = &memory[WORDS - free..];
            let written = if words <= free { words } else { 0 };
            assert!(tail[written..].iter().all(|&word| word == 0));
            assert!(tail[..written].iter().all(|&word| word != 0));
        }
    }
}

#[test]
fn the_header_shows_what_is_where() {
    let left = Left::new(Mode::Streaming);
    string_record(1).write(&mut left.engine.durable()).expect("an empty ring");
    (0..18).for_each(|number| left.write(number).expect("there is room"));
    left.write(18).expect("the other buffer");
    let memory = left.behind();
    let header = Header::read(memory.first_chunk().expect("16 words")).expect("a header");
    let expected = Header {
        version: 1,
        mode: 2,
        wrapped_count: 1,
        total_bytes: 1024,
        durable_bytes: 64,
        rolling_bytes: 416,
        durable_end: 24,
        durable_saved: 0,
        rolling_start: [0, 0],
        rolling_end: [17 * 24, 0],
        dropped: 0,
    };
    assert_eq!(header, expected);
}

#[test]
fn a_crash_costs_only_what_was_not_finished() {
    let left = Left::new(Mode::Streaming);
    let mut output = Vec::new();
    for index in 1..40 {
        left.inbox.try_iter().for_each(|packet| save(&left.engine, packet, &mut output));
        string_record(index).write(&mut left.engine.durable()).ok();
        left.write(index.into()).expect("there is room");
    }
    let mut lane = left.engine.rolling();
    let mut unfinished = lane.reserve(4).expect("there is room");
    unfinished.put(u64::MAX);
    std::mem::forget(unfinished);
    left.write(40).expect("there is room");
    let dropped = left.engine.dropped();
    let found = recover(&left.behind()).expect("an engine's memory");
    assert_eq!(found.unfinished, 1);
    assert_eq!(found.dropped, dropped);
    // Together with the saved records, this is everything that was accepted.
    output.extend(&found.durable);
    output.extend(&found.rolling);
    assert_eq!(plain(&output), (1..=40).collect::<Vec<_>>());
    let strings = string_indices(&output);
    assert_eq!(strings.len() as u64, 39 - dropped);
    assert!(strings.is_sorted());
}

#[test]
fn a_circular_buffer_is_recovered_oldest_first() {
    let left = Left::new(Mode::Circular);
    string_record(1).write(&mut left.engine.durable()).expect("an empty ring");
    (0..100).for_each(|number| left.write(number).expect("the older buffer is overwritten"));
    let found = recover(&left.behind()).expect("an engine's memory");
    assert_eq!(string_indices(&found.durable), [1]);
    assert_eq!(plain(&found.rolling), (68..100).collect::<Vec<_>>());
}

#[test]
fn a_oneshot_buffer_is_recovered() {
    let left = Left::new(Mode::Oneshot);
    (0..10).for_each(|number| left.write(number).expect("there is room"));
    let found = recover(&left.behind()).expect("an engine's memory");
    assert_eq!(plain(&found.rolling), (0..10).collect::<Vec<_>>());
}

#[test]
fn damaged_memory_is_an_error_or_less_data_but_never_a_panic() {
    let left = Left::new(Mode::Streaming);
    for index in 1..15 {
        string_record(index).write(&mut left.engine.durable()).ok();
        left.write(index.into()).expect("there is room");
    }
    let memory = left.behind();
    let whole = recover(&memory).expect("an engine's memory");
    for at in 0..memory.len() {
        for damage in [0, u64::MAX, memory[at] ^ 0xf0, memory[at] ^ (1 << 40)] {
            let mut damaged = memory.clone();
            damaged[at] = damage;
            match recover(&damaged) {
                Ok(Recovered { rolling, .. }) => {
                    assert!(rolling.len() <= whole.rolling.len() + memory.len());
                    assert_eq!(records(&rolling).concat(), rolling);
                }
                Err(error) => {
                    assert!(matches!(error, RecoverError::NoHeader | RecoverError::Sizes));
                    assert!(at < HEADER_WORDS, "only the header can be refused");
                }
            }
        }
    }
    assert_eq!(recover(&memory[..HEADER_WORDS - 1]), Err(RecoverError::NoHeader));
    assert_eq!(recover(&memory[..HEADER_WORDS]), Err(RecoverError::Sizes));
}

#[test]
fn misaligned_memory_is_refused() {
    let mut memory = vec![0_u64; WORDS];
    let base = NonNull::from(&mut memory[0]).cast::<u8>();
    let config = Config { bytes: BYTES - 8, ..Config::default() };
    // SAFETY: the memory is within the vector, which outlives the call; the call fails.
    let refused = unsafe { Engine::with_memory(config, base.add(1), (), |_| ()) };
    assert_eq!(refused.err(), Some(ConfigError::Misaligned));
}
