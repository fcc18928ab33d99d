//! Models of the engine's protocol, run through every interleaving (up to a
//! number of preemptions) that the memory model allows.
//!
//! The engine in this test has 224 bytes: a header, 4 durable words and two rolling buffers of 4 words, that is, two records each.
//! `scripts/check-engine` runs this file.
#![cfg(loom)]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use fxt_writer::engine::{Config, Engine, Full, Lease, Mode, OnFull, Remote, SharedWords};
use fxt_writer::layout::{header, initialization, record_type};
use fxt_writer::packet::Packet;
use fxt_writer::record::Initialization;
use fxt_writer::{Slot, Space};
use loom::sync::{Condvar, Mutex};
use loom::thread;

/// The maximum number of preemptions in one run; with more, a run takes minutes.
const PREEMPTIONS: usize = 4;

/// A record of two words with a number.
fn write(space: &mut impl Space<Full = Full>, number: u64) -> Result<(), Full> {
    let mut slot = space.reserve(2)?;
    slot.put(number);
    slot.finish(initialization::TYPE.put(record_type::INITIALIZATION) | header::SIZE.put(2));
    Ok(())
}

/// Packets that the saver has not received yet.
#[derive(Default)]
struct Queue {
    packets: Mutex<Vec<Packet>>,
    more: Condvar,
}

impl Queue {
    fn push(&self, packet: Packet) {
        self.packets.lock().unwrap().push(packet);
        self.more.notify_one();
    }

    fn take(&self) -> Vec<Packet> {
        std::mem::take(&mut *self.packets.lock().unwrap())
    }

    fn wait(&self) -> Vec<Packet> {
        let mut packets = self.packets.lock().unwrap();
        while packets.is_empty() {
            packets = self.more.wait(packets).unwrap();
        }
        std::mem::take(&mut *packets)
    }
}

fn engine(mode: Mode, on_full: OnFull) -> (Arc<Engine>, Arc<Queue>) {
    engine_of(224, mode, on_full)
}

fn engine_of(bytes: usize, mode: Mode, on_full: OnFull) -> (Arc<Engine>, Arc<Queue>) {
    let queue = Arc::new(Queue::default());
    let sent = Arc::clone(&queue);
    let config = Config { mode, bytes, on_full, ..Config::default() };
    let engine = Engine::new(config, move |packet| sent.push(packet)).expect("a size in range");
    (engine, queue)
}

/// Saves the packets, and returns the numbers that were in the buffers.
fn save(engine: &Engine, packets: Vec<Packet>) -> Vec<u64> {
    let mut words = Vec::new();
    for packet in packets {
        let view = engine.view(packet).expect("a buffer to save");
        for bytes in view.slices() {
            let (whole, rest) = bytes.as_chunks::<8>();
            assert!(rest.is_empty());
            words.extend(whole.iter().map(|word| u64::from_ne_bytes(*word)));
        }
        drop(view);
        engine.saved(packet).expect("the buffer was waiting");
    }
    numbers(&words)
}

/// The numbers in whole records; anything else is a failure of the protocol.
fn numbers(words: &[u64]) -> Vec<u64> {
    let mut numbers = Vec::new();
    let mut rest = words;
    while let [first, after @ ..] = rest {
        rest = match (*first, after) {
            (0x21, [number, after @ ..]) => {
                numbers.push(*number);
                after
            }
            // An overtaken batch, or a lease, leaves an empty filler.
            (0x12, after) => after,
            (0x32, [0, 0, after @ ..]) => after,
            (0x52, [0, 0, 0, 0, after @ ..]) => after,
            _ => panic!("{words:x?} holds a record that is not whole"),
        };
    }
    numbers
}

/// Explores `model`, with at most that many preemptions in one run.
fn explore(preemptions: usize, model: impl Fn() + Send + Sync + 'static) {
    let runs = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&runs);
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.check(move || {
        counted.fetch_add(1, Ordering::Relaxed);
        model();
    });
    let runs = runs.load(Ordering::Relaxed);
    println!("{runs} interleavings");
    assert!(runs > 10, "only {runs} interleavings: the model does not interleave");
}

