//! The clocks of a trace, and how they stand to each other.
//!
//! Items are sorted by the boot-time clock, which packets have that name no other; the trace that is written has the
//! monotonic clock. The recorder tells now and then what each clock shows.

/// Clocks of the kernel, by their numbers in packets.
pub(super) const REALTIME: u32 = 1;
pub(super) const MONOTONIC: u32 = 3;
pub(super) const BOOTTIME: u32 = 6;

/// Numbers below this are of clocks that all sequences share.
const OF_SEQUENCES: std::ops::Range<u32> = 64..128;

/// So many snapshots are kept. Recorders write one in ten seconds or so.
const MOST_SNAPSHOTS: usize = 64 * 1024;
pub(super) const MOST_CLOCKS: usize = 16;

/// A difference that is less than this, in nanoseconds, is how long it took to read the clocks.
const JITTER_NS: u64 = 1_000_000;

/// What clocks showed at some time.
#[derive(Clone, Debug, Default)]
struct Snapshot(Vec<(u32, u64)>);

impl Snapshot {
    fn of(&self, clock: u32) -> Option<u64> {
        self.0.iter().find(|(id, _)| *id == clock).map(|(_, time)| *time)
    }
}

/// A clock as a snapshot has it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Reading {
    pub(super) clock: u32,
    pub(super) time: u64,
    /// Whether each time is told as the difference to the one before.
    pub(super) incremental: bool,
    /// Nanoseconds of its unit; 0 if that is not told.
    pub(super) unit: u64,
}

/// A clock of one sequence.
#[derive(Clone, Copy, Debug)]
pub(super) struct OwnClock {
    id: u32,
    unit: u64,
    incremental: bool,
    /// Its last time, in its unit.
    last: u64,
    /// What it showed, in nanoseconds, when the boot-time clock showed what follows.
    own: u64,
    boot: Option<u64>,
}

#[derive(Debug, Default)]
pub(super) struct Clocks {
    snapshots: Vec<Snapshot>,
}

impl Clocks {
    /// Takes a snapshot in, and sets the clocks of the sequence that it is of.
    pub(super) fn snapshot(&mut self, readings: &[Reading], own: &mut Vec<OwnClock>) {
        let shared = readings.iter().filter(|it| !OF_SEQUENCES.contains(&it.clock));
        let unit = |reading: &Reading| reading.time.saturating_mul(reading.unit.max(1));
        let snapshot = Snapshot(shared.take(MOST_CLOCKS).map(|it| (it.clock, unit(it))).collect());
        let boot = snapshot.of(BOOTTIME).or_else(|| {
            let (clock, time) = *snapshot.0.first()?;
            self.boot(clock, time)
        });
        for reading in readings.iter().filter(|it| OF_SEQUENCES.contains(&it.clock)) {
            let clock = OwnClock {
                id: reading.clock,
                unit: reading.unit.max(1),
                incremental: reading.incremental,
                last: reading.time,
                own: unit(reading),
                boot,
            };
            own.retain(|known| known.id != clock.id);
            if own.len() < MOST_CLOCKS {
                own.push(clock);
            }
        }
        if self.snapshots.len() < MOST_SNAPSHOTS && !snapshot.0.is_empty() {
            self.snapshots.push(snapshot);
        }
    }

    /// The boot time at which this clock, of a packet of a sequence with those of its own, shows `time`.
    pub(super) fn of_packet(&self, clock: u32, time: u64, own: &mut [OwnClock]) -> Option<u64> {
        if !OF_SEQUENCES.contains(&clock) {
            return self.boot(clock, time);
        }
        let clock = own.iter_mut().find(|known| known.id == clock)?;
        clock.last = if clock.incremental { clock.last.saturating_add(time) } else { time };
        let now = clock.last.saturating_mul(clock.unit);
        Some(clock.boot?.saturating_add_signed(now.wrapping_sub(clock.own).cast_signed()))
    }

    /// The boot time at which a clock of all shows `time`. A trace that never says how they stand to each other has one clock.
    fn boot(&self, clock: u32, time: u64) -> Option<u64> {
        if clock == BOOTTIME {
            return Some(time);
        }
        let pairs =
            || self.snapshots.iter().filter_map(|it| Some((it.of(clock)?, it.of(BOOTTIME)?)));
        let pair = pairs().take_while(|(own, _)| *own <= time).last().or_else(|| pairs().next());
        match pair {
            Some((own, boot)) => {
                Some(boot.saturating_add_signed(time.wrapping_sub(own).cast_signed()))
            }
            None if self.snapshots.iter().all(|it| it.of(BOOTTIME).is_none()) => Some(time),
            None => None,
        }
    }

