use fxt_writer::engine::{Config, Mode, OnFull};
use fxt_writer::record::{Initialization, Record};

use super::super::{BlackHole, Memory, Unsaved};
use super::*;

fn record(ticks_per_second: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    Initialization { ticks_per_second }.write(&mut bytes).expect("memory");
    bytes
}

fn engine(sender: crossbeam_channel::Sender<Request>) -> Arc<Engine> {
    let config =
        Config { mode: Mode::Streaming, bytes: 4096, on_full: OnFull::Block, ..Config::default() };
    Engine::new(config, move |packet| {
        let _ = sender.send(Request::Save(packet));
    })
    .expect("enough memory")
}

/// Writes many times the size of the engine, and ends.
fn fill(engine: &Engine, sender: &crossbeam_channel::Sender<Request>, records: u64) {
    for ticks_per_second in 1..=records {
        let record = Initialization { ticks_per_second };
        record.write(&mut engine.rolling()).expect("a blocking engine takes it");
    }
    for packet in engine.finish() {
        sender.send(Request::Save(packet)).expect("the drain runs");
    }
    sender.send(Request::End).expect("the drain runs");
}

#[test]
fn everything_written_reaches_the_sink_in_order() {
    let (sender, requests) = crossbeam_channel::unbounded();
    let engine = engine(sender.clone());
    let written = Arc::new(Written::default());
    let memory = Memory::default();
    let sink = Box::new(memory.clone());
    let thread = spawn(engine.clone(), requests, (sink, None), written.clone(), || {
        panic!("memory does not fail")
    })
    .expect("a thread");
    fill(&engine, &sender, 10_000);
    let drained = thread.join().expect("the drain ends");
    assert!(drained.result.is_ok());
    let bytes = memory.bytes();
    let seen: Vec<u64> = bytes
        .chunks(16)
        .map(|record| u64::from_ne_bytes(record[8..].try_into().expect("eight bytes")))
        .collect();
    assert_eq!(seen, (1..=10_000).collect::<Vec<u64>>());
    assert_eq!(written.bytes(), 160_000);
}

#[derive(Debug)]
struct Broken(BlackHole);

impl Sink for Broken {
    fn write(&mut self, _: &[u8]) -> Result<(), SinkError> {
        Err(SinkError::AlreadyFailed)
    }
    fn flush_point(&mut self) -> Result<(), SinkError> {
        Ok(())
    }
    fn totals(&self) -> Totals {
        self.0.totals()
    }
    fn finish(&mut self) -> Result<Totals, SinkError> {
        Err(SinkError::AlreadyFailed)
    }
}

#[test]
fn a_sink_that_fails_is_reported_once_and_nothing_waits() {
    let (sender, requests) = crossbeam_channel::unbounded();
    let engine = engine(sender.clone());
    let (done_sender, tellings) = crossbeam_channel::unbounded();
    let sink = Box::new(Broken(BlackHole::default()));
    let thread = spawn(engine.clone(), requests, (sink, None), Arc::default(), move || {
        done_sender.send(()).expect("the test listens");
    })
    .expect("a thread");
    fill(&engine, &sender, 10_000);
    assert!(thread.join().expect("the drain ends").result.is_err());
    assert_eq!(tellings.len(), 1);
}

