//! Finds the mapping at an address of a program's memory, in a time that hardly depends on the number of entries.

use std::collections::BTreeMap;

/// Ranges of addresses that do not overlap: a later range replaces earlier ones.
#[derive(Clone, Debug)]
pub(super) struct Places<T>(BTreeMap<u64, (u64, T)>);

impl<T> Default for Places<T> {
    fn default() -> Places<T> {
        Places(BTreeMap::new())
    }
}

impl<T: Clone> Places<T> {
    pub(super) fn at(&self, address: u64) -> Option<&T> {
        let (_, (end, what)) = self.0.range(..=address).next_back()?;
        (address < *end).then_some(what)
    }

    pub(super) fn put(&mut self, start: u64, end: u64, what: T) {
        if start >= end {
            return;
        }
        if let Some((_, (old_end, old))) = self.0.range_mut(..start).next_back()
            && *old_end > start
        {
            let (behind, old) = (*old_end, old.clone());
            *old_end = start;
            if behind > end {
                self.0.insert(end, (behind, old));
            }
        }
        while let Some((&begin, &(old_end, _))) = self.0.range(start..end).next() {
            let old = self.0.remove(&begin);
            if let Some((_, old)) = old.filter(|_| old_end > end) {
                self.0.insert(end, (old_end, old));
            }
        }
        self.0.insert(start, (end, what));
    }

    pub(super) fn all(&self) -> impl Iterator<Item = &T> {
        self.0.values().map(|(_, what)| what)
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_later_range_takes_the_place_of_earlier_ones_and_leaves_their_rest() {
        let mut places = Places::default();
        places.put(10, 50, 'a');
        places.put(20, 30, 'b');
        places.put(40, 60, 'c');
        places.put(5, 12, 'd');
        places.put(70, 70, 'e');
        let at = |places: &Places<char>| -> String {
            (0..80).step_by(5).map(|at| places.at(at).copied().unwrap_or('-')).collect()
        };
        assert_eq!(at(&places), "-ddabbaacccc----");
        places.put(0, 80, 'f');
        assert_eq!((at(&places), places.len()), ("f".repeat(16), 1));
    }

    #[test]
    fn each_address_is_in_the_range_that_came_last() {
        let mut number = 1_u64;
        let mut next = |most: u64| {
            number = number.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (number >> 33) % most
        };
        for _ in 0..500 {
            let ranges: Vec<(u64, u64)> = (0..next(20)).map(|_| (next(40), next(20))).collect();
            let mut places = Places::default();
            for (number, (start, length)) in ranges.iter().enumerate() {
                places.put(*start, start + length, number);
            }
            for address in 0..70 {
                let is_in =
                    |(start, length): &(u64, u64)| (*start..start + length).contains(&address);
                let last = ranges.iter().rposition(is_in);
                assert_eq!(places.at(address).copied(), last, "{ranges:?}");
            }
        }
    }
}