#[test]
fn two_writers_fill_and_switch_and_nothing_is_lost_or_torn() {
    explore(PREEMPTIONS, || {
        let (engine, queue) = engine(Mode::Streaming, OnFull::Drop);
        let other = Arc::clone(&engine);
        let writer = thread::spawn(move || {
            write(&mut other.rolling(), 10).and_then(|()| write(&mut other.rolling(), 11))
        });
        assert_eq!(write(&mut engine.rolling(), 20), Ok(()));
        assert_eq!(write(&mut engine.rolling(), 21), Ok(()));
        assert_eq!(writer.join().unwrap(), Ok(()));
        let mut saved = save(&engine, queue.take());
        saved.extend(save(&engine, engine.finish()));
        let of = |ten: u64| saved.iter().copied().filter(move |number| number / 10 == ten);
        assert_eq!(of(1).collect::<Vec<_>>(), [10, 11]);
        assert_eq!(of(2).collect::<Vec<_>>(), [20, 21]);
        assert_eq!(saved.len(), 4);
    });
}

#[test]
fn a_record_is_saved_or_counted_while_buffers_are_given_back() {
    explore(PREEMPTIONS, || {
        let (engine, queue) = engine(Mode::Streaming, OnFull::Drop);
        let (saved_engine, saved_queue) = (Arc::clone(&engine), Arc::clone(&queue));
        let saver = thread::spawn(move || save(&saved_engine, saved_queue.wait()));
        let written: Vec<u64> =
            (0..5).filter(|&number| write(&mut engine.rolling(), number).is_ok()).collect();
        let mut saved = saver.join().unwrap();
        saved.extend(save(&engine, queue.take()));
        saved.extend(save(&engine, engine.finish()));
        assert_eq!(saved, written);
        assert_eq!(engine.dropped(), 5 - written.len() as u64);
    });
}

#[test]
fn a_blocked_writer_is_woken_by_the_saver() {
    explore(PREEMPTIONS, || {
        let (engine, queue) = engine(Mode::Streaming, OnFull::Block);
        let (saved_engine, saved_queue) = (Arc::clone(&engine), Arc::clone(&queue));
        let saver = thread::spawn(move || save(&saved_engine, saved_queue.wait()));
        for number in 0..5 {
            assert_eq!(write(&mut engine.rolling(), number), Ok(()));
        }
        let mut saved = saver.join().unwrap();
        saved.extend(save(&engine, queue.take()));
        saved.extend(save(&engine, engine.finish()));
        assert_eq!(saved, [0, 1, 2, 3, 4]);
    });
}

#[test]
fn a_blocked_writer_is_woken_by_stopping() {
    explore(PREEMPTIONS, || {
        let (engine, _queue) = engine(Mode::Streaming, OnFull::Block);
        let other = Arc::clone(&engine);
        let writer = thread::spawn(move || {
            (0..5).try_for_each(|number| write(&mut other.rolling(), number))
        });
        engine.stop();
        assert_eq!(writer.join().unwrap(), Err(Full::Stopped));
        assert_eq!(engine.dropped(), 0);
    });
}

#[test]
fn finishing_waits_for_records_that_are_being_written() {
    explore(PREEMPTIONS, || {
        let (engine, queue) = engine(Mode::Streaming, OnFull::Drop);
        let other = Arc::clone(&engine);
        let writer = thread::spawn(move || {
            (0..3).take_while(|&number| write(&mut other.rolling(), number).is_ok()).count()
        });
        let last = engine.finish();
        let mut saved = save(&engine, queue.take());
        saved.extend(save(&engine, last));
        let written = writer.join().unwrap() as u64;
        assert_eq!(saved, (0..written).collect::<Vec<_>>());
    });
}

#[test]
fn a_straggler_is_saved_or_counted_and_never_seen_half_written() {
    explore(PREEMPTIONS, || {
        let (engine, queue) = engine(Mode::Streaming, OnFull::Drop);
        let other = Arc::clone(&engine);
        let straggler = thread::spawn(move || write(&mut other.rolling(), 7));
        let flushed = engine.flush();
        engine.abandon_stragglers();
        let mut saved = save(&engine, queue.take());
        // Its buffer may be reused while it is still writing.
        assert_eq!(write(&mut engine.rolling(), 8), Ok(()));
        engine.flush();
        saved.extend(save(&engine, queue.take()));
        assert_eq!(write(&mut engine.rolling(), 9), Ok(()));
        let written = straggler.join().unwrap();
        saved.extend(save(&engine, queue.take()));
        saved.extend(save(&engine, engine.finish()));
        assert_eq!(written, Ok(()));
        let found = saved.iter().filter(|&&number| number == 7).count() as u64;
        assert_eq!(found + engine.dropped(), 1);
        assert!(flushed || engine.dropped() == 0);
        assert!(saved.contains(&8) && saved.contains(&9));
    });
}

