//! The stacks of the page: each belongs to a wait that a lane shows, to the waker that ended the wait, or to a sample on a CPU.
//!
//! Stacks are assigned to waits when the tiles are [replayed](super::extract::Extract::replay), by the rule of [`crate::stacks`]: a wait
//! has the stack that was recorded during it, or slightly before it if its switch was seen late.
//!
//! ```text
//!   lane     ─ running ─┤────── sleeping ──────┤ woken ├─ running ─
//!   stacks                x of the wait       x of the waker
//! ```
//!
//! Their part of a page is limited. The longest waits are first; if not all samples fit, only every second, fourth, eighth, ... is
//! included. The page states which ones were left out.

use std::cmp::Reverse;

use fxtrec_sched::backtrace::{Kind, PROBLEMS};
use rustc_hash::FxHashMap;
use serde_json::{Value, json};

use super::columns::Column;
use super::frames::Frames;
use super::lanes::Observer;
use super::state::State;
use super::threads::{ThreadIndex, Threads};
use crate::stacks::{LATE, Recorded};

#[cfg(test)]
mod tests;

/// The size of a wait and of a sample in the page, in bytes, compressed and as text.
const WAIT_BYTES: u64 = 12;
const SAMPLE_BYTES: u64 = 8;

/// The limit for stacks in a page: a base, an amount for each event, and a maximum.
const SMALL: u64 = 1_000_000;
const FOR_AN_EVENT: u64 = 2;
const MOST: u64 = 10_000_000;

/// The limit, in bytes, for the stacks in a page of `events` events.
pub(super) fn room(events: u64) -> u64 {
    events.saturating_mul(FOR_AN_EVENT).saturating_add(SMALL).min(MOST)
}

/// A wait of a blocked thread, with its stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Wait {
    thread: ThreadIndex,
    /// When it left its CPU, in nanoseconds of the trace's clock; 0 for before the trace.
    begin: u64,
    /// How long it was blocked, in nanoseconds.
    length: u64,
    /// The indexes of both stacks in [`Recorded::all`].
    stack: usize,
    wake: Option<usize>,
}

/// The current wait of a thread.
#[derive(Clone, Copy, Debug)]
struct Underway {
    begin: u64,
    /// When it was woken.
    end: u64,
    /// When it got a CPU.
    away: u64,
}

#[derive(Debug, Default)]
struct OfThread {
    /// The stacks of its waits that are not assigned yet, as indexes into [`Recorded::all`]; the next one is the last.
    left: Vec<usize>,
    wait: Option<Underway>,
}

/// Finds the wait of each stack while the lanes are replayed.
#[derive(Debug)]
pub(super) struct Placing<'a> {
    recorded: &'a Recorded,
    of: FxHashMap<ThreadIndex, OfThread>,
    /// The wakers' stacks by provider and link, in order of time.
    linked: FxHashMap<(Option<fxt_reader::ProviderId>, u32), Vec<usize>>,
    waits: Vec<Wait>,
    /// The number of stacks whose wait is not in the lanes.
    homeless: u64,
}

impl<'a> Placing<'a> {
    pub(super) fn new(recorded: &'a Recorded, threads: &Threads) -> Self {
        let mut of: FxHashMap<ThreadIndex, OfThread> = FxHashMap::default();
        let mut linked: FxHashMap<_, Vec<usize>> = FxHashMap::default();
        let mut homeless = 0;
        for (number, stack) in recorded.all.iter().enumerate() {
            match (stack.kind, threads.known(stack.thread)) {
                (Kind::Wake, _) => {
                    linked.entry((stack.provider, stack.link)).or_default().push(number);
                }
                (Kind::OffCpu, Some(thread)) => of.entry(thread).or_default().left.push(number),
                (Kind::OffCpu, None) => homeless += 1,
                (Kind::Cpu, _) => {}
            }
        }
        for of in of.values_mut() {
            of.left.sort_by_key(|&number| Reverse(recorded.all[number].time));
        }
        for numbers in linked.values_mut() {
            numbers.sort_by_key(|&number| recorded.all[number].time);
        }
        Self { recorded, of, linked, waits: Vec::new(), homeless }
    }

    /// A wait has ended: finds its stack.
    fn close(&mut self, thread: ThreadIndex) {
        let Some(of) = self.of.get_mut(&thread) else { return };
        let Some(Underway { begin, end, away }) = of.wait.take() else { return };
        let mut found = None;
        while let Some(&number) = of.left.last() {
            let stack = &self.recorded.all[number];
            if stack.time >= away {
                break;
            }
            of.left.pop();
            let is_near = begin.saturating_sub(stack.time) < LATE;
            if is_near && found.is_none() {
                found = Some(number);
            } else {
                self.homeless += 1;
            }
        }
        let Some(stack) = found else { return };
        let of_wait = &self.recorded.all[stack];
        let wakes = self.linked.get(&(of_wait.provider, of_wait.link));
        let wakes = wakes.filter(|_| of_wait.link != 0);
        let wake = wakes.and_then(|wakes| {
            let time = |number: usize| self.recorded.all[number].time;
            let next = wakes.partition_point(|&number| time(number) < of_wait.time);
            wakes.get(next).copied().filter(|&number| time(number) <= away)
        });
        self.waits.push(Wait { thread, begin, length: end - begin, stack, wake });
    }

