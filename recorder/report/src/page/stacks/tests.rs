//! The stacks that are in a page, and the page's statements about the others.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use fxt_reader::Reader;
use fxt_writer::record::{Backtrace, ContextSwitch, Record as _, ThreadState, Wakeup};
use fxt_writer::{Arg, Koid, Text, ThreadName, Ticks, Value as Arg64, Writer};
use serde_json::Value;

use super::super::Page;
use super::super::columns::{Cursor, unpack};
use super::*;
use crate::stacks::example;
use crate::{Options, analysis};

const MS: u64 = 1_000_000;

fn observed(trace: &[u8]) -> (crate::Report, Page) {
    analysis::observe(Reader::from_slice(trace), Options::default(), Page::new()).unwrap()
}

/// The page of a trace, and its table of contents.
fn page(trace: &[u8]) -> (String, Value) {
    let (report, page) = observed(trace);
    let mut out = Vec::new();
    page.write(&report, &mut out).unwrap();
    let text = String::from_utf8(out).unwrap();
    let (_, contents) = text.split_once("id=\"contents\">").unwrap();
    let contents = serde_json::from_str(contents.split_once("</script>").unwrap().0).unwrap();
    (text, contents)
}

/// The columns of a block, as bytes.
fn block(page: &str, number: &Value) -> Vec<Vec<u8>> {
    let (_, rest) = page.split_once(&format!("id=\"block-{number}\">")).unwrap();
    let packed = STANDARD.decode(rest.split_once('<').unwrap().0).unwrap();
    let bytes = unpack(&packed).unwrap();
    let mut cursor = Cursor::new(&bytes);
    let rest = |mut column: Cursor<'_>| std::iter::from_fn(|| column.byte()).collect();
    std::iter::from_fn(|| cursor.column().map(rest)).collect()
}

fn numbers(column: &[u8]) -> Vec<u64> {
    let mut cursor = Cursor::new(column);
    std::iter::from_fn(|| cursor.number()).collect()
}

fn sample(trace: &mut Vec<u8>, time: u64, address: u64) {
    let thread = ThreadName::Inline { process: Koid(40), thread: Koid(41) };
    let (time, flags, frames) = (Ticks(time), Kind::Cpu.flags(), &[address][..]);
    Backtrace { time, thread, flags, frames }.write(trace).unwrap();
}

#[test]
fn waits_have_their_stacks_and_those_of_who_ended_them() {
    let mut trace = example::trace(true);
    sample(&mut trace, 16 * MS + 1_000, 0x7010);
    let (text, contents) = page(&trace);
    let stacks = &contents["stacks"];
    assert_eq!(
        (&stacks["waits"], &stacks["samples"], &stacks["every"]),
        (&2.into(), &1.into(), &1.into())
    );
    assert_eq!(
        (&stacks["over"], &stacks["leftOut"]),
        (&(2 * MS).into(), &serde_json::json!([0, 0]))
    );
    // The stack of the last wait, which has no end.
    assert_eq!(stacks["homeless"], 1);

    let frames = block(&text, &stacks["blocks"][0]);
    let texts = |column: &[u8]| -> Vec<String> {
        String::from_utf8(column.to_vec()).unwrap().split('\0').map(str::to_owned).collect()
    };
    let (names, files) = (texts(&frames[0]), texts(&frames[1]));
    assert_eq!(files, ["x.so"]);
    let [frame_names, frame_files, callers, frame_of, nodes, lacks] =
        [2, 3, 4, 5, 6, 7].map(|at| numbers(&frames[at]));
    // A stack from its outermost function on, with files.
    let stack = |number: u64| -> Vec<String> {
        let mut node = nodes[number as usize] as usize;
        let mut list = Vec::new();
        while node > 0 {
            let frame = frame_of[node - 1] as usize;
            let file = ["?", "kernel", "x.so"][frame_files[frame] as usize];
            list.insert(0, format!("{} {file}", names[frame_names[frame] as usize]));
            node -= callers[node - 1] as usize;
        }
        list
    };
    let waits = block(&text, &stacks["blocks"][1]);
    let [threads, begins, lengths, of, wakes] = [0, 1, 2, 3, 4].map(|at| numbers(&waits[at]));
    let begin: u64 = contents["begin"].as_str().unwrap().parse().unwrap();
    assert_eq!(begins, [10 * MS - begin, 10 * MS]);
    assert_eq!(lengths, [5 * MS, 2 * MS]);
    assert_eq!((threads[0], threads[1]), (1, 0));
    assert_eq!(contents["threads"][1][1], "work;er");
    assert_eq!(stack(of[0]), ["0x9000 ?", "a;b::<c d> x.so", "pipe_read kernel"]);
    assert_eq!(stack(of[1]), ["x.so+0x220 x.so", "pipe_read kernel"]);
    assert_eq!(lacks[of[0] as usize], 1 << 6);
    assert_eq!(stack(wakes[0] - 1), ["kick x.so"]);
    assert_eq!(wakes[1], 0, "nobody knows who ended the second");
    let samples = block(&text, &stacks["blocks"][2]);
    assert_eq!(numbers(&samples[1]), [16 * MS + 1_000 - begin]);
    assert_eq!(stack(numbers(&samples[2])[0]), ["a;b::<c d> x.so"]);
}

