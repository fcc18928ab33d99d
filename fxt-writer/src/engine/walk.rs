//! Steps from record to record through a lap of a rolling buffer, seeing only
//! the memory.
//!
//! First words lead from record to record. A claimed record was reserved and never finished; vacant space is reserved for records of its
//! thread, and fillers are empty; words that are zero were never written, or a writer only reserved them. An invalid first word ends the
//! walk, since the boundaries after it are unknown.

use super::memory::{is_claim, is_filler, is_vacant};
use crate::layout::walk::record_words;

/// What the walk found in addition to finished records.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Walked {
    /// The least number of records that were reserved but not finished.
    pub(super) unfinished: u64,
    /// Words from an invalid first word to the end.
    pub(super) cut: usize,
}

/// Calls `take` with each finished record of `lap` and its location, in order.
pub(super) fn finished_records<'a>(
    lap: &'a [u64],
    mut take: impl FnMut(usize, &'a [u64]),
) -> Walked {
    let mut unfinished = 0;
    let mut in_gap = false;
    let mut rest = lap;
    while let Some(&word) = rest.first() {
        if word == 0 {
            in_gap = true;
            rest = &rest[1..];
            continue;
        }
        unfinished += u64::from(std::mem::take(&mut in_gap));
        let Some((record, after)) = record_words(word).and_then(|size| rest.split_at_checked(size))
        else {
            return Walked { unfinished, cut: rest.len() };
        };
        if is_claim(word) {
            unfinished += 1;
        } else if !is_vacant(word) && !is_filler(word) {
            take(lap.len() - rest.len(), record);
        }
        rest = after;
    }
    Walked { unfinished, cut: 0 }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::super::memory::{claim_word, filler_word, vacant_word};
    use super::*;
    use crate::layout::{header, large_header, record_type};

    fn record(words: u64) -> u64 {
        header::TYPE.put(record_type::EVENT) | header::SIZE.put(words)
    }

    fn walk(lap: &[u64]) -> (Vec<usize>, Walked) {
        let mut sizes = Vec::new();
        let walked = finished_records(lap, |_, record| sizes.push(record.len()));
        (sizes, walked)
    }

    #[test]
    fn gaps_and_claims_are_stepped_over_and_counted() {
        let lap = [record(2), 7, 0, 0, record(1), claim_word(3), 9, 0, record(1), 0, 0];
        assert_eq!(walk(&lap), (vec![2, 1, 1], Walked { unfinished: 2, cut: 0 }));
    }

    #[test]
    fn room_that_holds_nothing_is_stepped_over() {
        let lap = [record(1), vacant_word(2), 0, record(1), filler_word(3), 0, 0, record(1)];
        assert_eq!(walk(&lap), (vec![1, 1, 1], Walked { unfinished: 0, cut: 0 }));
    }

    #[test]
    fn a_first_word_that_leads_nowhere_ends_the_walk() {
        let sizeless = header::TYPE.put(record_type::EVENT) | header::DATA.put(5);
        for bad in [sizeless, record(4)] {
            let lap = [record(1), bad, record(1), 0];
            assert_eq!(walk(&lap), (vec![1], Walked { unfinished: 0, cut: 3 }));
        }
    }

    #[test]
    fn a_large_record_is_as_long_as_its_wider_field_says() {
        let large =
            |words| large_header::TYPE.put(record_type::LARGE) | large_header::SIZE.put(words);
        assert_eq!(walk(&[large(2), 1, record(1)]).0, [2, 1]);
        // The low twelve bits of its size are 2.
        let lap = [large(0x1_0002), 1, record(1)];
        assert_eq!(walk(&lap), (vec![], Walked { unfinished: 0, cut: 3 }));
    }
}
