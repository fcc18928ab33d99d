//! How long the capture thread sleeps when nothing wakes it.
//!
//! The kernel wakes it when a ring has filled to its mark, so under load the pace
//! is the kernel's. What is set here is how long a few events may lie in the rings
//! of a machine on which little happens. Every look costs: it wakes the machine,
//! and the recorder's own switches are events again, which have to be written.
//!
//! ```text
//!   events since the last look   many   few    few    few    few    many
//!   sleep after it, ms            100    200    400    400    400    100
//! ```

use std::time::Duration;

/// The sleep while there is something to record: the output is not further behind the events.
const BUSY: Duration = Duration::from_millis(100);

/// The longest sleep. A reader of a live trace waits that long at most for the last events before a silence.
const QUIET: Duration = Duration::from_millis(400);

/// Fewer events than these since the last look are few: what a machine does that has nothing to do.
const FEW: u64 = 400;

/// The sleep that was chosen last.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pace {
    sleep: Duration,
    /// Events up to the last look.
    seen: u64,
    longest: Duration,
}

impl Pace {
    /// Begins busy. Where `attentive`, sleeps do not get longer: somebody may ask for something at any time.
    pub(super) fn new(attentive: bool) -> Pace {
        Pace { sleep: BUSY, seen: 0, longest: if attentive { BUSY } else { QUIET } }
    }

    /// How long to sleep now that there have been `events` in all.
    pub(super) fn after(&mut self, events: u64) -> Duration {
        let new = events.saturating_sub(self.seen);
        self.seen = events;
        self.sleep = match new < FEW {
            true => (self.sleep * 2).min(self.longest),
            false => BUSY,
        };
        self.sleep
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn millis(pace: &mut Pace, totals: &[u64]) -> Vec<u128> {
        totals.iter().map(|events| pace.after(*events).as_millis()).collect()
    }

    #[test]
    fn the_picture_holds() {
        let totals = [5000, 5001, 5002, 5100, 5200, 9000];
        assert_eq!(millis(&mut Pace::new(false), &totals), [100, 200, 400, 400, 400, 100]);
    }

    #[test]
    fn who_may_be_asked_for_a_snapshot_does_not_sleep_longer() {
        assert_eq!(millis(&mut Pace::new(true), &[0, 0, 0]), [100, 100, 100]);
    }
}
