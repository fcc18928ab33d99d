//! Triggers, tested on every duration, loss and probe as it occurs.
//!
//! All of this is on the path of an event. A value that meets no limit costs a comparison; conditions are evaluated only when a limit was
//! met. Triggers are limited by time and number:
//!
//! ```text
//!   met          x  x      x            x x        x
//!   interval     |--------------|       |--------------|
//!   fired        x                      x                    and no more after --max-snapshots
//!   suppressed      x      x              x        x
//! ```

use super::ledger::{Ledger, Length};
use crate::event::Comm;
use fxtrec_gates::Amount;
use fxtrec_gates::Dimension;
use fxtrec_gates::Metric;
use fxtrec_gates::{Comparison, Condition, Lasting, Trigger, What};
use fxtrec_kernel::extra::ExtraIndex;
use fxtrec_units::{Cpu, Nanos, Tid};

/// The maximum number of triggers that have fired and are not handled yet; further ones are suppressed.
const MOST_WAITING: usize = 64;

/// How many metrics there are.
const METRICS: usize = Metric::ALL.len() + Metric::FACTS.len();

/// How often triggers may fire.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// Minimum time between triggers.
    pub interval: Nanos,
    /// The maximum number in total.
    pub most: Option<u32>,
}

/// The thread that a trigger fired for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TriggeringThread {
    /// Its id in the trace.
    pub koid: u64,
    pub tid: Tid,
    pub comm: Comm,
}

/// A trigger that has fired.
#[derive(Clone, Debug, PartialEq)]
pub struct Fired {
    /// Which trigger, by its index.
    pub trigger: usize,
    pub time: Nanos,
    /// The beginning of the slice, wait or other interval that ended at that time; none for a loss, a hit of a probe and an alert.
    pub since: Option<Nanos>,
    /// The CPU of the value; none for an alert and a span.
    pub cpu: Option<Cpu>,
    /// The thread; none for a loss and an alert, and for a span of a thread that the scheduler's events do not know.
    pub thread: Option<TriggeringThread>,
    /// The measured value; `None` for a hit of a probe and for an alert.
    pub value: Option<Amount>,
    /// The application of an alert or a span, as text.
    pub from: Option<String>,
}

/// Counts of everything that met a trigger, by outcome.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub fired: u64,
    /// How many were suppressed because they came too soon after another.
    pub too_soon: u64,
    /// The number of times that a trigger would have fired after the permitted number.
    pub too_many: u64,
    /// Waits for a CPU that would fire a trigger on `wakeup` if they had followed a wakeup and not a preemption.
    pub preempted: u64,
    /// Waits that would fire a trigger on `preempt` if they had followed a preemption and not a wakeup.
    pub woken: u64,
}

#[derive(Clone, Copy, Debug)]
struct Limit {
    trigger: usize,
    comparison: Comparison,
    limit: f64,
}

impl Limit {
    fn is_met(&self, value: f64) -> bool {
        self.comparison.holds(value, self.limit)
    }

    /// The durations that may meet it.
    fn reach(&self) -> Reach {
        let (least, most) = (self.limit.floor() as u64, self.limit.ceil() as u64);
        match self.comparison {
            Comparison::Above | Comparison::AtLeast => Reach { least, most: u64::MAX },
            Comparison::Below | Comparison::AtMost => Reach { least: 0, most },
            Comparison::Equal => Reach { least, most },
            Comparison::NotEqual => Reach { least: 0, most: u64::MAX },
        }
    }
}

/// A range of durations; durations outside of it meet no limit of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Reach {
    least: u64,
    most: u64,
}

impl Reach {
    const NOTHING: Reach = Reach { least: u64::MAX, most: 0 };

    #[inline(always)]
    fn has(self, nanos: Nanos) -> bool {
        (self.least..=self.most).contains(&nanos.0)
    }

    fn with(self, other: Reach) -> Reach {
        Reach { least: self.least.min(other.least), most: self.most.max(other.most) }
    }
}

/// All triggers, and the facts about threads that they need.
#[derive(Clone, Debug)]
pub struct Watch {
    /// The current states of threads.
    pub ledger: Ledger,
    triggers: Vec<Trigger>,
    lengths: [Vec<Limit>; METRICS],
    /// The durations for each metric that may meet one of its limits.
    reach: [Reach; METRICS],
    losses: Vec<Limit>,
    turns: Vec<Limit>,
    /// The durations that may meet a limit on turns.
    turn_reach: Reach,
    /// The triggers of each non-scheduler event.
    probes: Vec<Vec<usize>>,
    limits: Limits,
    /// Whether the recorder's own threads fire.
    recorder: bool,
    quiet_until: Nanos,
    /// Whether there is no room for another result.
    busy: bool,
    fired: Vec<Fired>,
    counts: Counts,
}