    /// Chooses as much as fits into `room` bytes.
    pub(super) fn choose(&mut self, threads: &Threads, room: u64) -> Chosen {
        let open: Vec<ThreadIndex> = self.of.keys().copied().collect();
        for thread in open {
            self.close(thread);
        }
        let homeless = self.homeless + self.of.values().map(|of| of.left.len() as u64).sum::<u64>();
        let samples = self.recorded.all.iter().filter(|stack| stack.kind == Kind::Cpu);
        let samples: Vec<_> =
            samples.filter_map(|stack| Some((threads.known(stack.thread)?, stack))).collect();
        // Each kind gets at least half, if it needs that.
        let needed = samples.len() as u64 * SAMPLE_BYTES;
        let for_waits = room - needed.min(room / 2);
        let mut chosen = Chosen { homeless, every: 1, ..Chosen::default() };
        self.waits.sort_unstable_by_key(|wait| (Reverse(wait.length), wait.begin, wait.thread));
        let mut waits = self.waits.iter();
        for wait in waits.by_ref() {
            let mark = chosen.frames.mark();
            let mut number =
                |stack: usize| chosen.frames.number(self.recorded, &self.recorded.all[stack]);
            let numbers = (number(wait.stack), wait.wake.map(&mut number));
            let bytes = chosen.frames.bytes() + (chosen.waits.len() as u64 + 1) * WAIT_BYTES;
            if bytes > for_waits {
                chosen.frames.back_to(mark);
                chosen.left_out = (1, wait.length);
                break;
            }
            chosen.waits.push((*wait, numbers));
        }
        chosen.left_out.0 += waits.len() as u64;
        chosen.waits.sort_unstable_by_key(|(wait, _)| (wait.thread, wait.begin));
        let used = chosen.waits.len() as u64 * WAIT_BYTES;
        let mark = chosen.frames.mark();
        while !samples.is_empty() {
            let taken = samples.iter().step_by(chosen.every);
            let number = |&(thread, stack): &(_, &crate::stacks::Stack)| {
                (thread, stack.time, chosen.frames.number(self.recorded, stack))
            };
            chosen.samples = taken.map(number).collect();
            let bytes = used + chosen.samples.len() as u64 * SAMPLE_BYTES;
            if chosen.frames.bytes() + bytes <= room || chosen.samples.len() <= 1 {
                break;
            }
            chosen.frames.back_to(mark);
            chosen.every = chosen.every.saturating_mul(2);
        }
        chosen.samples.sort_by_key(|&(thread, time, _)| (thread, time));
        chosen
    }
}

impl Observer for Placing<'_> {
    fn on_cpu(&mut self, _: u16, _: ThreadIndex, _: u64, _: u64) {}

    fn in_state(&mut self, thread: ThreadIndex, state: State, from: u64, to: u64) {
        let Some(of) = self.of.get_mut(&thread) else { return };
        match state {
            State::Sleeping
            | State::Uninterruptible
            | State::Idle
            | State::Parked
            | State::Stopped
            | State::Traced => {
                self.close(thread);
                if let Some(of) = self.of.get_mut(&thread) {
                    of.wait = Some(Underway { begin: from, end: to, away: to });
                }
            }
            State::Woken | State::Preempted | State::Throttled | State::WokenThrottled => {
                if let Some(wait) = &mut of.wait {
                    wait.away = to;
                }
            }
            _ => self.close(thread),
        }
    }
}

/// The stacks in the page.
#[derive(Debug, Default)]
pub(super) struct Chosen {
    frames: Frames,
    /// By thread and begin, with the numbers of both stacks.
    waits: Vec<(Wait, (u32, Option<u32>))>,
    /// By thread and time, with the number of the stack.
    samples: Vec<(ThreadIndex, u64, u32)>,
    /// One of this many samples is included.
    every: usize,
    /// The number of waits with stacks that are left out, and the length of the longest of them.
    left_out: (u64, u64),
    homeless: u64,
}

impl Chosen {
    pub(super) fn is_empty(&self) -> bool {
        self.waits.is_empty() && self.samples.is_empty()
    }

    /// The columns of the blocks of frames, of waits and of samples. `begin` is the start of the trace.
    pub(super) fn columns(&self, begin: u64) -> [Vec<Column>; 3] {
        let mut waits: [Column; 5] = Default::default();
        let [threads, begins, lengths, stacks, wakes] = &mut waits;
        let mut last = (0, begin);
        for (wait, (stack, wake)) in &self.waits {
            let at = wait.begin.max(begin);
            step(threads, begins, &mut last, (wait.thread, at), begin);
            lengths.number((wait.begin + wait.length).saturating_sub(at));
            stacks.number((*stack).into());
            wakes.number(wake.map_or(0, |wake| u64::from(wake) + 1));
        }
        let mut samples: [Column; 3] = Default::default();
        let [threads, times, stacks] = &mut samples;
        let mut last = (0, begin);
        for &(thread, time, stack) in &self.samples {
            step(threads, times, &mut last, (thread, time.max(begin)), begin);
            stacks.number(stack.into());
        }
        [self.frames.columns(), waits.into(), samples.into()]
    }

    /// The entry about them in the table of contents; `blocks` are the numbers of their blocks.
    pub(super) fn json(&self, blocks: &[usize], recorded: &Recorded) -> Value {
        json!({
            "blocks": blocks,
            "over": recorded.over,
            "period": 1_000_000_000 / recorded.frequency.max(1),
            "waits": self.waits.len(),
            "samples": self.samples.len(),
            "every": self.every,
            "leftOut": self.left_out,
            "homeless": self.homeless,
            "lacks": PROBLEMS.map(|(bit, text)| json!([bit, text])),
        })
    }
}

/// The thread as a difference, and the time relative to the previous one of the same thread, or to the start of the trace.
fn step(
    threads: &mut Column,
    times: &mut Column,
    last: &mut (u32, u64),
    (thread, time): (ThreadIndex, u64),
    begin: u64,
) {
    threads.number((thread.0 - last.0).into());
    if thread.0 != last.0 {
        *last = (thread.0, begin);
    }
    times.number(time - last.1);
    last.1 = time;
}