#[test]
fn an_output_ends_with_its_tail_and_the_next_begins_with_its_head() {
    let (sender, requests) = crossbeam_channel::unbounded();
    let engine = engine(sender.clone());
    let (first, second) = (Memory::default(), Memory::default());
    let sink = Box::new(first.clone());
    let written = Arc::new(Written::default());
    let thread = spawn(engine, requests, (sink, None), written.clone(), || panic!("memory"))
        .expect("a thread");
    sender.send(Request::Write(vec![1; 8])).expect("the drain runs");
    let (done, turned) = crossbeam_channel::bounded(1);
    let (next, complete) = (second.clone(), crossbeam_channel::unbounded());
    let done_sender = complete.0;
    let piece = NextPiece {
        explanation: None,
        tail: Box::new(|bytes, _| vec![bytes as u8; 16]),
        open: Box::new(move |totals| {
            done_sender.send(totals.record_bytes).expect("the test listens");
            Ok(Box::new(next))
        }),
        head: vec![3; 8],
        done,
    };
    sender.send(Request::NextPiece(Box::new(piece))).expect("the drain runs");
    turned.recv().expect("it is done");
    sender.send(Request::Write(vec![4; 8])).expect("the drain runs");
    sender.send(Request::End).expect("the drain runs");
    let drained = thread.join().expect("the drain ends");
    assert!(drained.result.is_ok());
    assert_eq!(first.bytes(), [vec![1; 8], vec![8; 16]].concat());
    assert_eq!(second.bytes(), [vec![3; 8], vec![4; 8]].concat());
    assert_eq!((complete.1.recv(), drained.earlier.record_bytes), (Ok(24), 24));
    assert_eq!((written.piece_bytes_at_most(0, 0), written.bytes()), (Some(16), 40));
}

/// The numbers in records of [`fill`]'s kind.
fn numbers(bytes: &[u8]) -> Vec<u64> {
    let number = |record: &[u8]| u64::from_ne_bytes(record[8..].try_into().expect("8 bytes"));
    bytes.chunks(16).map(number).collect()
}

#[test]
fn the_engine_goes_on_while_an_output_waits_for_its_end_and_the_next_has_all_of_it() {
    let (sender, requests) = crossbeam_channel::unbounded();
    let engine = engine(sender.clone());
    let (first, second) = (Memory::default(), Memory::default());
    let sink = Box::new(first.clone());
    spawn(engine.clone(), requests, (sink, None), Arc::default(), || panic!("memory"))
        .expect("one");
    let write = |numbers: std::ops::Range<u64>| {
        for ticks_per_second in numbers {
            let record = Initialization { ticks_per_second };
            record.write(&mut engine.rolling()).expect("a blocking engine takes it");
        }
    };
    write(1..1000);
    for packet in engine.finish() {
        sender.send(Request::Save(packet)).expect("the drain runs");
    }
    let (reached, is_reached) = crossbeam_channel::bounded(1);
    sender.send(Request::Turn(reached)).expect("the drain runs");
    is_reached.recv().expect("all before is saved");
    engine.start(fxt_writer::engine::BufferDisposition::Retain).expect("both buffers are free");
    // Many times the size of the engine: if buffers were not released, this would wait forever.
    write(1000..5000);
    let (written, _kept) = crossbeam_channel::bounded(1);
    let piece = Request::Piece { records: record(77), written };
    sender.send(piece).expect("the drain runs");
    let (done, turned) = crossbeam_channel::bounded(1);
    let next = second.clone();
    let next = NextPiece {
        explanation: None,
        tail: Box::new(|_, _| record(88)),
        open: Box::new(move |_| Ok(Box::new(next))),
        head: record(99),
        done,
    };
    sender.send(Request::NextPiece(Box::new(next))).expect("the drain runs");
    turned.recv().expect("it is done");
    write(5000..6000);
    for packet in engine.finish() {
        sender.send(Request::Save(packet)).expect("the drain runs");
    }
    let (reached, is_reached) = crossbeam_channel::bounded(1);
    sender.send(Request::Turn(reached)).expect("the drain runs");
    is_reached.recv().expect("all before is saved");
    let of_first: Vec<u64> = (1..1000).chain([77, 88]).collect();
    assert_eq!(numbers(&first.bytes()), of_first);
    let of_second: Vec<u64> = std::iter::once(99).chain(1000..6000).collect();
    assert_eq!(numbers(&second.bytes()), of_second);
}

