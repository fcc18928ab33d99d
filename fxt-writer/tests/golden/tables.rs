//! Metadata, initialization, string and thread records.

use fxt_writer::record::{
    Initialization, Magic, ProviderEvent, ProviderEventKind, ProviderInfo, ProviderSection,
    StringRecord, ThreadRecord,
};
use fxt_writer::{Koid, ProviderId, StringRef, ThreadRef};

use crate::{assert_words, stream, word};

#[test]
fn the_magic_number() {
    let header = word(&[
        ("record type", 0, 3, 0),
        ("record size", 4, 15, 1),
        ("metadata type", 16, 19, 4),
        ("trace info type", 20, 23, 0),
        ("the magic number", 24, 55, 0x1654_7846),
        ("zero", 56, 63, 0),
    ]);
    assert_eq!(header, 0x0016_5478_4604_0010, "the value that the specification gives");
    assert_words(&Magic, &[&[header]]);
}

#[test]
fn provider_info() {
    for (name, words) in [("", 1), ("providers", 3), ("12345678", 2)] {
        let header = word(&[
            ("record type", 0, 3, 0),
            ("record size", 4, 15, words),
            ("metadata type", 16, 19, 1),
            ("provider id", 20, 51, 0xffff_fffe),
            ("name length in bytes", 52, 59, name.len() as u64),
            ("reserved", 60, 63, 0),
        ]);
        let record = ProviderInfo { id: ProviderId(0xffff_fffe), name };
        assert_words(&record, &[&[header], &stream(name.as_bytes())]);
    }
}

#[test]
fn provider_section() {
    let header = word(&[
        ("record type", 0, 3, 0),
        ("record size", 4, 15, 1),
        ("metadata type", 16, 19, 2),
        ("provider id", 20, 51, 5),
        ("reserved", 52, 63, 0),
    ]);
    assert_words(&ProviderSection { id: ProviderId(5) }, &[&[header]]);
}

#[test]
fn provider_event() {
    let header = |event| {
        word(&[
            ("record type", 0, 3, 0),
            ("record size", 4, 15, 1),
            ("metadata type", 16, 19, 3),
            ("provider id", 20, 51, 5),
            ("the event id", 52, 55, event),
            ("reserved", 56, 63, 0),
        ])
    };
    assert_words(&ProviderEvent::buffer_filled_up(ProviderId(5)), &[&[header(0)]]);
    assert_words(
        &ProviderEvent { id: ProviderId(5), event: ProviderEventKind::Undefined(15) },
        &[&[header(15)]],
    );
}

#[test]
fn initialization() {
    let header =
        word(&[("record type", 0, 3, 1), ("record size", 4, 15, 2), ("reserved", 16, 63, 0)]);
    let record = Initialization { ticks_per_second: 1_000_000_000 };
    assert_words(&record, &[&[header, 1_000_000_000]]);
}

#[test]
fn string_records_of_every_padding() {
    let text = "h\u{e9}llo, FXT w\u{f6}rld!";
    for length in (0..=text.len()).filter(|&length| text.is_char_boundary(length)) {
        let content = &text[..length];
        let header = word(&[
            ("record type", 0, 3, 2),
            ("record size", 4, 15, 1 + length.div_ceil(8) as u64),
            ("string index", 16, 30, 0x7fff),
            ("always zero", 31, 31, 0),
            ("string length in bytes", 32, 46, length as u64),
            ("always zero", 47, 47, 0),
            ("reserved", 48, 63, 0),
        ]);
        let index = StringRef::indexed(0x7fff).expect("the highest index");
        let record = StringRecord { index, content };
        assert_words(&record, &[&[header], &stream(content.as_bytes())]);
    }
}

#[test]
fn thread_record() {
    let header = word(&[
        ("record type", 0, 3, 3),
        ("record size", 4, 15, 3),
        ("thread index", 16, 23, 255),
        ("reserved", 24, 63, 0),
    ]);
    let index = ThreadRef::indexed(255).expect("the highest index");
    let record = ThreadRecord { index, process: Koid(u64::MAX), thread: Koid(2) };
    assert_words(&record, &[&[header, u64::MAX, 2]]);
}
