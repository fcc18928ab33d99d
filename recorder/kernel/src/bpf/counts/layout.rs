//! The memory in which the programs count, and how the counts are read. `counts.bpf.c` has the same structures.
//!
//! ```text
//!   the places          what each thread does, and since when; which only the programs use
//!   a CPU's value       which of its two tables is counted in, what went wrong; table 0, table 1
//!   a table             slots, found by the hash of their key; the slots behind the last one that a hash leads to; "other"
//!   a slot              key and name, sums, five histograms
//! ```
//!
//! A table belongs to one CPU, so no other CPU writes to it. To read it, the reader switches the programs to the other table, waits until
//! none of them can still be using this one, adds it up, and clears it.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use super::KeyBy;
use crate::units::{Pid, Tid};

/// Size of the data about a thread, in bytes; its entry is found by the lower bits of its id.
pub(in crate::bpf) const PLACE_BYTES: usize = 16;
pub(super) const PLACES_BYTES: usize = PLACE_BYTES * 128 * 1024;

/// The head of a CPU's value, before its slots.
#[derive(Debug)]
#[repr(C)]
pub(in crate::bpf) struct CpuHead {
    pub(in crate::bpf) table: AtomicU64,
    pub(in crate::bpf) evicted: AtomicU64,
    pub(in crate::bpf) overflowed: AtomicU64,
    pub(in crate::bpf) stolen: AtomicU64,
    _unused: [u64; 12],
}

#[derive(Debug)]
#[repr(C)]
pub(in crate::bpf) struct Slot {
    pub(in crate::bpf) key: AtomicU64,
    pub(in crate::bpf) comm: [AtomicU64; 2],
    pub(in crate::bpf) steal_ns: AtomicU64,
    pub(in crate::bpf) throttled_ns: AtomicU64,
    pub(in crate::bpf) steals: AtomicU32,
    pub(in crate::bpf) throttles: AtomicU32,
    pub(in crate::bpf) unknown: AtomicU32,
    pub(in crate::bpf) process: AtomicU32,
    _unused: u64,
    pub(in crate::bpf) histograms: [Counted; Measure::ALL.len()],
}

/// A histogram of a slot.
#[derive(Debug)]
#[repr(C)]
pub(in crate::bpf) struct Counted {
    pub(in crate::bpf) sum: AtomicU64,
    pub(in crate::bpf) max: AtomicU64,
    pub(in crate::bpf) censored: AtomicU32,
    _unused: u32,
    pub(in crate::bpf) buckets: [AtomicU32; BUCKETS],
}

/// Takes the value and resets it. Most values are 0, and do not need to be reset.
fn take_double(word: &AtomicU64) -> u64 {
    match word.load(Ordering::Relaxed) {
        0 => 0,
        _ => word.swap(0, Ordering::Relaxed),
    }
}

fn take(word: &AtomicU32) -> u64 {
    match word.load(Ordering::Relaxed) {
        0 => 0,
        _ => word.swap(0, Ordering::Relaxed).into(),
    }
}

/// Reads slots of a table that no program uses any more.
impl Slot {
    /// The key of its owner; `None` if the slot is free. It is free afterwards.
    pub(super) fn take_key(&self, by: KeyBy) -> Option<Key> {
        let number = take_double(&self.key);
        if number == 0 {
            return None;
        }
        let mut name = [0; 16];
        for (half, word) in name.chunks_exact_mut(8).zip(&self.comm) {
            half.copy_from_slice(&word.load(Ordering::Relaxed).to_ne_bytes());
        }
        let process = Pid(self.process.load(Ordering::Relaxed));
        Some(match by {
            KeyBy::Cgroup => Key::Cgroup(number),
            KeyBy::CgroupAndName => Key::Named(number, name),
            KeyBy::Thread => Key::Thread(Tid(number as u32), name, process),
        })
    }

    /// Its figures, which are 0 afterwards.
    pub(super) fn take(&self) -> Figures {
        Figures {
            histograms: self.histograms.each_ref().map(Counted::take),
            steals: take(&self.steals),
            steal_ns: take_double(&self.steal_ns),
            throttles: take(&self.throttles),
            throttled_ns: take_double(&self.throttled_ns),
            unknown: take(&self.unknown),
        }
    }
}

impl Counted {
    fn take(&self) -> Histogram {
        let (sum, censored) = (take_double(&self.sum), take(&self.censored));
        let mut taken = Histogram { sum, censored, ..Histogram::default() };
        // Samples of zero length are in the first bucket, so if both sum and bucket are zero, the histogram is empty.
        let shortest = take(&self.buckets[0]);
        if sum > 0 || shortest > 0 {
            taken.max = take_double(&self.max);
            taken.buckets = self.buckets.each_ref().map(take);
            taken.buckets[0] = shortest;
        }
        taken
    }
}

/// Slots after the last slot that a hash selects; one of them is "other".
pub(super) const PROBES: usize = 8;

/// The base 2 logarithm of the first bucket's upper bound, in seconds.
pub const FIRST_BOUND: i32 = -24;

/// The number of buckets. Each bucket ends at twice the bound of the previous one; the last has no bound. With this number, histograms
/// begin at cache lines, and the buckets up to 2^-15 s (31 us) share a line with the sum.
pub const BUCKETS: usize = 42;