#[test]
fn a_durable_record_is_saved_before_the_rolling_record_that_follows_it() {
    explore(PREEMPTIONS, || {
        let (engine, queue) = engine(Mode::Streaming, OnFull::Drop);
        let other = Arc::clone(&engine);
        let writer = thread::spawn(move || {
            write(&mut other.durable(), 1).and_then(|()| write(&mut other.rolling(), 2))
        });
        engine.flush();
        let mut saved = save(&engine, queue.take());
        assert_eq!(writer.join().unwrap(), Ok(()));
        saved.extend(save(&engine, queue.take()));
        saved.extend(save(&engine, engine.finish()));
        assert_eq!(saved, [1, 2]);
    });
}

#[test]
fn a_full_durable_part_makes_room_by_handing_over_early() {
    explore(PREEMPTIONS, || {
        let (engine, queue) = engine(Mode::Streaming, OnFull::Block);
        let (saved_engine, saved_queue) = (Arc::clone(&engine), Arc::clone(&queue));
        let saver = thread::spawn(move || save(&saved_engine, saved_queue.wait()));
        assert_eq!(write(&mut engine.rolling(), 0), Ok(()));
        for number in 1..4 {
            assert_eq!(write(&mut engine.durable(), number), Ok(()));
        }
        let mut saved = saver.join().unwrap();
        saved.extend(save(&engine, queue.take()));
        saved.extend(save(&engine, engine.finish()));
        assert_eq!(saved, [1, 2, 0, 3]);
    });
}

#[test]
fn circular_writers_overwrite_only_what_is_complete() {
    explore(PREEMPTIONS, || {
        let (engine, _queue) = engine(Mode::Circular, OnFull::Block);
        let other = Arc::clone(&engine);
        let writer = thread::spawn(move || {
            (10..13).for_each(|number| assert_eq!(write(&mut other.rolling(), number), Ok(())));
        });
        (20..22).for_each(|number| assert_eq!(write(&mut engine.rolling(), number), Ok(())));
        writer.join().unwrap();
        let saved = save(&engine, engine.finish());
        // Five records: the first buffer was overwritten by the last one.
        assert_eq!(saved.len(), 3);
        for ten in [1, 2] {
            assert!(saved.iter().filter(|&number| number / 10 == ten).is_sorted());
        }
    });
}

/// The word of the header by which a reader in another process holds writers.
const HELD: usize = 12;

#[test]
fn while_a_reader_holds_writers_at_most_the_reuse_that_had_begun_is_finished() {
    explore(PREEMPTIONS, || {
        let (engine, _queue) = engine(Mode::Circular, OnFull::Drop);
        (0..4).for_each(|number| assert_eq!(write(&mut engine.rolling(), number), Ok(())));
        let memory = Arc::clone(&engine);
        let writer = thread::spawn(move || {
            // Each pair takes a buffer that is full.
            let written = (4..10).filter(|&number| write(&mut engine.rolling(), number).is_ok());
            (written.count() as u64, engine.dropped())
        });
        let wrapped = || memory.load(1) >> 32;
        memory.exchange(HELD, 1);
        let (first, last) = (wrapped(), wrapped());
        memory.exchange(HELD, 0);
        assert!(last - first <= 1, "{first} and {last}");
        let (written, dropped) = writer.join().unwrap();
        assert_eq!(written + dropped, 6);
    });
}

#[test]
fn a_snapshot_of_circular_buffers_always_comes_whole() {
    // A reader reads each word of the header and of both buffers, and may see an old or a new value of each. With two preemptions or a
    // second record, this takes too long.
    explore(1, || {
        let (engine, _queue) = engine(Mode::Circular, OnFull::Drop);
        (0..4).for_each(|number| assert_eq!(write(&mut engine.rolling(), number), Ok(())));
        let memory = Arc::clone(&engine);
        let writer = thread::spawn(move || {
            let written = (4..5).filter(|&number| write(&mut engine.rolling(), number).is_ok());
            (written.count() as u64, engine.dropped())
        });
        let remote = Remote::new(Arc::clone(&memory), Mode::Circular).expect("a size in range");
        let piece = remote.view(&mut |_| true).expect("its writers keep to the protocol");
        assert_eq!((piece.tally.torn, piece.tally.cut_bytes), (0, 0));
        // Both buffers, or one and part of the other, without gaps in the sequence.
        let found = numbers(&piece.rolling);
        let first = found.first().copied().expect("one buffer is full at any time");
        assert_eq!(found, (first..first + found.len() as u64).collect::<Vec<_>>());
        assert!(found.len() >= 2, "{found:?}");
        let (written, dropped) = writer.join().unwrap();
        assert_eq!(written + dropped, 1);
        // Writers are released again.
        assert_eq!(memory.load(HELD), 0);
        assert_eq!(write(&mut memory.rolling(), 8), Ok(()));
    });
}

