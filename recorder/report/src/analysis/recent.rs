//! The slots of recently used threads, to find them without a hash table.

/// The number of remembered slots; they fit into the L1 cache.
const PLACES: usize = 1024;

/// A slot for each remainder of a koid. The slot may belong to another thread by now, so callers must check.
#[derive(Debug)]
pub(super) struct Recent {
    slots: Box<[u32; PLACES]>,
}

impl Default for Recent {
    fn default() -> Recent {
        Recent { slots: Box::new([0; PLACES]) }
    }
}

impl Recent {
    /// The probable slot of the thread.
    #[inline]
    pub(super) fn guess(&self, koid: u64) -> u32 {
        self.slots[place(koid)]
    }

    /// Remembers the slot of the thread.
    #[inline]
    pub(super) fn note(&mut self, koid: u64, slot: u32) {
        self.slots[place(koid)] = slot;
    }
}

#[inline]
fn place(koid: u64) -> usize {
    koid as usize % PLACES
}