    /// What to take off boot times for monotonic ones, from which boot time on.
    pub(super) fn to_monotonic(&self) -> Suspensions {
        let mut steps: Vec<(u64, u64)> = Vec::new();
        for snapshot in &self.snapshots {
            let (Some(boot), Some(monotonic)) = (snapshot.of(BOOTTIME), snapshot.of(MONOTONIC))
            else {
                continue;
            };
            let ahead = boot.saturating_sub(monotonic);
            if steps.last().is_none_or(|(_, last)| last.abs_diff(ahead) > JITTER_NS) {
                steps.push((boot, ahead));
            }
        }
        Suspensions { steps, next: 0, ahead: None }
    }

    /// What to add to monotonic times for nanoseconds since 1970, by the first snapshot that tells.
    pub(super) fn wall_clock_offset(&self) -> Option<i64> {
        self.snapshots.iter().find_map(|it| {
            let of_trace = it.of(MONOTONIC).or_else(|| it.of(BOOTTIME))?;
            Some(it.of(REALTIME)?.wrapping_sub(of_trace).cast_signed())
        })
    }

    /// Whether it is known what the monotonic clock showed.
    pub(super) fn has_monotonic(&self) -> bool {
        self.snapshots.iter().any(|it| it.of(BOOTTIME).is_some() && it.of(MONOTONIC).is_some())
    }
}

/// How far the boot-time clock is ahead, which goes on while the machine is suspended.
#[derive(Debug)]
pub(super) struct Suspensions {
    steps: Vec<(u64, u64)>,
    next: usize,
    ahead: Option<u64>,
}

impl Suspensions {
    /// The monotonic time at this boot time; they are asked for in order.
    pub(super) fn monotonic(&mut self, boot: u64) -> u64 {
        while let Some((from, ahead)) = self.steps.get(self.next)
            && (*from <= boot || self.ahead.is_none())
        {
            self.ahead = Some(*ahead);
            self.next += 1;
        }
        boot.saturating_sub(self.ahead.unwrap_or(0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(clocks: &[(u32, u64)]) -> Vec<Reading> {
        let reading = |&(clock, time)| Reading { clock, time, ..Reading::default() };
        clocks.iter().map(reading).collect()
    }

    #[test]
    fn a_suspension_takes_no_monotonic_time_and_jitter_none_at_all() {
        let mut clocks = Clocks::default();
        for snapshot in [
            [(BOOTTIME, 10_000_000_000), (MONOTONIC, 4_000_000_000), (REALTIME, 4_500_000_000)],
            [(BOOTTIME, 20_000_000_300), (MONOTONIC, 14_000_000_000), (REALTIME, 0)],
            [(BOOTTIME, 30_000_000_000), (MONOTONIC, 15_000_000_000), (REALTIME, 0)],
        ] {
            clocks.snapshot(&at(&snapshot), &mut Vec::new());
        }
        let mut to = clocks.to_monotonic();
        let found: Vec<u64> = [9, 11, 25, 31].map(|s| to.monotonic(s * 1_000_000_000)).into();
        assert_eq!(found, [3, 5, 19, 16].map(|s| s * 1_000_000_000));
        assert_eq!(clocks.wall_clock_offset(), Some(500_000_000));
        assert_eq!(clocks.of_packet(MONOTONIC, 4_000_000_100, &mut []), Some(10_000_000_100));
        assert_eq!(clocks.of_packet(9, 1, &mut []), None);
    }

    #[test]
    fn a_clock_of_a_sequence_counts_from_its_snapshot_in_its_unit() {
        let (mut clocks, mut own) = (Clocks::default(), Vec::new());
        let mut readings = at(&[(BOOTTIME, 5_000_000)]);
        readings.push(Reading { clock: 64, time: 70, incremental: true, unit: 1000 });
        clocks.snapshot(&readings, &mut own);
        assert_eq!(clocks.of_packet(64, 3, &mut own), Some(5_003_000));
        assert_eq!(clocks.of_packet(64, 4, &mut own), Some(5_007_000));
        assert_eq!(clocks.of_packet(65, 4, &mut own), None, "nothing is known of it");
        assert_eq!(Clocks::default().of_packet(MONOTONIC, 7, &mut []), Some(7), "the only one");
    }
}
