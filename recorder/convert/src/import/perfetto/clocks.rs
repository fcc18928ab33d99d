//! The clocks of a trace, and their relation.
//!
//! Items are sorted by the boot-time clock, which is the default for packets; the output uses the monotonic clock. From time to time, the
//! recorder writes a snapshot of all clocks.

/// The kernel's clocks, by their numbers in packets.
pub(super) const REALTIME: u32 = 1;
pub(super) const MONOTONIC: u32 = 3;
pub(super) const BOOTTIME: u32 = 6;

/// The numbers of clocks that belong to a sequence; clocks with lower numbers are shared.
const OF_SEQUENCES: std::ops::Range<u32> = 64..128;

/// The maximum number of snapshots. Recorders write one about every ten seconds.
const MOST_SNAPSHOTS: usize = 64 * 1024;
pub(super) const MOST_CLOCKS: usize = 16;

/// Differences below this, in nanoseconds, are the time that it took to read the clocks.
const JITTER_NS: u64 = 1_000_000;

/// The times of all clocks at one point in time.
#[derive(Clone, Debug, Default)]
struct Snapshot(Vec<(u32, u64)>);

impl Snapshot {
    fn of(&self, clock: u32) -> Option<u64> {
        self.0.iter().find(|(id, _)| *id == clock).map(|(_, time)| *time)
    }
}

/// A clock in a snapshot.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Reading {
    pub(super) clock: u32,
    pub(super) time: u64,
    /// Whether times are differences to the previous one.
    pub(super) incremental: bool,
    /// Its unit in nanoseconds; 0 if not given.
    pub(super) unit: u64,
}

/// A clock of a sequence.
#[derive(Clone, Copy, Debug)]
pub(super) struct OwnClock {
    id: u32,
    unit: u64,
    incremental: bool,
    /// Its last time, in its unit.
    last: u64,
    /// Its time in nanoseconds when the boot-time clock showed the value of the next field.
    own: u64,
    boot: Option<u64>,
}

#[derive(Debug, Default)]
pub(super) struct Clocks {
    snapshots: Vec<Snapshot>,
}

impl Clocks {
    /// Adds a snapshot, and sets the clocks of its sequence.
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

    /// The boot time at which this clock shows `time`, for a packet of a sequence whose own clocks are `own`.
    pub(super) fn of_packet(&self, clock: u32, time: u64, own: &mut [OwnClock]) -> Option<u64> {
        if !OF_SEQUENCES.contains(&clock) {
            return self.boot(clock, time);
        }
        let clock = own.iter_mut().find(|known| known.id == clock)?;
        clock.last = if clock.incremental { clock.last.saturating_add(time) } else { time };
        let now = clock.last.saturating_mul(clock.unit);
        Some(clock.boot?.saturating_add_signed(now.wrapping_sub(clock.own).cast_signed()))
    }

    /// The boot time at which a shared clock shows `time`. A trace without snapshots has only one clock.
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

    /// The offset from boot times to monotonic times, by boot time.
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

    /// The offset from monotonic times to nanoseconds since 1970, from the first snapshot with both.
    pub(super) fn wall_clock_offset(&self) -> Option<i64> {
        self.snapshots.iter().find_map(|it| {
            let of_trace = it.of(MONOTONIC).or_else(|| it.of(BOOTTIME))?;
            Some(it.of(REALTIME)?.wrapping_sub(of_trace).cast_signed())
        })
    }

    /// Whether any snapshot has the monotonic clock.
    pub(super) fn has_monotonic(&self) -> bool {
        self.snapshots.iter().any(|it| it.of(BOOTTIME).is_some() && it.of(MONOTONIC).is_some())
    }
}

/// How far the boot-time clock is ahead of the monotonic clock, which stops while the machine is suspended.
#[derive(Debug)]
pub(super) struct Suspensions {
    steps: Vec<(u64, u64)>,
    next: usize,
    ahead: Option<u64>,
}

impl Suspensions {
    /// The monotonic time for this boot time; calls must be in order.
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
