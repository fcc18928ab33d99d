//! The stacks of the page: each is of a wait that a lane shows, of who ended it, or of a moment on a CPU.
//!
//! Stacks find their waits when the tiles are [replayed](super::extract::Extract::replay), by the rule of
//! [`crate::stacks`]: a wait has the stack that was taken within it, or a little before it where its switch was seen late.
//!
//! ```text
//!   lane     ─ running ─┤────── sleeping ──────┤ woken ├─ running ─
//!   stacks                x of the wait       x of the waker
//! ```
//!
//! What they may take of a page is limited. The longest waits come first; of the samples, each second, fourth, eighth, ...
//! is taken if not all have room. The page says what was left out.

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

/// What a wait and a sample take in the page, in bytes, compressed and as text.
const WAIT_BYTES: u64 = 12;
const SAMPLE_BYTES: u64 = 8;

/// What stacks may take of a page: so much, more for each event, and never more than the last.
const SMALL: u64 = 1_000_000;
const FOR_AN_EVENT: u64 = 2;
const MOST: u64 = 10_000_000;

/// How many bytes stacks may take of a page of so many events.
pub(super) fn room(events: u64) -> u64 {
    events.saturating_mul(FOR_AN_EVENT).saturating_add(SMALL).min(MOST)
}

/// A stretch in which a thread was blocked, with its stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Wait {
    thread: ThreadIndex,
    /// When it left its CPU, in nanoseconds of the trace's clock; 0 for before the trace.
    begin: u64,
    /// How long it was blocked, in nanoseconds.
    length: u64,
    /// The numbers of both stacks in [`Recorded::all`].
    stack: usize,
    wake: Option<usize>,
}

/// The wait that a thread is in.
#[derive(Clone, Copy, Debug)]
struct Underway {
    begin: u64,
    /// Until it was woken.
    end: u64,
    /// Until it has a CPU.
    away: u64,
}

#[derive(Debug, Default)]
struct OfThread {
    /// The stacks of its waits that have none yet, as numbers in [`Recorded::all`]; the next one is the last.
    left: Vec<usize>,
    wait: Option<Underway>,
}

/// Finds the wait of each stack as the lanes go on.
#[derive(Debug)]
pub(super) struct Placing<'a> {
    recorded: &'a Recorded,
    of: FxHashMap<ThreadIndex, OfThread>,
    /// The wakers' stacks by provider and link, in order of time.
    linked: FxHashMap<(Option<fxt_reader::ProviderId>, u32), Vec<usize>>,
    waits: Vec<Wait>,
    /// Stacks whose wait is not in the lanes.
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

    /// A wait is over: which stack is its own?
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

    /// Chooses what has room in so many bytes.
    pub(super) fn choose(&mut self, threads: &Threads, room: u64) -> Chosen {
        let open: Vec<ThreadIndex> = self.of.keys().copied().collect();
        for thread in open {
            self.close(thread);
        }
        let homeless = self.homeless + self.of.values().map(|of| of.left.len() as u64).sum::<u64>();
        let samples = self.recorded.all.iter().filter(|stack| stack.kind == Kind::Cpu);
        let samples: Vec<_> =
            samples.filter_map(|stack| Some((threads.known(stack.thread)?, stack))).collect();
        // Each kind is sure of a half.
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

/// The stacks that are in the page.
#[derive(Debug, Default)]
pub(super) struct Chosen {
    frames: Frames,
    /// By thread and begin, with the numbers of both stacks.
    waits: Vec<(Wait, (u32, Option<u32>))>,
    /// By thread and time, with the number of the stack.
    samples: Vec<(ThreadIndex, u64, u32)>,
    /// One of so many samples is taken.
    every: usize,
    /// How many waits with a stack are left out, and how long the longest of these is.
    left_out: (u64, u64),
    homeless: u64,
}

impl Chosen {
    pub(super) fn is_empty(&self) -> bool {
        self.waits.is_empty() && self.samples.is_empty()
    }

    /// The columns of the block of frames, of that of waits and of that of samples. `begin` is that of the trace.
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

    /// What the contents say of them, whose blocks have these numbers.
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

/// The next thread as a distance, and a time as one from the previous of the same thread, or from the begin of the trace.
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