/// The upper bound of a bucket in nanoseconds, inclusive; `None` for the last.
pub fn bound(bucket: usize) -> Option<u64> {
    // 10^9 / 2^24 is 5^9 / 2^15. Values are whole numbers, so the fraction is irrelevant.
    (bucket + 1 < BUCKETS).then(|| (5_u64.pow(9) << bucket) >> 15)
}

/// The measures with histograms, in their order in a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Measure {
    /// From a wakeup to the next switch in.
    Wakeup,
    /// From a switch out in a runnable state to the next switch in.
    Preempted,
    Slice,
    /// From a switch out in a waiting state other than `D` to the wakeup.
    Blocked,
    /// From a switch out in the state `D` to the wakeup.
    BlockedD,
}

impl Measure {
    pub const ALL: [Measure; 5] =
        [Measure::Wakeup, Measure::Preempted, Measure::Slice, Measure::Blocked, Measure::BlockedD];
}

/// The size of the tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// How many slots a hash leads to.
    pub slots: usize,
    /// The number of possible CPUs.
    pub cpus: usize,
}

impl Shape {
    /// Slots of both tables of a CPU.
    pub(super) fn slots_of_cpu(self) -> usize {
        2 * (self.slots + PROBES)
    }

    /// Bytes of a CPU's value.
    pub(super) fn cpu_bytes(self) -> usize {
        size_of::<CpuHead>() + self.slots_of_cpu() * size_of::<Slot>()
    }

    /// The largest shape within a budget of memory.
    pub fn within(bytes: usize, cpus: usize, most_slots: usize) -> Shape {
        const LEAST_SLOTS: usize = 16;
        let cpus = cpus.max(1);
        let room = bytes / cpus / (2 * size_of::<Slot>());
        let slots = room.saturating_sub(PROBES).clamp(LEAST_SLOTS, most_slots.max(LEAST_SLOTS));
        Shape { slots, cpus }
    }
}

/// The counts of one cgroup or thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    pub key: Key,
    pub figures: Figures,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Key {
    /// The number of a cgroup; that of the root is 1.
    Cgroup(u64),
    /// The number of a cgroup, and the name of its threads.
    Named(u64, [u8; 16]),
    /// A thread, its name, and its process.
    Thread(Tid, [u8; 16], Pid),
    /// All that found no free slot.
    Other,
}

impl Key {
    /// The key without the name, because CPUs may have seen a thread under different names.
    pub(super) fn without_name(&self) -> Key {
        match *self {
            Key::Thread(tid, _, process) => Key::Thread(tid, [0; 16], process),
            ref other => other.clone(),
        }
    }
}

/// A histogram, and the exact figures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Histogram {
    /// In nanoseconds, like [`Histogram::max`].
    pub sum: u64,
    pub max: u64,
    /// Samples whose beginning or end is unknown; they are not included in the other figures.
    pub censored: u64,
    pub buckets: [u64; BUCKETS],
}

impl Default for Histogram {
    fn default() -> Histogram {
        Histogram { sum: 0, max: 0, censored: 0, buckets: [0; BUCKETS] }
    }
}

impl Histogram {
    pub fn count(&self) -> u64 {
        self.buckets.iter().sum()
    }

    pub fn add(&mut self, other: &Histogram) {
        self.sum = self.sum.saturating_add(other.sum);
        self.max = self.max.max(other.max);
        self.censored += other.censored;
        for (mine, theirs) in self.buckets.iter_mut().zip(other.buckets) {
            *mine += theirs;
        }
    }

    /// A value that at least this share of the samples does not exceed: the bound of a bucket, or the maximum if that is lower. `None`
    /// without samples.
    pub fn at_most(&self, share: f64) -> Option<u64> {
        let count = self.count();
        let wanted = (count as f64 * share).ceil().max(1.0) as u64;
        let mut seen = 0;
        for (bucket, &samples) in self.buckets.iter().enumerate() {
            seen += samples;
            if seen >= wanted && count > 0 {
                return Some(bound(bucket).map_or(self.max, |bound| bound.min(self.max)));
            }
        }
        None
    }
}

/// The figures of a cgroup or a thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// In the order of [`Measure::ALL`].
    pub histograms: [Histogram; Measure::ALL.len()],
    /// Slices with stolen time, and its sum in nanoseconds.
    pub steals: u64,
    pub steal_ns: u64,
    /// Waits with throttled time, and its sum in nanoseconds. It is not part of the wait.
    pub throttles: u64,
    pub throttled_ns: u64,
    /// Waits whose kind and beginning are unknown.
    pub unknown: u64,
}

impl Figures {
    pub fn of(&self, measure: Measure) -> &Histogram {
        &self.histograms[measure as usize]
    }

    /// Waits of both kinds.
    pub fn run_queue(&self) -> Histogram {
        let mut both = *self.of(Measure::Wakeup);
        both.add(self.of(Measure::Preempted));
        both.censored += self.unknown;
        both
    }

    pub fn add(&mut self, other: &Figures) {
        for (mine, theirs) in self.histograms.iter_mut().zip(&other.histograms) {
            mine.add(theirs);
        }
        self.steals += other.steals;
        self.steal_ns = self.steal_ns.saturating_add(other.steal_ns);
        self.throttles += other.throttles;
        self.throttled_ns = self.throttled_ns.saturating_add(other.throttled_ns);
        self.unknown += other.unknown;
    }
}
