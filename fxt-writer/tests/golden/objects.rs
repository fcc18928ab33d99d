//! Blobs, objects and log messages.

use fxt_writer::record::{
    Blob, BlobMetadata, BlobType, KernelObject, LargeBlob, Log, ObjectType, UserspaceObject,
};
use fxt_writer::{Arg, Koid, Text, Ticks, Value};

use crate::{assert_words, indexed, inline_ref, inline_thread, stream, thread, word};

#[test]
fn blobs_of_every_type() {
    let types = [(BlobType::Data, 1), (BlobType::LastBranch, 2), (BlobType::Perfetto, 3)];
    for (blob_type, number) in types {
        for (name, name_ref, name_words) in
            [(indexed(6), 6, vec![]), (Text::Inline("blob"), inline_ref(4), stream(b"blob"))]
        {
            let header = word(&[
                ("record type", 0, 3, 5),
                ("record size", 4, 15, 3 + name_words.len() as u64),
                ("blob name (string ref)", 16, 31, name_ref),
                ("blob payload size in bytes", 32, 46, 10),
                ("reserved", 47, 47, 0),
                ("blob type", 48, 55, number),
                ("reserved", 56, 63, 0),
            ]);
            let payload = [0xff, 1, 2, 3, 4, 5, 6, 7, 8, 9];
            let record = Blob { name, blob_type, payload: &payload };
            assert_words(&record, &[&[header], &name_words, &stream(&payload)]);
        }
    }
}

#[test]
fn userspace_objects_with_indexed_and_inline_process_and_name() {
    let header = |size, process, name, args| {
        word(&[
            ("record type", 0, 3, 6),
            ("record size", 4, 15, size),
            ("process (thread ref)", 16, 23, process),
            ("name (string ref)", 24, 39, name),
            ("number of arguments", 40, 43, args),
            ("reserved", 44, 63, 0),
        ])
    };
    let record =
        UserspaceObject { pointer: 0xdead_beef, process: thread(17), name: indexed(2), args: &[] };
    assert_words(&record, &[&[header(2, 17, 2, 0), 0xdead_beef]]);
    let null = word(&[
        ("argument type", 0, 3, 0),
        ("argument size", 4, 15, 1),
        ("argument name (string ref)", 16, 31, 3),
    ]);
    let record = UserspaceObject {
        process: inline_thread(40, 41),
        name: Text::Inline("widget"),
        args: &[Arg::new(indexed(3), Value::Null)],
        ..record
    };
    // An inline process has only its own koid, no thread koid.
    let (fixed, name) = ([header(5, 0, inline_ref(6), 1), 0xdead_beef, 40], stream(b"widget"));
    assert_words(&record, &[&fixed, &name, &[null]]);
}

#[test]
fn kernel_objects_of_each_type() {
    let types = [(ObjectType::Process, 1), (ObjectType::Thread, 2), (ObjectType::Other(255), 255)];
    for (kind, number) in types {
        let header = word(&[
            ("record type", 0, 3, 7),
            ("record size", 4, 15, 5),
            ("kernel object type", 16, 23, number),
            ("name (string ref)", 24, 39, inline_ref(5)),
            ("number of arguments", 40, 43, 1),
            ("reserved", 44, 63, 0),
        ]);
        let process = word(&[
            ("argument type", 0, 3, 8),
            ("argument size", 4, 15, 2),
            ("argument name (string ref)", 16, 31, 1),
        ]);
        let record = KernelObject {
            object_type: kind,
            koid: Koid(99),
            name: Text::Inline("named"),
            args: &[Arg::new(indexed(1), Value::Koid(Koid(98)))],
        };
        assert_words(&record, &[&[header, 99], &stream(b"named"), &[process, 98]]);
    }
}

#[test]
fn log_messages_with_indexed_and_inline_threads() {
    let header = |size, thread| {
        word(&[
            ("record type", 0, 3, 9),
            ("record size", 4, 15, size),
            ("log message length in bytes", 16, 30, 11),
            ("always zero", 31, 31, 0),
            ("thread (thread ref)", 32, 39, thread),
            ("reserved", 40, 63, 0),
        ])
    };
    let message = "log message";
    let record = Log { time: Ticks(12), thread: thread(9), message };
    assert_words(&record, &[&[header(4, 9), 12], &stream(message.as_bytes())]);
    let record = Log { thread: inline_thread(1, 2), ..record };
    assert_words(&record, &[&[header(6, 0), 12, 1, 2], &stream(message.as_bytes())]);
}

#[test]
fn large_blobs_without_metadata() {
    let header = word(&[
        ("record type", 0, 3, 15),
        ("record size", 4, 35, 7),
        ("large record type", 36, 39, 0),
        ("blob format type", 40, 43, 1),
        ("reserved", 44, 63, 0),
    ]);
    let format = word(&[
        ("category (string ref)", 0, 15, inline_ref(3)),
        ("name (string ref)", 16, 31, inline_ref(4)),
        ("reserved", 32, 63, 0),
    ]);
    let record = LargeBlob {
        category: Text::Inline("cat"),
        name: Text::Inline("name"),
        metadata: None,
        payload: b"ninebytes",
    };
    let (category, name, payload) = (stream(b"cat"), stream(b"name"), stream(b"ninebytes"));
    assert_words(&record, &[&[header, format], &category, &name, &[9], &payload]);
}

#[test]
fn large_blobs_with_metadata() {
    let header = word(&[
        ("record type", 0, 3, 15),
        ("record size", 4, 35, 8),
        ("large record type", 36, 39, 0),
        ("blob format type", 40, 43, 0),
        ("reserved", 44, 63, 0),
    ]);
    let format = |thread| {
        word(&[
            ("category (string ref)", 0, 15, 1),
            ("name (string ref)", 16, 31, 2),
            ("number of arguments", 32, 35, 1),
            ("thread (thread ref)", 36, 43, thread),
            ("reserved", 44, 63, 0),
        ])
    };
    let argument = word(&[
        ("argument type", 0, 3, 2),
        ("argument size", 4, 15, 1),
        ("argument name (string ref)", 16, 31, 3),
        ("value", 32, 63, 4),
    ]);
    let args = [Arg::new(indexed(3), Value::Uint32(4))];
    let record = LargeBlob {
        category: indexed(1),
        name: indexed(2),
        metadata: Some(BlobMetadata { time: Ticks(5), thread: inline_thread(6, 7), args: &args }),
        payload: b"8 bytes!",
    };
    let payload = stream(b"8 bytes!");
    assert_words(&record, &[&[header, format(0), 5, 6, 7, argument, 8], &payload]);
}

#[test]
fn a_large_blob_may_be_larger_than_any_other_record() {
    let payload = vec![0xab; 40_000];
    let header = word(&[
        ("record type", 0, 3, 15),
        ("record size", 4, 35, 3 + 5000),
        ("large record type", 36, 39, 0),
        ("blob format type", 40, 43, 1),
    ]);
    let record =
        LargeBlob { category: Text::EMPTY, name: Text::EMPTY, metadata: None, payload: &payload };
    assert_words(&record, &[&[header, 0, 40_000], &stream(&payload)]);
}
