//! The three scheduling records.

use fxt_writer::record::{ContextSwitch, LegacyContextSwitch, LegacySide, ThreadState, Wakeup};
use fxt_writer::{Arg, Koid, Ticks, Value};

use crate::{assert_words, indexed, inline_thread, thread, word};

const STATES: [(ThreadState, u64); 6] = [
    (ThreadState::New, 0),
    (ThreadState::Running, 1),
    (ThreadState::Suspended, 2),
    (ThreadState::Blocked, 3),
    (ThreadState::Dying, 4),
    (ThreadState::Dead, 5),
];

fn weight(name: u64, value: u64) -> u64 {
    word(&[
        ("argument type", 0, 3, 1),
        ("argument size", 4, 15, 1),
        ("argument name (string ref)", 16, 31, name),
        ("value", 32, 63, value),
    ])
}

#[test]
fn a_context_switch_in_every_state_with_two_weights() {
    for (outgoing_state, state) in STATES {
        let header = word(&[
            ("record type", 0, 3, 8),
            ("record size", 4, 15, 6),
            ("argument count", 16, 19, 2),
            ("cpu number", 20, 35, 0xabcd),
            ("outgoing thread state", 36, 39, state),
            ("reserved", 40, 59, 0),
            ("scheduling record type", 60, 63, 1),
        ]);
        let record = ContextSwitch {
            cpu: 0xabcd,
            time: Ticks(500),
            outgoing: Koid(1),
            incoming: Koid(u64::MAX),
            outgoing_state,
            args: &[
                Arg::new(indexed(1), Value::Int32(1024)),
                Arg::new(indexed(2), Value::Int32(i32::MIN)),
            ],
        };
        let weights = [weight(1, 1024), weight(2, 0x8000_0000)];
        assert_words(&record, &[&[header, 500, 1, u64::MAX], &weights]);
    }
}

#[test]
fn a_wakeup_with_weight_and_waker() {
    let header = word(&[
        ("record type", 0, 3, 8),
        ("record size", 4, 15, 6),
        ("argument count", 16, 19, 2),
        ("cpu number", 20, 35, 63),
        ("reserved", 36, 59, 0),
        ("scheduling record type", 60, 63, 2),
    ]);
    let waker = word(&[
        ("argument type", 0, 3, 8),
        ("argument size", 4, 15, 2),
        ("argument name (string ref)", 16, 31, 8),
        ("reserved", 32, 63, 0),
    ]);
    let record = Wakeup {
        cpu: 63,
        time: Ticks(501),
        thread: Koid(9),
        args: &[
            Arg::new(indexed(7), Value::Int32(88)),
            Arg::new(indexed(8), Value::Koid(Koid(10))),
        ],
    };
    assert_words(&record, &[&[header, 501, 9], &[weight(7, 88), waker, 10]]);
}

#[test]
fn a_legacy_context_switch_with_indexed_and_inline_threads() {
    let header = |size, outgoing, incoming| {
        word(&[
            ("record type", 0, 3, 8),
            ("record size", 4, 15, size),
            ("cpu number", 16, 23, 255),
            ("outgoing thread state", 24, 27, 3),
            ("outgoing thread (thread ref)", 28, 35, outgoing),
            ("incoming thread (thread ref)", 36, 43, incoming),
            ("outgoing thread priority", 44, 51, 16),
            ("incoming thread priority", 52, 59, 255),
            ("scheduling record type", 60, 63, 0),
        ])
    };
    let record = |outgoing, incoming| LegacyContextSwitch {
        cpu: 255,
        time: Ticks(7),
        outgoing: LegacySide { thread: outgoing, priority: 16 },
        incoming: LegacySide { thread: incoming, priority: 255 },
        outgoing_state: ThreadState::Blocked,
    };
    let (indexed, inline) = (thread(200), inline_thread(1, 2));
    assert_words(&record(indexed, thread(3)), &[&[header(2, 200, 3), 7]]);
    assert_words(&record(inline, indexed), &[&[header(4, 0, 200), 7, 1, 2]]);
    assert_words(&record(indexed, inline), &[&[header(4, 200, 0), 7, 1, 2]]);
    let both = record(inline, inline_thread(3, 4));
    assert_words(&both, &[&[header(6, 0, 0), 7, 1, 2, 3, 4]]);
}
