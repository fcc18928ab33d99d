//! What a provider is in the middle of, where an archive ends and another goes on.
//!
//! ```text
//!  records    f(   g(  |  )g        |         )f
//!  archive 1  f(   g( )g~ )f~
//!  archive 2           ( f~ g~ )g )f~
//!  archive 3                         f~ (     )f        ~: made up, with the argument `cut`
//! ```
//!
//! Spans are ended in the one archive, and begun anew in the next before the first record that is on the same track.
//! So no made-up begin comes after the end of its span, though records may be finished a little out of order. What
//! nothing happens on is begun when that archive ends.

use std::collections::BTreeMap;
use std::sync::Arc;

use fxt_writer::record::{Event, EventKind, Record};
use fxt_writer::{Arg, Koid, Text, ThreadName, Ticks, Value};

use super::event::{Act, Label, Seen, Track};
use fxtrec_units::convention::CUT;

/// The argument that tells when a span began that is begun anew, in nanoseconds.
const BEGAN: &str = "began_ns";

/// What is kept of all that is open at all providers together, in bytes. Spans beyond that are not begun anew.
pub(super) const MAX_OPEN_BYTES: usize = 8 << 20;

/// What a text takes besides its bytes.
const TEXT_BYTES: usize = 32;

/// What is open on a track.
#[derive(Debug, Default)]
struct Stack {
    /// The outermost first, with when it began.
    spans: Vec<(Label, u64)>,
    /// How many more there are inside of these, for which there was no room.
    more: u64,
    /// The latest time on this track.
    last: u64,
    /// When they go on in the present archive, in which they are not begun yet.
    resume: Option<u64>,
}

/// What a provider is in the middle of. Times are in its ticks.
#[derive(Debug, Default)]
pub(super) struct Open {
    tracks: BTreeMap<Track, Stack>,
    bytes: usize,
    /// Spans for which there was no room.
    left_out: u64,
}

impl Open {
    /// Takes note of an event, if all that is open takes no more than `most` bytes then. What it finds to be begun anew first
    /// is appended to `out`.
    pub(super) fn follow(&mut self, seen: Seen, clock: Clock, most: usize, out: &mut Vec<u8>) {
        let Seen { track, time, act } = seen;
        if let Some(stack) = self.tracks.get_mut(&track) {
            if let Some(at) = stack.resume.take() {
                stack.begin(&track, at.min(time), clock, out);
            }
            stack.last = stack.last.max(time);
        }
        match act {
            Act::Begin(label) => self.begin(track, label, time, most),
            Act::End(name) => self.end(&track, &name),
            Act::None => {}
        }
    }

    /// What all of it takes, in bytes.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// How many spans there was no room for since this was last taken.
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
                // Most have one, and a vector begins with room for four.
                stack.spans.reserve_exact(1);
            }
            stack.spans.push((label, time));
        } else {
            self.left_out = self.left_out.saturating_add(1);
            stack.more = stack.more.saturating_add(1);
        }
    }

    fn end(&mut self, track: &Track, name: &Arc<str>) {
        let Some(stack) = self.tracks.get_mut(track) else { return };
        if stack.more > 0 {
            stack.more -= 1;
            return;
        }
        let named = stack.spans.iter().rposition(|(label, _)| label.name == *name);
        let ended = match (track, named) {
            (Track::Async(..), Some(at)) => Some(stack.spans.remove(at)),
            _ => stack.spans.pop(),
        };
        self.bytes -= ended.map_or(0, |(label, _)| label.bytes());
        if stack.spans.is_empty() {
            self.tracks.remove(track);
            self.bytes -= Stack::BYTES;
        }
    }

    /// Ends all that is open at `time`, in ticks, to go on in another archive.
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

    /// Begins anew what nothing has happened on in this archive.
    pub(super) fn resume(&mut self, clock: Clock, out: &mut Vec<u8>) {
        for (track, stack) in &mut self.tracks {
            if let Some(at) = stack.resume.take() {
                stack.begin(track, at, clock, out);
            }
        }
    }
}

impl Stack {
    /// What one takes besides its spans: a map of them is at least half full.
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
        // Two names that fit into a record by reference only cost the provider this span.
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
    fn nanos(self, ticks: u64) -> u64 {
        scale(ticks, SECOND, self.ticks_per_second)
    }

    /// A time in nanoseconds as one of the clock.
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
