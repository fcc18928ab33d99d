//! How long the report of two million switches takes, compared with a plain scan of the same bytes as 64-bit words and with reading its
//! records, one by one and in a pass, in one run.
//!
//! `cargo bench -p fxtrec --bench report` prints the best of several passes of each, and each time relative to the scan. The trace is
//! [generated](busy).

#[path = "lib/busy.rs"]
mod busy;

use std::hint::black_box;
use std::io::Write;
use std::path::Path;
use std::time::{Duration, Instant};

use busy::{SWITCHES, trace};
use fxt_reader::{Item, Reader, Record, Visitor};
use fxt_writer::record::{Event, EventKind};
use fxt_writer::{Koid, Text, ThreadName, Ticks};
use fxtrec::report::{Options, analyse};
use fxtrec::why::{Answer, Metric, Query, explain};

const PASSES: usize = 12;

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

/// A span of a thread that is as long as the trace, to be written after it.
fn span(trace: &[u8]) -> Vec<u8> {
    let mut times = Times(u64::MAX, 0);
    Reader::from_slice(trace).show_all(&mut times).expect("a sound trace");
    let mut bytes = Vec::new();
    let record = Event {
        kind: EventKind::DurationComplete { end: Ticks(times.1) },
        time: Ticks(times.0),
        thread: ThreadName::Inline { process: Koid(0), thread: Koid(7) },
        category: Text::Inline("app"),
        name: Text::Inline("all"),
        args: &[],
    };
    fxt_writer::record::Record::write(&record, &mut bytes).expect("memory has room");
    bytes
}

/// The times of the first and the last switch.
struct Times(u64, u64);

impl Visitor for Times {
    fn visit(&mut self, item: &Item<'_>) -> bool {
        if let Record::ContextSwitch(switch) = &item.record {
            *self = Times(self.0.min(switch.time.0), switch.time.0);
        }
        true
    }
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
    file.write_all(&span(&bytes)).expect("room for the trace");
    assert_eq!([read(&bytes), show(&bytes)], [SWITCHES; 2]);
    let life = Query { thread: Some("7".to_owned()), life: true, ..Query::default() };
    let wait = Query { metric: Some(Metric::RunQueue), ..Query::default() };
    let span = Query { span: Some("all".to_owned()), ..Query::default() };
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
        ("why, the longest wait", best(|| why(file.path(), &wait))),
        ("why, a span of all", best(|| why(file.path(), &span))),
        ("why, a thread's life", best(|| why(file.path(), &life))),
    ];
    println!("{SWITCHES} switches, {} bytes; best of {PASSES} passes", bytes.len());
    for (what, took) in results {
        let scans = took.as_secs_f64() / scanned.as_secs_f64();
        println!("{what:<22} {:>8.1} ms {scans:>6.1} scans", took.as_secs_f64() * 1e3);
    }
}
