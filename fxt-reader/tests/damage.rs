//! Damaged traces: the errors, and where reading continues.

mod common;

use common::{S, Side, Trace, W, inline, transcript};
use fxt_format::{argument, event, header, record_type, string};
use fxt_reader::{Damage, Error, Reader, Reason, RecordType};

/// All damages of a trace, the number of its valid records, and the summary's
/// count of skipped bytes.
fn damages(bytes: &[u8]) -> (Vec<Damage>, u64, u64) {
    let mut reader = Reader::from_slice(bytes);
    let mut damages = Vec::new();
    loop {
        match reader.next() {
            Ok(Some(_)) => {}
            Ok(None) => break,
            Err(Error::Damaged(damage)) => damages.push(damage),
            Err(error) => panic!("{error}"),
        }
    }
    let summary = reader.summary();
    assert_eq!(summary.damaged_regions, damages.len() as u64);
    let accounted = summary.record_bytes + summary.damaged_bytes + summary.truncated_tail;
    assert_eq!(accounted, bytes.len() as u64, "every byte is accounted for");
    (damages, summary.records, summary.damaged_bytes)
}

/// Reads a trace of ten switches with `record` in the middle; returns the reason
/// for its damage, and asserts that no other record is lost.
fn reason(record: impl FnOnce(&mut Trace)) -> (Reason, RecordType) {
    let (idle, busy) = (Side(0, i32::MIN), Side(41, 1024));
    let mut trace = Trace::with_switches(5);
    let offset = trace.bytes.len();
    record(&mut trace);
    let length = trace.bytes.len() - offset;
    for at in 0..5 {
        trace.switch(1_000_000 + at, 0, idle, busy);
    }
    let (damages, records, bytes) = damages(&trace.bytes);
    assert_eq!(damages.len(), 1, "{damages:?}");
    assert_eq!(damages[0].offset, offset as u64);
    assert_eq!((records, bytes), (trace.offsets.len() as u64 - 1, length as u64));
    (damages[0].reason, damages[0].record_type)
}

const fn typed(record_type: u64) -> RecordType {
    RecordType::from_field(record_type)
}

#[test]
fn a_record_of_size_zero_ends_at_the_next_sound_record() {
    let found = reason(|trace| {
        trace.push(0, &[W(0), W(0)]);
        let offset = trace.offsets[trace.offsets.len() - 1];
        trace.bytes[offset..offset + 8].fill(0);
    });
    assert_eq!(found, (Reason::ZeroSize, typed(record_type::METADATA)));
}

#[test]
fn a_record_too_short_for_its_strings_is_skipped_alone() {
    let found = reason(|trace| {
        let length = string::LENGTH.put(100);
        trace.push(string::TYPE.put(record_type::STRING) | length, &[S("not a hundred")]);
    });
    assert_eq!(found, (Reason::TooShort, typed(record_type::STRING)));
}

#[test]
fn an_argument_of_size_zero_or_beyond_its_record_is_skipped_with_the_record() {
    let event_header =
        event::TYPE.put(record_type::EVENT) | event::ARG_COUNT.put(1) | event::CATEGORY.put(3);
    for (size, expected) in [(0, Reason::ZeroSizeArgument), (4095, Reason::TooShort)] {
        let found = reason(|trace| {
            let argument_header = argument::TYPE.put(argument::INT32) | argument::SIZE.put(size);
            trace.push(event_header, &[W(1), W(2), W(3), W(argument_header)]);
        });
        assert_eq!(found, (expected, typed(record_type::EVENT)));
    }
}

#[test]
fn references_to_what_was_never_defined_are_named() {
    let header = event::TYPE.put(record_type::EVENT);
    let found = reason(|trace| {
        trace.push(header | event::NAME.put(99), &[W(1), W(2), W(3)]);
    });
    assert_eq!(found, (Reason::UnknownString(99), typed(record_type::EVENT)));
    let found = reason(|trace| {
        trace.push(header | event::THREAD.put(98), &[W(1)]);
    });
    assert_eq!(found, (Reason::UnknownThread(98), typed(record_type::EVENT)));
}

#[test]
fn a_second_without_ticks_is_refused_and_the_ticks_before_stay() {
    let found = reason(|trace| {
        trace.initialization(0);
    });
    assert_eq!(found, (Reason::ZeroTicks, typed(record_type::INITIALIZATION)));
}

#[test]
fn a_string_that_is_not_utf8_is_reported_yet_can_be_referred_to() {
    let mut trace = Trace::with_switches(2);
    let offset = trace.bytes.len();
    trace.string(30, "caf?!");
    trace.bytes[offset + 11] = 0xe9;
    let name = event::NAME.put(30);
    let header = event::TYPE.put(record_type::EVENT);
    trace.push(header | name, &[W(1), W(2), W(3)]).string(31, "more");
    let lines = transcript(&mut Reader::from_slice(&trace.bytes));
    let message = format!("damaged string record at byte {offset}: a string in it is not UTF-8");
    assert!(lines.contains(&message), "{lines:#?}");
    assert!(lines.iter().any(|line| line.contains("caf\u{fffd}!")), "{lines:#?}");
}

#[test]
fn an_inline_string_that_is_not_utf8_costs_its_record_only() {
    let found = reason(|trace| {
        let header = event::TYPE.put(record_type::EVENT) | event::NAME.put(inline("abc"));
        trace.push(header, &[W(1), W(2), W(3), S("abc")]);
        let end = trace.bytes.len();
        trace.bytes[end - 8] = 0xff;
    });
    assert_eq!(found, (Reason::NotUtf8, typed(record_type::EVENT)));
}

