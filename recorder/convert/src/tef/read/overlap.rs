//! Complete events of one thread that overlap without nesting.
//!
//! The format allows them, and viewers draw them somehow. A thread in FXT has a stack: readers drop events that do not nest. So the second
//! one is moved to a separate track, as an asynchronous operation:
//!
//! ```text
//!   JSON     |--- a -----|            FXT   thread  |--- a -----|
//!                |--- b -----|              async       |--- b -----|
//! ```
//!
//! Files may be sorted by beginning, by end, or not at all. For each thread the operations with the latest ends are remembered, as many as
//! a deep stack has, so memory does not grow with the file.

use rustc_hash::FxHashMap;

/// Operations that are remembered for each thread.
const REMEMBERED: usize = 64;

/// The operations of all threads that later ones may overlap with.
#[derive(Debug, Default)]
pub(super) struct Overlaps(FxHashMap<u64, Vec<(u64, u64)>>);

impl Overlaps {
    /// Whether the operation nests with the operations on the thread's own track. If so, it is added to them.
    pub(super) fn nests(&mut self, thread: u64, begin: u64, end: u64) -> bool {
        let others = self.0.entry(thread).or_default();
        let crosses = |other: &(u64, u64)| {
            let earlier = *other;
            // If two begin at the same time, readers take the first one in the file as the outer one.
            let second = earlier.0 <= begin && begin < earlier.1 && earlier.1 < end;
            let first = begin < earlier.0 && earlier.0 < end && end < earlier.1;
            second || first
        };
        if others.iter().any(crosses) {
            return false;
        }
        if others.len() == REMEMBERED
            && let Some(least) = (0..others.len()).min_by_key(|at| others[*at].1)
        {
            others.swap_remove(least);
        }
        others.push((begin, end));
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nest(operations: &[(u64, u64)]) -> Vec<bool> {
        let mut overlaps = Overlaps::default();
        operations.iter().map(|(begin, end)| overlaps.nests(1, *begin, *end)).collect()
    }

    #[test]
    fn what_nests_or_follows_stays_in_any_order() {
        let mut operations = [(0, 100), (10, 20), (20, 30), (12, 15), (100, 110), (30, 30)];
        assert_eq!(nest(&operations), [true; 6]);
        operations.reverse();
        assert_eq!(nest(&operations), [true; 6]);
    }

    #[test]
    fn the_second_of_two_that_cross_goes() {
        assert_eq!(nest(&[(0, 10), (5, 15)]), [true, false]);
        assert_eq!(nest(&[(5, 15), (0, 10)]), [true, false]);
        assert_eq!(nest(&[(5, 15), (0, 10), (15, 20)]), [true, false, true]);
        assert_eq!(nest(&[(0, 5), (0, 10)]), [true, false], "a reader in order takes it for inner");
        assert_eq!(nest(&[(0, 10), (0, 5)]), [true, true]);
        let mut overlaps = Overlaps::default();
        assert!(
            overlaps.nests(1, 0, 10) && overlaps.nests(2, 5, 15),
            "other threads do not matter"
        );
    }

    #[test]
    fn a_long_operation_is_remembered_behind_many_short_ones() {
        let mut overlaps = Overlaps::default();
        assert!(overlaps.nests(1, 0, 10_000));
        for at in 1..500 {
            assert!(overlaps.nests(1, at * 10, at * 10 + 5));
        }
        assert!(!overlaps.nests(1, 9_000, 20_000));
        assert!(overlaps.0[&1].len() <= REMEMBERED);
    }
}