#[test]
fn what_explains_an_output_is_left_out_where_it_does_not_fit() {
    const LIMIT: u64 = 4096;
    let (sender, requests) = crossbeam_channel::unbounded();
    let engine = engine(sender.clone());
    let (first, second) = (Memory::default(), Memory::default());
    let written = Arc::new(Written::default());
    let sink = (Box::new(first.clone()) as Box<dyn Sink>, Some(LIMIT));
    let thread =
        spawn(engine, requests, sink, written.clone(), || panic!("memory")).expect("a thread");
    let part = |bytes: usize, names, stacks| Part { records: vec![7; bytes], names, stacks };
    let explanation = || {
        let parts = vec![part(1024, 3, 0), part(4096, 0, 5), part(512, 0, 2)];
        Explanation { parts, estimate: 9 }
    };
    sender.send(Request::Write(vec![1; 2048])).expect("the drain runs");
    let (done, turned) = crossbeam_channel::bounded(1);
    let (done_sender, lacks) = crossbeam_channel::unbounded();
    let next = second.clone();
    let piece = NextPiece {
        explanation: Some(explanation()),
        tail: Box::new(move |_, left_out| {
            done_sender.send(left_out).expect("the test listens");
            vec![2; 8]
        }),
        open: Box::new(move |_| Ok(Box::new(next))),
        head: vec![3; 8],
        done,
    };
    sender.send(Request::NextPiece(Box::new(piece))).expect("the drain runs");
    turned.recv().expect("it is done");
    assert_eq!(lacks.recv(), Ok(LeftOut { names: 0, stacks: 5 }));
    assert_eq!(first.bytes().len(), 2048 + 1024 + 512 + 8);
    assert_eq!(written.explained(), Some((1536, 9)));
    // The last output has the same size.
    sender.send(Request::Write(vec![1; 3800])).expect("the drain runs");
    sender.send(Request::Explain(explanation())).expect("the drain runs");
    sender.send(Request::End).expect("the drain runs");
    let drained = thread.join().expect("the drain ends");
    assert_eq!(drained.left_out, LeftOut { names: 3, stacks: 7 });
    assert_eq!(second.bytes().len(), 8 + 3800);
    assert_eq!(written.left_out(), LeftOut { names: 3, stacks: 12 });
}

#[test]
fn what_is_too_much_to_be_kept_waits_in_the_engine_and_keeps_its_order() {
    let engine = engine(crossbeam_channel::unbounded().0);
    Initialization { ticks_per_second: 1 }.write(&mut engine.rolling()).expect("room");
    let packets = engine.finish();
    assert_eq!(packets.len(), 1);
    let memory = Memory::default();
    let outputs = VecDeque::from([EarlyOutput::default()]);
    let mut drain = Drain {
        sink: Box::new(memory.clone()),
        earlier: Totals::default(),
        result: Ok(()),
        failed: Some(|| panic!("memory does not fail")),
        flushed: Instant::now(),
        unflushed: false,
        early: Early { outputs, bytes: MOST_EARLY_BYTES },
        limit: None,
        explanation: None,
        left_out: LeftOut::default(),
        written: Arc::default(),
    };
    assert!(!drain.save(&engine, packets[0]), "the buffer stays with the drain");
    drain.early.bytes = 0;
    // Also if it belongs to another output.
    drain.early.outputs.push_back(EarlyOutput::default());
    assert!(!drain.save(&engine, packets[0]), "and what comes after it as well");
    let last = drain.early.outputs.pop_back().expect("it was added");
    assert_eq!(last.requests.len(), 1);
    assert!(drain.write_early(&engine));
    assert_eq!(numbers(&memory.bytes()), [1]);
    assert!(engine.saved(packets[0].buffer_saved()).is_err(), "it was given back");
    assert!(!drain.write_early(&engine));
}

