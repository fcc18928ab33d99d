//! The clock of all records, and its distance from the wall clock.

use std::sync::OnceLock;

use nix::time::{ClockId, clock_gettime};

use crate::units::Nanos;

fn nanos(clock: ClockId) -> u64 {
    // Neither clock can fail on Linux; zero would only delay the events of a quiet CPU a little longer.
    let time = clock_gettime(clock).map(std::time::Duration::from).unwrap_or_default();
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// The time of the kernel's events. In a time namespace, a process reads another value from this clock.
pub fn now() -> Nanos {
    Nanos(nanos(ClockId::CLOCK_MONOTONIC).saturating_add_signed(-ahead().monotonic))
}

/// How long the machine has slept since it booted.
pub(crate) fn asleep() -> std::time::Duration {
    let boot = nanos(ClockId::CLOCK_BOOTTIME).saturating_add_signed(-ahead().boot);
    std::time::Duration::from_nanos(boot.saturating_sub(now().0))
}

/// How many nanoseconds the clocks of this process are ahead of the kernel's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Ahead {
    monotonic: i64,
    boot: i64,
}

/// The offsets of this process's time namespace, which cannot change while it runs.
fn ahead() -> Ahead {
    static AHEAD: OnceLock<Ahead> = OnceLock::new();
    *AHEAD.get_or_init(|| {
        let inode =
            |name| std::fs::metadata(name).ok().map(|it| std::os::unix::fs::MetadataExt::ino(&it));
        let (own, childrens) =
            (inode("/proc/self/ns/time"), inode("/proc/self/ns/time_for_children"));
        // The file describes the namespace that children will be in.
        match own.is_some() && own == childrens {
            true => {
                offsets(&std::fs::read_to_string("/proc/self/timens_offsets").unwrap_or_default())
            }
            false => Ahead::default(),
        }
    })
}

/// Reads lines of a clock, seconds and nanoseconds.
fn offsets(text: &str) -> Ahead {
    let of = |clock: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(clock))?;
        let mut numbers = line.split_whitespace().map(str::parse::<i64>);
        let (seconds, nanos) = (numbers.next()?.ok()?, numbers.next()?.ok()?);
        seconds.checked_mul(1_000_000_000)?.checked_add(nanos)
    };
    Ahead { monotonic: of("monotonic").unwrap_or(0), boot: of("boottime").unwrap_or(0) }
}

/// The return value of adjtimex(2), and the status bit, of a clock that is not synchronized.
const TIME_ERROR: i32 = 5;
const STA_UNSYNC: i32 = 0x40;

/// The relation of the wall clock to `CLOCK_MONOTONIC` at some moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WallClock {
    /// The offset from monotonic nanoseconds to nanoseconds since 1970.
    pub offset: u64,
    /// How much the wall clock may differ from true time, in nanoseconds: the kernel's estimate from the program that sets it (NTP, PTP),
    /// plus the time between the two readings. `None` if the clock is not synchronized.
    pub error: Option<u64>,
}

pub fn wall_clock() -> WallClock {
    let first = Offsets::read();
    // The quickest reading is the most accurate.
    let quickest = (0..4)
        .map(|_| Offsets::read())
        .fold(first, |best, next| if next.within < best.within { next } else { best });
    let within = quickest.within.unsigned_abs();
    WallClock {
        offset: u64::try_from(quickest.wall).unwrap_or(0),
        error: synchronized_error().map(|error| error.saturating_add(within)),
    }
}

/// The error that the kernel reports for a synchronized clock.
fn synchronized_error() -> Option<u64> {
    // SAFETY: the type consists of integers, for which zero is a valid value.
    let mut state: libc::timex = unsafe { std::mem::zeroed() };
    // SAFETY: the kernel writes to `state`, which lives longer than the call. Without a mode, the call changes nothing.
    let result = unsafe { libc::adjtimex(&raw mut state) };
    let is_set = result >= 0 && result != TIME_ERROR && state.status & STA_UNSYNC == 0;
    // In microseconds.
    is_set.then(|| u64::try_from(state.maxerror).unwrap_or(u64::MAX).saturating_mul(1000))
}

/// How far the wall clock and the clock that counts suspended time are from the clock of records. Both move together if the machine was
/// suspended, and only the wall clock moves if it was set. All of them follow NTP's rate adjustments.
#[derive(Clone, Copy, Debug)]
struct Offsets {
    wall: i64,
    boot: i64,
    /// How long the reading took, in nanoseconds, which is its maximum error.
    within: i64,
}

impl Offsets {
    fn read() -> Offsets {
        let signed = |clock| i64::try_from(nanos(clock)).unwrap_or(i64::MAX);
        let monotonic = || i64::try_from(now().0).unwrap_or(i64::MAX);
        let before = monotonic();
        let wall = signed(ClockId::CLOCK_REALTIME);
        let boot = signed(ClockId::CLOCK_BOOTTIME);
        let within = monotonic().saturating_sub(before);
        Offsets { wall: wall.saturating_sub(before), boot: boot.saturating_sub(before), within }
    }
}

