//! Stacks of any recorder, as samples.
//!
//! The name of a function may follow its stacks. The weight of a stack is in fxtrec's blob for Perfetto, or follows from the switches and
//! wakeups around it. So all of these are sorted by time during the pass, and the samples are written at the end:
//!
//! ```text
//!   stacks, each with its time + LATE --+                      weight: the recorder's,
//!   the recorder's weights -------------+                      or the wait that it is in or that begins soon after,
//!   waits, by their beginning ----------+--> sort --> play --> the wakeup next to it,                              --> sample
//!   ends of waits, by who woke ---------+                      one look at a CPU
//! ```

use std::collections::VecDeque;

use fxt_reader::record::{ContextSwitch, Wakeup};
use fxt_reader::{ProviderId, Record};
use fxtrec_capture::stacks::perfetto::{self, Known, Module, Sample, Sequence};
use fxtrec_kernel::progress::Progress;
use fxtrec_report::stacks::{LATE, Recorded, Stack};
use fxtrec_sched::backtrace::Kind;
use fxtrec_units::Nanos;
use rustc_hash::FxHashMap;

use super::{Packets, number};
use crate::ConvertError;
use crate::report::Report;
use crate::sort::{Key, Sorter};

/// The packet sequences of samples; each kind of stack has its own.
const WRITERS: u32 = 0x7fff_0010;

/// Bytes that are sorted in memory.
const PIECE_BYTES: usize = 12 << 20;

/// The sort rank of stacks: other items of the same time precede them.
const STACK: u8 = 1;

const NANOSECONDS: u64 = 1_000_000_000;

/// When a thread left its CPU, and when and by which thread it was woken.
#[derive(Clone, Copy, Debug)]
struct Away {
    since: u64,
    woken: Option<(u64, u64)>,
}

/// A period of a thread: beginning and length.
type Period = (u64, u64);

#[derive(Debug, Default)]
pub(super) struct Stacks {
    recorded: Recorded,
    /// Created at the first record about stacks.
    sorter: Option<Sorter>,
    away: FxHashMap<u64, Away>,
}

impl Stacks {
    pub(super) fn take(
        &mut self,
        provider: Option<ProviderId>,
        record: &Record<'_>,
    ) -> Result<(), ConvertError> {
        match record {
            Record::ContextSwitch(switch) => self.switch(switch),
            Record::Wakeup(wakeup) => {
                self.wakeup(wakeup);
                Ok(())
            }
            Record::Backtrace(backtrace) => {
                let Some(stack) = self.recorded.alone(provider, backtrace) else { return Ok(()) };
                let time = stack.time.saturating_add(LATE);
                self.add(Key { time, rank: STACK }, stack.words())
            }
            Record::Blob(blob) if blob.name == perfetto::BLOB => self.weights(blob.payload),
            record => {
                self.recorded.take(provider, record);
                Ok(())
            }
        }
    }

    /// Takes the weights of a blob. If it is damaged, the weights before the damage count.
    fn weights(&mut self, blob: &[u8]) -> Result<(), ConvertError> {
        let mut weights = Vec::new();
        let _ = perfetto::weights(blob, |kind, about, weight| {
            weights.push((about.time, [2, weight_key(kind, about.thread), weight]));
        });
        weights
            .into_iter()
            .try_for_each(|(time, words)| self.add(Key { time, rank: 0 }, words.into_iter()))
    }

    fn has_stacks(&self) -> bool {
        self.recorded.over.is_some() || self.sorter.is_some()
    }

    fn add(&mut self, key: Key, words: impl Iterator<Item = u64>) -> Result<(), ConvertError> {
        let sorter = self.sorter.get_or_insert_with(|| Sorter::new(PIECE_BYTES));
        let bytes: Vec<u8> = words.flat_map(u64::to_ne_bytes).collect();
        sorter.add(key, &bytes).map_err(ConvertError::Write)
    }

    fn switch(&mut self, switch: &ContextSwitch<'_>) -> Result<(), ConvertError> {
        if !self.has_stacks() {
            return Ok(());
        }
        let now = switch.time.0;
        self.away.insert(switch.outgoing.0, Away { since: now, woken: None });
        let Some(Away { since, woken }) = self.away.remove(&switch.incoming.0) else {
            return Ok(());
        };
        let wait = [0, switch.incoming.0, now.saturating_sub(since)];
        self.add(Key { time: since, rank: 0 }, wait.into_iter())?;
        let Some((at, waker)) = woken else { return Ok(()) };
        let end = [1, waker, at.saturating_sub(since)];
        self.add(Key { time: at, rank: 0 }, end.into_iter())
    }

    fn wakeup(&mut self, wakeup: &Wakeup<'_>) {
        if let Some(away) = self.away.get_mut(&wakeup.koid.0)
            && let Some(waker) = wakeup.waker()
        {
            away.woken.get_or_insert((wakeup.time.0, waker.0));
        }
    }

