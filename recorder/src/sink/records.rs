//! Where one FXT record ends and the next begins.

use fxt_writer::layout::{header, large_header, record_type};

const WORD_BYTES: usize = 8;

/// How many of the first `limit` bytes are whole records. `bytes` begins with a record.
pub(super) fn whole_records(bytes: &[u8], limit: usize) -> usize {
    record_ends(&bytes[..limit.min(bytes.len())]).last().unwrap_or(0)
}

/// Where the records end that `bytes` consists of.
pub(super) fn record_ends(bytes: &[u8]) -> impl Iterator<Item = usize> {
    let mut end = 0_usize;
    std::iter::from_fn(move || {
        let next = end.checked_add(record_bytes(bytes.get(end..)?)?)?;
        end = next;
        (next <= bytes.len()).then_some(next)
    })
}

/// How many records `bytes` consists of.
pub(super) fn count_records(bytes: &[u8]) -> u64 {
    record_ends(bytes).count() as u64
}

/// The size of the record that begins here, in bytes; `None` when that cannot be known.
pub(super) fn record_bytes(bytes: &[u8]) -> Option<usize> {
    let word = u64::from_le_bytes(*bytes.first_chunk()?);
    let words = match header::TYPE.get(word) {
        record_type::LARGE => large_header::SIZE.get(word),
        _ => header::SIZE.get(word),
    };
    if words == 0 {
        return None;
    }
    usize::try_from(words).ok()?.checked_mul(WORD_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(type_: u64, words: u64) -> Vec<u8> {
        let first = match type_ {
            record_type::LARGE => large_header::TYPE.put(type_) | large_header::SIZE.put(words),
            _ => header::TYPE.put(type_) | header::SIZE.put(words),
        };
        let mut bytes = first.to_le_bytes().to_vec();
        bytes.resize(words as usize * WORD_BYTES, 0xaa);
        bytes
    }

    #[test]
    fn the_end_is_that_of_the_last_record_that_fits() {
        let bytes = [
            record(record_type::STRING, 3),
            record(record_type::SCHEDULING, 1),
            record(record_type::LARGE, 5000),
            record(record_type::EVENT, 4095),
        ]
        .concat();
        let ends = [0, 24, 32, 32 + 40_000, 32 + 40_000 + 32_760];
        for limit in 0..=bytes.len() + 1 {
            let expected = ends.iter().rev().find(|end| **end <= limit).unwrap();
            assert_eq!(whole_records(&bytes, limit), *expected, "limit {limit}");
        }
        assert_eq!(count_records(&bytes), 4);
    }

    #[test]
    fn a_record_of_no_size_ends_the_walk() {
        let mut bytes = record(record_type::STRING, 2);
        bytes.extend([0; 64]);
        assert_eq!(whole_records(&bytes, bytes.len()), 16);
    }
}
