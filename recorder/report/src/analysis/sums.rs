//! Sums of time by thread. Many of them are short-lived: if an observer wants all waits, each wait has its own sums.
//!
//! This is a hash table that keeps its memory when it is emptied, and is small enough that the sums of a wait stay in the L1 cache. Up to
//! eight threads are found by linear search.

/// Up to this many threads are found by linear search.
const FEW: usize = 8;

/// Durations by koid, in the order in which the threads were added.
#[derive(Clone, Debug, Default)]
pub(super) struct Sums {
    list: Vec<(u64, u64)>,
    /// For each thread, its number in the list plus one, at the position of its hash or at the next free one. 0 means free; at least half
    /// of the positions are free. Empty while there are few threads.
    places: Vec<u32>,
}

impl Sums {
    /// Removes all threads.
    #[inline]
    pub(super) fn clear(&mut self) {
        if !self.places.is_empty() {
            // A table that once held many threads shrinks, so that emptying it for few threads stays cheap.
            let enough = (8 * self.list.len()).next_power_of_two().max(2 * FEW);
            self.places.truncate(enough);
            self.places.fill(0);
        }
        self.list.clear();
    }

    pub(super) fn len(&self) -> usize {
        self.list.len()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (u64, u64)> {
        self.list.iter().copied()
    }

    #[inline]
    pub(super) fn add(&mut self, koid: u64, nanos: u64) {
        if self.places.is_empty() {
            match self.list.iter_mut().find(|sum| sum.0 == koid) {
                Some(sum) => sum.1 += nanos,
                None => self.push(koid, nanos),
            }
            return;
        }
        let place = self.place(koid);
        match self.places[place] {
            0 => {
                self.places[place] = self.list.len() as u32 + 1;
                self.push(koid, nanos);
            }
            number => self.list[number as usize - 1].1 += nanos,
        }
    }

    fn push(&mut self, koid: u64, nanos: u64) {
        self.list.push((koid, nanos));
        if self.list.len() > FEW && 2 * self.list.len() > self.places.len() {
            self.find_places();
        }
    }

    /// The position of the thread, or the free position where it belongs.
    #[inline(always)]
    fn place(&self, koid: u64) -> usize {
        let last = self.places.len() - 1;
        // Fibonacci hashing: koids may differ in any of their bits.
        let mut place = (koid.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as usize & last;
        while let number @ 1.. = self.places[place] as usize {
            if self.list[number - 1].0 == koid {
                break;
            }
            place = (place + 1) & last;
        }
        place
    }

    #[cold]
    fn find_places(&mut self) {
        self.places.clear();
        self.places.resize((4 * self.list.len()).next_power_of_two(), 0);
        for at in 0..self.list.len() {
            let place = self.place(self.list[at].0);
            self.places[place] = at as u32 + 1;
        }
    }

    /// Keeps the `most` largest sums. Returns the sum of the other threads.
    pub(super) fn trim(&mut self, most: usize) -> u64 {
        if self.list.len() <= most {
            return 0;
        }
        self.list.select_nth_unstable_by_key(most, most_first);
        let others = self.list.drain(most..).map(|(_, nanos)| nanos).sum();
        if self.list.len() > FEW {
            self.find_places();
        } else {
            self.places.clear();
        }
        others
    }
}

/// The order of sums: the largest first; ties have a fixed order.
#[inline]
pub(super) fn most_first(&(koid, nanos): &(u64, u64)) -> (std::cmp::Reverse<u64>, u64) {
    (std::cmp::Reverse(nanos), koid)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn sums_are_those_of_a_map_however_often_they_are_cleared(
            rounds in prop::collection::vec(prop::collection::vec((0..200_u64, 0..9_u64), 0..300), 1..6),
            most in 0..40_usize,
        ) {
            let mut sums = Sums::default();
            for round in rounds {
                sums.clear();
                let mut map = BTreeMap::<u64, u64>::new();
                for (at, (koid, nanos)) in round.into_iter().enumerate() {
                    let koid = koid << (koid % 40);
                    sums.add(koid, nanos);
                    *map.entry(koid).or_default() += nanos;
                    if at == 150 {
                        let all: u64 = map.values().sum();
                        let others = sums.trim(most);
                        prop_assert!(sums.len() <= most.max(1) || map.len() == sums.len());
                        map = sums.iter().collect();
                        prop_assert_eq!(map.values().sum::<u64>() + others, all);
                    }
                }
                prop_assert_eq!(sums.len(), map.len());
                prop_assert_eq!(sums.iter().collect::<BTreeMap<_, _>>(), map);
            }
        }
    }
}