impl Watch {
    pub fn new(triggers: Vec<Trigger>, limits: Limits) -> Watch {
        let mut lengths: [Vec<Limit>; METRICS] = Default::default();
        let (mut losses, mut turns) = (Vec::new(), Vec::new());
        for (trigger, wanted) in triggers.iter().enumerate() {
            match &wanted.what {
                What::Length { metric, comparison, limit } => {
                    let (comparison, limit) = (*comparison, limit.number);
                    lengths[*metric as usize].push(Limit { trigger, comparison, limit });
                }
                What::Lost { comparison, limit } => {
                    let (comparison, limit) = (*comparison, limit.number);
                    losses.push(Limit { trigger, comparison, limit });
                }
                What::Lasts { what: Lasting::Turn, comparison, limit } => {
                    let (comparison, limit) = (*comparison, limit.number);
                    turns.push(Limit { trigger, comparison, limit });
                }
                What::Lasts { .. } | What::Probe(_) | What::Alert(_) => {}
            }
        }
        let mut reach = lengths
            .each_ref()
            .map(|limits| limits.iter().map(Limit::reach).fold(Reach::NOTHING, Reach::with));
        // Waits of the other kind are counted.
        let either = reach[Metric::Wakeup as usize].with(reach[Metric::Preemption as usize]);
        reach[Metric::Wakeup as usize] = either;
        reach[Metric::Preemption as usize] = either;
        Watch {
            ledger: if turns.is_empty() { Ledger::default() } else { Ledger::with_turns() },
            triggers,
            reach,
            lengths,
            losses,
            turn_reach: turns.iter().map(Limit::reach).fold(Reach::NOTHING, Reach::with),
            turns,
            probes: Vec::new(),
            limits,
            recorder: false,
            quiet_until: Nanos(0),
            busy: false,
            fired: Vec::with_capacity(MOST_WAITING),
            counts: Counts::default(),
        }
    }

    /// Watches for nothing, and only tracks the states of threads.
    pub fn only_ledger() -> Watch {
        Watch::new(Vec::new(), Limits { interval: Nanos(0), most: None })
    }

    /// Lets the recorder's own threads fire as well.
    pub fn include_recorder(&mut self) {
        self.recorder = true;
    }

    pub fn includes_recorder(&self) -> bool {
        self.recorder
    }

    pub fn triggers(&self) -> &[Trigger] {
        &self.triggers
    }

    /// Reports that samples of `extra` are hits of the probe, or returns of the function, that `trigger` waits for.
    pub fn expect(&mut self, extra: ExtraIndex, trigger: usize) {
        let at = usize::from(extra.0);
        if at >= self.probes.len() {
            self.probes.resize(at + 1, Vec::new());
        }
        self.probes[at].push(trigger);
    }

    /// Whether a duration may meet a trigger: this takes two comparisons, and hardly any duration does.
    #[inline(always)]
    pub fn may_meet(&self, metric: Metric, nanos: Nanos) -> bool {
        self.reach[metric as usize].has(nanos)
    }

    /// Whether a turn of this length may meet a trigger.
    #[inline(always)]
    pub fn may_meet_turn(&self, nanos: Nanos) -> bool {
        self.turn_reach.has(nanos)
    }

    /// The trigger that a duration meets, if any. `is_true` evaluates a condition.
    pub fn length(
        &self,
        metric: Metric,
        nanos: Nanos,
        is_true: impl Fn(&Condition) -> bool,
    ) -> Option<usize> {
        self.met(&self.lengths[metric as usize], nanos, &is_true)
    }

    /// Counts a wait for a CPU that met no trigger, if it would have met a trigger on the other kind of waits.
    #[cold]
    pub fn count_other(
        &mut self,
        metric: Metric,
        nanos: Nanos,
        is_true: impl Fn(&Condition) -> bool,
    ) {
        let other = match metric {
            Metric::Preemption => Metric::Wakeup,
            Metric::Wakeup => Metric::Preemption,
            _ => return,
        };
        // A trigger on both kinds fires.
        let meets = |of: Metric| self.length(of, nanos, &is_true).is_some();
        if meets(other) && !meets(Metric::RunQueue) {
            match metric {
                Metric::Preemption => self.counts.preempted += 1,
                _ => self.counts.woken += 1,
            }
        }
    }

    /// The trigger that a loss of this many events meets, if any. A loss of unknown size may have any size.
    pub fn loss(&self, count: Option<u64>) -> Option<usize> {
        let number = count.map_or(f64::INFINITY, |count| count as f64);
        self.losses.iter().find(|limit| limit.is_met(number)).map(|limit| limit.trigger)
    }

