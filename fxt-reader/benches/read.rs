//! Reading speed for a trace of two million scheduling records, compared with a
//! plain scan of the same bytes as 64-bit words in the same run.
//!
//! `cargo bench -p fxt-reader` prints bytes per second; README.md in this
//! directory has a dated table.

use std::fs::File;
use std::hint::black_box;
use std::io::Write;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use fxt_reader::{Item, Reader, Record, Visitor};
use fxt_writer::record::{
    ContextSwitch, Initialization, Magic, ProviderInfo, Record as _, StringRecord, ThreadState,
    Wakeup,
};
use fxt_writer::{Arg, Koid, ProviderId, StringRef, Text, Ticks, Value};

const RECORDS: u64 = 2_000_000;

/// Context switches with both weights, and a wakeup for every third of them, as
/// fxtrec writes them.
fn trace() -> Vec<u8> {
    let mut bytes = Vec::new();
    let write = |error: bool| assert!(!error, "memory has room, and the record is sound");
    let index = |index| StringRef::indexed(index).expect("in range");
    write(Magic.write(&mut bytes).is_err());
    write(ProviderInfo { id: ProviderId(1), name: "bench" }.write(&mut bytes).is_err());
    write(Initialization { ticks_per_second: 1_000_000_000 }.write(&mut bytes).is_err());
    for (at, content) in (1..).zip(["incoming_weight", "outgoing_weight", "weight"]) {
        write(StringRecord { index: index(at), content }.write(&mut bytes).is_err());
    }
    let weight = |at, value| Arg::new(Text::Indexed(index(at)), Value::Int32(value));
    for at in 0..RECORDS {
        let time = Ticks(at * 1500);
        if at % 4 == 3 {
            let record =
                Wakeup { cpu: 1, time, thread: Koid(1000 + at % 50), args: &[weight(3, 1024)] };
            write(record.write(&mut bytes).is_err());
        } else {
            let record = ContextSwitch {
                cpu: 1,
                time,
                outgoing: Koid(1000 + at % 50),
                incoming: Koid(1000 + (at + 1) % 50),
                outgoing_state: ThreadState::Blocked,
                args: &[weight(1, 1024), weight(2, i32::MIN)],
            };
            write(record.write(&mut bytes).is_err());
        }
    }
    bytes
}

/// The same trace with the other byte order: all words except those of strings are swapped.
fn big_endian(little: &[u8]) -> Vec<u8> {
    const METADATA: u64 = 0;
    const PROVIDER_INFO: u64 = 1;
    const STRING: u64 = 2;
    let (words, _) = little.as_chunks::<8>();
    let mut big = Vec::with_capacity(little.len());
    let mut at = 0;
    while at < words.len() {
        let header = u64::from_le_bytes(words[at]);
        let (kind, size) = (header & 0xf, (header >> 4 & 0xfff) as usize);
        let is_text = kind == STRING || (kind == METADATA && header >> 16 & 0xf == PROVIDER_INFO);
        for (index, word) in words[at..at + size].iter().enumerate() {
            let mut word = *word;
            if index == 0 || !is_text {
                word.reverse();
            }
            big.extend(word);
        }
        at += size;
    }
    big
}

/// Uses the fields that an analysis of the scheduler uses.
fn read(mut reader: Reader<'_>) -> u64 {
    let mut sum = 0_u64;
    while let Some(item) = reader.next().expect("a sound trace") {
        sum = match item.record {
            Record::ContextSwitch(switch) => sum
                .wrapping_add(switch.time.0 ^ switch.outgoing.0 ^ switch.incoming.0)
                .wrapping_add(u64::from(switch.cpu.0)),
            Record::Wakeup(wakeup) => sum.wrapping_add(wakeup.time.0 ^ wakeup.koid.0),
            _ => sum,
        };
    }
    sum
}

/// The sum that [`read`] computes, in one pass over all records.
#[derive(Default)]
struct Sum(u64);

impl Visitor for Sum {
    #[inline(always)]
    fn visit(&mut self, item: &Item<'_>) -> bool {
        let Sum(sum) = *self;
        self.0 = match &item.record {
            Record::ContextSwitch(switch) => sum
                .wrapping_add(switch.time.0 ^ switch.outgoing.0 ^ switch.incoming.0)
                .wrapping_add(u64::from(switch.cpu.0)),
            Record::Wakeup(wakeup) => sum.wrapping_add(wakeup.time.0 ^ wakeup.koid.0),
            _ => sum,
        };
        true
    }
}

fn pass(mut reader: Reader<'_>) -> u64 {
    let mut sum = Sum::default();
    while !reader.show_all(&mut sum).expect("a sound trace") {}
    sum.0
}

/// The same, but looks up both weights by their names.
fn read_weights(mut reader: Reader<'_>) -> u64 {
    let mut sum = 0_u64;
    while let Some(item) = reader.next().expect("a sound trace") {
        if let Record::ContextSwitch(switch) = item.record {
            let weights = (switch.incoming_weight(), switch.outgoing_weight());
            sum = sum.wrapping_add(u64::from(weights.0 == weights.1) ^ switch.time.0);
        }
    }
    sum
}

fn scan(bytes: &[u8]) -> u64 {
    let (words, _) = bytes.as_chunks();
    words.iter().fold(0, |sum: u64, &word| sum.wrapping_add(u64::from_le_bytes(word)))
}

fn benchmark(criterion: &mut Criterion) {
    let bytes = trace();
    let mut file = tempfile::NamedTempFile::new().expect("a place for the trace");
    file.write_all(&bytes).expect("room for the trace");

    let mut group = criterion.benchmark_group("two_million_scheduling_records");
    group.throughput(Throughput::Bytes(bytes.len() as u64)).sample_size(20);
    group.bench_function("scan_words", |bencher| {
        bencher.iter(|| scan(black_box(&bytes)));
    });
    group.bench_function("slice", |bencher| {
        bencher.iter(|| read(Reader::from_slice(black_box(&bytes))));
    });
    group.bench_function("slice_with_weights", |bencher| {
        bencher.iter(|| read_weights(Reader::from_slice(black_box(&bytes))));
    });
    let swapped = big_endian(&bytes);
    assert_eq!(read(Reader::from_slice(&swapped)), read(Reader::from_slice(&bytes)));
    group.bench_function("slice_big_endian", |bencher| {
        bencher.iter(|| read(Reader::from_slice(black_box(&swapped))));
    });
    group.bench_function("pass", |bencher| {
        bencher.iter(|| pass(Reader::from_slice(black_box(&bytes))));
    });
    group.bench_function("pass_big_endian", |bencher| {
        bencher.iter(|| pass(Reader::from_slice(black_box(&swapped))));
    });
    group.bench_function("file", |bencher| {
        bencher.iter(|| read(Reader::new(File::open(file.path()).expect("it is there"))));
    });
    group.finish();
}

criterion_group!(benches, benchmark);
criterion_main!(benches);
