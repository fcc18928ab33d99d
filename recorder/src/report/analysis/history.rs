//! Who had a CPU lately: what the antagonists of a wait are found in.

use std::time::Duration;

/// So many switches are remembered.
const DEPTH: usize = 4096;

/// Who has a CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tenant {
    Unknown,
    Idle,
    Thread(u64),
}

/// The last switches of a CPU: a ring that grows to its full length before it wraps.
///
/// ```text
///  entries:  (100, A) (130, idle) (180, B)      a wait from 120 to 200:  A 10, idle 50, B 20
///               |---A---|---idle---|---B--->
/// ```
#[derive(Debug, Default)]
pub(super) struct History {
    entries: Vec<(u64, Tenant)>,
    /// Where the next one goes when the ring has wrapped.
    next: usize,
}

/// Who had a CPU in some stretch of time.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Shares {
    /// Koids and nanoseconds, the most first.
    pub(super) threads: Vec<(u64, u64)>,
    pub(super) idle: Duration,
    pub(super) unknown: Duration,
}

impl History {
    /// From `time` on, `tenant` has the CPU.
    #[inline]
    pub(super) fn push(&mut self, time: u64, tenant: Tenant) {
        if self.entries.len() < DEPTH {
            self.entries.push((time, tenant));
            return;
        }
        self.entries[self.next] = (time, tenant);
        self.next = (self.next + 1) % DEPTH;
    }

    /// Who has the CPU now has turned out.
    pub(super) fn correct(&mut self, tenant: Tenant) {
        let last = (self.next + self.entries.len()).checked_sub(1);
        let last = last.map(|last| last % self.entries.len().max(1));
        if let Some(entry) = last.and_then(|last| self.entries.get_mut(last)) {
            entry.1 = tenant;
        }
    }

    /// Who had the CPU between `begin` and `end`.
    pub(super) fn shares(&self, begin: u64, end: u64) -> Shares {
        let (newer, older) = self.entries.split_at(self.next);
        let latest_first = newer.iter().rev().chain(older.iter().rev());
        let mut shares = Shares::default();
        let mut until = end;
        for &(from, tenant) in latest_first {
            let length = until.saturating_sub(from.max(begin));
            match tenant {
                _ if length == 0 => {}
                Tenant::Unknown => shares.unknown += Duration::from_nanos(length),
                Tenant::Idle => shares.idle += Duration::from_nanos(length),
                Tenant::Thread(koid) => {
                    match shares.threads.iter_mut().find(|(known, _)| *known == koid) {
                        Some((_, sum)) => *sum += length,
                        None => shares.threads.push((koid, length)),
                    }
                }
            }
            until = until.min(from);
            if until <= begin {
                break;
            }
        }
        shares.unknown += Duration::from_nanos(until.saturating_sub(begin));
        shares.threads.sort_by_key(|&(koid, nanos)| (std::cmp::Reverse(nanos), koid));
        shares
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stretch_is_shared_out_among_those_who_had_the_cpu_in_it() {
        let mut history = History::default();
        for (time, tenant) in [
            (100, Tenant::Thread(7)),
            (130, Tenant::Idle),
            (180, Tenant::Thread(8)),
            (190, Tenant::Thread(7)),
            (250, Tenant::Idle),
        ] {
            history.push(time, tenant);
        }
        let shares = history.shares(120, 200);
        assert_eq!(shares.threads, [(7, 20), (8, 10)]);
        assert_eq!((shares.idle.as_nanos(), shares.unknown.as_nanos()), (50, 0));
        let early = history.shares(90, 110);
        assert_eq!((early.threads, early.unknown.as_nanos()), (vec![(7, 10)], 10));
    }

    #[test]
    fn what_was_forgotten_is_unknown_and_the_rest_is_in_order() {
        let mut history = History::default();
        for number in 0..DEPTH as u64 + 10 {
            history.push(number * 10, Tenant::Thread(number));
        }
        let end = (DEPTH as u64 + 10) * 10;
        let shares = history.shares(0, end);
        assert_eq!(shares.threads.len(), DEPTH);
        assert_eq!(shares.unknown.as_nanos(), 100, "the first ten are forgotten");
        let last = history.shares(end - 20, end);
        assert_eq!(last.threads, [(DEPTH as u64 + 8, 10), (DEPTH as u64 + 9, 10)]);
        history.correct(Tenant::Idle);
        assert_eq!(history.shares(end - 20, end).idle.as_nanos(), 10);
    }
}