/// Changes to the clocks of the machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClockChange {
    /// How long the machine was suspended; `CLOCK_MONOTONIC` stood still during that time.
    pub suspended: Option<Nanos>,
    /// The number of nanoseconds by which the time of day was set forward or back.
    pub set_by: Option<i64>,
    /// The offset from `CLOCK_MONOTONIC` to nanoseconds since 1970, from now on.
    pub wall_clock_offset: u64,
}

/// Notices suspensions of the machine, and changes of its time of day.
#[derive(Debug)]
pub struct ClockWatch {
    last: Offsets,
}

impl ClockWatch {
    /// A smaller change is attributed to the reading.
    const LEAST: i64 = 1_000_000;

    /// Reports changes from now on.
    pub fn new() -> ClockWatch {
        ClockWatch { last: Offsets::read() }
    }

    /// The changes since the last report.
    pub fn look(&mut self) -> Option<ClockChange> {
        self.compare(Offsets::read())
    }

    fn compare(&mut self, now: Offsets) -> Option<ClockChange> {
        let least = Self::LEAST + now.within + self.last.within;
        let boot = now.boot - self.last.boot;
        let suspended = (boot >= least).then_some(boot);
        let set_by = now.wall - self.last.wall - suspended.unwrap_or(0);
        let set_by = (set_by.abs() >= least).then_some(set_by);
        if suspended.is_none() && set_by.is_none() {
            // A quicker reading is a better reference.
            if now.within < self.last.within {
                self.last = now;
            }
            return None;
        }
        self.last = now;
        Some(ClockChange {
            suspended: suspended.map(|time| Nanos(time.unsigned_abs())),
            set_by,
            wall_clock_offset: u64::try_from(now.wall).unwrap_or(0),
        })
    }
}

impl Default for ClockWatch {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: i64 = 1_000_000_000;

    fn at(wall: i64, boot: i64, within: i64) -> Offsets {
        Offsets { wall, boot, within }
    }

    #[test]
    fn the_offsets_of_a_time_namespace_are_read() {
        let text = "monotonic       86400         5\nboottime           -2 500000000\n";
        assert_eq!(offsets(text), Ahead { monotonic: 86_400_000_000_005, boot: -1_500_000_000 });
        assert_eq!(offsets(""), Ahead::default());
    }

    #[test]
    fn a_suspended_machine_and_a_time_that_was_set_are_distinguished_and_reported_once() {
        let mut watch = ClockWatch { last: at(100 * SECOND, 0, 100) };
        assert_eq!(watch.compare(at(100 * SECOND + 500_000, 300, 100)), None, "less than one ms");
        let slept = watch.compare(at(104 * SECOND, 4 * SECOND, 100)).expect("it was suspended");
        assert_eq!(slept.suspended, Some(Nanos(4_000_000_000)));
        assert_eq!(slept.set_by, None);
        assert_eq!(slept.wall_clock_offset, 104_000_000_000);
        assert_eq!(watch.compare(at(104 * SECOND, 4 * SECOND, 100)), None, "it was told");
        let set = watch.compare(at(101 * SECOND, 4 * SECOND, 100)).expect("the time was set");
        assert_eq!((set.suspended, set.set_by), (None, Some(-3 * SECOND)));
        let both = watch.compare(at(111 * SECOND, 5 * SECOND, 100)).expect("both happened");
        assert_eq!((both.suspended, both.set_by), (Some(Nanos(1_000_000_000)), Some(9 * SECOND)));
    }

    #[test]
    fn a_reading_that_took_long_is_no_change_and_a_quicker_one_takes_its_place() {
        let mut watch = ClockWatch { last: at(100 * SECOND, 0, 20_000_000) };
        assert_eq!(watch.compare(at(100 * SECOND - 15_000_000, -15_000_000, 100)), None);
        assert_eq!((watch.last.wall, watch.last.within), (100 * SECOND - 15_000_000, 100));
        assert_eq!(watch.compare(at(100 * SECOND + 50_000_000, 50_000_000, 80_000_000)), None);
        assert_eq!(watch.last.within, 100);
        assert!(watch.compare(at(100 * SECOND, 0, 100)).is_some(), "15 ms are a change now");
    }

    #[test]
    fn the_clocks_of_this_machine_do_not_change_by_being_read() {
        let mut watch = ClockWatch::new();
        let reported = (0..1000).filter_map(|_| watch.look()).count();
        assert_eq!(reported, 0);
    }

    #[test]
    fn the_offset_leads_to_the_time_of_day() {
        let WallClock { offset, error } = wall_clock();
        let reported = now().0 + offset;
        let true_time = nanos(ClockId::CLOCK_REALTIME);
        assert!(true_time.abs_diff(reported) < 60_000_000_000, "{reported} {true_time}");
        // Kernels report a clock as not synchronized before the error exceeds 16 s.
        assert!(error.is_none_or(|error| error < 77_000_000_000), "{error:?}");
    }
}
