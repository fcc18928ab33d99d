//! From FXT to Perfetto, and back.

use fxtrec_units::protobuf::{FieldValue, fields};

use super::*;
use crate::annotate::{Incident, Mark, annotate};

/// Converts the trace to Perfetto's format and back to FXT.
fn back(fxt: &[u8]) -> (Vec<u8>, Report) {
    let mut packets = Vec::new();
    let report = crate::to_perfetto(fxt, &mut packets).expect("memory has room");
    (converted(&packets).0, report)
}

#[test]
fn scheduling_names_and_losses_come_back_as_they_were() {
    let (idle, app, hog) = (("swapper", 0, 120), ("app", 101, 100), ("hog", 102, 139));
    let clock = |id, time| message().number(1, id).number(2, time);
    let snapshot = message().with(1, clock(6, 90)).with(1, clock(1, 1_700_000_000_000_000_090));
    let process = message().number(1, 100).text(3, "server");
    let thread = |tid| message().number(1, tid).number(3, 100);
    let tree = message().with(1, process).with(2, thread(101)).with(2, thread(102));
    let moved = message().number(2, 101).number(4, 0).number(5, 1);
    let mut lossy = message().number(1, 1).number(3, 1);
    lossy = lossy.with(2, switch(900, hog, 0x20, idle));
    let first = converted(&trace([
        message().with(6, snapshot),
        message().with(2, tree),
        bundle(
            0,
            [
                switch(100, idle, 0, app),
                switch(200, app, 2, hog),
                // By the thread that runs there, by an interrupt, and by an unknown waker.
                wake((20, 300), (102, 0), ("app", 101), 1),
                event(320, 102, 0, 491, moved),
                switch(350, hog, 0x100, idle),
                wake((20, 360), (0, 0x08), ("late", 103), 0),
                wake((20, 370), (0, 0), ("later", 104), 0),
            ],
        ),
        bundle(1, [switch(310, idle, 0, app), switch(400, app, 1, idle)]),
        message().with(1, lossy),
    ]))
    .0;
    let (again, report) = back(&first);
    let reported = |line: String| line.replace(" inferred=true", "");
    assert_eq!(lines(&again), lines(&first).into_iter().map(reported).collect::<Vec<_>>());
    assert!(lines(&first).contains(&"300 cpu 1: 101 woken by 102".to_owned()));
    assert_eq!(objects(&again), objects(&first));
    assert!(info(&again).contains(&"wall_clock_offset_ns=1700000000000000000".to_owned()));
    let remarks: Vec<(&str, u64)> = report.remarks().collect();
    let expected = [
        ("events about the recording itself, left out", 1),
        ("inferred switches, which look like reported ones", 1),
    ];
    assert_eq!(remarks, expected);
}

#[test]
fn spans_counters_flows_and_arguments_come_back_as_they_were() {
    let descriptor = |uuid, tid| {
        let thread = message().number(1, 40).number(2, tid).text(5, "worker");
        message().with(60, message().number(1, uuid).with(4, thread))
    };
    let process = message().number(1, 40).text(6, "shop");
    let packet = |time, event| message().number(8, time).with(11, event);
    let on = |track, kind| message().number(9, kind).number(11, track);
    let arg = message().text(10, "size").number(4, 77);
    let first = converted(&trace([
        descriptor(70, 41),
        descriptor(71, 42),
        message().with(60, message().number(1, 10).with(3, process)),
        message().with(60, message().number(1, 11).number(5, 10).text(2, "requests")),
        message()
            .with(60, message().number(1, 12).number(5, 10).text(2, "memory").with(8, message())),
        packet(100, on(70, 1).text(22, "net").text(23, "send").with(4, arg).fixed(47, 8)),
        packet(150, on(12, 4).number(30, 3)),
        packet(160, on(11, 1).text(23, "GET /")),
        packet(200, on(71, 1).text(22, "net").text(23, "receive").fixed(48, 8)),
        packet(250, on(71, 2)),
        packet(260, on(70, 3).text(23, "mark")),
        packet(300, on(70, 2)),
        packet(310, on(11, 2)),
    ]))
    .0;
    let (again, report) = back(&first);
    assert_eq!(report.remarks().count(), 1, "{report}");
    // Tracks of operations have new numbers.
    let plain = |fxt: &[u8]| -> Vec<String> {
        let words = |line: String| -> Vec<String> { line.split(' ').map(str::to_owned).collect() };
        let lines = lines(fxt).into_iter().map(words);
        lines
            .map(|mut words| {
                if words[1] == "async" {
                    words.remove(3);
                }
                words.join(" ")
            })
            .collect()
    };
    assert_eq!(plain(&again), plain(&first));
    assert!(plain(&first).contains(&"160 async begin :GET / of 40/40".to_owned()));
}

