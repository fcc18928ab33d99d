//! Control messages, good and hostile.

use super::*;
use crate::Koid;
use crate::engine::{BufferDisposition, Mode};

fn session(number: u64) -> Session {
    Session::new(number).expect("a number that is not zero")
}

fn start() -> Start {
    Start {
        mode: Mode::Streaming,
        disposition: BufferDisposition::ClearNondurable,
        buffer_bytes: 0x0807_0605_0403_0201,
        process: Koid(0x1817_1615_1413_1211),
        categories: vec!["app*".into(), "net".into()],
    }
}

fn from_provider() -> Vec<FromProvider> {
    vec![
        FromProvider::Register { name: "app".into(), categories: Vec::new() },
        FromProvider::Register { name: "é".into(), categories: vec!["net".into(), "disk".into()] },
        FromProvider::Categories(vec!["later".into()]),
        FromProvider::Categories(Vec::new()),
        FromProvider::Stopped(session(u64::MAX)),
        FromProvider::Alert("fourteen bytes".into()),
    ]
}

fn from_manager() -> Vec<FromManager> {
    let all = Start { categories: Vec::new(), ..start() };
    vec![
        FromManager::Start { session: session(7), start: start() },
        FromManager::Start { session: session(8), start: all },
        FromManager::Stop(session(1)),
        FromManager::Terminate(session(2)),
    ]
}

/// A message with a hand-made header.
fn raw(kind: u16, version: u16, announced: usize, data: u64, payload: &[u8]) -> Vec<u8> {
    let announced = u32::try_from(announced).expect("a small payload");
    let mut bytes = Vec::new();
    bytes.extend_from_slice(&kind.to_ne_bytes());
    bytes.extend_from_slice(&version.to_ne_bytes());
    bytes.extend_from_slice(&announced.to_ne_bytes());
    bytes.extend_from_slice(&data.to_ne_bytes());
    bytes.extend_from_slice(payload);
    bytes
}

fn message(kind: u16, data: u64, payload: &[u8]) -> Vec<u8> {
    raw(kind, PROTOCOL_VERSION, payload.len(), data, payload)
}

#[test]
fn every_message_survives_the_way_there_and_back() {
    for message in from_provider() {
        let bytes = message.encode().expect("a good message");
        assert_eq!(FromProvider::decode(&bytes), Ok(message));
    }
    for message in from_manager() {
        let bytes = message.encode().expect("a good message");
        assert_eq!(FromManager::decode(&bytes), Ok(message));
    }
}

#[test]
#[cfg(target_endian = "little")]
fn a_start_is_laid_out_as_in_the_protocol() {
    let bytes = FromManager::Start { session: session(9), start: start() }.encode();
    let mut expected = vec![16, 0, 1, 0, 41, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0];
    expected.extend([2, 0, 0, 0, 2, 0, 0, 0]);
    expected.extend([1, 2, 3, 4, 5, 6, 7, 8, 0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17, 0x18]);
    expected.extend([0; 8]);
    expected.extend(b"app*\nnet\n");
    assert_eq!(bytes, Ok(expected));
}

