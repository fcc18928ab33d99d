//! The engine's state of its buffers beyond the position word; changed under the
//! lock, on slow paths only.

use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

use super::config::Division;
use super::held::Held;
use crate::packet::Packet;

/// The life of a rolling buffer.
///
/// ```text
///            opened by a switch          switched away from
///   Free ----------------------> Open ------------------------> Sealed
///    ^                                                            | last commit,
///    |      saved (streaming), overwritten (circular)             v or grace over
///    +-------------------- Clearing <------------------------- Complete
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// Zeroed and waiting to be opened.
    Free,
    /// The position word points here; writers reserve and commit.
    Open,
    /// No more reservations are accepted; some may be uncommitted.
    Sealed,
    /// Final: everything is committed, or abandoned and fenced off. Only in this
    /// phase is it lent out as bytes.
    Complete,
    /// Being zeroed, by one thread, without the lock.
    Clearing,
}

/// A span of a rolling buffer that a writer may still write to, though its record
/// has been abandoned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Fence {
    /// Words within the buffer.
    pub(super) words: Range<usize>,
    /// The count that will be complete when the writer finishes.
    pub(super) counter: usize,
}

/// One rolling buffer.
#[derive(Debug)]
pub(super) struct Part {
    pub(super) phase: Phase,
    /// The wrapped count of the current lap.
    pub(super) wrapped: u32,
    /// First word of the current lap.
    pub(super) start: usize,
    /// Its end; known once sealed.
    pub(super) end: usize,
    pub(super) sealed_at: Option<Instant>,
    /// The count of the current lap; `None` if it still waits for an
    /// abandoned writer, and another must be found.
    pub(super) counter: Option<usize>,
    /// Spans of the current lap that are not part of its data.
    pub(super) gaps: Vec<Range<usize>>,
    /// Spans that no lap may use.
    pub(super) fences: Vec<Fence>,
}

impl Part {
    fn new(counter: usize) -> Self {
        Self {
            phase: Phase::Free,
            wrapped: 0,
            start: 0,
            end: 0,
            sealed_at: None,
            counter: Some(counter),
            gaps: Vec::new(),
            fences: Vec::new(),
        }
    }

    /// The spans of the current lap that hold data, in order.
    pub(super) fn data(&self) -> Vec<Range<usize>> {
        let mut spans = Vec::with_capacity(self.gaps.len() + 1);
        let mut at = self.start;
        for gap in &self.gaps {
            if at < gap.start {
                spans.push(at..gap.start);
            }
            at = gap.end;
        }
        if at < self.end {
            spans.push(at..self.end);
        }
        spans
    }

    /// The largest span of a buffer of `words` words that no fence touches.
    pub(super) fn window(&self, words: usize) -> Range<usize> {
        let mut fenced: Vec<_> = self.fences.iter().map(|fence| fence.words.clone()).collect();
        fenced.sort_by_key(|span| span.start);
        let mut best = 0..0;
        let mut at = 0;
        for span in fenced.into_iter().chain(std::iter::once(words..words)) {
            if span.start.saturating_sub(at) > best.len() {
                best = at..span.start;
            }
            at = at.max(span.end);
        }
        best
    }
}

/// The durable part: a ring of words addressed by counts that only grow.
///
/// A record may wrap around the ring's end: the saver writes both pieces one
/// after the other.
#[derive(Debug, Default)]
pub(super) struct DurableRing {
    /// Words committed since the start.
    pub(super) end: u64,
    /// Number of these words that have been saved and may be overwritten.
    pub(super) saved: u64,
    /// Words reserved for unfinished slots.
    pub(super) promised: usize,
    /// The durable end in the last packet.
    pub(super) announced: u64,
    /// Space for records until they are final, for reuse.
    pub(super) scratch: Vec<Vec<u64>>,
}

impl DurableRing {
    /// Words that are neither in use nor reserved.
    pub(super) fn room(&self, capacity: usize) -> usize {
        let used = usize::try_from(self.end - self.saved).unwrap_or(usize::MAX);
        capacity.saturating_sub(used).saturating_sub(self.promised)
    }
}

/// Everything under the lock.
#[derive(Debug)]
pub(super) struct State {
    pub(super) parts: [Part; 2],
    pub(super) durable: DurableRing,
    /// Counts that no lap uses.
    pub(super) spare: Vec<usize>,
    /// Counts that wait for an abandoned writer.
    pub(super) lost: Vec<usize>,
    /// Leases that threads hold, and some that threads have released.
    pub(super) leases: Vec<Arc<Held>>,
    /// Whether records are accepted.
    pub(super) running: bool,
    /// The lap that [`finish`](super::Engine::finish) ended: its packet is
    /// returned there instead of being sent.
    pub(super) last: Option<u32>,
    /// The oldest lap for which it returned a request.
    pub(super) first: Option<u32>,
    /// A packet to be sent when the lock is released.
    pub(super) outbox: Option<Packet>,
    /// Packets that are being sent.
    pub(super) sending: usize,
    /// Views that are alive.
    pub(super) views: usize,
    /// Threads that wait for something to change.
    pub(super) waiting: usize,
}

impl State {
    /// A state with the counts `0` and `1` in use, and the others, up to `counters`, in reserve.
    pub(super) fn new(counters: usize) -> Self {
        Self {
            parts: [Part::new(0), Part::new(1)],
            durable: DurableRing::default(),
            spare: (2..counters).collect(),
            lost: Vec::new(),
            leases: Vec::new(),
            running: true,
            last: None,
            first: None,
            outbox: None,
            sending: 0,
            views: 0,
            waiting: 0,
        }
    }

    /// Whether the part can be opened once it is clear: there is a count for it
    /// and room between its fences.
    pub(super) fn usable(&self, part: usize, division: &Division) -> bool {
        let part = &self.parts[part];
        (part.counter.is_some() || !self.spare.is_empty())
            && !part.window(division.rolling).is_empty()
    }

    /// When a sealed buffer stops waiting for its writers, if one waits.
    pub(super) fn oldest_seal(&self) -> Option<Instant> {
        let sealed = self.parts.iter().filter(|part| part.phase == Phase::Sealed);
        sealed.filter_map(|part| part.sealed_at).min()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn fenced(spans: &[(usize, usize)]) -> Part {
        let fence = |&(start, end)| Fence { words: start..end, counter: 9 };
        let mut part = Part::new(0);
        part.fences = spans.iter().map(fence).collect();
        part
    }

    #[test]
    fn the_window_is_the_largest_span_between_fences() {
        assert_eq!(fenced(&[]).window(100), 0..100);
        assert_eq!(fenced(&[(10, 20)]).window(100), 20..100);
        assert_eq!(fenced(&[(80, 90), (10, 20)]).window(100), 20..80);
        assert_eq!(fenced(&[(0, 50), (40, 100)]).window(100), 0..0);
        assert_eq!(fenced(&[(10, 60), (20, 30)]).window(100), 60..100);
    }

    #[test]
    fn data_leaves_out_the_gaps() {
        let mut part = Part::new(0);
        (part.start, part.end) = (4, 20);
        part.gaps.extend([4..6, 10..12, 18..20]);
        let data: Vec<_> = part.data().iter().map(|span| (span.start, span.end)).collect();
        assert_eq!(data, [(6, 10), (12, 18)]);
    }
}