    /// The trigger that waits for this probe, if any.
    pub fn probe(&self, extra: ExtraIndex, is_true: impl Fn(&Condition) -> bool) -> Option<usize> {
        let hits = |trigger: &usize| matches!(self.triggers[*trigger].what, What::Probe(_));
        self.of_probe(extra).filter(hits).find(|trigger| self.applies(*trigger, &is_true))
    }

    /// The trigger that a call meets that ends with this return, if any.
    pub fn call(
        &self,
        extra: ExtraIndex,
        nanos: Nanos,
        is_true: impl Fn(&Condition) -> bool,
    ) -> Option<usize> {
        self.of_probe(extra).find(|trigger| self.lasts(*trigger, nanos, &is_true))
    }

    fn of_probe(&self, extra: ExtraIndex) -> impl Iterator<Item = usize> {
        self.probes.get(usize::from(extra.0)).into_iter().flatten().copied()
    }

    /// The trigger that a turn of this length meets, if any.
    pub fn turn(&self, nanos: Nanos, is_true: impl Fn(&Condition) -> bool) -> Option<usize> {
        self.met(&self.turns, nanos, &is_true)
    }

    /// The trigger of the first of these limits that a duration meets, if its condition is true.
    fn met(
        &self,
        limits: &[Limit],
        nanos: Nanos,
        is_true: &impl Fn(&Condition) -> bool,
    ) -> Option<usize> {
        let met = limits.iter().filter(|limit| limit.is_met(nanos.0 as f64));
        met.map(|limit| limit.trigger).find(|trigger| self.applies(*trigger, is_true))
    }

    /// Whether a value of this length meets a limit of a trigger.
    pub fn lasts(
        &self,
        trigger: usize,
        nanos: Nanos,
        is_true: impl Fn(&Condition) -> bool,
    ) -> bool {
        let met = match &self.triggers[trigger].what {
            What::Lasts { comparison, limit, .. } => comparison.holds(nanos.0 as f64, limit.number),
            _ => false,
        };
        met && self.applies(trigger, &is_true)
    }

    /// The trigger that waits for an alert of this name, if any.
    pub fn alert(&self, name: &str) -> Option<usize> {
        let waits =
            |trigger: &Trigger| matches!(&trigger.what, What::Alert(wanted) if wanted == name);
        self.triggers.iter().position(waits)
    }

    fn applies(&self, trigger: usize, is_true: &impl Fn(&Condition) -> bool) -> bool {
        self.triggers[trigger].condition.as_ref().is_none_or(is_true)
    }

    /// Whether a trigger may fire now; counts it in either case.
    pub fn admit(&mut self, time: Nanos) -> bool {
        if self.limits.most.is_some_and(|most| self.counts.fired >= u64::from(most)) {
            self.counts.too_many += 1;
            return false;
        }
        if time < self.quiet_until || self.busy || self.fired.len() >= MOST_WAITING {
            self.counts.too_soon += 1;
            return false;
        }
        self.quiet_until = Nanos(time.0.saturating_add(self.limits.interval.0));
        self.counts.fired += 1;
        true
    }

    pub fn note(&mut self, fired: Fired) {
        self.fired.push(fired);
    }

    /// Sets whether more triggers have fired than can be handled, so that no further ones may fire for now.
    pub fn set_busy(&mut self, busy: bool) {
        self.busy = busy;
    }

    /// The triggers that have fired since the last call.
    pub fn take_fired(&mut self) -> std::vec::Drain<'_, Fired> {
        self.fired.drain(..)
    }

    /// The number of times that a trigger's condition held so far, by outcome.
    pub fn counts(&self) -> Counts {
        self.counts
    }
}

