//! Properties of all traces: what was written reads back, and the reader survives
//! damage of any kind.

mod generate;

use std::collections::HashSet;

use fxt_reader::{Error, Kind, Reader};
use generate::{assert_reads_back, generate};
use proptest::collection::vec;
use proptest::prelude::*;

/// Reads all of `bytes`, however damaged, and checks that every byte is in a
/// record, in a damage, or in the truncated tail.
fn survives(bytes: &[u8]) {
    let mut reader = Reader::from_slice(bytes);
    loop {
        match reader.next() {
            Ok(Some(_)) | Err(Error::Damaged(_)) => {}
            Ok(None) => break,
            // The damage is in the first bytes, so the input is no longer a trace.
            Err(Error::NotFxt { .. }) => return,
            Err(error) => panic!("{error}"),
        }
    }
    let summary = reader.summary();
    let accounted = summary.record_bytes + summary.damaged_bytes + summary.truncated_tail;
    assert_eq!(accounted, bytes.len() as u64);
}

proptest! {
    #[test]
    fn any_sequence_of_records_reads_back_equal(choices in vec(any::<u8>(), 0..2000)) {
        let generated = generate(&choices);
        assert_reads_back(&generated, Reader::from_slice(&generated.bytes));
        assert_reads_back(&generated, Reader::new(&generated.bytes[..]));
    }

    #[test]
    fn any_damaged_bytes_are_survived(
        choices in vec(any::<u8>(), 100..1000),
        damage in vec((any::<prop::sample::Index>(), any::<u8>()), 1..20),
    ) {
        let mut bytes = generate(&choices).bytes;
        for (index, byte) in damage {
            let at = index.index(bytes.len());
            bytes[at] = byte;
        }
        survives(&bytes);
    }

    #[test]
    fn any_bytes_taken_out_or_put_in_are_survived(
        choices in vec(any::<u8>(), 100..1000),
        from in any::<prop::sample::Index>(),
        length in 0..200_usize,
        noise in vec(any::<u8>(), 0..200),
    ) {
        let mut bytes = generate(&choices).bytes;
        let from = from.index(bytes.len());
        let until = bytes.len().min(from + length);
        bytes.splice(from..until, noise);
        survives(&bytes);
    }

    #[test]
    fn any_bytes_behind_the_magic_number_are_survived(noise in vec(any::<u8>(), 0..4000)) {
        let mut bytes = generate(&[]).bytes;
        bytes.extend(noise);
        survives(&bytes);
    }
}

#[test]
fn the_generator_makes_every_kind_of_record() {
    // A fixed pseudo-random sequence, long enough for all cases.
    let mut state = 1_u32;
    let choices: Vec<u8> = (0..20_000)
        .map(|_| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 24) as u8
        })
        .collect();
    let generated = generate(&choices);
    let mut reader = Reader::from_slice(&generated.bytes);
    let mut kinds = HashSet::new();
    while let Some(item) = reader.next().expect("sound") {
        kinds.insert(item.record.kind());
    }
    let missing: Vec<&Kind> = Kind::ALL.iter().filter(|&kind| !kinds.contains(kind)).collect();
    assert_eq!(missing, [&Kind::Unknown]);
    assert_reads_back(&generated, Reader::from_slice(&generated.bytes));
}
