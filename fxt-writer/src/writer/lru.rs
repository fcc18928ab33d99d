//! A table of bounded size that assigns indices to keys; when all are taken, a
//! new key replaces the least recently used one.

use std::borrow::Borrow;
use std::collections::HashMap;
use std::hash::Hash;

/// The result of [`Lru::index`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// The key has this index already.
    Known(u16),
    /// The key gets this index, which was free.
    New(u16),
    /// The key gets this index in place of the least recently used one.
    Replaced(u16),
    /// No index is left, and none may be replaced.
    Full,
}

/// Keys with indices from 1 up. Looking a key up takes no allocation.
#[derive(Debug)]
pub(super) struct Lru<K> {
    slots: HashMap<K, usize>,
    /// Slot `n` is index `n + 1`.
    entries: Vec<Entry<K>>,
    capacity: u16,
    newest: usize,
    oldest: usize,
}

/// A key in the chain from the newest to the oldest.
#[derive(Debug)]
struct Entry<K> {
    key: K,
    newer: usize,
    older: usize,
}

/// No slot.
const NONE: usize = usize::MAX;

impl<K: Hash + Eq + Clone> Lru<K> {
    pub(super) fn new(capacity: u16) -> Self {
        let slots = HashMap::new();
        Self { slots, entries: Vec::new(), capacity, newest: NONE, oldest: NONE }
    }

    /// The index of `key`, which counts as used now.
    pub(super) fn index<Q>(&mut self, key: &Q, replace: bool) -> Found
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ToOwned<Owned = K> + ?Sized,
    {
        if let Some(&slot) = self.slots.get(key) {
            self.unlink(slot);
            self.link(slot);
            return Found::Known(index_of(slot));
        }
        if self.entries.len() < usize::from(self.capacity) {
            let slot = self.entries.len();
            self.entries.push(Entry { key: key.to_owned(), newer: NONE, older: NONE });
            self.slots.insert(key.to_owned(), slot);
            self.link(slot);
            return Found::New(index_of(slot));
        }
        if !replace || self.oldest == NONE {
            return Found::Full;
        }
        let slot = self.oldest;
        self.unlink(slot);
        let replaced = std::mem::replace(&mut self.entries[slot].key, key.to_owned());
        self.slots.remove(replaced.borrow());
        self.slots.insert(key.to_owned(), slot);
        self.link(slot);
        Found::Replaced(index_of(slot))
    }

    /// Forgets a key whose registration failed. Its index goes to the next new key, and counts as replaced if it was used before.
    pub(super) fn forget<Q>(&mut self, key: &Q, found: Found)
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        let Some(slot) = self.slots.remove(key) else { return };
        self.unlink(slot);
        if matches!(found, Found::New(_)) && slot + 1 == self.entries.len() {
            self.entries.pop();
        } else {
            self.link_oldest(slot);
        }
    }

    fn unlink(&mut self, slot: usize) {
        let Entry { newer, older, .. } = self.entries[slot];
        match newer {
            NONE => self.newest = older,
            newer => self.entries[newer].older = older,
        }
        match older {
            NONE => self.oldest = newer,
            older => self.entries[older].newer = newer,
        }
    }

    fn link(&mut self, slot: usize) {
        let older = std::mem::replace(&mut self.newest, slot);
        (self.entries[slot].newer, self.entries[slot].older) = (NONE, older);
        match older {
            NONE => self.oldest = slot,
            older => self.entries[older].newer = slot,
        }
    }

    fn link_oldest(&mut self, slot: usize) {
        let newer = std::mem::replace(&mut self.oldest, slot);
        (self.entries[slot].newer, self.entries[slot].older) = (newer, NONE);
        match newer {
            NONE => self.newest = slot,
            newer => self.entries[newer].older = slot,
        }
    }
}

/// The index of a slot. There are fewer slots than the capacity, which is a `u16`.
fn index_of(slot: usize) -> u16 {
    u16::try_from(slot + 1).unwrap_or(u16::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn find(table: &mut Lru<String>, key: &str) -> Found {
        table.index(key, true)
    }

    #[test]
    fn indices_are_given_out_from_one_and_kept() {
        let mut table = Lru::new(3);
        assert_eq!(find(&mut table, "a"), Found::New(1));
        assert_eq!(find(&mut table, "b"), Found::New(2));
        assert_eq!(find(&mut table, "a"), Found::Known(1));
    }

    #[test]
    fn the_least_recently_used_is_replaced() {
        let mut table = Lru::new(3);
        for key in ["a", "b", "c", "a"] {
            find(&mut table, key);
        }
        assert_eq!(find(&mut table, "d"), Found::Replaced(2));
        assert_eq!(find(&mut table, "b"), Found::Replaced(3));
        assert_eq!(find(&mut table, "c"), Found::Replaced(1));
        assert_eq!(find(&mut table, "d"), Found::Known(2));
    }

    #[test]
    fn a_full_table_says_so_where_nothing_may_be_replaced() {
        let mut table = Lru::new(1);
        assert_eq!(find(&mut table, "a"), Found::New(1));
        assert_eq!(table.index("b", false), Found::Full);
        assert_eq!(table.index("a", false), Found::Known(1));
    }

    #[test]
    fn a_forgotten_key_is_new_again() {
        let mut table = Lru::new(3);
        find(&mut table, "a");
        let found = find(&mut table, "b");
        table.forget("b", found);
        assert_eq!(find(&mut table, "c"), Found::New(2));
        assert_eq!(find(&mut table, "a"), Found::Known(1));
    }

    #[test]
    fn an_index_that_was_to_be_replaced_is_never_new_again() {
        let mut table = Lru::new(2);
        find(&mut table, "a");
        find(&mut table, "b");
        find(&mut table, "a");
        let found = find(&mut table, "c");
        assert_eq!(found, Found::Replaced(2));
        table.forget("c", found);
        assert_eq!(find(&mut table, "b"), Found::Replaced(2));
        assert_eq!(find(&mut table, "a"), Found::Known(1));
    }
}
