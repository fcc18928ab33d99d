//! The engine's memory: a span of words that writers store to atomically and
//! that is lent out as bytes once it is final.
//!
//! It is either allocated here or a mapping the caller brings, for instance one
//! that is shared with another process. Nothing depends on a page size.

use std::fmt;
use std::ops::Range;

use super::sync::AtomicU64;
#[cfg(loom)]
use super::sync::Ordering;
use crate::layout::limits::WORD_BYTES;

/// Keeps a caller's mapping alive for as long as the engine uses it.
pub(super) type Keep = Box<dyn Send + Sync>;

/// A span of words.
pub(super) struct Memory {
    #[cfg(not(loom))]
    base: std::ptr::NonNull<u64>,
    #[cfg(loom)]
    cells: Vec<AtomicU64>,
    words: usize,
    /// The caller's mapping; where there is none the words were allocated here.
    #[cfg_attr(loom, allow(dead_code))]
    keep: Option<Keep>,
}

impl fmt::Debug for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Memory")
            .field("words", &self.words)
            .field("external", &self.keep.is_some())
            .finish_non_exhaustive()
    }
}

#[cfg(not(loom))]
mod native {
    use super::{AtomicU64, Keep, Memory, Range, WORD_BYTES};
    use std::ptr::NonNull;

    // SAFETY: `base` points to memory that this value owns, alone or through
    // `keep`, which is itself Send. All concurrent access goes through atomics or
    // through the contracts of `bytes` and `clear`.
    unsafe impl Send for Memory {}
    // SAFETY: as for Send; `&Memory` gives atomics, and plain references only by
    // unsafe functions whose callers exclude concurrent writes.
    unsafe impl Sync for Memory {}

    impl Memory {
        /// Allocates `words` words of zeros; untouched ones cost no memory.
        pub(in super::super) fn allocate(words: usize) -> Self {
            let owned: Box<[u64]> = vec![0; words].into_boxed_slice();
            let base = NonNull::from(Box::leak(owned)).cast();
            Self { base, words, keep: None }
        }

        /// Uses a mapping of the caller.
        ///
        /// # Safety
        ///
        /// `base` must be aligned to 8 bytes and valid for reads and writes of
        /// `words` words until `keep` is dropped. In this process nothing else
        /// may access it meanwhile.
        pub(in super::super) unsafe fn external(
            base: NonNull<u64>,
            words: usize,
            keep: Keep,
        ) -> Self {
            Self { base, words, keep: Some(keep) }
        }

        /// The word at `index`, which must be within the memory.
        #[inline(always)]
        pub(in super::super) fn cell(&self, index: usize) -> &AtomicU64 {
            assert!(index < self.words);
            // SAFETY: the index was just checked.
            unsafe { self.cell_unchecked(index) }
        }

        /// The word at `index`, without a check: a record of 6 words would spend
        /// as many compares and branches on what its reservation already proved.
        ///
        /// # Safety
        ///
        /// `index` must be less than the memory's words.
        #[inline(always)]
        pub(in super::super) unsafe fn cell_unchecked(&self, index: usize) -> &AtomicU64 {
            debug_assert!(index < self.words);
            // SAFETY: the caller keeps `index` within the memory, which is valid and
            // aligned for the life of `self` (see `allocate` and `external`). Plain
            // accesses to the same word are excluded by the contracts of `bytes` and
            // `clear`.
            unsafe { AtomicU64::from_ptr(self.base.as_ptr().add(index)) }
        }

        /// The bytes of `range`.
        ///
        /// # Safety
        ///
        /// `range` must lie within the memory, and nobody may store to its words
        /// while the slice lives.
        pub(in super::super) unsafe fn bytes(&self, range: Range<usize>) -> &[u8] {
            debug_assert!(range.start <= range.end && range.end <= self.words);
            // SAFETY: within the memory and free of writers, by the caller's word;
            // any bytes are valid u8.
            unsafe {
                std::slice::from_raw_parts(
                    self.base.as_ptr().add(range.start).cast::<u8>(),
                    range.len() * WORD_BYTES,
                )
            }
        }

        /// Makes the words of `range` zero, at the speed of memset.
        ///
        /// # Safety
        ///
        /// `range` must lie within the memory, and nobody else may access its
        /// words meanwhile.
        pub(in super::super) unsafe fn clear(&self, range: Range<usize>) {
            debug_assert!(range.start <= range.end && range.end <= self.words);
            // SAFETY: within the memory and ours alone, by the caller's word.
            unsafe { self.base.as_ptr().add(range.start).write_bytes(0, range.len()) }
        }
    }

    impl Drop for Memory {
        fn drop(&mut self) {
            if self.keep.is_none() {
                let owned = std::ptr::slice_from_raw_parts_mut(self.base.as_ptr(), self.words);
                // SAFETY: without `keep` the words come from the box that
                // `allocate` leaked, with this very length.
                drop(unsafe { Box::from_raw(owned) });
            }
        }
    }
}

/// The same over loom's atomics, so that a model sees every access. Reading a
/// word relaxed there yields any value that the memory model lets it have, so a
/// missing happens-before shows as a wrong word.
#[cfg(loom)]
impl Memory {
    pub(super) fn allocate(words: usize) -> Self {
        Self { cells: (0..words).map(|_| AtomicU64::new(0)).collect(), words, keep: None }
    }

    pub(super) fn cell(&self, index: usize) -> &AtomicU64 {
        &self.cells[index]
    }

    pub(super) unsafe fn cell_unchecked(&self, index: usize) -> &AtomicU64 {
        self.cell(index)
    }

    pub(super) fn copy(&self, range: Range<usize>) -> Vec<u8> {
        let words = range.map(|index| self.cell(index).load(Ordering::Relaxed));
        words.flat_map(u64::to_ne_bytes).collect()
    }

    pub(super) unsafe fn clear(&self, range: Range<usize>) {
        for index in range {
            self.cell(index).store(0, Ordering::Relaxed);
        }
    }
}

const _: () = assert!(WORD_BYTES == size_of::<u64>());