#[test]
fn a_page_without_stacks_has_nothing_of_them() {
    let (text, contents) = page(&example::trace(false));
    assert!(contents["stacks"].is_null());
    for what in ["fx.stacks =", "fx.flame =", "#flame"] {
        assert!(!text.contains(what), "{what}");
    }
    let (with, _) = page(&example::trace(true));
    assert!(with.contains("fx.stacks =") && with.contains("fx.flame =") && with.contains("#flame"));
    assert!(with.find("fx.flame =") < with.find("start();\n"), "before the page starts");
}

/// Thread 41 is blocked `waits` times, each time a millisecond longer and in a separate function; then `samples` samples follow.
fn many(waits: u64, samples: u64) -> Vec<u8> {
    let mut trace = Writer::new(Vec::new());
    trace.start("test", 1_000_000_000).unwrap();
    let mut time = MS;
    let weight = |koid| Arg64::Int32(if koid == 0 { i32::MIN } else { 1024 });
    let switch = |trace: &mut Writer<Vec<u8>>, time, outgoing: u64, incoming: u64| {
        let args = [
            Arg::new(Text::Inline("incoming_weight"), weight(incoming)),
            Arg::new(Text::Inline("outgoing_weight"), weight(outgoing)),
        ];
        let (outgoing, incoming) = (Koid(outgoing), Koid(incoming));
        let outgoing_state = ThreadState::Blocked;
        let time = Ticks(time);
        trace
            .write(&ContextSwitch { cpu: 0, time, outgoing, incoming, outgoing_state, args: &args })
            .unwrap();
    };
    switch(&mut trace, time, 0, 41);
    let thread = ThreadName::Inline { process: Koid(40), thread: Koid(41) };
    for n in 0..waits {
        switch(&mut trace, time + 1_000, 41, 0);
        let frames = &[0x1_0000 + n * 64][..];
        let at = Ticks(time + 1_000);
        trace.write(&Backtrace { time: at, thread, flags: 0, frames }).unwrap();
        time += (n + 1) * MS;
        trace.write(&Wakeup { cpu: 0, time: Ticks(time), thread: Koid(41), args: &[] }).unwrap();
        switch(&mut trace, time + 500, 0, 41);
    }
    switch(&mut trace, time + 5_000, 41, 0);
    let mut bytes = trace.into_inner();
    for n in 0..samples {
        sample(&mut bytes, MS + n * 10_000, 0x2_0000 + n % 4);
    }
    bytes
}

fn chosen(trace: &[u8], room: u64) -> Chosen {
    let (_, mut page) = observed(trace);
    let (_, end) = page.extract.finish().unwrap();
    let mut placing = Placing::new(&page.recorded, &page.extract.threads);
    page.extract.replay(end, &mut placing).unwrap();
    placing.choose(&page.extract.threads, room)
}

#[test]
fn if_not_all_have_room_the_shortest_waits_are_left_out_and_counted() {
    let trace = many(100, 0);
    let all = chosen(&trace, 1_000_000);
    assert_eq!((all.waits.len(), all.left_out, all.homeless), (100, (0, 0), 0));
    let some = chosen(&trace, 1_000);
    let kept = some.waits.len();
    assert!((10..90).contains(&kept), "{kept}");
    assert_eq!(some.left_out.0, 100 - kept as u64);
    let shortest = some.waits.iter().map(|(wait, _)| wait.length).min().unwrap();
    assert!(some.left_out.1 < shortest, "{:?} {shortest}", some.left_out);
    let bytes = some.frames.bytes() + kept as u64 * WAIT_BYTES;
    assert!(bytes <= 1_000, "{bytes}");
}

#[test]
fn of_too_many_samples_each_second_or_fourth_is_taken_and_waits_keep_their_half() {
    let trace = many(10, 1_000);
    let all = chosen(&trace, 1_000_000);
    assert_eq!((all.waits.len(), all.samples.len(), all.every), (10, 1_000, 1));
    let some = chosen(&trace, 2_400);
    assert_eq!(some.waits.len(), 10, "these have room");
    assert_eq!((some.every, some.samples.len()), (4, 250));
    assert!(some.samples.windows(2).all(|two| two[0].1 < two[1].1));
}

#[test]
fn the_room_grows_with_the_trace_up_to_a_limit() {
    assert_eq!(
        [0, 1_000_000, 3_000_000, u64::MAX].map(room),
        [1_000_000, 3_000_000, 7_000_000, 10_000_000]
    );
}
