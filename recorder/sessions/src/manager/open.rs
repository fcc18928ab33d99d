//! The open spans of a provider across a rotation of archives.
//!
//! ```text
//!  records    f(   g(  |  )g        |         )f
//!  archive 1  f(   g( )g~ )f~
//!  archive 2           ( f~ g~ )g )f~
//!  archive 3                         f~ (     )f        ~: made up, with the argument `cut`
//! ```
//!
//! Open spans end in one archive and begin again in the next, before the first record on the same track. So no synthetic begin follows the
//! end of its span, even if records are slightly out of order. On tracks without records, spans are begun again when that archive ends.

use std::collections::BTreeMap;
use std::sync::Arc;

use fxt_writer::record::{Event, EventKind, Record};
use fxt_writer::{Arg, Koid, Text, ThreadName, Ticks, Value};

use super::event::{Act, Label, Seen, Track};
use fxtrec_units::convention::CUT;

/// The argument of a synthetic begin with the time at which the span began, in nanoseconds.
const BEGAN: &str = "began_ns";

/// The limit for open spans of all providers together, in bytes. Spans beyond it are not begun again.
pub(super) const MAX_OPEN_BYTES: usize = 8 << 20;

/// The overhead of a string.
const TEXT_BYTES: usize = 32;

/// An open operation on a track.
#[derive(Debug, Default)]
struct Stack {
    /// The outermost first, each with the time at which it began.
    spans: Vec<(Label, u64)>,
    /// The number of further nested spans, for which there was no space.
    more: u64,
    /// The latest time on this track.
    last: u64,
    /// When they continue in the present archive, in which they have not begun yet.
    resume: Option<u64>,
}

/// The open spans of a provider. Times are in its ticks.
#[derive(Debug, Default)]
pub(super) struct Open {
    tracks: BTreeMap<Track, Stack>,
    bytes: usize,
    /// Spans for which there was no space.
    left_out: u64,
}

impl Open {
    /// Tracks an event, as long as the open spans take no more than `most` bytes. Synthetic begins that must precede it are appended to
    /// `out`. Returns the span that it ends, with the time at which that began.
    pub(super) fn follow(
        &mut self,
        seen: Seen,
        clock: Clock,
        most: usize,
        out: &mut Vec<u8>,
    ) -> Option<(Label, u64)> {
        let Seen { track, time, act, .. } = seen;
        if let Some(stack) = self.tracks.get_mut(&track) {
            if let Some(at) = stack.resume.take() {
                stack.begin(&track, at.min(time), clock, out);
            }
            stack.last = stack.last.max(time);
        }
        match act {
            Act::Begin(label) => self.begin(track, label, time, most),
            Act::End(name) => return self.end(&track, &name),
            Act::Whole(..) | Act::None => {}
        }
        None
    }

    /// The memory in use, in bytes.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// The number of spans since the last call for which there was no space.
    pub(super) fn take_left_out(&mut self) -> u64 {
        std::mem::take(&mut self.left_out)
    }

    fn begin(&mut self, track: Track, label: Label, time: u64, most: usize) {
        let is_new = !self.tracks.contains_key(&track);
        let bytes = label.bytes() + if is_new { Stack::BYTES } else { 0 };
        let has_room = self.bytes + bytes <= most;
        if !has_room && is_new {
            self.left_out = self.left_out.saturating_add(1);
            return;
        }
        let stack = self.tracks.entry(track).or_default();
        stack.last = stack.last.max(time);
        if has_room && stack.more == 0 {
            self.bytes += bytes;
            if is_new {
                // Most tracks have one span, but a vector starts with a capacity of four.
                stack.spans.reserve_exact(1);
            }
            stack.spans.push((label, time));
        } else {
            self.left_out = self.left_out.saturating_add(1);
            stack.more = stack.more.saturating_add(1);
        }
    }

    fn end(&mut self, track: &Track, name: &Arc<str>) -> Option<(Label, u64)> {
        let stack = self.tracks.get_mut(track)?;
        if stack.more > 0 {
            stack.more -= 1;
            return None;
        }
        let named = stack.spans.iter().rposition(|(label, _)| label.name == *name);
        let ended = match (track, named) {
            (Track::Async(..), Some(at)) => Some(stack.spans.remove(at)),
            _ => stack.spans.pop(),
        };
        self.bytes -= ended.as_ref().map_or(0, |(label, _)| label.bytes());
        if stack.spans.is_empty() {
            self.tracks.remove(track);
            self.bytes -= Stack::BYTES;
        }
        ended
    }

    /// Ends all open spans at `time`, in ticks, to continue in another archive.
    pub(super) fn rotate(&mut self, time: u64, clock: Clock, out: &mut Vec<u8>) {
        self.resume(clock, out);
        for (track, stack) in &mut self.tracks {
            let at = stack.last.max(time);
            stack.resume = Some(at);
            for (label, _) in stack.spans.iter().rev() {
                let kind = match track {
                    Track::Thread(..) => EventKind::DurationEnd,
                    Track::Async(_, id) => EventKind::AsyncEnd { id: *id },
                };
                label.put(kind, at, &[cut()], out);
            }
        }
    }

    /// Begins the spans on tracks that have had no records in this archive.
    pub(super) fn resume(&mut self, clock: Clock, out: &mut Vec<u8>) {
        for (track, stack) in &mut self.tracks {
            if let Some(at) = stack.resume.take() {
                stack.begin(track, at, clock, out);
            }
        }
    }
}

impl Stack {
    /// The memory of a track without its spans: the map is at least half full.
    const BYTES: usize = 2 * size_of::<(Track, Stack)>();

    fn begin(&self, track: &Track, at: u64, clock: Clock, out: &mut Vec<u8>) {
        for (label, began) in &self.spans {
            let kind = match track {
                Track::Thread(..) => EventKind::DurationBegin,
                Track::Async(_, id) => EventKind::AsyncBegin { id: *id },
            };
            let began = Arg::new(Text::Inline(BEGAN), Value::uint(clock.nanos(*began)));
            label.put(kind, at, &[cut(), began], out);
        }
    }
}

fn cut() -> Arg<'static> {
    Arg::new(Text::Inline(CUT), Value::Bool(true))
}

impl Label {
    fn bytes(&self) -> usize {
        size_of::<(Label, u64)>() + 2 * TEXT_BYTES + self.category.len() + self.name.len()
    }

    fn put(&self, kind: EventKind, time: u64, args: &[Arg<'_>], out: &mut Vec<u8>) {
        let thread = ThreadName::Inline { process: Koid(self.process), thread: Koid(self.thread) };
        let (category, name) = (Text::Inline(&self.category), Text::Inline(&self.name));
        // Two names that each fit into a record only by reference cost the provider only this span.
        let _ = Event { kind, time: Ticks(time), thread, category, name, args }.write(out);
    }
}

/// The clock of a provider.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clock {
    /// Not zero.
    pub(super) ticks_per_second: u64,
}

const SECOND: u64 = 1_000_000_000;

impl Clock {
    /// A time of the clock in nanoseconds.
    pub(super) fn nanos(self, ticks: u64) -> u64 {
        scale(ticks, SECOND, self.ticks_per_second)
    }

    /// Converts nanoseconds to the clock's ticks.
    pub(super) fn ticks(self, nanos: u64) -> u64 {
        scale(nanos, self.ticks_per_second, SECOND)
    }
}

fn scale(value: u64, by: u64, of: u64) -> u64 {
    let scaled = u128::from(value) * u128::from(by) / u128::from(of.max(1));
    u64::try_from(scaled).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
