//! The cost of encoding a context switch with two weights: discarded, into
//! memory, and into the engine from one and from many threads, compared with a
//! memcpy of the same bytes.
//!
//! ```sh
//! cargo bench -p fxt-writer --bench encode
//! ```

use std::hint::black_box;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Barrier, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use fxt_writer::engine::{Config, Engine, Lease, Mode, OnFull};
use fxt_writer::packet::Packet;
use fxt_writer::record::{ContextSwitch, Record, ThreadState};
use fxt_writer::space::BlackHole;
use fxt_writer::{Arg, Koid, Space, StringRef, Text, Ticks, Value};

/// Words in the record: 4 and two arguments.
const RECORD_WORDS: usize = 6;
const RECORD_BYTES: u64 = 8 * RECORD_WORDS as u64;
/// The memory that all memory targets cycle through: the engine's default size.
const MEMORY_BYTES: usize = 8 << 20;

/// The refs of the weights' names: values known at run time only.
fn names() -> [StringRef; 2] {
    black_box([1, 2].map(|index| StringRef::indexed(index).expect("in range")))
}

#[inline(always)]
fn switch<S: Space>(space: &mut S, number: u64, names: [StringRef; 2]) -> bool {
    with_switch(number, names, |switch| switch.write(space).is_ok())
}

#[inline(always)]
fn with_switch(
    number: u64,
    names: [StringRef; 2],
    write: impl FnOnce(&ContextSwitch<[Arg<'_>; 2]>) -> bool,
) -> bool {
    let [incoming, outgoing] = names.map(Text::Indexed);
    write(&ContextSwitch {
        cpu: (number & 1) as u16,
        time: Ticks(number),
        outgoing: Koid(number),
        incoming: Koid(number + 1),
        outgoing_state: ThreadState::Blocked,
        args: [
            Arg::new(incoming, Value::Int32(number as i32)),
            Arg::new(outgoing, Value::Int32(1024)),
        ],
    })
}

/// Writes `count` records; false if any was rejected.
fn fill<S: Space>(space: &mut S, count: u64, names: [StringRef; 2]) -> bool {
    let mut whole = true;
    for number in 0..count {
        whole &= switch(space, number, names);
    }
    whole
}

fn fill_lease(lease: &Lease, count: u64, names: [StringRef; 2]) -> bool {
    let mut whole = true;
    for number in 0..count {
        whole &= with_switch(number, names, |switch| lease.write(switch).is_ok());
    }
    lease.give_back();
    whole
}

/// Copies a record of the same size into memory of the same size.
fn memcpy(iterations: u64) -> Duration {
    let mut memory = vec![0_u64; MEMORY_BYTES / 8];
    let mut at = 0;
    let mut record = [0_u64; RECORD_WORDS];
    let start = Instant::now();
    for number in 0..iterations {
        record[1] = number;
        let source = black_box(&record);
        if at + RECORD_WORDS > memory.len() {
            at = 0;
        }
        memory[at..at + RECORD_WORDS].copy_from_slice(source);
        at += RECORD_WORDS;
    }
    black_box(&mut memory);
    start.elapsed()
}

/// How a thread writes its records.
#[derive(Clone, Copy)]
enum Lane {
    /// One reservation per record.
    Single,
    /// One reservation for many records, which become visible when it is closed.
    Batch,
    /// One reservation for many records, each visible at once.
    Lease,
}

/// Encodes `iterations` records with each of `threads` threads into one
/// streaming engine whose buffers are given back as soon as they are full.
fn streaming(lane: Lane, threads: usize, iterations: u64) -> Duration {
    let (packets, inbox) = mpsc::channel::<Option<Packet>>();
    let done = packets.clone();
    let config = Config {
        mode: Mode::Streaming,
        bytes: MEMORY_BYTES,
        on_full: OnFull::Block,
        ..Config::default()
    };
    let engine = Engine::new(config, move |packet| packets.send(Some(packet)).unwrap_or(()))
        .expect("a size in range");
    engine.lend();
    let saver = thread::spawn({
        let engine = Arc::clone(&engine);
        move || {
            for packet in inbox.iter().map_while(|packet| packet) {
                engine.saved(packet).expect("a waiting buffer");
            }
        }
    });
    let barrier = Barrier::new(threads + 1);
    let failed = AtomicBool::new(false);
    let elapsed = thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                let names = names();
                barrier.wait();
                let whole = match lane {
                    Lane::Single => fill(&mut engine.rolling(), iterations, names),
                    Lane::Batch => fill(&mut engine.rolling().batch(), iterations, names),
                    Lane::Lease => fill_lease(&engine.lease(), iterations, names),
                };
                failed.fetch_or(!whole, Ordering::Relaxed);
                barrier.wait();
            });
        }
        barrier.wait();
        let start = Instant::now();
        barrier.wait();
        start.elapsed()
    });
    assert!(!failed.into_inner(), "a blocking engine loses nothing");
    done.send(None).expect("a live saver");
    saver.join().expect("the saver saved all");
    elapsed
}

fn encode(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("context_switch_two_weights");
    group.throughput(Throughput::Bytes(RECORD_BYTES));
    group.bench_function("memcpy", |bencher| bencher.iter_custom(memcpy));
    group.bench_function("black_hole", |bencher| {
        let (mut hole, mut number, names) = (BlackHole::default(), 0, names());
        bencher.iter(|| {
            number += 1;
            switch(&mut hole, number, names)
        });
    });
    group.bench_function("vec_u64", |bencher| {
        let (mut words, mut number, names) = (Vec::new(), 0, names());
        bencher.iter(|| {
            number += 1;
            if words.len() > MEMORY_BYTES / 8 {
                words.clear();
            }
            switch::<Vec<u64>>(&mut words, number, names)
        });
    });
    let cores = thread::available_parallelism().map_or(1, usize::from);
    let lanes = [
        ("engine_single", Lane::Single),
        ("engine_batch", Lane::Batch),
        ("engine_lease", Lane::Lease),
    ];
    for (name, lane) in lanes {
        for threads in [1, cores, 4 * cores] {
            group.throughput(Throughput::Bytes(RECORD_BYTES * threads as u64));
            group.bench_function(BenchmarkId::new(name, threads), |bencher| {
                bencher.iter_custom(|iterations| streaming(lane, threads, iterations));
            });
        }
    }
    group.finish();
}

criterion_group!(benches, encode);
criterion_main!(benches);
