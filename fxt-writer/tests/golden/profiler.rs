//! Profiler records compared with the words of Fuchsia's own writer for the same values.

use fxt_writer::record::{Backtrace, Mapping, Module, ProcessName};
use fxt_writer::{Koid, ThreadName, ThreadRef, Ticks};

use crate::{assert_words, inline_thread, stream, word};

#[test]
fn a_module_of_a_process() {
    let build_id: Vec<u8> = (1..=20).collect();
    let header = word(&[
        ("record type", 0, 3, 10),
        ("record size", 4, 15, 8),
        ("kind", 16, 19, 0),
        ("thread (thread ref)", 20, 27, 0),
        ("module id", 28, 43, 99),
        ("length of the name", 44, 51, 14),
        ("length of the build id", 52, 59, 20),
        ("reserved", 60, 63, 0),
    ]);
    assert_eq!(header, 0x0140_e006_3000_008a);
    let record = Module {
        time: Ticks(5000),
        process: ProcessName::Inline(Koid(123)),
        id: 99,
        name: "test_module.so",
        build_id: &build_id,
    };
    assert_words(&record, &[&[header, 5000, 123], &stream(b"test_module.so"), &stream(&build_id)]);
}

#[test]
fn a_mapping_of_a_module() {
    let header = |words, thread| {
        word(&[
            ("record type", 0, 3, 10),
            ("record size", 4, 15, words),
            ("kind", 16, 19, 1),
            ("thread (thread ref)", 20, 27, thread),
            ("module id", 28, 43, 101),
            ("flags", 44, 46, 1),
            ("reserved", 47, 63, 0),
        ])
    };
    assert_eq!(header(6, 0), 0x0000_1006_5001_006a);
    let mut record = Mapping {
        time: Ticks(6000),
        process: ProcessName::Inline(Koid(456)),
        module: 101,
        flags: 1,
        start: 0x1000,
        length: 0x2000,
        module_address: 0x3000,
    };
    assert_words(&record, &[&[header(6, 0), 6000, 456, 0x1000, 0x2000, 0x3000]]);
    record.process = ProcessName::OfThread(ThreadRef::indexed(7).expect("an index in range"));
    assert_words(&record, &[&[header(5, 7), 6000, 0x1000, 0x2000, 0x3000]]);
}

#[test]
fn a_backtrace_of_a_thread() {
    let header = |words, thread, frames| {
        word(&[
            ("record type", 0, 3, 10),
            ("record size", 4, 15, words),
            ("kind", 16, 19, 2),
            ("thread (thread ref)", 20, 27, thread),
            ("number of frames", 28, 35, frames),
            ("flags", 36, 63, 2),
        ])
    };
    assert_eq!(header(6, 0, 2), 0x0000_0020_2002_006a);
    let frames = [0x402a_964b_1499, 0x4ae0_293b];
    let record =
        Backtrace { time: Ticks(7000), thread: inline_thread(789, 987), flags: 2, frames: &frames };
    assert_words(&record, &[&[header(6, 0, 2), 7000, 789, 987], &frames]);
    let thread = ThreadName::Indexed(ThreadRef::indexed(3).expect("an index in range"));
    assert_words(&Backtrace { thread, ..record }, &[&[header(4, 3, 2), 7000], &frames]);
    let many = [0xffff_ffff_8100_0000; 255];
    let deep = Backtrace { thread, frames: &many, ..record };
    assert_words(&deep, &[&[header(257, 3, 255), 7000], &many]);
}
