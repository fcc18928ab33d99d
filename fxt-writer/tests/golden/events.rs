//! The eleven event types, with threads and strings indexed and inline.

use fxt_writer::record::{Event, EventKind};
use fxt_writer::{Arg, Text, Ticks, Value};

use crate::{assert_words, indexed, inline_ref, inline_thread, stream, thread, word};

/// Every kind of event with its type and the word that ends it, where one does.
const KINDS: [(EventKind, u64, Option<u64>); 11] = [
    (EventKind::Instant, 0, None),
    (EventKind::Counter { id: 100 }, 1, Some(100)),
    (EventKind::DurationBegin, 2, None),
    (EventKind::DurationEnd, 3, None),
    (EventKind::DurationComplete { end: Ticks(2000) }, 4, Some(2000)),
    (EventKind::AsyncBegin { id: 101 }, 5, Some(101)),
    (EventKind::AsyncInstant { id: 102 }, 6, Some(102)),
    (EventKind::AsyncEnd { id: 103 }, 7, Some(103)),
    (EventKind::FlowBegin { id: 104 }, 8, Some(104)),
    (EventKind::FlowStep { id: 105 }, 9, Some(105)),
    (EventKind::FlowEnd { id: u64::MAX }, 10, Some(u64::MAX)),
];

#[test]
fn every_event_type_with_everything_indexed() {
    for (kind, event_type, last) in KINDS {
        let last: Vec<u64> = last.into_iter().collect();
        let header = word(&[
            ("record type", 0, 3, 4),
            ("record size", 4, 15, 2 + last.len() as u64),
            ("event type", 16, 19, event_type),
            ("number of arguments", 20, 23, 0),
            ("thread (thread ref)", 24, 31, 255),
            ("category (string ref)", 32, 47, 0x7fff),
            ("name (string ref)", 48, 63, 1),
        ]);
        let event = Event {
            kind,
            time: Ticks(1000),
            thread: thread(255),
            category: indexed(0x7fff),
            name: indexed(1),
            args: &[],
        };
        assert_words(&event, &[&[header, 1000], &last]);
    }
}

#[test]
fn every_event_type_with_everything_inline_and_arguments() {
    for (kind, event_type, last) in KINDS {
        let last: Vec<u64> = last.into_iter().collect();
        let header = word(&[
            ("record type", 0, 3, 4),
            ("record size", 4, 15, 9 + last.len() as u64),
            ("event type", 16, 19, event_type),
            ("number of arguments", 20, 23, 2),
            ("thread (thread ref)", 24, 31, 0),
            ("category (string ref)", 32, 47, inline_ref(8)),
            ("name (string ref)", 48, 63, inline_ref(9)),
        ]);
        let int32 = word(&[
            ("argument type", 0, 3, 1),
            ("argument size", 4, 15, 1),
            ("argument name (string ref)", 16, 31, 4),
            ("value", 32, 63, 5),
        ]);
        let boolean = word(&[
            ("argument type", 0, 3, 9),
            ("argument size", 4, 15, 1),
            ("argument name (string ref)", 16, 31, 0),
            ("value", 32, 32, 1),
        ]);
        let event = Event {
            kind,
            time: Ticks(1000),
            thread: inline_thread(21, 22),
            category: Text::Inline("category"),
            name: Text::Inline("long name"),
            args: &[
                Arg::new(indexed(4), Value::Int32(5)),
                Arg::new(Text::EMPTY, Value::Bool(true)),
            ],
        };
        let (category, name) = (stream(b"category"), stream(b"long name"));
        assert_words(
            &event,
            &[&[header, 1000, 21, 22], &category, &name, &[int32, boolean], &last],
        );
    }
}
