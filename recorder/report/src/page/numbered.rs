//! Items that are stored once in the page, and referred to by number.

use std::borrow::Borrow;
use std::hash::Hash;

use fxtrec_units::escape;
use rustc_hash::FxHashMap;

/// Items with numbers; the first item has the number `first`.
#[derive(Debug)]
pub(super) struct Numbered<K> {
    pub(super) all: Vec<K>,
    known: FxHashMap<K, u32>,
    first: u32,
}

impl<K> Default for Numbered<K> {
    fn default() -> Self {
        Self { all: Vec::new(), known: FxHashMap::default(), first: 0 }
    }
}

impl<K: Clone + Eq + Hash> Numbered<K> {
    pub(super) fn from(first: u32) -> Self {
        Self { first, ..Self::default() }
    }

    /// The number of an item, if it has one.
    pub(super) fn find<Q: Eq + Hash + ?Sized>(&self, key: &Q) -> Option<u32>
    where
        K: Borrow<Q>,
    {
        self.known.get(key).copied()
    }

    /// The number of an item, and whether it is new.
    pub(super) fn number(&mut self, key: K) -> (u32, bool) {
        let next = self.first + u32::try_from(self.all.len()).unwrap_or(u32::MAX - self.first);
        let number = *self.known.entry(key.clone()).or_insert(next);
        if number == next {
            self.all.push(key);
        }
        (number, number == next)
    }

    /// The item with a number.
    pub(super) fn get(&self, number: u32) -> Option<&K> {
        self.all.get(number.checked_sub(self.first)? as usize)
    }

    /// Keeps only the first `length` items.
    pub(super) fn truncate(&mut self, length: usize) {
        self.all.truncate(length);
        let (first, end) = (self.first, self.all.len());
        self.known.retain(|_, number| ((*number - first) as usize) < end);
    }
}

/// Text without the characters that separate strings in a block, and without those that change the display of a page.
pub(super) fn clean(text: &str) -> String {
    escape::line(text).into_owned()
}

/// The approximate size of a string in the page, in bytes: compression halves it, and base64 adds a third.
pub(super) fn bytes_of(text: &str) -> u64 {
    text.len() as u64 * 2 / 3 + 2
}