#[test]
fn arrows_along_a_chain_lead_from_link_to_link_in_a_perfetto_trace_too() {
    let mark = |from_ns, to_ns, name: &str| Mark { from_ns, to_ns, name: name.into(), thread: 41 };
    let chain = vec![mark(10, 40, "waited"), mark(40, 60, "ran"), mark(60, 90, "blocked")];
    let incidents = [Incident { whole: mark(10, 90, "worker was late"), chain }];
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("a.fxt");
    let mut own = fxt_writer::Writer::new(Vec::<u8>::new());
    own.start("app", 1_000_000_000).expect("memory");
    std::fs::write(&path, own.into_inner()).expect("room");
    let mut marked = Vec::new();
    annotate(&path, &incidents, &mut marked).expect("a trace");
    // The begins and ends of flows, renumbered from 0: the two formats have different ids.
    let arrows = |fxt: &[u8]| {
        let mut ids: Vec<u64> = Vec::new();
        let mut reader = Reader::from_slice(fxt);
        let mut found = Vec::new();
        while let Some(item) = reader.next().expect("sound") {
            let Record::Event(event) = item.record else { continue };
            let (what, id) = match event.kind {
                EventKind::FlowBegin { id } => ("begins", id),
                EventKind::FlowEnd { id } => ("ends", id),
                _ => continue,
            };
            let nth = ids.iter().position(|other| *other == id).unwrap_or(ids.len());
            if nth == ids.len() {
                ids.push(id);
            }
            found.push(format!("{} {nth} {what} in {}", event.time.0, event.thread.thread.0));
        }
        found.sort();
        found
    };
    let (again, report) = back(&marked);
    assert_eq!(report.remarks().count(), 0, "{report}");
    assert_eq!(arrows(&marked).len(), 4);
    assert_eq!(arrows(&again), arrows(&marked));
}

/// For each stack: its time, its thread, its kind, and its functions.
pub(super) fn stacks(fxt: &[u8]) -> Vec<String> {
    let mut reader = Reader::from_slice(fxt);
    let (mut names, mut found) = (std::collections::HashMap::new(), Vec::new());
    while let Some(item) = reader.next().expect("a sound trace") {
        match item.record {
            Record::UserspaceObject(it) => {
                names.insert((it.process, it.pointer), it.name.to_owned());
            }
            Record::Backtrace(it) => {
                let frames: Vec<u64> = it.frames.iter().collect();
                found.push((it.time.0, it.thread, it.flags >> 8 & 3, frames));
            }
            _ => {}
        }
    }
    let name = |process, frame: &u64| {
        let own = names.get(&(process, *frame));
        let name = own.or_else(|| names.get(&(fxt_reader::Koid(0), *frame)));
        // Frames without names in FXT have a position in a file in Perfetto.
        name.filter(|name| !name.contains("+0x")).map_or("?", |name| name)
    };
    let mut lines: Vec<String> = found
        .iter()
        .map(|(time, thread, kind, frames)| {
            let frames: Vec<&str> = frames.iter().map(|it| name(thread.process, it)).collect();
            format!("{time} {} {kind}: {}", thread.thread.0, frames.join(" "))
        })
        .collect();
    lines.sort();
    lines
}

#[test]
fn stacks_come_back_with_their_functions() {
    let recorded = include_bytes!("../../../../fuzz/corpus/stacks/alone");
    let again = back(recorded).0;
    let expected = stacks(recorded);
    assert!(expected.len() > 20, "{expected:?}");
    assert_eq!(stacks(&again), expected);
    let mut reader = Reader::from_slice(&again);
    while let Some(item) = reader.next().expect("a sound trace") {
        if let Record::Event(event) = item.record
            && event.name == "stack_info"
        {
            let over = event.args.get("over_ns").map(|over| over.to_string());
            assert_eq!(over.as_deref(), Some("1517701"), "the shortest wait with a stack");
            return;
        }
    }
    panic!("no stack_info");
}

