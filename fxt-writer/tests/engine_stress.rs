//! Many more threads than CPUs, buffers of a few records, and a checker that every
//! record is whole, in order per thread, and written exactly once or counted as
//! dropped. `scripts/check-engine` also runs this under AddressSanitizer, and
//! under valgrind, shortened by `FXT_STRESS_RECORDS`.
#![cfg(not(loom))]

mod common;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use common::{Saver, numbers, records, string_indices, string_record};
use fxt_writer::engine::{Config, Engine, Full, Lease, Mode, OnFull};
use fxt_writer::layout::{header, record_type, thread as thread_record};
use fxt_writer::record::Record;
use fxt_writer::{EncodeError, Slot, Space};

const THREADS_PER_CPU: usize = 4;

fn threads() -> u64 {
    let cpus = thread::available_parallelism().map_or(1, usize::from);
    (cpus * THREADS_PER_CPU) as u64
}

/// Records that each thread writes.
fn records_per_thread() -> u64 {
    let asked = std::env::var("FXT_STRESS_RECORDS").ok();
    asked.map_or(5_000, |count| count.parse().expect("FXT_STRESS_RECORDS is a number"))
}

/// A record of 3 to 9 words: the writer, the number, and words that follow from both, so that a torn or foreign word is detected.
fn write(space: &mut impl Space<Full = Full>, writer: u64, number: u64) -> Result<(), Full> {
    let words = 3 + number % 7;
    let mut slot = space.reserve(words as usize)?;
    slot.put(writer);
    slot.put(number);
    (3..words).for_each(|at| slot.put(check_word(writer, number, at)));
    let record = thread_record::TYPE.put(record_type::THREAD) | thread_record::SIZE.put(words);
    slot.finish(record | thread_record::INDEX.put(1));
    Ok(())
}

fn check_word(writer: u64, number: u64, at: u64) -> u64 {
    (writer << 48 | at << 40 | number) ^ 0xa5a5_a5a5_a5a5_a5a5
}

/// Checks every record of the output, and returns how many each writer has there.
fn check(output: &[u64]) -> BTreeMap<u64, u64> {
    let mut next: BTreeMap<u64, u64> = BTreeMap::new();
    let mut counts = BTreeMap::new();
    for record in records(output) {
        if header::TYPE.get(record[0]) != record_type::THREAD {
            continue;
        }
        let (writer, number) = (record[1], record[2]);
        assert_eq!(record.len() as u64, 3 + number % 7);
        for (at, &word) in (3..).zip(&record[3..]) {
            assert_eq!(word, check_word(writer, number, at), "word {at} of {number} is torn");
        }
        let next = next.entry(writer).or_default();
        assert!(number >= *next, "{number} of writer {writer} is twice or out of order");
        *next = number + 1;
        *counts.entry(writer).or_default() += 1;
    }
    counts
}

fn config(on_full: OnFull) -> Config {
    // On an overloaded machine, a thread may be off the CPU in the middle of a record for more than the default second.
    let grace = Duration::from_secs(120);
    Config { mode: Mode::Streaming, bytes: 1024, on_full, grace }
}

/// Calls `write` from every thread, and returns how many calls were rejected.
fn run(engine: &Engine, write: impl Fn(&Engine, u64, u64) -> bool + Sync) -> u64 {
    let (per_thread, write) = (records_per_thread(), &write);
    thread::scope(|scope| {
        let writers: Vec<_> = (0..threads())
            .map(|writer| {
                scope.spawn(move || {
                    (0..per_thread).filter(|&number| !write(engine, writer, number)).count() as u64
                })
            })
            .collect();
        writers.into_iter().map(|writer| writer.join().expect("no writer panics")).sum()
    })
}

#[test]
fn blocking_writers_lose_nothing() {
    let (engine, saver) = Saver::start(config(OnFull::Block));
    let refused =
        run(&engine, |engine, writer, number| write(&mut engine.rolling(), writer, number).is_ok());
    let counts = check(&saver.finish(&engine));
    assert_eq!((refused, engine.dropped()), (0, 0));
    assert_eq!(counts.len() as u64, threads());
    assert!(counts.values().all(|&count| count == records_per_thread()));
}

#[test]
fn dropping_writers_count_what_they_lose() {
    let (engine, saver) = Saver::start(config(OnFull::Drop));
    let refused =
        run(&engine, |engine, writer, number| write(&mut engine.rolling(), writer, number).is_ok());
    let counts = check(&saver.finish(&engine));
    assert_eq!(refused, engine.dropped());
    assert_eq!(counts.values().sum::<u64>() + refused, threads() * records_per_thread());
}

