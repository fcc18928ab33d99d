//! Where the programs count, and how the counts are read.
//!
//! ```text
//!   shared map      0      which of the two tables is counted in: the lowest bit
//!                   64     the upper bound of a bucket within each octave of nanoseconds
//!                   1024   a place for each thread: what it does, and since when
//!                   then   of each place, for how long its queue had been throttled
//!
//!   a CPU's value   0      counts of what went wrong, the CPU's clock of stolen time
//!                   128    table 0, table 1
//!   a table         slots, found by the hash of their key; the slots behind the last one that a hash leads to; "other"
//!   a slot          key and name, sums, five histograms
//! ```
//!
//! A table belongs to one CPU, so nobody else writes to it. The reader has the programs count in the other table, waits until
//! none of them can still be in this one, adds it up, and clears it.

use crate::units::Tid;

/// The places of the shared map's parts, in bytes from its beginning.
pub(super) mod shared {
    pub(in super::super) const EPOCH: i16 = 0;
    pub(in super::super) const BOUNDS: i16 = 64;
    pub(in super::super) const PLACES: i16 = 1024;
}

/// Bytes of a thread's place, a power of two: a word that tells thread and state, and the time.
pub(super) const PLACE_BYTES: usize = 16;

/// Bytes that each place has in the second list.
pub(super) const KEPT_BYTES: usize = 8;

/// What a place says that its thread does. 0 is for nothing.
pub(super) mod state {
    pub(in super::super) const RUNNING: i32 = 1;
    pub(in super::super) const WOKEN: i32 = 2;
    pub(in super::super) const PREEMPTED: i32 = 3;
    /// It left a CPU since its quota is used up.
    pub(in super::super) const THROTTLED: i32 = 4;
    pub(in super::super) const BLOCKED: i32 = 5;
    pub(in super::super) const BLOCKED_D: i32 = 6;
    pub(in super::super) const STOPPED: i32 = 7;
    /// One more than the greatest.
    pub(in super::super) const COUNT: i32 = 8;
}

/// The bit of a place's word in which the state begins; the thread's id is below.
pub(super) const STATE_BIT: usize = 24;

/// The bit in which the lower part of the time begins. It tells whether word and time belong together.
pub(super) const TIME_BIT: usize = 48;

/// The places of the parts of a CPU's value.
pub(super) mod cpu {
    /// Places that were taken from a thread that was still on them.
    pub(in super::super) const EVICTED: i16 = 0;
    /// Samples that went to "other" since the table was full.
    pub(in super::super) const OVERFLOWED: i16 = 8;
    /// The clock of stolen time as of the last switch.
    pub(in super::super) const STOLEN: i16 = 16;
    pub(in super::super) const TABLES: usize = 128;
}

/// The places of a slot's parts.
pub(super) mod slot {
    /// The number of the cgroup, or of the thread; 0 for a free slot.
    pub(in super::super) const KEY: i16 = 0;
    pub(in super::super) const COMM: i16 = 8;
    pub(in super::super) const STEAL_NS: i16 = 24;
    pub(in super::super) const THROTTLED_NS: i16 = 32;
    pub(in super::super) const STEALS: i16 = 40;
    pub(in super::super) const THROTTLES: i16 = 44;
    /// Threads that came in of which it was not known since when they waited, or for what.
    pub(in super::super) const UNKNOWN: i16 = 48;
    pub(in super::super) const PROCESS: i16 = 52;
    pub(in super::super) const HISTOGRAMS: i16 = 64;
}

/// The places of a histogram's parts.
pub(super) mod histogram {
    pub(in super::super) const SUM: i16 = 0;
    pub(in super::super) const MAX: i16 = 8;
    pub(in super::super) const CENSORED: i16 = 16;
    pub(in super::super) const BUCKETS: i16 = 24;
    pub(in super::super) const BYTES: i16 = BUCKETS + 4 * super::BUCKETS as i16;
}

pub(super) const SLOT_BYTES: usize =
    slot::HISTOGRAMS as usize + Measure::ALL.len() * histogram::BYTES as usize;

/// How many slots are looked at for a key.
pub(super) const PROBES: usize = 8;

/// The base 2 logarithm of the first bucket's upper bound, in seconds.
pub const FIRST_BOUND: i32 = -24;

/// How many buckets there are. Each ends at twice the bound of the one before; the last has no bound. With that many, histograms
/// begin at lines of the cache, with the buckets up to 2^-15 s (31 us) in the line of the sum.
pub const BUCKETS: usize = 42;

/// The octave of nanoseconds that has the bound of the first bucket: 2^-24 s is 59.6 ns.
pub(super) const FIRST_OCTAVE: usize = 5;

/// The first octave whose values are all in the last bucket.
pub(super) const LAST_OCTAVE: usize = FIRST_OCTAVE + BUCKETS - 1;

/// How many octaves have a bound in the shared map.
pub(super) const OCTAVES: usize = 64;

/// The upper bound of a bucket in nanoseconds, which belongs to it; `None` for the last.
pub fn bound(bucket: usize) -> Option<u64> {
    const SECOND: u128 = 1_000_000_000;
    let power = FIRST_BOUND + i32::try_from(bucket).ok()?;
    let nanos = match u32::try_from(power) {
        Ok(power) => SECOND << power.min(64),
        // The values are whole numbers, so what is behind the point does not matter.
        Err(_) => SECOND >> power.unsigned_abs(),
    };
    (bucket + 1 < BUCKETS).then_some(u64::try_from(nanos).unwrap_or(u64::MAX))
}

