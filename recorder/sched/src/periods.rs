//! The periods in which cgroups were throttled on each CPU, and from them the part of a wait that a quota took.
//!
//! When a wait ends, the trace contains how long a quota held the thread back. Two facts determine when that was within the wait. A thread
//! that leaves its CPU because the quota is used up, or is woken into a throttled cgroup, is held back from then on. In addition, the trace
//! has for each CPU the periods in which a cgroup was throttled there.
//!
//! ```text
//! period of /a on CPU 0            |=========|
//! left throttled           |.......|         the first part of the wait:  place() = [wait.begin, + held)
//! preempted, then held   |---------===========-----|   the period:        place() = [period]
//! ```

use std::collections::{HashMap, VecDeque};

use fxt_reader::record::{Args, Event, EventKind, Value};
use fxt_reader::{Cpu, Nanos};

use crate::switch_args::{cpu_of, unsigned};
use crate::threads::Thread;

/// Periods remembered for each cgroup on each CPU. A wait across more periods cannot be divided exactly.
const REMEMBERED: usize = 64;

/// Pairs of a cgroup and a CPU that are followed. There is a limit because a file may name any number of cgroups.
const MOST_PLACES: usize = 1 << 16;

pub type TimeInterval = (Nanos, Nanos);

/// The known facts about the quota for a wait that has ended.
#[derive(Clone, Copy, Debug)]
pub struct Held<'a> {
    /// The wait, from its beginning to its end.
    pub wait: TimeInterval,
    /// The CPU that the thread waited for.
    pub cpu: Cpu,
    /// How long the thread was held back during the wait, in nanoseconds.
    pub nanos: u64,
    /// Whether that began with the wait.
    pub at_begin: bool,
    /// The cgroup whose quota it was, if known.
    pub by: Option<&'a str>,
}