#[test]
fn overwritten_bytes_cost_the_records_they_are_in_and_no_longer() {
    let clean = Trace::with_switches(40);
    let at = clean.offsets[20];
    for length in [8, 48, 100, 300] {
        let mut bytes = clean.bytes.clone();
        bytes[at..at + length].fill(0xa5);
        let hit = clean.offsets.iter().filter(|&&offset| (at..at + length).contains(&offset));
        let (damages, records, skipped) = damages(&bytes);
        assert_eq!(damages.len(), 1, "{length} bytes: {damages:?}");
        assert_eq!(records, (clean.offsets.len() - hit.count()) as u64, "{length} bytes");
        assert_eq!(skipped, (length.next_multiple_of(48)) as u64);
    }
}

#[test]
fn bytes_that_are_missing_shift_the_rest_and_it_is_found_again() {
    let clean = Trace::with_switches(40);
    for missing in 1..48 {
        let mut bytes = clean.bytes.clone();
        let at = clean.offsets[20] + 5;
        bytes.drain(at..at + missing);
        let (damages, records, _) = damages(&bytes);
        assert!((1..=2).contains(&damages.len()), "{missing} missing: {damages:?}");
        // At most two records are lost: the truncated one, and one that was misread in its place.
        assert!(records >= clean.offsets.len() as u64 - 2, "{missing} missing: {records}");
    }
}

#[test]
fn a_record_that_claims_to_reach_beyond_the_end_is_distinguished_from_a_truncated_one() {
    let mut trace = Trace::with_switches(40);
    let at = trace.offsets[30];
    let word = u64::from_le_bytes(trace.bytes[at..at + 8].try_into().expect("a word"));
    trace.bytes[at..at + 8].copy_from_slice(&header::SIZE.set(word, 4095).to_le_bytes());
    let (damages, records, skipped) = damages(&trace.bytes);
    assert_eq!(damages.len(), 1, "{damages:?}");
    assert_eq!(damages[0].reason, Reason::Overrun { bytes: 4095 * 8 });
    assert_eq!((records, skipped), (trace.offsets.len() as u64 - 1, 48));
}

#[test]
fn a_large_record_over_the_limit_is_not_buffered() {
    let mut bytes = Trace::with_switches(1).bytes;
    let at = bytes.len() as u64;
    // A large record of 2^32 - 1 words, followed by an endless input.
    bytes.extend(0x0000_000f_ffff_ffff_u64.to_le_bytes());
    let endless = std::io::Read::take(std::io::repeat(0xff), 1 << 20);
    let mut reader =
        Reader::new(std::io::Read::chain(&bytes[..], endless)).max_record_bytes(100_000);
    let error = loop {
        match reader.next() {
            Ok(Some(_)) => {}
            Ok(None) => panic!("it was taken for a truncated one"),
            Err(error) => break error,
        }
    };
    let damage = error.damage().expect("damage");
    assert_eq!(damage.offset, at);
    let expected = Reason::TooLarge { bytes: u64::from(u32::MAX) * 8, limit: 100_000 };
    assert_eq!(damage.reason, expected);
    assert!(reader.next().expect("nothing but noise").is_none());
    assert_eq!(reader.summary().damaged_bytes, 8 + (1 << 20));
}

#[test]
fn a_trace_whose_magic_number_is_damaged_is_read_behind_it() {
    let mut trace = Trace::with_switches(10);
    trace.bytes[3] ^= 0xff;
    let (damages, records, _) = damages(&trace.bytes);
    let reasons: Vec<Reason> = damages.iter().map(|damage| damage.reason).collect();
    assert_eq!(reasons, [Reason::NoMagic]);
    assert_eq!(records, trace.offsets.len() as u64 - 1);
}

#[test]
fn noise_in_the_middle_of_a_trace_reads_the_same_from_a_stream_and_a_slice() {
    let mut trace = Trace::with_switches(3000);
    // More damage than one search covers.
    let noise: Vec<u8> =
        (0_u32..100_000).map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    let middle = trace.offsets[1500];
    trace.bytes.splice(middle..middle, noise);
    let expected = transcript(&mut Reader::from_slice(&trace.bytes));
    assert!(transcript(&mut Reader::new(&trace.bytes[..])) == expected);
    let (damages, records, skipped) = damages(&trace.bytes);
    assert_eq!(damages[0].offset, middle as u64);
    assert!(skipped >= 100_000 - 4095 * 8, "{skipped}");
    assert!(records >= trace.offsets.len() as u64);
}

#[test]
fn what_is_odd_is_remarked_and_still_read() {
    let odd = |change: fn(&mut Vec<u8>)| {
        let mut trace = Trace::new();
        trace.preamble().string(9, "padded").string(10, "end");
        let before = trace.offsets[trace.offsets.len() - 2];
        let mut record = trace.bytes[before..before + 16].to_vec();
        change(&mut record);
        trace.bytes.splice(before..before + 16, record);
        let mut reader = Reader::from_slice(&trace.bytes);
        let mut oddities = None;
        while let Some(item) = reader.next().expect("odd is not damaged") {
            if item.offset == before as u64 {
                oddities = Some(item.oddities);
            }
        }
        oddities.expect("it was read")
    };
    assert!(odd(|_| {}).is_empty());
    assert!(odd(|record| record[7] |= 0x80).reserved_bits());
    assert!(odd(|record| record[15] = 1).padding());
    assert!(
        odd(|record| {
            record[0] = (record[0] & 0x0f) | 0x30;
            record.extend([0; 8]);
        })
        .trailing_words()
    );
}
