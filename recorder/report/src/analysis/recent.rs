//! The slots of threads that were looked up last, to find them without a hash table.

/// So many are remembered; as much fits into the nearest cache.
const PLACES: usize = 1024;

/// A slot for each remainder of a koid, which may be that of another thread by now: whoever asks must look whose it is.
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
    /// Where the thread probably is.
    #[inline]
    pub(super) fn guess(&self, koid: u64) -> u32 {
        self.slots[place(koid)]
    }

    /// The thread is in this slot.
    #[inline]
    pub(super) fn note(&mut self, koid: u64, slot: u32) {
        self.slots[place(koid)] = slot;
    }
}

#[inline]
fn place(koid: u64) -> usize {
    koid as usize % PLACES
}
