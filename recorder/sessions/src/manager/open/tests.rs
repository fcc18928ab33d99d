use fxt_reader::record::{EventKind as Kind, Value as Read};
use fxt_reader::{Reader, Record as ReadRecord};
use fxt_writer::record::Magic;

use super::*;

const NANOS: Clock = Clock { ticks_per_second: SECOND };

fn thread(thread: u64) -> Track {
    Track::Thread(1, thread)
}

fn label(thread: u64, name: &str) -> Label {
    Label { process: 1, thread, category: "test".into(), name: name.into() }
}

/// The open spans of a provider, and the synthetic records.
#[derive(Default)]
struct Stage {
    open: Open,
    made: Vec<u8>,
}

impl Stage {
    fn see(&mut self, track: Track, time: u64, act: Act) {
        let seen = Seen { track, thread: 0, time, act };
        self.open.follow(seen, NANOS, MAX_OPEN_BYTES, &mut self.made);
    }

    fn begin(&mut self, of: u64, name: &str, time: u64) {
        self.see(thread(of), time, Act::Begin(label(of, name)));
    }

    fn end(&mut self, of: u64, time: u64) {
        self.see(thread(of), time, Act::End(Arc::default()));
    }

    fn rotate(&mut self, time: u64) -> String {
        self.open.rotate(time, NANOS, &mut self.made);
        self.made()
    }

    /// The synthetic records since the last call: `(` for a begin, `)` for an end, name, thread and time, and after a
    /// begin the original time.
    fn made(&mut self) -> String {
        let mut archive = Vec::new();
        Magic.write(&mut archive).expect("memory has room");
        archive.append(&mut self.made);
        let mut reader = Reader::from_slice(&archive);
        let mut made = Vec::new();
        while let Some(item) = reader.next().expect("a sound archive") {
            let ReadRecord::Event(event) = item.record else { continue };
            assert_eq!(event.args.get("cut"), Some(Read::Bool(true)));
            let sign = match event.kind {
                Kind::DurationBegin | Kind::AsyncBegin { .. } => '(',
                Kind::DurationEnd | Kind::AsyncEnd { .. } => ')',
                other => panic!("{other:?}"),
            };
            let began = event.args.get("began_ns").map(|value| match value {
                Read::UInt32(nanos) => format!(" of {nanos}"),
                other => panic!("{other:?}"),
            });
            let (name, of, time) = (event.name, event.thread.thread.0, event.time.0);
            made.push(format!("{sign}{name}/{of}@{time}{}", began.unwrap_or_default()));
        }
        made.join(" ")
    }
}

/// The picture in the module's documentation.
#[test]
fn spans_are_ended_in_each_archive_and_begun_again_in_the_next() {
    let mut stage = Stage::default();
    stage.begin(7, "f", 10);
    stage.begin(7, "g", 20);
    assert_eq!(stage.rotate(30), ")g/7@30 )f/7@30");
    assert_eq!(stage.made(), "", "not before it is needed");
    stage.end(7, 40);
    assert_eq!(stage.made(), "(f/7@30 of 10 (g/7@30 of 20");
    assert_eq!(stage.rotate(50), ")f/7@50");
    assert_eq!(stage.rotate(60), "(f/7@50 of 10 )f/7@60", "nothing happened on it");
    stage.begin(7, "h", 70);
    stage.end(7, 80);
    stage.end(7, 90);
    assert_eq!(stage.made(), "(f/7@60 of 10");
    assert_eq!(stage.rotate(100), "");
}

#[test]
fn what_is_recorded_around_the_turn_is_inside_of_its_span_in_both_archives() {
    let mut stage = Stage::default();
    stage.begin(7, "early", 10);
    stage.see(thread(7), 35, Act::None);
    stage.begin(8, "late", 20);
    assert_eq!(stage.rotate(30), ")early/7@35 )late/8@30");
    stage.end(8, 29);
    stage.end(7, 40);
    assert_eq!(stage.made(), "(late/8@29 of 20 (early/7@35 of 10");
}

#[test]
fn what_is_still_open_at_the_end_is_begun_in_the_last_archive() {
    let mut stage = Stage::default();
    stage.begin(7, "f", 10);
    stage.rotate(30);
    stage.open.resume(NANOS, &mut stage.made);
    assert_eq!(stage.made(), "(f/7@30 of 10");
    stage.open.resume(NANOS, &mut stage.made);
    assert_eq!(stage.made(), "", "once");
}

#[test]
fn operations_end_by_name_whichever_thread_ends_them() {
    let track = || Track::Async("test".into(), 5);
    let mut stage = Stage::default();
    stage.see(track(), 10, Act::Begin(label(7, "read")));
    stage.see(track(), 20, Act::Begin(label(8, "write")));
    stage.see(track(), 25, Act::End("read".into()));
    assert_eq!(stage.rotate(30), ")write/8@30");
    stage.see(track(), 40, Act::End("write".into()));
    assert_eq!(stage.rotate(50), "(write/8@30 of 20");
}

#[test]
fn times_are_those_of_the_providers_clock() {
    let micros = Clock { ticks_per_second: 1_000_000 };
    let mut stage = Stage::default();
    stage.begin(7, "f", 10);
    stage.open.rotate(micros.ticks(30_000), micros, &mut stage.made);
    stage.open.resume(micros, &mut stage.made);
    assert_eq!(stage.made(), ")f/7@30 (f/7@30 of 10000");
}

#[test]
fn one_that_begins_and_begins_takes_no_more_than_its_room_and_its_ends_still_fit() {
    let mut stage = Stage::default();
    let name = "f".repeat(30_000);
    let inner = MAX_OPEN_BYTES / label(7, &name).bytes();
    for time in 0..inner as u64 + 10 {
        stage.begin(7, &name, time);
    }
    stage.begin(8, &name, 1);
    assert!(stage.open.bytes <= MAX_OPEN_BYTES);
    let kept = |stage: &Stage| stage.open.tracks.values().map(|stack| stack.spans.len()).sum();
    assert_eq!(inner, kept(&stage));
    stage.end(8, 2);
    for time in 0..10 {
        stage.end(7, time);
    }
    assert_eq!(inner, kept(&stage), "those without room ended first");
    for time in 0..inner as u64 + 3 {
        stage.end(7, time);
    }
    assert_eq!((kept(&stage), stage.open.bytes), (0, 0));
}
