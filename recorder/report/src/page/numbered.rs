//! Things that are in the page once, and named by a number wherever they occur.

use std::borrow::Borrow;
use std::hash::Hash;

use rustc_hash::FxHashMap;

/// Things with numbers, the first of which has the number `first`.
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

    /// The number of a thing that has one.
    pub(super) fn find<Q: Eq + Hash + ?Sized>(&self, key: &Q) -> Option<u32>
    where
        K: Borrow<Q>,
    {
        self.known.get(key).copied()
    }

    /// The number of a thing, and whether it is new.
    pub(super) fn number(&mut self, key: K) -> (u32, bool) {
        let next = self.first + u32::try_from(self.all.len()).unwrap_or(u32::MAX - self.first);
        let number = *self.known.entry(key.clone()).or_insert(next);
        if number == next {
            self.all.push(key);
        }
        (number, number == next)
    }

    /// The thing of a number.
    pub(super) fn get(&self, number: u32) -> Option<&K> {
        self.all.get(number.checked_sub(self.first)? as usize)
    }

    /// Forgets all but the first so many.
    pub(super) fn truncate(&mut self, length: usize) {
        self.all.truncate(length);
        let (first, end) = (self.first, self.all.len());
        self.known.retain(|_, number| ((*number - first) as usize) < end);
    }
}

/// Text without what divides texts in a block.
pub(super) fn clean(text: &str) -> String {
    let clean = |letter: char| if letter.is_control() { '\u{fffd}' } else { letter };
    text.chars().map(clean).collect()
}

/// What a text takes in the page, about, in bytes: half as much when it is compressed, and a third more as text.
pub(super) fn bytes_of(text: &str) -> u64 {
    text.len() as u64 * 2 / 3 + 2
}
