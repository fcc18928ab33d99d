//! The cost of an event in the capture thread, step by step and in total: decode, merge, encode.
//!
//! ```sh
//! cargo bench -p fxtrec --bench capture
//! ```
//!
//! All figures are per event; switches and wakeups alternate.

mod synthetic;

use std::hint::black_box;

use criterion::{BatchSize, BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use fxtrec::capture::decode::{Shape, decode};
use fxtrec::capture::order::Merger;
use fxtrec::kernel::ftrace::page::Page;
use fxtrec::kernel::ring::RawRecord;
use fxtrec::units::{Cpu, Nanos};
use perf_event_open_sys::bindings::PERF_RECORD_SAMPLE;

/// Machines of this many CPUs.
const MACHINES: [u32; 3] = [2, 64, 256];

/// Events in one round of all CPUs together: as many as a busy machine produces between two reads of the rings.
const ROUND: u64 = 1 << 16;

fn decoding(c: &mut Criterion) {
    let mut group = c.benchmark_group("decode");
    let layout = synthetic::layout();
    let bodies: Vec<Vec<u8>> = (0..1024).map(|number| synthetic::sample(0, number)).collect();
    group.throughput(Throughput::Elements(bodies.len() as u64));
    let shape = Shape { namespace_ids: false, extras: None };
    group.bench_function("perf samples", |b| {
        b.iter(|| {
            for body in &bodies {
                let record = RawRecord { kind: PERF_RECORD_SAMPLE, misc: 0, body };
                black_box(decode(&layout, black_box(record), shape));
            }
        });
    });
    let (form, (page, events)) = (synthetic::pages(), synthetic::page(0, 0));
    group.throughput(Throughput::Elements(events));
    group.bench_function("ftrace page", |b| {
        b.iter(|| {
            let mut page = Page::new(&form, black_box(&page)).expect("a page");
            while let Some((time, raw)) = page.next_event() {
                black_box((time, layout.decode(raw)));
            }
        });
    });
    group.finish();
}

fn merging(c: &mut Criterion) {
    let mut group = c.benchmark_group("merge");
    for cpus in MACHINES {
        let each = ROUND / u64::from(cpus);
        group.throughput(Throughput::Elements(each * u64::from(cpus)));
        let events: Vec<Vec<_>> = (0..cpus)
            .map(|cpu| (0..each).map(|number| synthetic::event(cpu, number)).collect())
            .collect();
        let mut merger = Merger::new();
        let lanes: Vec<_> = (0..cpus).map(|cpu| merger.lane(Cpu(cpu))).collect();
        group.bench_function(BenchmarkId::from_parameter(format!("{cpus} CPUs")), |b| {
            b.iter(|| {
                for (lane, events) in lanes.iter().zip(&events) {
                    events.iter().for_each(|event| merger.push(*lane, *event));
                }
                merger.emit(Nanos(u64::MAX), |time, cpu, event, _| {
                    black_box((time, cpu, event));
                    true
                });
            });
        });
    }
    group.finish();
}

fn encoding(c: &mut Criterion) {
    let mut group = c.benchmark_group("encode");
    for cpus in MACHINES {
        let each = ROUND / u64::from(cpus);
        group.throughput(Throughput::Elements(each * u64::from(cpus)));
        // In the order in which the merger would pass them on.
        let events: Vec<_> = (0..each)
            .flat_map(|number| (0..cpus).map(move |cpu| (Cpu(cpu), synthetic::event(cpu, number))))
            .collect();
        let mut encoder = synthetic::encoder();
        group.bench_function(BenchmarkId::from_parameter(format!("{cpus} CPUs")), |b| {
            b.iter(|| {
                encoder.lanes().clear();
                for (cpu, event) in &events {
                    encoder.event(event.time, *cpu, event, &[]).expect("memory takes it");
                }
                black_box(encoder.lanes().len());
            });
        });
    }
    group.finish();
}

/// From pages to records: all the work of one capture thread.
fn whole(c: &mut Criterion) {
    let mut group = c.benchmark_group("one capture thread");
    group.sample_size(20);
    let (layout, form) = (synthetic::layout(), synthetic::pages());
    for cpus in MACHINES {
        let rounds = ROUND / u64::from(cpus);
        let mut events = 0;
        let pages: Vec<Vec<Vec<u8>>> = (0..cpus)
            .map(|cpu| {
                let mut next = 0;
                let mut pages = Vec::new();
                while next < rounds {
                    let (page, after) = synthetic::page(cpu, next);
                    pages.push(page);
                    next = after;
                }
                events += next;
                pages
            })
            .collect();
        group.throughput(Throughput::Elements(events));
        group.bench_function(BenchmarkId::from_parameter(format!("{cpus} CPUs")), |b| {
            b.iter_batched_ref(
                || {
                    let mut merger = Merger::new();
                    let lanes: Vec<_> = (0..cpus).map(|cpu| merger.lane(Cpu(cpu))).collect();
                    (merger, lanes, synthetic::encoder())
                },
                |(merger, lanes, encoder)| {
                    for (lane, pages) in lanes.iter().zip(&pages) {
                        for page in pages {
                            let mut page = Page::new(&form, page).expect("a page");
                            while let Some((time, raw)) = page.next_event() {
                                let kind = layout.decode(raw).expect("a known event");
                                merger.push(*lane, fxtrec::capture::event::Event { time, kind });
                            }
                        }
                    }
                    merger.emit(Nanos(u64::MAX), |time, cpu, event, _| {
                        encoder.event(time, cpu, event, &[]).is_ok()
                    });
                    black_box(encoder.lanes().len());
                },
                BatchSize::LargeInput,
            );
        });
    }
    group.finish();
}

criterion_group!(benches, decoding, merging, encoding, whole);
criterion_main!(benches);
