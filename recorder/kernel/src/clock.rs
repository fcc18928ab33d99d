//! The clock of every record, and how far it is from the time of day.

use nix::time::{ClockId, clock_gettime};

use crate::units::Nanos;

fn nanos(clock: ClockId) -> u64 {
    // Neither clock can fail on Linux; zero would only make a quiet CPU hold back a little longer.
    let time = clock_gettime(clock).map(std::time::Duration::from).unwrap_or_default();
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

pub fn now() -> Nanos {
    Nanos(nanos(ClockId::CLOCK_MONOTONIC))
}

/// What must be added to `CLOCK_MONOTONIC` nanoseconds to get nanoseconds since 1970, at this moment.
pub fn wall_clock_offset() -> u64 {
    let monotonic = nanos(ClockId::CLOCK_MONOTONIC);
    nanos(ClockId::CLOCK_REALTIME).saturating_sub(monotonic)
}
