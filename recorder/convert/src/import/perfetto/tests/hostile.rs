//! Traces that are truncated, damaged, or malicious.

use std::io::Write;

use super::*;
use flate2::write::ZlibEncoder;

fn sound() -> Vec<u8> {
    let thread = ("app", 101, 120);
    trace([
        bundle(0, [switch(100, ("swapper/0", 0, 120), 0, thread)]),
        bundle(0, [switch(200, thread, 1, ("swapper/0", 0, 120))]),
    ])
}

fn deflated(packets: &[u8]) -> Vec<u8> {
    let mut packer = ZlibEncoder::new(Vec::new(), flate2::Compression::new(6));
    packer.write_all(packets).expect("memory");
    packer.finish().expect("memory")
}

/// Reads arbitrary bytes as a trace.
fn read(bytes: &[u8]) -> (Vec<String>, Report) {
    let mut input = Input::from_bytes(bytes.to_vec()).expect("not packed");
    let mut out = Vec::new();
    let report = super::super::read(&mut input, &mut out).expect("memory has room");
    assert_sound(&out);
    (lines(&out), report)
}

#[test]
fn a_trace_may_end_anywhere() {
    let whole = sound();
    let first = 2 + usize::from(whole[1]);
    for end in 0..=whole.len() {
        let (found, report) = read(&whole[..end]);
        let expected = usize::from(end >= first) + usize::from(end == whole.len());
        assert_eq!(found.len(), expected, "{end}");
        let cut = ![0, first, whole.len()].contains(&end);
        let reported = report.notes().iter().any(|note| note.contains("truncated"));
        assert_eq!(reported, cut, "{end}");
    }
}

#[test]
fn lengths_are_not_believed() {
    for length in [u64::MAX, 1 << 62, (64 << 20) + 1, 64 << 20] {
        let mut bytes = sound();
        let mut huge = Message::default();
        huge.number(1, length);
        // Replaces the number of a field of numbers with that of a field of bytes.
        huge.0[0] = 10;
        bytes.extend(huge.0);
        bytes.extend([1, 2, 3]);
        let (found, report) = read(&bytes);
        assert_eq!(found.len(), 2);
        assert_eq!(report.notes().len(), 1, "{:?}", report.notes());
    }
    // Within a packet.
    let mut packet = Built::default().bytes();
    packet.extend([10, 0xff, 0xff, 0xff, 0xff, 0x7f, 8]);
    let mut bytes = sound();
    let mut trace = Message::default();
    trace.bytes(1, &packet);
    bytes.extend(trace.0);
    let (found, report) = read(&bytes);
    assert_eq!(found.len(), 2);
    assert_eq!(report.times("damaged packets, read only up to the damage"), 1);
}

#[test]
fn compressed_packets_are_unpacked_once() {
    let compressed = |packets: &[u8]| {
        let mut packet = Message::default();
        packet.bytes(50, &deflated(packets));
        let mut trace = Message::default();
        trace.bytes(1, &packet.0);
        trace.0
    };
    let once = compressed(&sound());
    assert_eq!(read(&once).0, read(&sound()).0);
    let (found, report) = read(&compressed(&once));
    assert!(found.is_empty());
    let what =
        "compressed packets that cannot be decompressed, or that contain other compressed packets";
    assert_eq!(report.times(what), 1);
    let mut damaged = once.clone();
    let end = damaged.len() - 20;
    damaged[end..].fill(0xee);
    let (found, report) = read(&damaged);
    assert!(found.len() <= 1 && report.times(what) == 1, "{found:?}");
    // The same with zstd.
    let mut packet = Message::default();
    packet.bytes(133, &zstd::encode_all(&sound()[..], 1).expect("memory"));
    let mut trace = Message::default();
    trace.bytes(1, &packet.0);
    assert_eq!(read(&trace.0).0, read(&sound()).0);
}

#[test]
fn absurd_numbers_are_no_memory() {
    let clock = |id, time| message().number(1, id).number(2, time).number(4, u64::MAX);
    let parent = |uuid, parent| message().with(60, message().number(1, uuid).number(5, parent));
    let sample = message().number(2, u64::MAX).number(3, u64::MAX).number(4, u64::MAX);
    let begin = message().number(9, 1).number(11, 5).number(10, u64::MAX).number(3, u64::MAX);
    let (found, report) = read(&trace([
        message()
            .with(6, message().with(1, clock(6, u64::MAX)).with(1, clock(64, u64::MAX)))
            .number(10, 1),
        // Each is the parent of the other.
        parent(5, 6),
        parent(6, 5),
        message().number(8, u64::MAX).number(58, 64).number(10, 1).with(11, begin.clone()),
        message().number(8, 7).number(10, u64::MAX).with(11, begin),
        message().number(8, 7).number(10, 3).with(66, sample),
        bundle(u64::MAX, [switch(1, ("a", 1, 1), 1, ("b", 2, 2))]),
        bundle(65_535, [switch(u64::MAX, ("a", u64::MAX, 1), u64::MAX, ("b", 2, 2))]),
    ]));
    assert_eq!(report.times("events with impossible CPU numbers, left out"), 1);
    assert_eq!(report.times("events with impossible times, left out"), 2);
    assert_eq!(report.times("samples without a time, a thread or a stack, left out"), 1);
    assert_eq!(found, ["7 async begin 5 :unnamed of 0/0"]);
}

#[test]
fn arguments_that_hold_each_other_end_at_some_depth() {
    let mut annotation = message().text(10, "x").number(3, 1);
    for _ in 0..500 {
        annotation = message().text(10, "x").with(11, annotation);
    }
    let event = message().number(9, 3).text(23, "deep").with(4, annotation);
    let (found, report) = read(&trace([message().number(8, 7).with(11, event)]));
    assert_eq!(found, ["7 instant :deep of 0/0"]);
    assert_eq!(report.times("arguments of an event beyond the 14th, left out"), 1);
}

#[test]
fn other_files_are_not_taken_for_traces() {
    use super::super::is_trace;
    let sound = sound();
    assert!(is_trace(&sound) && is_trace(&sound[..sound.len() - 5]));
    for other in [
        &b""[..],
        b"\n",
        b"\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n",
        b"\n# tracer: nop\n",
        b"\n  bash-1 [000] d... 1.0: sched_switch: x",
        b"\x7fELF",
        &[10, 0],
        &[0; 64],
    ] {
        assert!(!is_trace(other), "{other:?}");
    }
}
