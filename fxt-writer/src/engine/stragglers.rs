//! Writers that reserve room and do not finish: slow, stopped or dead.
//!
//! A sealed buffer waits for them only for the grace period. Then their records
//! are abandoned and the buffer is handed over without them. Such a writer may still continue, so the words that it reserved are fenced
//! off: no later lap uses them until the writer finishes. So no writer ever stores to bytes that are lent out, even if a straggler
//! continues.
//!
//! ```text
//!   sealed    [ record ][ claimed, 4 words ][ record ][ 0 0 0 ][ record ]
//!   given up  [ data   ]      gap           [ data   ]   gap   [ data   ]
//! ```
//!
//! First words lead from reservation to reservation; the first word of a claimed one has its size.
//! If the first word is still zero, the writer was between reserving and claiming: it has stored nothing, and everything up to the next
//! claim or record is the gap.

use std::ops::Range;
use std::time::Duration;

use super::Engine;
use super::memory::{is_claim, is_vacant};
use super::state::{Fence, Phase, State};
use super::sync::{Ordering, fence};
use crate::layout::walk::record_words;

impl Engine {
    /// Abandons all writers that have not finished in a sealed buffer, without
    /// waiting for the grace period; their records count as dropped. For callers
    /// that know that these writers are gone.
    pub fn abandon_stragglers(&self) {
        let mut state = self.lock();
        self.settle(&mut state);
        self.give_up(&mut state);
    }

    /// Abandons the writers of a buffer that has been sealed for longer than the
    /// grace period; true if there were any.
    pub(super) fn expire_stragglers(&self, state: &mut State) -> bool {
        let expired = self.until_expiry(state) == Some(Duration::ZERO);
        if expired {
            self.settle(state);
            self.give_up(state);
        }
        expired
    }

    /// How long a sealed buffer still waits for its writers, if any.
    pub(super) fn until_expiry(&self, state: &State) -> Option<Duration> {
        // The model has no clock.
        if cfg!(loom) {
            return None;
        }
        let sealed_at = state.oldest_seal()?;
        Some(self.config.grace.saturating_sub(sealed_at.elapsed()))
    }

    /// Handles counts that have become complete since the last call.
    pub(super) fn settle(&self, state: &mut State) {
        for index in [0, 1] {
            let part = &state.parts[index];
            let complete = part.counter.is_some_and(|counter| self.commits[counter].complete());
            if part.phase == Phase::Sealed && complete {
                self.complete(state, index);
            }
        }
        let lost = std::mem::take(&mut state.lost);
        for counter in lost {
            if self.commits[counter].complete() {
                self.lift_fences(state, counter);
                state.spare.push(counter);
                self.wake(state);
            } else {
                state.lost.push(counter);
            }
        }
    }

    /// Counts a record that its writer withdraws, unless it was counted when the
    /// writer was abandoned. The filler's header is stored under the same lock,
    /// so that the record is not counted as unfinished later.
    pub(super) fn count_withdrawn(&self, start: usize, filler: u64, counter: usize) {
        let state = self.lock();
        if !state.lost.contains(&counter) {
            self.memory.cell(start).store(filler, Ordering::Release);
            self.header_words().drop_records(1);
        }
    }

    fn lift_fences(&self, state: &mut State, counter: usize) {
        for index in [0, 1] {
            let base = self.division.rolling_base(index);
            state.parts[index].fences.retain(|fence| {
                if fence.counter != counter {
                    return true;
                }
                // SAFETY: the words are within the part. Only the writers of this count had reservations here, and they are finished
                // because the count is complete. These words have not been part of any lap or view since.
                unsafe { self.memory.clear(base + fence.words.start..base + fence.words.end) };
                false
            });
        }
    }

    fn give_up(&self, state: &mut State) {
        for index in [0, 1] {
            if state.parts[index].phase != Phase::Sealed {
                continue;
            }
            let Some(counter) = state.parts[index].counter.take() else { continue };
            let gaps = self.unfinished(state, index);
            let part = &mut state.parts[index];
            part.fences.extend(gaps.iter().map(|words| Fence { words: words.clone(), counter }));
            part.gaps = gaps;
            state.lost.push(counter);
            self.complete(state, index);
        }
    }

    /// The spans of a sealed lap that are reserved and not finished; their records
    /// are counted as dropped, here or by their writers.
    fn unfinished(&self, state: &State, index: usize) -> Vec<Range<usize>> {
        let base = self.division.rolling_base(index);
        let lap = state.parts[index].start..state.parts[index].end;
        // Acquire: a finished record is seen completely.
        let load = |at: usize| self.memory.cell(base + at).load(Ordering::Acquire);
        let mut gaps = Vec::new();
        let mut at = lap.start;
        while at < lap.end {
            let word = load(at);
            let next = if word == 0 {
                self.next_first_word(base, at..lap.end)
            } else {
                // The sizes are the engine's own; clamped in case the memory was
                // overwritten.
                at.saturating_add(record_words(word).unwrap_or(1)).min(lap.end)
            };
            if next > at && (word == 0 || is_claim(word)) {
                gaps.push(at..next);
                self.header_words().drop_records(1);
            } else if is_vacant(word)
                && let Some(held) = self.lease_at(state, base + at)
            {
                gaps.push(at..next);
                held.miss_from(base + at);
            }
            at = next;
        }
        gaps
    }

    /// The first word of a reservation after the unclaimed one at `span.start`,
    /// or `span.start` itself if it is claimed by now.
    ///
    /// The first word found that is not zero may belong to the middle of a
    /// record whose claim was not visible a moment ago. A claim is stored before
    /// the rest of its record with a fence between, so after the fence here it is
    /// visible: when a second look finds the same word first, it is a first word.
    fn next_first_word(&self, base: usize, span: Range<usize>) -> usize {
        let first_nonzero = || {
            let cell = |at: usize| self.memory.cell(base + at);
            span.clone().find(|&at| cell(at).load(Ordering::Relaxed) != 0).unwrap_or(span.end)
        };
        let mut found = first_nonzero();
        loop {
            fence(Ordering::Acquire);
            let again = first_nonzero();
            if again == found {
                return found;
            }
            found = again;
        }
    }
}