#[test]
#[cfg(target_endian = "little")]
fn a_registration_is_laid_out_as_in_the_protocol() {
    let register = FromProvider::Register { name: "app".into(), categories: vec!["net".into()] };
    let mut expected = vec![1, 0, 1, 0, 8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    expected.extend(b"app\nnet\n");
    assert_eq!(register.encode(), Ok(expected));
}

#[test]
fn a_message_cut_anywhere_is_refused() {
    let sent = from_provider().into_iter().map(|message| message.encode());
    for bytes in sent.map(|bytes| bytes.expect("a good message")) {
        for length in 0..bytes.len() {
            let error = FromProvider::decode(&bytes[..length]).expect_err("a cut message");
            if length < HEAD_BYTES {
                assert_eq!(error, WireError::Truncated { bytes: length });
            } else {
                assert!(matches!(error, WireError::PayloadSize { .. }), "{error:?}");
            }
        }
    }
    let sent = from_manager().into_iter().map(|message| message.encode());
    for bytes in sent.map(|bytes| bytes.expect("a good message")) {
        for length in 0..bytes.len() {
            assert!(FromManager::decode(&bytes[..length]).is_err());
        }
    }
}

#[test]
fn a_payload_longer_than_announced_is_refused() {
    let bytes = raw(kind::REGISTER, 1, 4, 0, b"app\nnet\n");
    assert_eq!(
        FromProvider::decode(&bytes),
        Err(WireError::PayloadSize { announced: 4, found: 8 })
    );
}

#[test]
fn another_version_is_told_before_anything_else() {
    let bytes = raw(999, 2, 77, 0, b"whatever version 2 has here");
    assert_eq!(FromProvider::decode(&bytes), Err(WireError::Version { found: 2 }));
    assert_eq!(FromManager::decode(&bytes), Err(WireError::Version { found: 2 }));
}

#[test]
fn no_side_takes_messages_of_its_own() {
    for bytes in from_manager().iter().map(FromManager::encode) {
        let error = FromProvider::decode(&bytes.expect("a good message"));
        assert!(matches!(error, Err(WireError::Kind { .. })), "{error:?}");
    }
    for bytes in from_provider().iter().map(FromProvider::encode) {
        let error = FromManager::decode(&bytes.expect("a good message"));
        assert!(matches!(error, Err(WireError::Kind { .. })), "{error:?}");
    }
}

#[test]
fn a_registration_needs_a_name() {
    let decoded = FromProvider::decode(&message(kind::REGISTER, 0, b""));
    assert_eq!(decoded, Err(WireError::NoName));
    let decoded = FromProvider::decode(&message(kind::REGISTER, 0, b"\nnet\n"));
    assert_eq!(decoded, Err(WireError::Item { index: 0 }));
}

#[test]
fn a_list_that_does_not_end_in_a_newline_was_cut() {
    let decoded = FromProvider::decode(&message(kind::CATEGORIES, 0, b"net\ndis"));
    assert_eq!(decoded, Err(WireError::CutList));
}

#[test]
fn items_that_no_line_can_carry_are_refused_both_ways() {
    let long = "x".repeat(MAX_ITEM_BYTES + 1);
    for bad in ["", "two\nlines", "nul\0", &long] {
        let message = FromProvider::Categories(vec!["good".into(), bad.into()]);
        assert_eq!(message.encode(), Err(WireError::Item { index: 1 }));
    }
    let payload = [b"good\n".as_slice(), long.as_bytes(), b"\n"].concat();
    let decoded = FromProvider::decode(&message(kind::CATEGORIES, 0, &payload));
    assert_eq!(decoded, Err(WireError::Item { index: 1 }));
}

#[test]
fn text_that_is_not_utf8_is_refused_with_its_place() {
    let decoded = FromProvider::decode(&message(kind::CATEGORIES, 0, b"net\n\xff\n"));
    assert_eq!(decoded, Err(WireError::NotUtf8 { at: 4 }));
    let decoded = FromProvider::decode(&message(kind::ALERT, 0, b"a\xff"));
    assert_eq!(decoded, Err(WireError::NotUtf8 { at: 1 }));
}

#[test]
fn an_alert_has_1_to_14_bytes() {
    for bad in ["", "fifteen bytes..", "nul\0"] {
        let decoded = FromProvider::decode(&message(kind::ALERT, 0, bad.as_bytes()));
        assert_eq!(decoded, Err(WireError::AlertName { bytes: bad.len() }));
        assert_eq!(
            FromProvider::Alert(bad.into()).encode(),
            Err(WireError::AlertName { bytes: bad.len() })
        );
    }
}

#[test]
fn session_0_does_not_exist() {
    assert_eq!(FromProvider::decode(&message(kind::STOPPED, 0, b"")), Err(WireError::NoSession));
    for kind in [kind::START, kind::STOP, kind::TERMINATE] {
        assert_eq!(FromManager::decode(&message(kind, 0, b"")), Err(WireError::NoSession));
    }
}

#[test]
fn fields_that_belong_to_other_kinds_must_be_empty() {
    let decoded = FromProvider::decode(&message(kind::REGISTER, 5, b"app\n"));
    assert_eq!(decoded, Err(WireError::NotZero { value: 5 }));
    let decoded = FromManager::decode(&message(kind::STOP, 5, b"more"));
    assert_eq!(decoded, Err(WireError::PayloadSize { announced: 0, found: 4 }));
}

#[test]
fn a_start_with_numbers_out_of_range_is_refused() {
    let good = start().encode().expect("a good start");
    let with = |at: usize, value: u8| {
        let mut payload = good.clone();
        payload[at..at + 4].copy_from_slice(&u32::from(value).to_ne_bytes());
        FromManager::decode(&message(kind::START, 1, &payload))
    };
    assert_eq!(with(0, 3), Err(WireError::Mode { mode: 3 }));
    assert_eq!(with(4, 0), Err(WireError::Disposition { disposition: 0 }));
    assert_eq!(with(4, 4), Err(WireError::Disposition { disposition: 4 }));
    assert!(matches!(with(24, 1), Err(WireError::NotZero { .. })));
    let short = &good[..START_BLOCK_BYTES - 1];
    assert_eq!(
        FromManager::decode(&message(kind::START, 1, short)),
        Err(WireError::Truncated { bytes: START_BLOCK_BYTES - 1 })
    );
}

#[test]
fn a_message_may_have_64_kib_and_not_one_byte_more() {
    // Items of 255 bytes and their newline, then one that fills the message.
    let mut categories = vec!["x".repeat(MAX_ITEM_BYTES); 255];
    categories.push("y".repeat(MAX_ITEM_BYTES - HEAD_BYTES));
    let longest = FromProvider::Categories(categories.clone());
    let bytes = longest.encode().expect("just not too long");
    assert_eq!(bytes.len(), MAX_MESSAGE_BYTES);
    assert_eq!(FromProvider::decode(&bytes), Ok(longest));

    let last = categories.last_mut().expect("just pushed");
    last.push('y');
    let too_long = Err(WireError::TooLong { bytes: MAX_MESSAGE_BYTES + 1 });
    assert_eq!(FromProvider::Categories(categories).encode(), too_long);
    let payload = vec![b'x'; MAX_MESSAGE_BYTES - HEAD_BYTES + 1];
    let decoded = FromProvider::decode(&message(kind::CATEGORIES, 0, &payload));
    assert_eq!(decoded, Err(WireError::TooLong { bytes: MAX_MESSAGE_BYTES + 1 }));
}

/// Changes every byte of every message to every value: decoding must not panic,
/// and a message that still decodes must encode to the same bytes.
#[test]
fn a_changed_byte_gives_an_error_or_another_true_message() {
    let mut changed_messages = 0;
    for bytes in from_provider().iter().map(FromProvider::encode) {
        let good = bytes.expect("a good message");
        for (at, value) in (0..good.len()).flat_map(|at| (0..=u8::MAX).map(move |v| (at, v))) {
            let mut bytes = good.clone();
            bytes[at] = value;
            if let Ok(message) = FromProvider::decode(&bytes) {
                assert_eq!(message.encode(), Ok(bytes));
                changed_messages += 1;
            }
        }
    }
    for bytes in from_manager().iter().map(FromManager::encode) {
        let good = bytes.expect("a good message");
        for (at, value) in (0..good.len()).flat_map(|at| (0..=u8::MAX).map(move |v| (at, v))) {
            let mut bytes = good.clone();
            bytes[at] = value;
            if let Ok(message) = FromManager::decode(&bytes) {
                assert_eq!(message.encode(), Ok(bytes));
                changed_messages += 1;
            }
        }
    }
    assert!(changed_messages > 1000, "names may be spelled in many ways: {changed_messages}");
}
