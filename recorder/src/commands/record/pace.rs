//! How long the capture thread sleeps if nothing wakes it.
//!
//! The kernel wakes it when a ring has filled to its watermark, so under load the
//! kernel sets the pace. This module determines how long a few events may stay in the
//! rings of a quiet machine. Every read has a cost: it wakes the machine, and the
//! recorder's own switches are again events to be written.
//!
//! ```text
//!   events since the last look   many   few    few    few    few    many
//!   sleep after it, ms            100    200    400    400    400    100
//! ```
//!
//! On a machine with many CPUs, all rings together may exceed the reading CPU's caches before any of them reaches its watermark. So the
//! sleep gets shorter until a read yields about [`AT_ONCE`] events.
//!
//! A killed recorder loses the events in flight, which should span less than a second:
//!
//! ```text
//!   held back for other CPUs + asleep + in a buffer that is not full + in the compressor
//!           WINDOW           + QUIET  +            HANDOVER          +  FLUSH_INTERVAL
//! ```

use std::time::{Duration, Instant};

/// The sleep while there are events to record, which bounds the output's delay.
const BUSY: Duration = Duration::from_millis(100);

/// The shortest sleep: each read is a wakeup, and visits the rings of all CPUs.
const SHORTEST: Duration = Duration::from_millis(2);

/// The target number of events per read: in rings, queues and the output's buffer, they fit into a cache of a few MiB.
const AT_ONCE: u64 = 64 * 1024;

/// The longest sleep, which is also the longest delay of the last events before a quiet period in a live trace.
const QUIET: Duration = Duration::from_millis(400);

/// With more CPUs, the sleep never gets that long.
const PATIENT_CPUS: usize = 64;

/// Fewer events than this since the last read count as the activity of an idle machine.
const FEW: u64 = 400;

/// How often a partly filled buffer is handed over.
const HANDOVER: Duration = Duration::from_millis(200);

/// A buffer is also handed over after the records of this many events: then they are still in the CPU's cache for the drain thread, and so
/// is the buffer's first part when it is reused. If the output is slow, the rest of the buffer is filled.
const MANY: u64 = 8 * 1024;

/// When a partly filled buffer is handed over.
#[derive(Clone, Copy, Debug)]
pub(super) struct Handover {
    last: Instant,
    /// Events since then.
    events: u64,
}

impl Handover {
    pub(super) fn new(now: Instant) -> Handover {
        Handover { last: now, events: 0 }
    }

    /// Hands over if it is time to, after a round with this many `events`. `flush` returns whether it did: it refuses while the previous
    /// buffer is being written, and then the next round tries again.
    pub(super) fn after_round(&mut self, now: Instant, events: u64, flush: impl FnOnce() -> bool) {
        self.events += events;
        let due = self.events >= MANY || now.duration_since(self.last) >= HANDOVER;
        if due && flush() {
            *self = Handover::new(now);
        }
    }
}

/// The last sleep.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pace {
    sleep: Duration,
    /// Number of events up to the last read.
    seen: u64,
    longest: Duration,
}

impl Pace {
    /// Begins busy. Sleeps do not get longer if `attentive`, since a request may come at any time, or on a machine with many `cpus`, where
    /// the first 400 ms of load may be millions of events although no ring reaches its watermark.
    pub(super) fn new(attentive: bool, cpus: usize) -> Pace {
        let is_patient = !attentive && cpus <= PATIENT_CPUS;
        Pace { sleep: BUSY, seen: 0, longest: if is_patient { QUIET } else { BUSY } }
    }

    /// How long to sleep after `events` events in total.
    pub(super) fn after(&mut self, events: u64) -> Duration {
        let new = events.saturating_sub(self.seen);
        self.seen = events;
        self.sleep = match new < FEW && self.sleep >= BUSY {
            true => (self.sleep * 2).min(self.longest),
            false => {
                let fitting = self.sleep.as_nanos() * u128::from(AT_ONCE) / u128::from(new.max(1));
                let fitting = Duration::from_nanos(u64::try_from(fitting).unwrap_or(u64::MAX));
                fitting.clamp(SHORTEST, BUSY)
            }
        };
        self.sleep
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::capture::order::WINDOW;
    use crate::sink::drain::FLUSH_INTERVAL;

    #[test]
    fn what_a_killed_recorder_lacks_is_less_than_a_second_by_design() {
        let held_back = Duration::from_nanos(WINDOW.0);
        let sum = held_back + QUIET + HANDOVER + FLUSH_INTERVAL;
        assert!(sum <= Duration::from_millis(850), "{sum:?} leaves too little to a busy machine");
    }

    #[test]
    fn a_buffer_that_could_not_be_handed_over_is_tried_again_in_the_next_round() {
        let begin = Instant::now();
        let mut handover = Handover::new(begin);
        let mut tried = |millis: u64, free: bool| {
            let mut asked = false;
            handover.after_round(begin + Duration::from_millis(millis), 1, || {
                asked = true;
                free
            });
            asked
        };
        assert!(!tried(100, true));
        assert!(tried(500, false), "the buffer before is still being written");
        assert!(tried(510, false) && tried(520, true));
        assert!(!tried(700, true) && tried(720, true));
    }

    #[test]
    fn many_events_are_handed_over_at_once_and_those_that_could_not_be_count_on() {
        let now = Instant::now();
        let mut handover = Handover::new(now);
        let mut tried = |events: u64, free: bool| {
            let mut asked = false;
            handover.after_round(now, events, || {
                asked = true;
                free
            });
            asked
        };
        assert!(!tried(MANY - 1, true));
        assert!(tried(1, false), "the buffer before is still being written");
        assert!(tried(0, true));
        assert!(!tried(MANY - 1, true), "counted anew");
    }

    fn millis(pace: &mut Pace, totals: &[u64]) -> Vec<u128> {
        totals.iter().map(|events| pace.after(*events).as_millis()).collect()
    }

    #[test]
    fn the_picture_holds() {
        let totals = [5000, 5001, 5002, 5100, 5200, 9000];
        assert_eq!(millis(&mut Pace::new(false, 64), &totals), [100, 200, 400, 400, 400, 100]);
    }

    #[test]
    fn more_events_than_a_cache_has_room_for_are_looked_for_more_often() {
        let mut pace = Pace::new(false, 64);
        let mut events = 0;
        let mut sleep_at = |per_ms: u64, looks: usize| {
            (0..looks).fold(0, |_, _| {
                events += per_ms * pace.sleep.as_millis() as u64;
                pace.after(events).as_millis()
            })
        };
        assert_eq!(sleep_at(100, 3), 100, "10 000 in 100 ms are few enough");
        assert_eq!(sleep_at(5000, 3), 13, "65 536 of five million a second");
        assert_eq!(sleep_at(100_000, 3), 2, "not more often than that");
        assert_eq!(sleep_at(1, 1), 100, "they are few again");
        assert_eq!(sleep_at(0, 2), 400);
    }

    #[test]
    fn a_machine_of_many_cpus_is_not_slept_on_for_long() {
        assert_eq!(millis(&mut Pace::new(false, 65), &[0, 0, 0]), [100, 100, 100]);
    }

    #[test]
    fn who_may_be_asked_for_a_snapshot_does_not_sleep_longer() {
        assert_eq!(millis(&mut Pace::new(true, 2), &[0, 0, 0]), [100, 100, 100]);
    }
}