impl<'a> Held<'a> {
    /// For a thread that waited until `end`: `nanos` is how long a quota held it back, `by` whose quota that was. `None` if it did not
    /// wait, or was not held back.
    pub fn of(waited: Thread, end: Nanos, (nanos, by): (u64, Option<&'a str>)) -> Option<Held<'a>> {
        let at_begin = waited.state.is_throttled();
        let is_held = waited.state.is_waiting() && (nanos > 0 || at_begin);
        let wait = (waited.since, end);
        is_held.then_some(Held { wait, cpu: waited.cpu, nanos, at_begin, by })
    }
}

#[derive(Debug, Default)]
struct Place {
    /// The periods that have ended, the oldest first.
    over: VecDeque<TimeInterval>,
    open: Option<Nanos>,
}

/// The periods in which cgroups were throttled.
#[derive(Debug, Default)]
pub struct Periods {
    cgroups: HashMap<Box<str>, HashMap<u16, u32>>,
    places: Vec<Place>,
    /// The place of each async span that is open, by the process that it belongs to and its id.
    open: HashMap<(u64, u64), u32>,
}

impl Periods {
    /// Whether there were none so far.
    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// Takes an event that begins or ends a period. Returns the CPU and the time of the beginning or of the end, if known.
    pub fn event(&mut self, event: &Event<'_>) -> Option<(Cpu, Nanos)> {
        if !is_period(event) {
            return None;
        }
        let process = event.thread.process.0;
        match event.kind {
            EventKind::AsyncBegin { id } => {
                let place = period_of(event)?;
                self.begin((process, id), place, event.time);
                Some((place.1, event.time))
            }
            EventKind::AsyncEnd { id } => {
                let (_, end) = self.end((process, id), period_end(event.time, event.args))?;
                cpu_of(event.args, "cpu").map(|cpu| (cpu, end))
            }
            _ => None,
        }
    }

    /// A period of a cgroup begins on a CPU. `id` is the process of its async span, and its id there.
    fn begin(&mut self, id: (u64, u64), (cgroup, cpu): (&str, Cpu), time: Nanos) {
        let known = self.cgroups.get(cgroup).and_then(|cpus| cpus.get(&cpu.0)).copied();
        let place = match known {
            Some(place) => place,
            None if self.places.len() >= MOST_PLACES => return,
            None => {
                // There are fewer than this maximum.
                let place = self.places.len() as u32;
                self.places.push(Place::default());
                self.cgroups.entry(cgroup.into()).or_default().insert(cpu.0, place);
                place
            }
        };
        self.places[place as usize].open = Some(time);
        self.open.insert(id, place);
    }

    /// A period has ended; `end` is the time of its end, if known. Returns the period, unless its beginning or its end is missing.
    fn end(&mut self, id: (u64, u64), end: Option<Nanos>) -> Option<TimeInterval> {
        let place = &mut self.places[self.open.remove(&id)? as usize];
        let begin = place.open.take()?;
        let time = end.filter(|end| *end >= begin)?;
        if place.over.len() == REMEMBERED {
            place.over.pop_front();
        }
        place.over.push_back((begin, time));
        Some((begin, time))
    }

    /// The parts of its wait in which a thread was held back, in order; their sum is the length given in the wait. `None` if that is
    /// unknown.
    pub fn place(&self, held: Held<'_>) -> Option<Vec<TimeInterval>> {
        let (begin, end) = held.wait;
        let nanos = held.nanos.min(end.0.saturating_sub(begin.0));
        let known = held.by.and_then(|by| self.cgroups.get(by)?.get(&held.cpu.0));
        if let Some(&place) = known {
            let Place { over, open } = &self.places[place as usize];
            let open = open.map(|since| (since, end));
            let within = over.iter().copied().chain(open).filter_map(|(from, until)| {
                let (from, until) = (from.max(begin), until.min(end));
                (from < until).then_some((from, until))
            });
            let mut intervals: Vec<TimeInterval> = within.collect();
            // The thread left its CPU exactly when the period began; the two events may be in either order.
            if let (true, Some(first)) = (held.at_begin, intervals.first_mut()) {
                first.0 = begin;
            }
            if exactly(&mut intervals, nanos, end) {
                return Some(intervals);
            }
        }
        held.at_begin.then(|| vec![(begin, Nanos(begin.0 + nanos))])
    }
}

/// Whether an event is about a period in which a cgroup is throttled, which belongs to a CPU and to no thread.
pub fn is_period(event: &Event<'_>) -> bool {
    event.category == "sched" && event.name == "throttled"
}

/// The throttled cgroup and the CPU, if the event names them.
pub fn period_of<'a>(event: &Event<'a>) -> Option<(&'a str, Cpu)> {
    Some((event.args.str("cgroup")?, cpu_of(event.args, "cpu")?))
}

/// The end of a throttled period, from the event at `time` that reports it: `late_ns` earlier, or unknown with `inferred`.
fn period_end(time: Nanos, args: Args<'_>) -> Option<Nanos> {
    match args.get("inferred") {
        Some(Value::Bool(true)) => None,
        _ => {
            let late = args.get("late_ns").and_then(unsigned).unwrap_or(0);
            Some(Nanos(time.0.saturating_sub(late)))
        }
    }
}

/// Corrects intervals whose sum is nearly the duration of the wait: the last one is changed so that the sum is exact.
fn exactly(intervals: &mut [TimeInterval], nanos: u64, end: Nanos) -> bool {
    let sum: u64 = intervals.iter().map(|(from, until)| until.0 - from.0).sum();
    let Some(last) = intervals.last_mut() else { return false };
    if sum.abs_diff(nanos) > TOLERANCE.max(nanos / 64) {
        return false;
    }
    let until = (last.1.0 + nanos).saturating_sub(sum);
    last.1 = Nanos(until);
    (last.0.0..=end.0).contains(&until)
}

/// By how many nanoseconds the sum of the periods may differ from the duration of the wait.
const TOLERANCE: u64 = 20_000;

#[cfg(test)]
mod tests {
    use super::*;

    fn held(wait: (u64, u64), nanos: u64, at_begin: bool) -> Held<'static> {
        let wait = (Nanos(wait.0), Nanos(wait.1));
        Held { wait, cpu: Cpu(1), nanos, at_begin, by: Some("/a") }
    }

    fn periods(list: &[(u64, u64)]) -> Periods {
        let mut periods = Periods::default();
        for &(begin, end) in list {
            periods.begin((1, 7), ("/a", Cpu(1)), Nanos(begin));
            assert_eq!(periods.end((1, 7), Some(Nanos(end))), Some((Nanos(begin), Nanos(end))));
        }
        periods
    }

    fn place(periods: &Periods, held: Held<'_>) -> Option<Vec<(u64, u64)>> {
        let intervals = periods.place(held)?;
        Some(intervals.into_iter().map(|(from, until)| (from.0, until.0)).collect())
    }

    const MS: u64 = 1_000_000;