/// A slow disk, or an application that takes a long time to hand over its records.
#[test]
fn an_output_may_end_before_it_is_open_and_each_has_its_own_records() {
    let (sender, requests) = crossbeam_channel::unbounded();
    let engine = engine(sender.clone());
    let outputs: [Memory; 4] = Default::default();
    let written = Arc::new(Written::default());
    let sink = Box::new(outputs[0].clone());
    let thread =
        spawn(engine.clone(), requests, (sink, None), written.clone(), || panic!("memory"))
            .expect("a thread");
    let save = |number: u64| {
        let record = Initialization { ticks_per_second: number };
        record.write(&mut engine.rolling()).expect("a blocking engine takes it");
        for packet in engine.finish() {
            sender.send(Request::Save(packet)).expect("the drain runs");
        }
    };
    save(1);
    for turn in 1..=3 {
        let (reached, is_reached) = crossbeam_channel::bounded(1);
        sender.send(Request::Turn(reached)).expect("the drain runs");
        is_reached.recv().expect("all before is saved or copied");
        assert_eq!(written.piece_bytes_at_most(turn, 100), Some(100));
        assert_eq!(written.piece_bytes_at_most(turn - 1, 0), None);
        engine.start(fxt_writer::engine::BufferDisposition::Retain).expect("both buffers are free");
        save(1 + turn);
        sender.send(Request::Write(record(10 + turn))).expect("the drain runs");
    }
    let mut sizes = Vec::new();
    for (turn, output) in (1..).zip(&outputs[1..]) {
        let (done, turned) = crossbeam_channel::bounded(1);
        let next = output.clone();
        let parts = vec![Part { records: record(20 + turn), names: 0, stacks: 0 }];
        let next = NextPiece {
            explanation: Some(Explanation { parts, estimate: 1 }),
            tail: Box::new(move |_, _| record(30 + turn)),
            open: Box::new(move |_| Ok(Box::new(next))),
            head: record(40 + turn),
            done,
        };
        // The records that are to explain the last output do not belong to this one.
        let explanation = Explanation { parts: Vec::new(), estimate: 2 };
        sender.send(Request::Explain(explanation)).expect("the drain runs");
        sender.send(Request::NextPiece(Box::new(next))).expect("the drain runs");
        turned.recv().expect("it is done");
        sizes.push((written.early_bytes(), written.piece_bytes_at_most(3, 16)));
    }
    sender.send(Request::End).expect("the drain runs");
    assert_eq!(thread.join().expect("the drain ends").result, Ok(()));
    let found = outputs.map(|output| numbers(&output.bytes()));
    assert_eq!(found[0], [1, 21, 31]);
    assert_eq!(found[1], [41, 2, 11, 22, 32]);
    assert_eq!(found[2], [42, 3, 12, 23, 33]);
    assert_eq!(found[3], [43, 4, 13]);
    // While the last one is not open, its records are counted with its head; then all of it is in the output.
    assert_eq!(sizes, [(64, Some(48)), (32, Some(48)), (0, Some(48))]);
}

#[test]
fn an_output_that_cannot_be_opened_ends_the_writing_and_nobody_waits() {
    let (sender, requests) = crossbeam_channel::unbounded();
    let engine = engine(sender.clone());
    let (done_sender, tellings) = crossbeam_channel::unbounded();
    let thread =
        spawn(engine, requests, (Box::new(Memory::default()), None), Arc::default(), move || {
            done_sender.send(()).expect("the test listens");
        })
        .expect("a thread");
    let (done, turned) = crossbeam_channel::bounded(1);
    let piece = NextPiece {
        explanation: None,
        tail: Box::new(|_, _| Vec::new()),
        open: Box::new(|_| Err(SinkError::NoReader { name: "next".to_owned() })),
        head: record(1),
        done,
    };
    sender.send(Request::NextPiece(Box::new(piece))).expect("the drain runs");
    turned.recv().expect("it is done");
    sender.send(Request::Write([record(2), record(3)].concat())).expect("the drain runs");
    sender.send(Request::End).expect("the drain runs");
    let drained = thread.join().expect("the drain ends");
    assert_eq!(drained.result, Err(SinkError::NoReader { name: "next".to_owned() }));
    assert_eq!(drained.sink.unsaved(), Unsaved { records: 3, bytes: 48 });
    assert_eq!(tellings.len(), 1);
}