#[test]
fn a_batch_gives_back_only_what_nobody_has_passed() {
    explore(PREEMPTIONS, || {
        // 10 words in a buffer, of which a batch takes 5.
        let (engine, queue) = engine_of(352, Mode::Streaming, OnFull::Drop);
        let other = Arc::clone(&engine);
        let writer = thread::spawn(move || write(&mut other.rolling(), 1));
        let mut batch = engine.rolling().batch();
        assert_eq!(write(&mut batch, 2), Ok(()));
        drop(batch);
        assert_eq!(writer.join().unwrap(), Ok(()));
        assert_eq!(write(&mut engine.rolling(), 3), Ok(()));
        let mut saved = save(&engine, queue.take());
        saved.extend(save(&engine, engine.finish()));
        saved.sort_unstable();
        assert_eq!(saved, [1, 2, 3]);
    });
}

/// Writes the record through a lease, with a number other than 0; returns whether
/// it is in the buffer.
fn write_leased(lease: &Lease, number: u64) -> bool {
    lease.write(&Initialization { ticks_per_second: number }).is_ok()
}

/// An engine with 10 words in a buffer; a thread's first record is reserved
/// separately, and its next ones go into pieces of 5 words.
fn lending_engine() -> (Arc<Engine>, Arc<Queue>) {
    let (engine, queue) = engine_of(352, Mode::Streaming, OnFull::Drop);
    assert!(engine.lend());
    (engine, queue)
}

#[test]
fn a_lease_is_taken_back_from_a_thread_that_writes_and_from_one_that_does_not() {
    explore(PREEMPTIONS, || {
        let (engine, queue) = lending_engine();
        let other = Arc::clone(&engine);
        let writer = thread::spawn(move || {
            let lease = other.lease();
            (10..13).filter(|&number| write_leased(&lease, number)).collect::<Vec<_>>()
        });
        engine.flush();
        let mut saved = save(&engine, queue.take());
        let written = writer.join().unwrap();
        engine.flush();
        saved.extend(save(&engine, queue.take()));
        saved.extend(save(&engine, engine.finish()));
        assert_eq!(saved, written);
        assert_eq!(engine.dropped(), 3 - written.len() as u64);
    });
}

#[test]
fn stopping_ends_a_lease_and_what_was_written_in_it_is_saved() {
    explore(PREEMPTIONS, || {
        let (engine, queue) = lending_engine();
        let other = Arc::clone(&engine);
        let writer = thread::spawn(move || {
            let lease = other.lease();
            (1..4).take_while(|&number| write_leased(&lease, number)).count() as u64
        });
        let last = engine.finish();
        let mut saved = save(&engine, queue.take());
        saved.extend(save(&engine, last));
        let written = writer.join().unwrap();
        assert_eq!(saved, (1..=written).collect::<Vec<_>>());
    });
}

#[test]
fn a_straggler_in_a_lease_is_saved_or_counted_once() {
    explore(PREEMPTIONS, || {
        let (engine, queue) = lending_engine();
        let lease_engine = Arc::clone(&engine);
        let straggler = thread::spawn(move || {
            let lease = lease_engine.lease();
            (70..73).filter(|&number| write_leased(&lease, number)).count() as u64
        });
        engine.flush();
        engine.abandon_stragglers();
        let mut saved = save(&engine, queue.take());
        let written = straggler.join().unwrap();
        engine.flush();
        saved.extend(save(&engine, queue.take()));
        saved.extend(save(&engine, engine.finish()));
        let whole = saved.iter().filter(|&&number| number / 10 == 7).count();
        assert_eq!(whole, saved.len());
        assert!(saved.is_sorted());
        // A record that its writer considered written may have been abandoned, and was counted then.
        assert!(saved.len() as u64 <= written);
        assert_eq!(saved.len() as u64 + engine.dropped(), 3);
    });
}
