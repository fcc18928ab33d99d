//! A pass over all records sees the same records as reading them one by one.

mod common;

use common::{HELLO, S, Side, Trace, W, WEIGHT_IN, WEIGHT_OUT, inline};
use fxt_format::scheduling::{self, context_switch, thread_wakeup};
use fxt_format::{argument, record_type};
use fxt_reader::{Error, Item, Reader, Visitor};
use proptest::collection::vec;
use proptest::prelude::*;

/// Everything about the records that it receives, as text.
#[derive(Debug, Default, PartialEq)]
struct Transcript {
    lines: Vec<String>,
    /// The number of records until the visitor needs no more.
    left: usize,
}

impl Visitor for Transcript {
    fn visit(&mut self, item: &Item<'_>) -> bool {
        self.lines.push(format!("{item:?}"));
        self.left -= 1;
        self.left > 0
    }
}

/// The result of reading one by one, including damages and the final summary.
fn one_by_one(mut reader: Reader<'_>) -> Vec<String> {
    let mut lines = Vec::new();
    loop {
        match reader.next() {
            Ok(Some(item)) => lines.push(format!("{item:?}")),
            Ok(None) => break,
            Err(Error::Damaged(damage)) => lines.push(damage.to_string()),
            Err(error) => {
                lines.push(error.to_string());
                break;
            }
        }
    }
    lines.push(format!("{:?}", reader.summary()));
    lines
}

/// The same from passes of at most `most` records each.
fn by_passes(mut reader: Reader<'_>, most: usize) -> Vec<String> {
    let mut lines = Vec::new();
    loop {
        let mut transcript = Transcript { left: most, ..Transcript::default() };
        let shown = reader.show_all(&mut transcript);
        lines.append(&mut transcript.lines);
        match shown {
            Ok(false) => assert_eq!(transcript.left, 0),
            Ok(true) => break,
            Err(Error::Damaged(damage)) => lines.push(damage.to_string()),
            Err(error) => {
                lines.push(error.to_string());
                break;
            }
        }
    }
    lines.push(format!("{:?}", reader.summary()));
    lines
}

fn assert_same(bytes: &[u8], most: usize) {
    let expected = one_by_one(Reader::from_slice(bytes));
    assert_eq!(by_passes(Reader::from_slice(bytes), most), expected);
    assert_eq!(by_passes(Reader::new(bytes), usize::MAX), expected);
    let limited = |limit| Reader::from_slice(bytes).max_record_bytes(limit);
    for limit in [16, 48, 200] {
        assert_eq!(by_passes(limited(limit), most), one_by_one(limited(limit)), "{limit}");
    }
}

/// An argument in one word.
fn small(argument_type: u64, name: u64, value: u64) -> u64 {
    argument::string::TYPE.put(argument_type)
        | argument::string::SIZE.put(1)
        | argument::string::NAME.put(name)
        | argument::string::VALUE.put(value)
}