/// What the programs compare with in each octave.
pub(super) fn octave_bounds() -> [u64; OCTAVES] {
    std::array::from_fn(|octave| match octave.checked_sub(FIRST_OCTAVE) {
        Some(bucket) => bound(bucket).unwrap_or(i64::MAX.unsigned_abs()),
        None => i64::MAX.unsigned_abs(),
    })
}

/// What there is a histogram of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Measure {
    /// From a wake-up to the next switch in.
    Wakeup,
    /// From a switch out in a runnable state to the next switch in.
    Preempted,
    Slice,
    /// From a switch out in a waiting state other than `D` to the wake-up.
    Blocked,
    /// The same in the state `D`.
    BlockedD,
}

impl Measure {
    pub const ALL: [Measure; 5] =
        [Measure::Wakeup, Measure::Preempted, Measure::Slice, Measure::Blocked, Measure::BlockedD];

    /// Where its histogram is in a slot.
    pub(super) const fn at(self) -> i16 {
        slot::HISTOGRAMS + self as i16 * histogram::BYTES
    }
}

/// How large the tables are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// How many slots a hash leads to: a power of two.
    pub slots: usize,
    /// How many places for threads: a power of two.
    pub places: usize,
    /// How many CPUs there may ever be.
    pub cpus: usize,
}

impl Shape {
    /// Slots in a table altogether; the last is "other".
    pub(super) fn slots_in_all(self) -> usize {
        self.slots + PROBES
    }

    pub(super) fn other(self) -> usize {
        self.slots_in_all() - 1
    }

    pub(super) fn table_bytes(self) -> usize {
        self.slots_in_all() * SLOT_BYTES
    }

    /// Bytes of a CPU's value. The verifier takes a bucket for up to 64 places behind its histogram.
    pub(super) fn cpu_bytes(self) -> usize {
        const LINE: usize = 64;
        (cpu::TABLES + 2 * self.table_bytes() + 4 * OCTAVES + LINE).next_multiple_of(LINE)
    }

    pub(super) fn shared_bytes(self) -> usize {
        shared::PLACES as usize + self.places * (PLACE_BYTES + KEPT_BYTES)
    }

    /// Where the second list begins.
    pub(super) fn kept_at(self) -> usize {
        shared::PLACES as usize + self.places * PLACE_BYTES
    }

    /// The largest within a budget of memory. `tids` is one more than the greatest id of a thread.
    pub fn within(bytes: usize, cpus: usize, most_slots: usize, tids: usize) -> Shape {
        const LEAST_SLOTS: usize = 16;
        const PLACES: std::ops::RangeInclusive<usize> = 4 * 1024..=128 * 1024;
        let cpus = cpus.max(1);
        let places = tids.next_power_of_two().clamp(*PLACES.start(), *PLACES.end());
        let room = bytes / cpus / (2 * SLOT_BYTES);
        let slots = room.saturating_sub(PROBES).clamp(LEAST_SLOTS, most_slots.max(LEAST_SLOTS));
        Shape { slots: 1 << slots.ilog2(), places, cpus }
    }
}

/// What was counted of one cgroup or thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    pub key: Key,
    pub figures: Figures,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Key {
    /// The number of a cgroup, that of the root being 1.
    Cgroup(u64),
    /// The number of a cgroup, and the name of its threads.
    Named(u64, [u8; 16]),
    /// A thread, its name, and its process.
    Thread(Tid, [u8; 16], crate::units::Pid),
    /// Those that found no slot.
    Other,
}

impl Key {
    /// Whose it is, whatever it was called: the CPUs may have met a thread by different names.
    pub(super) fn without_name(&self) -> Key {
        match *self {
            Key::Thread(tid, _, process) => Key::Thread(tid, [0; 16], process),
            ref other => other.clone(),
        }
    }
}

/// A histogram, with what is known exactly beside it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Histogram {
    /// In nanoseconds, as [`Histogram::max`].
    pub sum: u64,
    pub max: u64,
    /// Those of which the beginning or the end is not known; they are in no other figure.
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

    /// A value that at least this share of the samples does not exceed: the bound of a bucket, or the maximum if that is
    /// less. `None` without samples.
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

/// What there is to know of a cgroup or a thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// In the order of [`Measure::ALL`].
    pub histograms: [Histogram; Measure::ALL.len()],
    /// Slices with stolen time, and how much that was in nanoseconds.
    pub steals: u64,
    pub steal_ns: u64,
    /// Waits with throttled time, and how much that was in nanoseconds. It is no part of the wait.
    pub throttles: u64,
    pub throttled_ns: u64,
    /// Waits of which neither the kind nor the beginning is known.
    pub unknown: u64,
}

impl Figures {
    pub fn of(&self, measure: Measure) -> &Histogram {
        &self.histograms[measure as usize]
    }

    pub(super) fn of_mut(&mut self, measure: Measure) -> &mut Histogram {
        &mut self.histograms[measure as usize]
    }

    /// Waits of either kind.
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