impl Length {
    /// The length, as triggers measure it.
    pub fn amount(&self) -> Amount {
        Amount { number: self.nanos.0 as f64, dimension: Dimension::Time }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fxtrec_gates::Subject;

    fn watch(triggers: &[&str], interval: u64, most: Option<u32>) -> Watch {
        let parsed = |text: &&str| text.parse().unwrap_or_else(|error| panic!("{text}: {error}"));
        let limits = Limits { interval: Nanos(interval), most };
        Watch::new(triggers.iter().map(parsed).collect(), limits)
    }

    fn holds(comm: &str) -> impl Fn(&Condition) -> bool {
        move |condition| {
            let (pid, tid, cpu) = (Some(1), Some(2), Some(0));
            let in_command = false;
            condition.holds(&Subject { comm, pid, tid, cgroup: None, cpu, stack: &[], in_command })
        }
    }

    #[test]
    fn a_length_meets_the_first_trigger_whose_limit_and_condition_it_is_beyond() {
        let texts =
            ["wakeup > 5ms", r#"wakeup > 1ms if comm ~ "audio*""#, "slice > 1ms", "lost > 3"];
        let watch = watch(&texts, 0, None);
        let met = |metric, millis: u64, comm| {
            watch.length(metric, Nanos(millis * 1_000_000), holds(comm))
        };
        assert_eq!(met(Metric::Wakeup, 6, "audio-io"), Some(0));
        assert_eq!(met(Metric::Wakeup, 5, "audio-io"), Some(1), "5 ms are not more than 5 ms");
        assert_eq!(met(Metric::Wakeup, 5, "video"), None);
        assert_eq!(met(Metric::Slice, 2, "video"), Some(2));
        assert_eq!(met(Metric::Blocked, 2, "video"), None);
        assert_eq!((watch.loss(Some(3)), watch.loss(Some(4))), (None, Some(3)));
        assert_eq!(watch.loss(None), Some(3), "nobody knows that it was less");
    }

    #[test]
    fn what_meets_a_trigger_is_never_passed_over() {
        let nanos = [0, 1, 4, 5, 6, 9, 10, 11, 12, 1 << 60, u64::MAX];
        for comparison in [">", ">=", "<", "<=", "=", "!="] {
            let trigger = format!("wakeup {comparison} 0.005us");
            let other = "wakeup > 10ns if tid = 2";
            for texts in [&[trigger.as_str()][..], &[trigger.as_str(), other]] {
                let watch = watch(texts, 0, None);
                for length in nanos.map(Nanos) {
                    let met = watch.length(Metric::Wakeup, length, holds("any")).is_some();
                    assert!(
                        watch.may_meet(Metric::Wakeup, length) || !met,
                        "{texts:?}: {length:?}"
                    );
                }
                assert!(nanos.iter().all(|nanos| !watch.may_meet(Metric::Slice, Nanos(*nanos))));
            }
        }
        let watch = watch(&["wakeup > 5ns"], 0, None);
        assert!(
            !watch.may_meet(Metric::Wakeup, Nanos(4)) && !watch.may_meet(Metric::Blocked, Nanos(9))
        );
    }

    #[test]
    fn long_waits_of_the_other_kind_are_counted_unless_they_fire() {
        let counted = |triggers: &[&str], metric, millis: u64, comm| {
            let mut watch = watch(triggers, 0, None);
            let nanos = Nanos(millis * 1_000_000);
            assert!(watch.may_meet(metric, nanos) || millis <= 5, "{triggers:?}");
            watch.count_other(metric, nanos, holds(comm));
            (watch.counts().preempted, watch.counts().woken)
        };
        let of_audio = r#"wakeup > 5ms if comm ~ "audio*""#;
        assert_eq!(counted(&["wakeup > 5ms"], Metric::Preemption, 6, "any"), (1, 0));
        assert_eq!(counted(&["wakeup > 5ms"], Metric::Preemption, 5, "any"), (0, 0));
        assert_eq!(counted(&["preempt > 5ms"], Metric::Wakeup, 6, "any"), (0, 1));
        assert_eq!(counted(&[of_audio], Metric::Preemption, 6, "audio-io"), (1, 0));
        assert_eq!(counted(&[of_audio], Metric::Preemption, 6, "any"), (0, 0));
        let both = ["wakeup > 5ms", "runqueue > 2ms"];
        assert_eq!(counted(&both, Metric::Preemption, 6, "any"), (0, 0), "that one fires");
    }

    #[test]
    fn a_probe_is_known_by_its_event() {
        let mut watch = watch(&[r#"probe work if comm = "app""#], 0, None);
        watch.expect(ExtraIndex(2), 0);
        assert_eq!(watch.probe(ExtraIndex(2), holds("app")), Some(0));
        assert_eq!(watch.probe(ExtraIndex(2), holds("other")), None);
        assert_eq!(watch.alert("work"), None, "that is a probe");
        for other in [0, 1, 3] {
            assert_eq!(watch.probe(ExtraIndex(other), holds("app")), None);
        }
    }

    /// The picture in the module's documentation.
    #[test]
    fn within_the_interval_and_after_the_last_one_nothing_fires_and_all_is_counted() {
        let mut watch = watch(&["lost > 0"], 15, Some(2));
        let fired: Vec<u64> = [10, 13, 20, 33, 35, 44, 60, 80]
            .into_iter()
            .filter(|t| watch.admit(Nanos(*t)))
            .collect();
        assert_eq!(fired, [10, 33]);
        let counts = Counts { fired: 2, too_soon: 2, too_many: 4, ..Counts::default() };
        assert_eq!(watch.counts(), counts);
    }
}