    /// Writes all samples.
    pub(super) fn finish(
        self,
        packets: &mut Packets<'_>,
        report: &mut Report,
    ) -> Result<(), ConvertError> {
        let Some(sorter) = self.sorter else { return Ok(()) };
        let recorded = self.recorded;
        let period = NANOSECONDS.checked_div(recorded.frequency);
        let mut sorted = sorter.sorted(Progress::hidden()).map_err(ConvertError::Write)?;
        let mut sequences = [None, None, None];
        let (mut waits, mut ends, mut weights) =
            (Recent::default(), Recent::default(), Recent::default());
        let mut words = Vec::new();
        while let Some((key, bytes)) = sorted.next().map_err(ConvertError::Read)? {
            words.clear();
            words.extend(bytes.as_chunks().0.iter().map(|word| u64::from_ne_bytes(*word)));
            if key.rank != STACK {
                match words[..] {
                    [0, thread, length] => waits.add(thread, (key.time, length)),
                    [1, waker, length] => ends.add(waker, (key.time, length)),
                    [2, of, weight] => weights.add(of, (key.time, weight)),
                    _ => {}
                }
                continue;
            }
            let Some(stack) = Stack::of_words(&words) else { continue };
            let Some(thread) = number(stack.thread.0) else {
                report.count("stacks without a thread, left out");
                continue;
            };
            let process = number(stack.process().0).unwrap_or(thread);
            let of_recorder = weights.at(weight_key(stack.kind, stack.thread.0), stack.time);
            let weight = match stack.kind {
                Kind::Cpu => Some(period.unwrap_or(1)),
                Kind::OffCpu => of_recorder.or_else(|| waits.around(stack.thread.0, stack.time)),
                Kind::Wake => of_recorder.or_else(|| ends.next_to(stack.thread.0, stack.time)),
            };
            report.add("stacks of waits without a known length", u64::from(weight.is_none()));
            let sample = Sample {
                kind: stack.kind,
                time: Nanos(stack.time),
                process: process as u32,
                thread: thread as u32,
                weight: weight.unwrap_or(0),
                problems: stack.problems as u8,
            };
            let kind = stack.kind;
            let sequence = sequences[kind as usize].get_or_insert_with(|| {
                let is_timed = kind != Kind::Cpu || period.is_some();
                Sequence::new(kind, WRITERS + kind as u32, is_timed)
            });
            sequence.add(&sample, frames(&recorded, &stack));
            for packet in sequence.packets.drain(..) {
                packets.put(&packet)?;
            }
        }
        Ok(())
    }
}

/// Blobs have only the lower halves of koids.
fn weight_key(kind: Kind, thread: u64) -> u64 {
    (kind as u64) << 32 | u64::from(thread as u32)
}

/// The frames of a stack in Perfetto's format.
fn frames<'a>(
    recorded: &'a Recorded,
    stack: &'a Stack,
) -> impl DoubleEndedIterator<Item = (u64, Known<'a>)> {
    /// Kernel addresses outside every known module still belong to the kernel.
    const KERNEL: Module<'_> = Module {
        path: "[kernel.kallsyms]",
        build_id: &[],
        start: 1 << 63,
        end: u64::MAX,
        address: 1 << 63,
    };
    recorded.frames(stack).map(|frame| {
        let file = recorded.file(stack, frame.address);
        let module = match (frame.module, file) {
            (Some((path, within)), Some((build_id, start, end))) => {
                let address = within.wrapping_sub(frame.address.wrapping_sub(start));
                Some(Module { path, build_id, start, end, address })
            }
            _ => frame.in_kernel.then_some(KERNEL),
        };
        (frame.address, Known { function: frame.function, module })
    })
}

/// The last periods of each thread: those to which a late stack may belong.
#[derive(Debug, Default)]
struct Recent(FxHashMap<u64, VecDeque<Period>>);

impl Recent {
    fn add(&mut self, thread: u64, period: Period) {
        let known = self.0.entry(thread).or_default();
        // The last sample before a stack is at least LATE before the time at which it is looked up, or is within that time.
        while known.get(1).is_some_and(|second| second.0.saturating_add(2 * LATE) < period.0) {
            known.pop_front();
        }
        known.push_back(period);
    }

    /// The length of the period that began at this time.
    fn at(&self, thread: u64, time: u64) -> Option<u64> {
        self.0.get(&thread)?.iter().find(|period| period.0 == time).map(|period| period.1)
    }

    /// The length of the period that contains this time, or begins soon after it.
    fn around(&self, thread: u64, time: u64) -> Option<u64> {
        let known = self.0.get(&thread)?;
        let next = known.partition_point(|period| period.0 <= time);
        let holds = |period: &&Period| time < period.0.saturating_add(period.1);
        let within = next.checked_sub(1).and_then(|at| known.get(at)).filter(holds);
        let is_late = |period: &&Period| period.0 - time < LATE;
        let found = within.or_else(|| known.get(next).filter(is_late));
        found.map(|period| period.1)
    }

    /// The length of the period nearest to this time.
    fn next_to(&self, thread: u64, time: u64) -> Option<u64> {
        let near = |period: &&Period| period.0.abs_diff(time) < LATE;
        let found = self.0.get(&thread)?.iter().filter(near);
        found.min_by_key(|period| period.0.abs_diff(time)).map(|period| period.1)
    }
}
