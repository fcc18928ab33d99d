//! How long the report of two million switches takes, beside a plain scan of the same bytes as
//! 64-bit words and the mere reading of its records, one by one and in a pass, in one run.
//!
//! `cargo bench -p fxtrec --bench report` prints the best of several passes of each, and what they
//! are in scans. The trace is made up: 200 threads on 4 CPUs that sleep, are woken and preempt each
//! other, as fxtrec writes them.

use std::collections::VecDeque;
use std::hint::black_box;
use std::io::Write;
use std::path::Path;
use std::time::{Duration, Instant};

use fxt_reader::{Item, Reader, Record, Visitor};
use fxt_writer::record::{
    ContextSwitch, Initialization, KernelObject, Magic, ObjectType, ProviderInfo, StringRecord,
    ThreadState, Wakeup,
};
use fxt_writer::{Arg, Koid, ProviderId, StringRef, Text, Ticks, Value};
use fxtrec::report::{Options, analyse};
use fxtrec::why::{Answer, Query, explain};

const SWITCHES: u64 = 2_000_000;
const CPUS: usize = 4;
const THREADS: u64 = 200;
const PASSES: usize = 12;

/// Numbers that look random, the same each time.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.0.rotate_left(24) % sides
    }
}

struct Machine {
    bytes: Vec<u8>,
    weights: [StringRef; 3],
}

impl Machine {
    fn put(&mut self, record: &impl fxt_writer::record::Record) {
        record.write(&mut self.bytes).expect("memory has room, and the record is sound");
    }

    fn weight(&self, at: usize, koid: u64) -> Arg<'static> {
        let value = if koid == 0 { i32::MIN } else { 1024 };
        Arg::new(Text::Indexed(self.weights[at]), Value::Int32(value))
    }

    fn switch(&mut self, time: u64, cpu: usize, out: u64, state: ThreadState, inn: u64) {
        let args = [self.weight(0, inn), self.weight(1, out)];
        self.put(&ContextSwitch {
            cpu: cpu as u16,
            time: Ticks(time),
            outgoing: Koid(out),
            incoming: Koid(inn),
            outgoing_state: state,
            args: &args,
        });
    }

    fn wake(&mut self, time: u64, cpu: usize, koid: u64) {
        let args = [self.weight(2, koid)];
        self.put(&Wakeup { cpu: cpu as u16, time: Ticks(time), thread: Koid(koid), args: &args });
    }
}

fn trace() -> Vec<u8> {
    let weights = [1, 2, 3].map(|index| StringRef::indexed(index).expect("in range"));
    let mut machine = Machine { bytes: Vec::new(), weights };
    machine.put(&Magic);
    machine.put(&ProviderInfo { id: ProviderId(1), name: "fxtrec" });
    machine.put(&Initialization { ticks_per_second: 1_000_000_000 });
    for (index, content) in
        weights.into_iter().zip(["incoming_weight", "outgoing_weight", "weight"])
    {
        machine.put(&StringRecord { index, content });
    }
    for thread in 1..=THREADS {
        let process = [Arg::new(Text::Inline("process"), Value::Koid(Koid(thread / 8 * 8)))];
        let name = format!("thread {thread}");
        machine.put(&KernelObject {
            kind: ObjectType::Thread,
            koid: Koid(thread),
            name: Text::Inline(&name),
            args: &process,
        });
    }
    let mut dice = Dice(1);
    let mut asleep: Vec<u64> = (1..=THREADS).collect();
    let mut queues: [VecDeque<u64>; CPUS] = Default::default();
    let mut current = [0_u64; CPUS];
    let (mut time, mut switches) = (1_000_000_000, 0);
    while switches < SWITCHES {
        time += 200 + dice.roll(3000);
        let cpu = dice.roll(CPUS as u64) as usize;
        // Woken by whoever runs, somewhere.
        if !asleep.is_empty() && dice.roll(100) < 55 {
            let thread = asleep.swap_remove(dice.roll(asleep.len() as u64) as usize);
            machine.wake(time, cpu, thread);
            queues[cpu].push_back(thread);
        }
        let out = current[cpu];
        let inn = queues[cpu].pop_front().unwrap_or(0);
        if inn == out {
            continue;
        }
        let preempted = out != 0 && inn != 0 && dice.roll(100) < 30;
        let state = if preempted || out == 0 { ThreadState::Running } else { ThreadState::Blocked };
        machine.switch(time + 100, cpu, out, state, inn);
        match out {
            0 => {}
            _ if preempted => queues[cpu].push_back(out),
            _ => asleep.push(out),
        }
        current[cpu] = inn;
        switches += 1;
    }
    machine.bytes
}

fn scan(bytes: &[u8]) -> u64 {
    let (words, _) = bytes.as_chunks();
    words.iter().fold(0, |sum: u64, &word| sum.wrapping_add(u64::from_le_bytes(word)))
}

fn read(bytes: &[u8]) -> u64 {
    let mut reader = Reader::from_slice(bytes);
    let mut switches = 0;
    while let Some(item) = reader.next().expect("a sound trace") {
        switches += u64::from(matches!(item.record, Record::ContextSwitch(_)));
    }
    switches
}

struct Switches(u64);

impl Visitor for Switches {
    #[inline(always)]
    fn visit(&mut self, item: &Item<'_>) -> bool {
        self.0 += u64::from(matches!(item.record, Record::ContextSwitch(_)));
        true
    }
}

fn show(bytes: &[u8]) -> u64 {
    let mut switches = Switches(0);
    Reader::from_slice(bytes).show_all(&mut switches).expect("a sound trace");
    switches.0
}

fn why(path: &Path, query: &Query) -> Answer {
    explain(query, || Reader::open(path), |_, _| None).expect("there is something to explain")
}

fn best<T>(mut work: impl FnMut() -> T) -> Duration {
    let pass = |_| {
        let begin = Instant::now();
        black_box(work());
        begin.elapsed()
    };
    (0..PASSES).map(pass).min().unwrap_or_default()
}

fn main() {
    let bytes = trace();
    let mut file = tempfile::NamedTempFile::new().expect("a place for the trace");
    file.write_all(&bytes).expect("room for the trace");
    assert_eq!([read(&bytes), show(&bytes)], [SWITCHES; 2]);
    let life = Query { thread: Some("7".to_owned()), life: true, ..Query::default() };
    let scanned = best(|| scan(black_box(&bytes)));
    let results = [
        ("scan of words", scanned),
        ("records, one by one", best(|| read(black_box(&bytes)))),
        ("records, in a pass", best(|| show(black_box(&bytes)))),
        ("report, from memory", best(|| analyse(Reader::from_slice(&bytes), Options::default()))),
        (
            "report, from a file",
            best(|| {
                let reader = Reader::open(file.path()).expect("it is there");
                analyse(reader, Options::default())
            }),
        ),
        ("why, the longest wait", best(|| why(file.path(), &Query::default()))),
        ("why, a thread's life", best(|| why(file.path(), &life))),
    ];
    println!("{SWITCHES} switches, {} bytes; best of {PASSES} passes", bytes.len());
    for (what, took) in results {
        let scans = took.as_secs_f64() / scanned.as_secs_f64();
        println!("{what:<22} {:>8.1} ms {scans:>6.1} scans", took.as_secs_f64() * 1e3);
    }
}