/// Each sample of these packets: its source and unit, time, thread and weight.
fn samples(packets: &[u8]) -> Vec<(String, u64, u64, u64, u64)> {
    let number = |message: &[u8], wanted| {
        let found = fields(message).expect("sound").into_iter().find(|it| it.number == wanted);
        found.map_or(0, |it| match it.value {
            FieldValue::Number(number) => number,
            FieldValue::Bytes(_) => panic!("{wanted} is no number"),
        })
    };
    let bytes = |message, wanted| {
        let found = fields(message).expect("sound").into_iter().find(|it| it.number == wanted);
        found.map_or(&[][..], |it| match it.value {
            FieldValue::Bytes(bytes) => bytes,
            FieldValue::Number(_) => panic!("{wanted} is a number"),
        })
    };
    let (mut sources, mut found) = (std::collections::HashMap::new(), Vec::new());
    for packet in fields(packets).expect("sound") {
        let FieldValue::Bytes(packet) = packet.value else { panic!("a trace of packets") };
        let (defaults, sample) = (bytes(bytes(packet, 59), 100), bytes(packet, 135));
        let sequence = number(packet, 10);
        if !defaults.is_empty() {
            let source = String::from_utf8(bytes(defaults, 1).to_vec()).expect("text");
            sources.insert(sequence, (source, number(bytes(defaults, 2), 3)));
        }
        if !sample.is_empty() {
            let (source, unit) = sources[&sequence].clone();
            let thread = number(bytes(sample, 1), 3);
            found.push((source, unit, number(packet, 8), thread, number(sample, 11)));
        }
    }
    found.sort();
    found
}

#[test]
fn stacks_weigh_what_their_recorder_said() {
    for recorded in [
        &include_bytes!("../../../../fuzz/corpus/stacks/alone")[..],
        include_bytes!("../../../../fuzz/corpus/stacks/linked"),
    ] {
        let mut listed = Vec::new();
        let mut reader = Reader::from_slice(recorded);
        while let Some(item) = reader.next().expect("a sound trace") {
            if let Record::Blob(blob) = item.record {
                listed.extend_from_slice(blob.payload);
            }
        }
        let listed = samples(&listed);
        let mut packets = Vec::new();
        crate::to_perfetto(recorded, &mut packets).expect("memory has room");
        let found = samples(&packets);
        assert!(listed.len() > 20, "{listed:?}");
        assert_eq!(found, listed);
    }
}

#[test]
fn stacks_of_other_recorders_are_samples_too_and_weigh_no_more_than_is_known() {
    let (app, hog) = (("app", 101, 120), ("hog", 102, 120));
    let symbols = message().with(26, message().number(1, 7).text(2, "folio_wait_bit_common"));
    let reason = message().number(1, 101).number(2, 7).number(3, 1);
    let interned = message()
        .with(5, message().number(1, 1).text(2, "spin"))
        .with(6, message().number(1, 1).number(2, 1))
        .with(7, message().number(1, 9).numbers(2, &[1]));
    let of_writer = |writer| message().number(10, writer).number(13, 1).with(12, interned.clone());
    let sample = message().number(2, 102).number(3, 102).number(4, 9);
    let wakes = message().with(1, message().number(2, 102).number(3, 102)).number(6, 9);
    let first = converted(&trace([
        bundle(
            0,
            [
                switch(2000, app, 2, hog),
                wake((20, 2600), (102, 0), ("app", 101), 0),
                event(2650, 102, 0, 18, reason),
                switch(2700, hog, 0, app),
            ],
        )
        .with(12, symbols),
        of_writer(2).number(8, 2400).with(66, sample),
        of_writer(3).with(59, message().with(100, message().text(1, "fxtrec.wake"))),
        message().number(8, 2601).number(10, 3).number(13, 2).with(135, wakes),
    ]))
    .0;
    let mut packets = Vec::new();
    crate::to_perfetto(first.as_slice(), &mut packets).expect("memory has room");
    const NANOSECONDS: u64 = 1;
    const SAMPLES: u64 = 9;
    let expected = [
        ("fxtrec.cpu".to_owned(), SAMPLES, 2400, 102, 1),
        ("fxtrec.offcpu".to_owned(), NANOSECONDS, 2000, 101, 700),
        ("fxtrec.wake".to_owned(), NANOSECONDS, 2601, 102, 600),
    ];
    assert_eq!(samples(&packets), expected);
    let again = converted(&packets).0;
    assert_eq!(stacks(&again).len(), 3);
    assert_eq!(stacks(&again), stacks(&first));
    let kernel = |fxt: &[u8]| -> Vec<u64> {
        let (mut reader, mut found) = (Reader::from_slice(fxt), Vec::new());
        while let Some(item) = reader.next().expect("a sound trace") {
            if let Record::Backtrace(it) = item.record {
                found.push(it.frames.iter().filter(|frame| frame >> 63 == 1).count() as u64);
            }
        }
        found.sort_unstable();
        found
    };
    assert_eq!(kernel(&again), kernel(&first), "the kernel's functions stay the kernel's");
    assert_eq!(kernel(&first), [0, 0, 1]);
}
