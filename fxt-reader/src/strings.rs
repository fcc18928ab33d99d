//! The string table of one provider.

use rustc_hash::FxHashMap;

/// Strings by index.
///
/// Writers count indices up, so most strings are in a plain array. An index far
/// beyond those in use goes to a hash map instead, so that even with the indices
/// of a hostile trace the array is never much longer than the number of strings.
#[derive(Clone, Debug, Default)]
pub(crate) struct Strings {
    dense: Vec<Option<Box<str>>>,
    sparse: FxHashMap<u16, Box<str>>,
    /// The memory of the strings and of the hash map's entries, in bytes.
    text_bytes: usize,
}

/// The allocator's overhead for a string.
const TEXT_BYTES: usize = 16;

/// The maximum memory that an entry of the hash map takes.
const SPARSE_BYTES: usize = 64;

/// The memory of an array entry.
const DENSE_BYTES: usize = size_of::<Option<Box<str>>>();

impl Strings {
    /// The string at `index`, which is not 0.
    #[inline(always)]
    pub(crate) fn get(&self, index: u16) -> Option<&str> {
        match self.dense.get(usize::from(index)) {
            Some(Some(string)) => Some(string),
            _ => self.get_sparse(index),
        }
    }

    /// Whether there is a string at `index` in the array.
    #[inline(always)]
    pub(crate) fn has_dense(&self, index: usize) -> bool {
        self.dense.get(index).is_some_and(Option::is_some)
    }

    #[cold]
    fn get_sparse(&self, index: u16) -> Option<&str> {
        self.sparse.get(&index).map(|string| &**string)
    }

    /// The memory in use, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.dense.capacity() * DENSE_BYTES + self.text_bytes
    }

    /// Stores a string unless the memory would then exceed `most` bytes; returns whether the string was stored. In both cases, the old
    /// string of this index is removed.
    pub(crate) fn set(&mut self, index: u16, string: &str, most: usize) -> bool {
        self.remove(index);
        let at = usize::from(index);
        let is_sparse = at > 2 * self.dense.len() + 8;
        let capacity = self.dense.capacity();
        let grows = match is_sparse {
            true => SPARSE_BYTES,
            // A vector grows to at least twice its size.
            false if at >= capacity => ((at + 1).max(2 * capacity) - capacity) * DENSE_BYTES,
            false => 0,
        };
        if self.bytes().saturating_add(grows + TEXT_BYTES + string.len()) > most {
            return false;
        }
        self.text_bytes += TEXT_BYTES + string.len();
        if is_sparse {
            self.text_bytes += SPARSE_BYTES;
            self.sparse.insert(index, string.into());
            return true;
        }
        if at >= self.dense.len() {
            self.dense.resize_with(at + 1, || None);
        }
        if let Some(place) = self.dense.get_mut(at) {
            *place = Some(string.into());
        }
        true
    }

    fn remove(&mut self, index: u16) {
        let dense = self.dense.get_mut(usize::from(index)).and_then(Option::take);
        if let Some(string) = dense {
            self.text_bytes -= TEXT_BYTES + string.len();
        }
        if !self.sparse.is_empty()
            && let Some(string) = self.sparse.remove(&index)
        {
            self.text_bytes -= SPARSE_BYTES + TEXT_BYTES + string.len();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_string_of_an_index_counts_wherever_it_is_kept() {
        let mut strings = Strings::default();
        strings.set(100, "far", usize::MAX);
        assert_eq!(strings.get(100), Some("far"));
        for index in 1..=150 {
            strings.set(index, &format!("near {index}"), usize::MAX);
        }
        assert_eq!(strings.get(100), Some("near 100"));
        assert_eq!(strings.get(1), Some("near 1"));
        assert_eq!(strings.get(151), None);
    }

    #[test]
    fn a_string_kept_far_is_still_found_when_the_array_has_grown_past_it() {
        let mut strings = Strings::default();
        strings.set(20, "far", usize::MAX);
        for index in 1..=18 {
            strings.set(index, "near", usize::MAX);
        }
        strings.set(30, "beyond", usize::MAX);
        assert_eq!(strings.get(20), Some("far"));
        assert_eq!(strings.get(19), None);
    }

    #[test]
    fn the_highest_index_alone_does_not_make_a_table_of_all() {
        let mut strings = Strings::default();
        strings.set(0x7fff, "last", usize::MAX);
        assert_eq!(strings.get(0x7fff), Some("last"));
        assert!(strings.dense.is_empty());
    }

    #[test]
    fn there_is_no_more_than_there_is_room_for_whatever_the_indices() {
        const MOST: usize = 64 << 10;
        let up = 1..0x7fff;
        // The array grows by the maximum each time, while it has hardly any strings.
        let far = std::iter::successors(Some(8_u16), |at| at.checked_mul(2)?.checked_add(9))
            .take_while(|at| *at < 0x7fff);
        let down = (1..0x7fff).rev();
        for indices in [up.collect::<Vec<u16>>(), far.collect(), down.collect()] {
            let mut strings = Strings::default();
            let mut kept = 0;
            for &index in &indices {
                let is_kept = strings.set(index, "a name of usual length", MOST);
                kept += usize::from(is_kept);
                assert_eq!(strings.get(index).is_some(), is_kept);
                let takes = strings.dense.capacity() * DENSE_BYTES + strings.sparse.len() * 32;
                assert!(takes <= strings.bytes() && strings.bytes() <= MOST);
            }
            assert!(kept > 5 && kept <= indices.len(), "{kept}");
        }
    }

    #[test]
    fn what_takes_the_place_of_another_takes_no_more_room() {
        let mut strings = Strings::default();
        for index in [1, 1000] {
            assert!(strings.set(index, "first", 4096));
            let bytes = strings.bytes();
            assert!((0..9999).all(|_| strings.set(index, "again", 4096)));
            assert_eq!(strings.bytes(), bytes);
            assert!(!strings.set(index, &"x".repeat(4096), 4096));
            assert_eq!(strings.get(index), None, "it is not the one that is meant");
            assert!(strings.bytes() < bytes);
        }
    }
}
