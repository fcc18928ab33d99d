//! The string table of one provider.

use rustc_hash::FxHashMap;

/// Strings by index.
///
/// Writers count indices up, so most lookups end in a plain array. An index far
/// beyond those in use goes to a hash map instead: the array never gets much
/// longer than there are strings, whatever indices a hostile trace uses.
#[derive(Clone, Debug, Default)]
pub(crate) struct Strings {
    dense: Vec<Option<Box<str>>>,
    sparse: FxHashMap<u16, Box<str>>,
}

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

    pub(crate) fn set(&mut self, index: u16, string: Box<str>) {
        let at = usize::from(index);
        if at >= self.dense.len() {
            if at > 2 * self.dense.len() + 8 {
                self.sparse.insert(index, string);
                return;
            }
            self.dense.resize_with(at + 1, || None);
        }
        if let Some(place) = self.dense.get_mut(at) {
            *place = Some(string);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_string_of_an_index_counts_wherever_it_is_kept() {
        let mut strings = Strings::default();
        strings.set(100, "far".into());
        assert_eq!(strings.get(100), Some("far"));
        for index in 1..=150 {
            strings.set(index, format!("near {index}").into());
        }
        assert_eq!(strings.get(100), Some("near 100"));
        assert_eq!(strings.get(1), Some("near 1"));
        assert_eq!(strings.get(151), None);
    }

    #[test]
    fn a_string_kept_far_is_still_found_when_the_array_has_grown_past_it() {
        let mut strings = Strings::default();
        strings.set(20, "far".into());
        for index in 1..=18 {
            strings.set(index, "near".into());
        }
        strings.set(30, "beyond".into());
        assert_eq!(strings.get(20), Some("far"));
        assert_eq!(strings.get(19), None);
    }

    #[test]
    fn the_highest_index_alone_does_not_make_a_table_of_all() {
        let mut strings = Strings::default();
        strings.set(0x7fff, "last".into());
        assert_eq!(strings.get(0x7fff), Some("last"));
        assert!(strings.dense.is_empty());
    }
}