/// One record of approximately the usual shapes, by `choice`; some are damaged.
fn push(trace: &mut Trace, choice: u8, time: u64) {
    let (time, waker) = (W(time), W(41));
    let (first, second) = (u64::from(WEIGHT_IN), u64::from(WEIGHT_OUT));
    let first = W(small(argument::INT32, first, 1024));
    let second = W(small(argument::INT32, second, 7));
    let nameless = W(small(argument::INT32, 99, 7));
    let state = |value| W(small(argument::STRING, 6, value));
    let koid = |reserved| {
        let header = argument::koid::TYPE.put(argument::KOID) | argument::koid::SIZE.put(2);
        W(header | argument::koid::NAME.put(7) | reserved)
    };
    let switch = |count, odd| {
        context_switch::TYPE.put(record_type::SCHEDULING)
            | context_switch::SCHEDULING_TYPE.put(scheduling::CONTEXT_SWITCH)
            | context_switch::ARG_COUNT.put(count)
            | context_switch::CPU.put(u64::from(choice) * 9)
            | context_switch::OUTGOING_STATE.put(u64::from(choice % 7))
            | odd
    };
    let wakeup = |count| {
        thread_wakeup::TYPE.put(record_type::SCHEDULING)
            | thread_wakeup::SCHEDULING_TYPE.put(scheduling::THREAD_WAKEUP)
            | thread_wakeup::ARG_COUNT.put(count)
            | thread_wakeup::CPU.put(u64::from(choice))
    };
    let (out, inn) = (W(40), W(u64::from(choice)));
    let named = argument::int32::NAME.put(inline("weight"));
    let long = argument::int32::TYPE.put(argument::INT32) | argument::int32::SIZE.put(2) | named;
    // All bits that have no meaning.
    let (odd_switch, odd_koid) =
        (context_switch::HEADER.reserved(), argument::koid::HEADER.reserved());
    // Words that no argument begins with.
    let wrong = W([0, u64::MAX][usize::from(choice / 24 % 2)]);
    match choice % 24 {
        0 => trace.switch(1, 2, Side(3, 4), Side(5, 6)),
        1 => trace.push(switch(2, 0), &[time, out, inn, first, second]),
        2 => trace.push(switch(3, 0), &[time, out, inn, first, second, state(HELLO.into())]),
        3 => trace.push(switch(3, 0), &[time, out, inn, first, second, state(98)]),
        4 => trace.push(switch(3, 0), &[time, out, inn, first, second, first]),
        5 => trace.push(switch(2, 0), &[time, out, inn, first, nameless]),
        6 => trace.push(switch(2, 0), &[time, out, inn, first, second, second]),
        7 => trace.push(switch(1, 0), &[time, out, inn, first, second]),
        8 => trace.push(switch(2, odd_switch), &[time, out, inn, first, second]),
        9 => trace.push(switch(3, 0), &[time, out, inn, first, second]),
        10 => trace.push(wakeup(1), &[time, inn, first]),
        11 => trace.push(wakeup(2), &[time, inn, first, koid(0), waker]),
        12 => trace.push(wakeup(2), &[time, inn, first, koid(odd_koid), waker]),
        13 => trace.push(wakeup(2), &[time, inn, koid(0), waker, first]),
        14 => trace.push(wakeup(1), &[time, inn, nameless]),
        15 => trace.push(wakeup(1), &[time, inn, W(long), S("weight")]),
        16 => trace.push(wakeup(0), &[time, inn]),
        17 => trace.string(WEIGHT_IN, "another"),
        18 => trace.provider_section(u64::from(choice / 24 % 2)),
        19 => trace.push(switch(2, 0), &[time, out, inn, wrong, second]),
        20 => trace.push(switch(3, 0), &[time, out, inn, first, second, wrong]),
        21 => trace.push(wakeup(1), &[time, inn, wrong]),
        22 => trace.push(wakeup(2), &[time, inn, first, wrong, waker]),
        _ => trace.initialization(1 + u64::from(choice)),
    };
}

fn trace(choices: &[u8]) -> Trace {
    let mut trace = Trace::new();
    trace.preamble().string(6, "prev_state").string(7, "waker");
    for (at, &choice) in choices.iter().enumerate() {
        push(&mut trace, choice, 1000 + at as u64);
    }
    trace
}

proptest! {
    #[test]
    fn any_pass_shows_what_reading_one_by_one_hands_out(
        choices in vec(any::<u8>(), 0..300),
        most in 1..50_usize,
    ) {
        assert_same(&trace(&choices).bytes, most);
    }

    #[test]
    fn damage_is_found_at_the_same_places(
        choices in vec(any::<u8>(), 20..200),
        damage in vec((any::<prop::sample::Index>(), any::<u8>()), 1..20),
        cut in any::<prop::sample::Index>(),
    ) {
        let mut bytes = trace(&choices).bytes;
        for (index, byte) in damage {
            let at = index.index(bytes.len());
            bytes[at] = byte;
        }
        bytes.truncate(cut.index(bytes.len()));
        assert_same(&bytes, usize::MAX);
    }
}

#[test]
fn names_that_only_another_provider_has_defined_are_damage_in_a_pass_too() {
    let mut trace = Trace::with_switches(3);
    trace.provider_info(2, "another");
    for time in 0..3 {
        trace.switch(time, 0, Side(0, 1), Side(41, 1));
    }
    trace.provider_section(1).switch(9, 0, Side(0, 1), Side(41, 1));
    let lines = by_passes(Reader::from_slice(&trace.bytes), usize::MAX);
    assert_eq!(lines.iter().filter(|line| line.starts_with("damaged")).count(), 3, "{lines:#?}");
    assert_eq!(lines, one_by_one(Reader::from_slice(&trace.bytes)));
}

#[test]
fn traces_of_the_other_byte_order_are_shown_too() {
    let mut trace = Trace::big_endian();
    trace.preamble().switch(1, 0, Side(0, 1), Side(41, 1)).switch(2, 0, Side(41, 1), Side(0, 1));
    assert_same(&trace.bytes, 1);
    assert_eq!(by_passes(Reader::from_slice(&trace.bytes), usize::MAX).len(), 9);
}