#[test]
fn batches_lose_nothing_and_keep_their_order() {
    let (engine, saver) = Saver::start(Config { bytes: 8 << 10, ..config(OnFull::Block) });
    let refused = run(&engine, |engine, writer, number| {
        let mut batch = engine.rolling().batch();
        let whole = (0..4).all(|at| write(&mut batch, writer, 4 * number + at).is_ok());
        // Half of the batches are closed with unused room, which other threads can use.
        whole && (number % 2 == 0 || write(&mut batch, threads() + writer, number).is_ok())
    });
    let counts = check(&saver.finish(&engine));
    assert_eq!((refused, engine.dropped()), (0, 0));
    let own = counts.range(..threads());
    assert!(own.into_iter().all(|(_, &count)| count == 4 * records_per_thread()));
}

#[test]
fn withdrawn_records_are_counted_and_leave_fillers() {
    let (engine, saver) = Saver::start(config(OnFull::Block));
    run(&engine, |engine, writer, number| {
        if number % 3 == 0 {
            let mut slot = engine.rolling().reserve(5).expect("room comes back");
            slot.put(u64::MAX);
            drop(slot);
        }
        write(&mut engine.rolling(), writer, number).is_ok()
    });
    let output = saver.finish(&engine);
    let withdrawn = threads() * records_per_thread().div_ceil(3);
    assert_eq!(engine.dropped(), withdrawn);
    assert_eq!(string_indices(&output).len() as u64, withdrawn);
    assert!(check(&output).values().all(|&count| count == records_per_thread()));
}

#[test]
fn durable_records_of_all_threads_come_first_and_are_never_lost() {
    let (engine, saver) = Saver::start(config(OnFull::Block));
    run(&engine, |engine, writer, number| {
        let index = u16::try_from(1 + writer).expect("few threads");
        let named = number % 8 != 0 || string_record(index).write(&mut engine.durable()).is_ok();
        named && write(&mut engine.rolling(), writer, number).is_ok()
    });
    let output = saver.finish(&engine);
    // Each number is preceded by as many names of its writer as were written.
    let mut names = vec![0_u64; threads() as usize + 1];
    for record in records(&output) {
        match header::TYPE.get(record[0]) {
            record_type::STRING => names[string_indices(record)[0] as usize] += 1,
            _ => assert!(names[1 + record[1] as usize] > record[2] / 8, "a name is late"),
        }
    }
    assert!(names[1..].iter().all(|&count| count == records_per_thread().div_ceil(8)));
    assert_eq!(engine.dropped(), 0);
}

/// Asserts that a circular buffer has room for exactly one more record.
fn assert_newest_is_there(engine: &Engine, saver: Saver) {
    write(&mut engine.rolling(), threads(), 0).expect("the older buffer is overwritten");
    let output = saver.finish(engine);
    let counts = check(&output);
    assert_eq!(counts.get(&threads()), Some(&1));
    assert_eq!(numbers(&output).last(), Some(&(threads(), 0)));
    assert_eq!(engine.dropped(), 0);
}

#[test]
fn circular_writers_leave_whole_records_and_the_newest() {
    let (engine, saver) = Saver::start(Config { mode: Mode::Circular, ..config(OnFull::Block) });
    run(&engine, |engine, writer, number| write(&mut engine.rolling(), writer, number).is_ok());
    assert_newest_is_there(&engine, saver);
}

#[test]
fn writers_that_are_given_up_cost_their_own_records_only() {
    let grace = Duration::ZERO;
    let (engine, saver) = Saver::start(Config { grace, ..config(OnFull::Block) });
    let stop = Arc::new(AtomicBool::new(false));
    // Without a grace period, any slow writer may be abandoned at any time.
    let hurry = thread::spawn({
        let (engine, stop) = (Arc::clone(&engine), Arc::clone(&stop));
        move || {
            while !stop.load(Ordering::Relaxed) {
                engine.flush();
                engine.abandon_stragglers();
                thread::yield_now();
            }
        }
    });
    let refused = run(&engine, |engine, writer, number| {
        write(&mut engine.rolling(), writer, number) != Err(Full::Stopped)
    });
    stop.store(true, Ordering::Relaxed);
    hurry.join().expect("no panic");
    let counts = check(&saver.finish(&engine));
    assert_eq!(refused, 0);
    let found = counts.values().sum::<u64>();
    let asked = threads() * records_per_thread();
    let dropped = engine.dropped();
    // Neighbours that are abandoned before they claimed their room count as one.
    assert!(found + dropped <= asked, "{found} and {dropped} dropped of {asked}");
    assert!(found == asked || dropped > 0);
}

