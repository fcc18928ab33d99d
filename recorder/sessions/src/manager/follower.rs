//! Watches for spans of a provider that are longer than triggers wait for, while it records into a circular buffer.
//!
//! New records in the buffer are read ten times a second, and nothing is removed from it. If a provider fills half of its buffer in less
//! time, some records are missed: spans that may have been open then are not measured.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crossbeam_channel::Sender;
use fxt_format::walk::records;
use fxt_writer::Koid;
use fxt_writer::engine::{Cursor, Piece};
use fxtrec_blame::spans::is_called;
use fxtrec_gates::Comparison;
use fxtrec_units::Nanos;

use super::event::{Act, Label, decode};
use super::known::{Known, Room};

/// How often a buffer is checked.
const EVERY: Duration = Duration::from_millis(100);

/// The memory for one provider, in bytes. Spans beyond that are not measured.
const ROOM: Room = Room { names: 256 << 10, open: 64 << 10 };

/// Spans to watch for.
#[derive(Clone, Debug, PartialEq)]
pub struct SpanLimit {
    /// The number of the trigger that waits for them.
    pub trigger: usize,
    /// The name of the spans, or category and name.
    pub name: String,
    pub comparison: Comparison,
    /// The limit, in nanoseconds.
    pub limit: f64,
}

/// A span that was long enough to meet a trigger.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LongSpan {
    /// The number of the trigger.
    pub trigger: usize,
    /// The name of its provider.
    pub provider_name: Arc<str>,
    pub pid: u32,
    /// The koid of the thread on which it ended.
    pub thread: Koid,
    pub since: Nanos,
    pub time: Nanos,
}

/// Watches one provider.
#[derive(Debug)]
pub(super) struct Follower {
    limits: Arc<[SpanLimit]>,
    spans: Sender<LongSpan>,
    known: Known,
    pub(super) cursor: Cursor,
    next: Instant,
}

impl Follower {
    pub(super) fn new(limits: Arc<[SpanLimit]>, spans: Sender<LongSpan>) -> Follower {
        let (known, cursor) = (Known::default(), Cursor::default());
        Follower { limits, spans, known, cursor, next: Instant::now() + EVERY }
    }

    /// When to check the buffer next.
    pub(super) fn next(&self) -> Instant {
        self.next
    }

    /// Checks the records since the last call.
    pub(super) fn take(&mut self, piece: &Piece, name: &Arc<str>, pid: u32) {
        self.next = Instant::now() + EVERY;
        if piece.tally.torn > 0 {
            self.known.open = Default::default();
        }
        let mut begun = Vec::new();
        for record in records(&piece.durable).chain(records(&piece.rolling)) {
            let Some(seen) = decode(record, &self.known.names) else {
                self.known.names.learn_one(record, ROOM.names);
                continue;
            };
            let clock = self.known.clock();
            let (thread, time) = (seen.thread, seen.time);
            let ended = match seen.act {
                Act::Whole(label, end) => Some((label, time, end)),
                Act::End(ref name) => {
                    let name = name.clone();
                    let ended = self.known.open.follow(seen, clock, ROOM.open, &mut begun);
                    // An end with another name shows that an end or a begin is missing.
                    let own = |(label, _): &(Label, u64)| name.is_empty() || label.name == name;
                    ended.filter(own).map(|(label, since)| (label, since, time))
                }
                _ => {
                    self.known.open.follow(seen, clock, ROOM.open, &mut begun);
                    None
                }
            };
            let Some((label, since, end)) = ended else { continue };
            let [since, end] = [since, end].map(|ticks| Nanos(clock.nanos(ticks)));
            let nanos = end.0.saturating_sub(since.0) as f64;
            let meets = |limit: &&SpanLimit| {
                is_called((&label.category, &label.name), &limit.name)
                    && limit.comparison.holds(nanos, limit.limit)
            };
            for SpanLimit { trigger, .. } in self.limits.iter().filter(meets) {
                let (trigger, provider_name) = (*trigger, name.clone());
                // If this many triggers are pending, no further ones fire.
                let _ = self.spans.try_send(LongSpan {
                    trigger,
                    provider_name,
                    pid,
                    thread: Koid(thread),
                    since,
                    time: end,
                });
            }
        }
    }
}

#[cfg(test)]
mod tests;