    #[test]
    fn a_wait_that_begins_throttled_is_held_back_at_its_begin() {
        let wait = held((10 * MS, 50 * MS), 30 * MS, true);
        assert_eq!(place(&Periods::default(), wait), Some(vec![(10 * MS, 40 * MS)]));
        let unnamed = Held { by: None, ..wait };
        assert_eq!(place(&periods(&[(10 * MS, 40 * MS)]), unnamed), Some(vec![(10 * MS, 40 * MS)]));
    }

    #[test]
    fn a_wait_that_does_not_is_held_back_when_its_cgroup_is_throttled_on_its_cpu() {
        let periods =
            periods(&[(1, 2), (10 * MS, 40 * MS), (60 * MS, 90 * MS), (200 * MS, 210 * MS)]);
        let wait = held((5 * MS, 100 * MS), 60 * MS, false);
        let expected = vec![(10 * MS, 40 * MS), (60 * MS, 90 * MS)];
        assert_eq!(place(&periods, wait), Some(expected));
        // Only a part of the second period is within the wait.
        let cut = held((5 * MS, 70 * MS), 40 * MS, false);
        assert_eq!(place(&periods, cut), Some(vec![(10 * MS, 40 * MS), (60 * MS, 70 * MS)]));
    }

    #[test]
    fn what_the_periods_do_not_explain_is_not_known() {
        let periods = periods(&[(10 * MS, 40 * MS)]);
        let wait = held((5 * MS, 100 * MS), 60 * MS, false);
        assert_eq!(place(&periods, wait), None);
        assert_eq!(place(&periods, Held { nanos: 30 * MS, cpu: Cpu(2), ..wait }), None);
        assert_eq!(place(&periods, Held { nanos: 30 * MS, by: Some("/b"), ..wait }), None);
        assert_eq!(place(&periods, Held { nanos: 30 * MS, by: None, ..wait }), None);
    }

    #[test]
    fn a_period_that_continues_and_one_without_a_begin_are_taken_as_they_are() {
        let mut periods = Periods::default();
        assert_eq!(periods.end((1, 3), Some(Nanos(5))), None);
        periods.begin((1, 7), ("/a", Cpu(1)), Nanos(20 * MS));
        let wait = held((10 * MS, 30 * MS), 10 * MS, false);
        assert_eq!(place(&periods, wait), Some(vec![(20 * MS, 30 * MS)]));
    }

    #[test]
    fn a_period_of_unknown_end_explains_nothing() {
        let mut periods = Periods::default();
        periods.begin((1, 7), ("/a", Cpu(1)), Nanos(20 * MS));
        assert_eq!(periods.end((1, 7), None), None);
        periods.begin((1, 8), ("/a", Cpu(1)), Nanos(30 * MS));
        assert_eq!(periods.end((1, 8), Some(Nanos(25 * MS))), None, "it ended before a cut");
        assert_eq!(place(&periods, held((10 * MS, 40 * MS), 10 * MS, false)), None);
    }

    #[test]
    fn the_wait_says_for_how_long_and_the_periods_when() {
        let periods = periods(&[(10 * MS, 40 * MS), (60 * MS, 90 * MS)]);
        let of = |nanos| place(&periods, held((5 * MS, 100 * MS), nanos, false));
        for nanos in [60 * MS - 9_000, 60 * MS + 9_000, 60 * MS + MS / 2] {
            assert_eq!(of(nanos), Some(vec![(10 * MS, 40 * MS), (60 * MS, nanos + 30 * MS)]));
        }
        assert_eq!(of(61 * MS), None);
        assert_eq!(of(59 * MS), None);
    }

    #[test]
    fn a_quota_holds_nobody_back_for_longer_than_the_wait() {
        let wait = held((10 * MS, 50 * MS), u64::MAX, true);
        assert_eq!(place(&Periods::default(), wait), Some(vec![(10 * MS, 50 * MS)]));
    }

    #[test]
    fn only_the_last_periods_are_remembered() {
        let list: Vec<(u64, u64)> = (0..200).map(|n| (n * 10 * MS, n * 10 * MS + MS)).collect();
        let periods = periods(&list);
        let late = held((1990 * MS, 2000 * MS), MS, false);
        assert_eq!(place(&periods, late), Some(vec![(1990 * MS, 1991 * MS)]));
        let long = held((0, 2000 * MS), 200 * MS, false);
        assert_eq!(place(&periods, long), None);
    }
}