#[test]
fn stopping_in_the_middle_loses_nothing_that_was_accepted() {
    let (engine, saver) = Saver::start(config(OnFull::Block));
    // A record has 5.9 words on average, and a buffer 52.
    let switches = threads() * records_per_thread() * 5 / 52;
    let stopper = thread::spawn({
        let engine = Arc::clone(&engine);
        move || {
            // Half-way through, according to the switches that the header counts.
            let wrapped = || engine.header().map_or(0, |header| header.wrapped_count);
            while u64::from(wrapped()) < switches / 2 {
                thread::yield_now();
            }
            engine.stop();
        }
    });
    let refused = run(&engine, |engine, writer, number| {
        write(&mut engine.rolling(), writer, number) != Err(Full::Stopped)
    });
    stopper.join().expect("no panic");
    let counts = check(&saver.finish(&engine));
    assert_eq!(counts.values().sum::<u64>() + refused, threads() * records_per_thread());
    assert_eq!(engine.dropped(), 0);
}

/// The same record, written through a lease.
struct Checked {
    writer: u64,
    number: u64,
}

impl Record for Checked {
    fn words(&self) -> Result<usize, EncodeError> {
        Ok((3 + self.number % 7) as usize)
    }

    fn header(&self, words: usize) -> u64 {
        let size = thread_record::SIZE.put(words as u64);
        thread_record::TYPE.put(record_type::THREAD) | size | thread_record::INDEX.put(1)
    }

    fn body(&self, slot: &mut impl Slot) {
        slot.put(self.writer);
        slot.put(self.number);
        let words = 3 + self.number % 7;
        (3..words).for_each(|at| slot.put(check_word(self.writer, self.number, at)));
    }
}

/// The buffers are large enough for leases, so there are more records, too.
fn lending(on_full: OnFull) -> Config {
    Config { bytes: 80 << 10, ..config(on_full) }
}

const LEASED: u64 = 8;

/// Every thread writes with its own lease, while another thread keeps handing
/// buffers over; returns how many records were rejected.
fn run_leased(engine: &Arc<Engine>, mut hurry: impl FnMut(&Engine) + Send) -> u64 {
    assert!(engine.lend(), "this kernel has membarrier");
    let per_thread = LEASED * records_per_thread();
    let through = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !through.load(Ordering::Relaxed) {
                hurry(engine);
                thread::yield_now();
            }
        });
        let write =
            |lease: &Lease, writer, number| lease.write(&Checked { writer, number }).is_ok();
        let writers: Vec<_> = (0..threads())
            .map(|writer| {
                scope.spawn(move || {
                    let lease = engine.lease();
                    let refused = (0..per_thread).filter(|&number| !write(&lease, writer, number));
                    let refused = refused.count() as u64;
                    if writer % 2 == 0 {
                        lease.give_back();
                    }
                    refused
                })
            })
            .collect();
        // This comes before anything can fail: the scope waits for the thread that hurries.
        let written: Vec<_> = writers.into_iter().map(|writer| writer.join()).collect();
        through.store(true, Ordering::Relaxed);
        written.into_iter().map(|refused| refused.expect("no panic")).sum()
    })
}

#[test]
fn leases_lose_nothing_and_keep_their_order() {
    let (engine, saver) = Saver::start(lending(OnFull::Block));
    let refused = run_leased(&engine, |engine| {
        engine.flush();
    });
    let counts = check(&saver.finish(&engine));
    assert_eq!((refused, engine.dropped()), (0, 0));
    assert_eq!(counts.len() as u64, threads());
    assert!(counts.values().all(|&count| count == LEASED * records_per_thread()));
}

#[test]
fn leases_count_what_they_drop() {
    let (engine, saver) = Saver::start(lending(OnFull::Drop));
    let refused = run_leased(&engine, |_| ());
    let counts = check(&saver.finish(&engine));
    assert_eq!(refused, engine.dropped());
    assert_eq!(counts.values().sum::<u64>() + refused, LEASED * threads() * records_per_thread());
}

#[test]
fn leases_whose_threads_are_given_up_cost_their_own_records_only() {
    let (engine, saver) = Saver::start(Config { grace: Duration::ZERO, ..lending(OnFull::Block) });
    let refused = run_leased(&engine, |engine| {
        engine.flush();
        engine.abandon_stragglers();
    });
    let counts = check(&saver.finish(&engine));
    assert_eq!(refused, 0);
    let found = counts.values().sum::<u64>();
    let asked = LEASED * threads() * records_per_thread();
    let dropped = engine.dropped();
    // Neighbours that were reserved separately may count as one.
    assert!(found + dropped <= asked, "{found} and {dropped} dropped of {asked}");
    assert!(found == asked || dropped > 0);
}

#[test]
fn circular_leases_leave_whole_records_and_the_newest() {
    let (engine, saver) = Saver::start(Config { mode: Mode::Circular, ..lending(OnFull::Block) });
    let refused = run_leased(&engine, |_| ());
    assert_eq!(refused, 0);
    assert_newest_is_there(&engine, saver);
}
