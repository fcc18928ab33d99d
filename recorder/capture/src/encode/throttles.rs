//! Which threads cannot run because a quota is used up, and the names of the cgroups with these quotas.
//!
//! Before Linux 6.18 the kernel throttles queues, with all threads on them. On these kernels, this covers every thread that waits in a
//! queue that was ever throttled; the increase of the queue's count is the time for which the thread was throttled:
//!
//! ```text
//!   count of the queue   7 ms                     9 ms                 9 ms
//!   thread               goes out or is woken     moved to CPU 1       comes in on CPU 1
//!   of CPU 1's queue                              3 ms                 4 ms    so it was 2 ms + 1 ms of its wait
//! ```

use fxt_writer::text;
use rustc_hash::FxHashMap;

use crate::event::Throttle;
use fxtrec_units::{Cpu, Nanos};

/// The time at which a thread was throttled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Throttled {
    pub since: Nanos,
    /// The CPU from whose queue it was removed.
    pub cpu: Cpu,
    pub throttle: Throttle,
    /// How long it was throttled, when that is known.
    pub length: Option<Nanos>,
    /// The period of its cgroup on that CPU, if known.
    pub period: Option<u64>,
    /// How long it was throttled in earlier queues during the same wait.
    pub before: Nanos,
}

impl Throttled {
    /// A queue was throttled for `kept` so far. If it is the thread's queue, this determines how long the thread was throttled. Only the
    /// first report counts, because the queue may be throttled again after the thread has left it.
    pub fn learn(&mut self, cpu: Cpu, own: u32, kept: Nanos) {
        if cpu == self.cpu && own == self.throttle.own && self.length.is_none() {
            // A queue counts only completed periods. Its count is lower than before if the queue is throttled when the thread leaves it.
            self.length = kept.0.checked_sub(self.throttle.kept.0).map(Nanos);
        }
    }

    /// The thread continues to wait in the queue of another CPU; so far it was throttled for `kept`. The report about the queue that the
    /// thread leaves precedes this call.
    pub fn goes_over(&mut self, cpu: Cpu, kept: Nanos) {
        self.before.0 += self.length.take().map_or(0, |length| length.0);
        self.cpu = cpu;
        self.throttle.kept = kept;
    }

    /// How long a thread that is switched in at `time` was throttled. If it left a throttled queue, it counts as throttled for the whole
    /// wait.
    pub fn until(&self, time: Nanos) -> Nanos {
        let wait = Nanos(time.0.saturating_sub(self.since.0));
        let here = match self.length {
            Some(length) => length,
            // A queue without a report was never throttled.
            None if self.throttle.of_queues => Nanos(0),
            None => wait,
        };
        Nanos(self.before.0.saturating_add(here.0).min(wait.0))
    }
}

/// Cgroup paths are truncated to this many bytes.
const PATH_BYTES: usize = 1024;

/// The path of a cgroup as it is written to traces.
pub fn path_text(path: &str) -> String {
    let path = text::clean(path.as_bytes());
    let end = (0..=PATH_BYTES.min(path.len())).rev().find(|end| path.is_char_boundary(*end));
    path[..end.unwrap_or(0)].to_owned()
}

/// The names of cgroups, by id.
#[derive(Debug, Default)]
pub struct CgroupNames(FxHashMap<u64, Option<Box<str>>>);

impl CgroupNames {
    /// The name of a cgroup, which `look` finds on the first call; `None` if it cannot be found.
    pub fn get(&mut self, cgroup: u64, look: impl FnOnce() -> Option<String>) -> Option<&str> {
        self.0.entry(cgroup).or_insert_with(|| look().map(String::into_boxed_str)).as_deref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn throttled() -> Throttled {
        let throttle =
            Throttle { kept: Nanos(1_000), cgroup: 7, own: 8, now: true, of_queues: false };
        let (length, period, before) = (None, None, Nanos(0));
        Throttled { since: Nanos(20), cpu: Cpu(1), throttle, length, period, before }
    }

    #[test]
    fn one_that_changes_queues_was_throttled_for_what_each_of_them_says() {
        let mut throttled = throttled();
        throttled.throttle.of_queues = true;
        assert_eq!(throttled.until(Nanos(100)), Nanos(0), "nothing is said");
        throttled.learn(Cpu(1), 8, Nanos(1_030));
        throttled.goes_over(Cpu(0), Nanos(7_000));
        assert_eq!(throttled.until(Nanos(100)), Nanos(30));
        throttled.learn(Cpu(0), 8, Nanos(7_010));
        assert_eq!(throttled.until(Nanos(100)), Nanos(40));
    }

    #[test]
    fn the_growth_of_the_queues_count_is_how_long_its_thread_was_throttled() {
        let mut throttled = throttled();
        throttled.learn(Cpu(0), 8, Nanos(5_000));
        throttled.learn(Cpu(1), 9, Nanos(5_000));
        assert_eq!(throttled.length, None, "other queues");
        throttled.learn(Cpu(1), 8, Nanos(1_030));
        throttled.learn(Cpu(1), 8, Nanos(1_090));
        assert_eq!(throttled.until(Nanos(100)), Nanos(30), "the first word counts");
        assert_eq!(throttled.until(Nanos(40)), Nanos(20), "no longer than its wait");
    }

    #[test]
    fn a_thread_that_leaves_a_throttled_queue_was_throttled_all_along() {
        let mut throttled = throttled();
        throttled.learn(Cpu(1), 8, Nanos(900));
        assert_eq!(throttled.until(Nanos(100)), Nanos(80));
    }

    #[test]
    fn a_name_is_looked_up_once() {
        let mut names = CgroupNames::default();
        assert_eq!(names.get(7, || Some("/seven".to_owned())), Some("/seven"));
        assert_eq!(names.get(7, || None), Some("/seven"));
        assert_eq!(names.get(8, || None), None);
        assert_eq!(names.get(8, || Some("late".to_owned())), None);
    }
}
