//! Reports as the data for gates.
//!
//! A report has its figures by thread and by CPU, but not by both. A condition that names CPUs is therefore evaluated on a separate report
//! for each group of CPUs that it distinguishes:
//!
//! ```text
//! cpu = 1 and comm = "app" or cpu = 3      CPUs 0 .. 7      groups {1} {3} {0 2 4 5 6 7}
//! ```
//!
//! Within a group, the condition depends only on threads, and the figures of the threads that meet it are merged.

use std::cmp::Reverse;
use std::collections::HashSet;
use std::time::Duration;

use fxt_reader::{Cpu, Nanos};

use super::evidence::{Doubt, Evidence, Offender, time};
use crate::spans::{SpanFigures, SpanReport, SpanRow, SpanTime};
use crate::stacks::{self, Blocked};
use crate::tally::Tally;
use crate::{Cause, Distribution, Metric, Report, Stats, ThreadInfo, ThreadReport, Wait, Who};
use fxtrec_gates::Amount;
use fxtrec_gates::{Condition, Subject};
use fxtrec_gates::{Dimension, Quantity, SpanMetric, SpanPart, Stat, Total};
use fxtrec_units::text::{counted, noun};

/// The number of antagonists of a wait that are named.
const NAMED: usize = 3;

/// A recording: one report and, if conditions name CPUs, one more for each group of CPUs.
#[derive(Clone, Debug)]
pub struct Recorded<'r> {
    whole: &'r Report,
    by_cpus: Vec<(Cpu, Report)>,
    spans: Option<SpanReport>,
    /// Its long waits, with their stacks.
    blocked: Option<Blocked>,
    /// For each stack, whether functions of it have no names: see [`Blocked::unreadable`].
    unreadable: Vec<bool>,
    /// The threads that COMMAND started.
    command: HashSet<u64>,
}

/// The groups of `report`'s CPUs that these conditions distinguish; none if they name no CPU.
pub fn cpu_groups<'c>(
    report: &Report,
    conditions: impl IntoIterator<Item = &'c Condition>,
) -> Vec<Vec<Cpu>> {
    let mut named: Vec<u64> = conditions.into_iter().flat_map(Condition::cpus).collect();
    if named.is_empty() {
        return Vec::new();
    }
    named.sort_unstable();
    named.dedup();
    let all = report.cpus.iter().map(|cpu| cpu.cpu);
    let (alone, others): (Vec<Cpu>, Vec<Cpu>) =
        all.partition(|cpu| named.binary_search(&u64::from(cpu.0)).is_ok());
    let others = if others.is_empty() { None } else { Some(others) };
    alone.into_iter().map(|cpu| vec![cpu]).chain(others).collect()
}

impl<'r> Recorded<'r> {
    /// The data for conditions that name no CPU.
    pub fn new(whole: &'r Report) -> Recorded<'r> {
        let of_command = whole.threads().iter().filter(|thread| thread.in_command);
        let command = of_command.filter_map(|thread| Some(thread.koid?.0)).collect();
        Recorded {
            whole,
            by_cpus: Vec::new(),
            spans: None,
            blocked: None,
            unreadable: Vec::new(),
            command,
        }
    }

    /// Adds a report that covers only one of the [`cpu_groups`].
    pub fn add(&mut self, group: &[Cpu], report: Report) {
        // Conditions give the same result for every CPU of a group.
        if let Some(cpu) = group.first() {
            self.by_cpus.push((*cpu, report));
        }
    }

    /// Adds its spans; without them, all spans are unknown.
    pub fn add_spans(&mut self, spans: SpanReport) {
        self.spans = Some(spans);
    }

    /// Adds its long waits; without them, all stacks are unknown.
    pub fn add_blocked(&mut self, blocked: Blocked) {
        self.unreadable = blocked.unreadable();
        self.blocked = Some(blocked);
    }

    /// The waits of a metric whose stacks meet a condition, the longest first. A wait without a stack is in no function. `perhaps`: also
    /// those that might meet it in a function without a name, or in a stack that was lost.
    fn waits(&self, metric: Metric, condition: &Condition, perhaps: bool) -> Vec<&stacks::Wait> {
        let Some(blocked) = &self.blocked else { return Vec::new() };
        let fits = |wait: &&stacks::Wait| {
            let of_wait = match wait.is_uninterruptible {
                true => Metric::BlockedUninterruptible,
                false => Metric::Blocked,
            };
            let stack = wait.stack.map(|number| blocked.functions(&blocked.recorded.all[number]));
            let Who { comm, pid, tid, cgroup } = wait.thread.who();
            let stack = &stack.unwrap_or_default();
            let in_command = self.command.contains(&wait.thread.koid.0);
            let subject = Subject { comm, pid, tid, cgroup, cpu: None, stack, in_command };
            let is_unreadable = || match wait.stack {
                Some(number) => self.unreadable[number],
                None => blocked.recorded.lost > 0,
            };
            metric == of_wait
                && (condition.holds(&subject)
                    || perhaps && is_unreadable() && condition.may_hold(&subject))
        };
        blocked.waits.iter().filter(fits).collect()
    }

    /// The spans with a name, of threads that meet a condition.
    fn rows(&self, name: &str, condition: Option<&Condition>) -> Vec<&SpanRow> {
        let fits = |row: &&SpanRow| {
            let (comm, pid, tid) = (&*row.comm, row.pid, Some(row.tid));
            let cgroup = row.cgroup.as_deref();
            let in_command = self.command.contains(&row.koid);
            let subject = Subject { comm, pid, tid, cgroup, cpu: None, stack: &[], in_command };
            row.is_called(name) && condition.is_none_or(|it| it.holds(&subject))
        };
        self.spans.iter().flat_map(|spans| &spans.rows).filter(fits).collect()
    }

    /// The longest spans with a name, or those with the most time in a part.
    fn longest_spans(
        &self,
        span: &SpanMetric,
        condition: Option<&Condition>,
        at_most: usize,
    ) -> Vec<Offender> {
        let begin = self.whole.span.begin;
        let rows = self.rows(&span.name, condition);
        let mut found: Vec<(u64, Nanos, String)> = match span.part {
            SpanPart::Wall => {
                let all = rows.iter().flat_map(|row| row.worst.iter().map(move |it| (*row, it)));
                let tell = |(row, it): (&SpanRow, &SpanTime)| {
                    let what = format!("{} ({}){}: {}", row.comm, row.tid, until(it.to, begin), it);
                    (it.part(SpanPart::Wall), it.to, what)
                };
                all.map(tell).collect()
            }
            part => {
                let tell = |row: &&SpanRow| {
                    let values = row.figures.part(part);
                    let (most, at) = (values.max()?, values.max_at()?);
                    let what = format!("{} ({}){}", row.comm, row.tid, until(at, begin));
                    Some((u64::try_from(most.as_nanos()).unwrap_or(u64::MAX), at, what))
                };
                rows.iter().filter_map(tell).collect()
            }
        };
        found.sort_by(|a, b| (Reverse(a.0), a.1, &a.2).cmp(&(Reverse(b.0), b.1, &b.2)));
        let tell = |(nanos, _, what)| Offender { amount: time(Duration::from_nanos(nanos)), what };
        found.into_iter().take(at_most).map(tell).collect()
    }

    /// The threads that meet a condition, each with its report; a thread in several groups occurs several times.
    fn chosen(&self, condition: Option<&Condition>) -> Vec<(&Report, &ThreadReport)> {
        let names_cpus = condition.is_some_and(|condition| !condition.cpus().is_empty());
        let sources: Vec<(Option<u16>, &Report)> = match names_cpus {
            true => self.by_cpus.iter().map(|(cpu, report)| (Some(cpu.0), report)).collect(),
            false => vec![(None, self.whole)],
        };
        let mut chosen = Vec::new();
        for (cpu, report) in sources {
            let fits = |thread: &&ThreadReport| {
                let (comm, pid, tid) = (&*thread.comm, thread.pid, thread.tid);
                let cgroup = thread.cgroup.as_deref();
                let in_command = thread.in_command;
                let subject = Subject { comm, pid, tid, cgroup, cpu, stack: &[], in_command };
                condition.is_none_or(|it| it.holds(&subject))
            };
            chosen.extend(report.threads().iter().filter(fits).map(|thread| (report, thread)));
        }
        chosen
    }

    fn gaps(&self, at_most: usize) -> Vec<Offender> {
        let begin = self.whole.span.begin;
        let mut gaps: Vec<_> = self.whole.losses.list.iter().collect();
        // A gap of unknown size may be the largest.
        gaps.sort_by_key(|gap| Reverse(gap.events.unwrap_or(u64::MAX)));
        let offender = |gap: &&crate::Gap| {
            let cpu = gap.cpu.map(|cpu| format!(" of CPU {}", cpu.0)).unwrap_or_default();
            let length = time(gap.span.length());
            let number = if gap.events.is_none() { "or an unknown number of " } else { "" };
            let events = noun(gap.events.unwrap_or(0), "event", "events");
            let what = format!("{number}{events}{cpu} in {length}{}", until(gap.span.end, begin));
            Offender { amount: count(gap.events.unwrap_or(0)), what }
        };
        let mut found: Vec<Offender> = gaps.iter().take(at_most).map(offender).collect();
        found.extend(self.whole.losses.providers.iter().take(at_most).map(|one| Offender {
            amount: count(one.records),
            what: format!(
                "{} that {} dropped in {}",
                noun(one.records, "record", "records"),
                one.name,
                counted(one.gaps, "gap", "gaps")
            ),
        }));
        found.sort_by(|a, b| b.amount.number.total_cmp(&a.amount.number));
        found.truncate(at_most);
        found
    }
}

/// The blocked times of waits.
fn tally(waits: &[&stacks::Wait]) -> Distribution {
    let mut tally = Tally::default();
    for wait in waits {
        let blocked = u64::try_from(wait.blocked.as_nanos()).unwrap_or(u64::MAX);
        tally.record(blocked, Nanos(wait.begin.saturating_add(blocked)));
    }
    tally.freeze()
}

impl Evidence for Recorded<'_> {
    fn values(&self, metric: Metric, condition: Option<&Condition>) -> Option<Distribution> {
        if condition.is_none() {
            return Some(self.whole.total().metric(metric).clone());
        }
        if let Some(condition) = condition.filter(|condition| condition.names_stack()) {
            return Some(tally(&self.waits(metric, condition, false)));
        }
        let chosen = self.chosen(condition);
        let parts = chosen.iter().map(|(_, thread)| thread.metric(metric));
        (!chosen.is_empty()).then(|| Distribution::merge(parts))
    }

    fn possible(&self, metric: Metric, condition: &Condition) -> Option<Distribution> {
        condition.names_stack().then(|| tally(&self.waits(metric, condition, true)))
    }

    fn total(&self, total: Total, condition: Option<&Condition>) -> Option<f64> {
        let chosen = self.chosen(condition);
        if condition.is_some() && chosen.is_empty() {
            return None;
        }
        let sum = |of: fn(&Stats) -> u64| chosen.iter().map(|(_, thread)| of(&thread.stats)).sum();
        let switches = match condition {
            // Includes switches away from the idle task, which is not a thread.
            None => self.whole.switches(),
            Some(_) => sum(Stats::switches),
        };
        Some(match total {
            Total::Lost => self.lost() as f64,
            Total::Switches => switches as f64,
            Total::SwitchesPerSecond => self.whole.per_second(switches),
            Total::Migrations => {
                let migrations: u64 = sum(|stats| stats.migrations);
                migrations as f64
            }
            Total::Moved => {
                let moved: u64 = sum(moved);
                moved as f64
            }
            Total::Duration => self.whole.command?.length().as_nanos() as f64,
            Total::CpuTime => {
                let ran: u64 = sum(cpu_time);
                ran as f64
            }
            Total::BlockedTime => {
                let blocked: u64 = sum(blocked_time);
                blocked as f64
            }
        })
    }

    fn offenders(
        &self,
        quantity: &Quantity,
        condition: Option<&Condition>,
        at_most: usize,
    ) -> Vec<Offender> {
        match quantity {
            Quantity::Total(Total::Lost) => return self.gaps(at_most),
            Quantity::Span(_, Stat::Count) => return Vec::new(),
            Quantity::Span(span, _) => return self.longest_spans(span, condition, at_most),
            _ => {}
        }
        if let (Quantity::Statistic(metric, _), Some(condition)) = (quantity, condition)
            && condition.names_stack()
        {
            let begin = self.whole.span.begin;
            let tell = |wait: &stacks::Wait| {
                let blocked = u64::try_from(wait.blocked.as_nanos()).unwrap_or(u64::MAX);
                let end = Nanos(wait.begin.saturating_add(blocked));
                let what = format!("{}{}", name_and_id(&wait.thread), until(end, begin));
                Offender { amount: time(wait.blocked), what }
            };
            return self
                .waits(*metric, condition, false)
                .into_iter()
                .take(at_most)
                .map(tell)
                .collect();
        }
        let mut chosen: Vec<(f64, &Report, &ThreadReport)> = self
            .chosen(condition)
            .into_iter()
            .map(|(report, thread)| (part(quantity, thread).unwrap_or(0.0), report, thread))
            .filter(|(part, ..)| *part > 0.0)
            .collect();
        // Equal threads are sorted by name and id, so that the output is always the same.
        chosen.sort_by(|a, b| {
            b.0.total_cmp(&a.0).then_with(|| (&a.2.comm, a.2.tid).cmp(&(&b.2.comm, b.2.tid)))
        });
        let describe = |(number, report, thread): &(f64, &Report, &ThreadReport)| {
            let dimension = part_dimension(quantity);
            let amount = Amount { number: *number, dimension };
            Offender { amount, what: describe(quantity, report, thread, self.whole.span.begin) }
        };
        chosen.iter().take(at_most).map(describe).collect()
    }

    fn spans(&self, name: &str, condition: Option<&Condition>) -> Option<SpanFigures> {
        let rows = self.rows(name, condition);
        (!rows.is_empty()).then(|| SpanFigures::merge(rows.iter().map(|row| &row.figures)))
    }

    fn is_whole(&self) -> bool {
        let losses = &self.whole.losses;
        let unknown = losses.unknown + losses.unknown_records();
        let lost = [self.lost(), unknown, losses.unreported, losses.gaps, losses.damaged];
        lost.iter().all(|&lost| lost == 0)
            && !losses.truncated
            && self.whole.strings_left_out == 0
            && self.spans.as_ref().is_none_or(|spans| !spans.too_many)
    }

    fn knows(&self, quantity: &Quantity) -> bool {
        match quantity {
            Quantity::Span(span, _) => {
                self.spans.as_ref().is_some_and(|spans| spans.knows(span.part))
            }
            Quantity::Statistic(metric, _) => self.whole.knows(*metric),
            Quantity::Total(Total::Moved) => self.whole.causes.has(Cause::Migrate),
            Quantity::Total(Total::Duration) => self.whole.command.is_some(),
            Quantity::Total(_) => true,
        }
    }

    fn can_tell(&self, condition: &Condition) -> bool {
        (!condition.names_stack() || self.blocked.is_some())
            && (!condition.names_command() || self.whole.has_command)
    }

    fn least(&self, condition: &Condition) -> f64 {
        match &self.blocked {
            Some(blocked) if condition.names_stack() => blocked.over.as_nanos() as f64,
            _ => 0.0,
        }
    }

    fn lost(&self) -> u64 {
        let losses = &self.whole.losses;
        losses.events.saturating_add(losses.others).saturating_add(losses.records())
    }

    fn lacks_records(&self) -> bool {
        !self.whole.losses.providers.is_empty()
    }

    fn doubt(&self) -> Doubt {
        let losses = &self.whole.losses;
        Doubt {
            at_most: losses.at_most || losses.others_at_most,
            unknown_gaps: losses.unknown + losses.unknown_records(),
            records: losses.records(),
        }
    }
}

/// The statistic that shows a thread's part in another statistic.
fn telling(stat: Stat) -> Stat {
    match stat {
        Stat::Count => Stat::Count,
        Stat::Sum | Stat::Mean => Stat::Sum,
        Stat::Min | Stat::P50 | Stat::P90 | Stat::P99 | Stat::P999 | Stat::Max => Stat::Max,
    }
}

/// A thread's part in a quantity.
fn part(quantity: &Quantity, thread: &ThreadReport) -> Option<f64> {
    match quantity {
        Quantity::Statistic(metric, stat) => thread.metric(*metric).statistic(telling(*stat)),
        Quantity::Total(Total::Migrations) => Some(thread.stats.migrations as f64),
        Quantity::Total(Total::Moved) => Some(moved(&thread.stats) as f64),
        Quantity::Total(Total::CpuTime) => Some(cpu_time(&thread.stats) as f64),
        Quantity::Total(Total::BlockedTime) => Some(blocked_time(&thread.stats) as f64),
        // The duration belongs to no thread.
        Quantity::Total(Total::Duration) => None,
        Quantity::Total(_) => Some(thread.stats.switches() as f64),
        Quantity::Span(..) => None,
    }
}

fn cpu_time(stats: &Stats) -> u64 {
    u64::try_from(stats.cpu_time.as_nanos()).unwrap_or(u64::MAX)
}

fn blocked_time(stats: &Stats) -> u64 {
    let kinds = [Metric::Blocked, Metric::BlockedUninterruptible];
    let sum: Duration = kinds.iter().map(|kind| stats.metric(*kind).sum()).sum();
    u64::try_from(sum.as_nanos()).unwrap_or(u64::MAX)
}

fn moved(stats: &Stats) -> u64 {
    stats.facts.as_ref().map_or(0, |facts| facts.moved)
}

fn part_dimension(quantity: &Quantity) -> Dimension {
    match quantity {
        Quantity::Statistic(metric, stat) => {
            Quantity::Statistic(*metric, telling(*stat)).dimension()
        }
        Quantity::Span(..)
        | Quantity::Total(Total::Duration | Total::CpuTime | Total::BlockedTime) => Dimension::Time,
        Quantity::Total(_) => Dimension::Count,
    }
}

fn count(number: u64) -> Amount {
    Amount { number: number as f64, dimension: Dimension::Count }
}

/// When something ended, relative to the beginning of the recording.
fn until(moment: Nanos, begin: Nanos) -> String {
    let seconds = moment.0.saturating_sub(begin.0) as f64 / 1e9;
    format!(", until {seconds:.6} s")
}

/// A thread, and the known facts about its worst value.
fn describe(quantity: &Quantity, report: &Report, thread: &ThreadReport, begin: Nanos) -> String {
    let name = match (thread.tid, thread.threads) {
        (Some(tid), _) => format!("{} ({tid})", thread.comm),
        (None, 1) => thread.comm.to_string(),
        (None, threads) => format!("{} ({threads} threads)", thread.comm),
    };
    let &Quantity::Statistic(metric, stat) = quantity else { return name };
    if telling(stat) != Stat::Max {
        return name;
    }
    let values = thread.metric(metric);
    let wait = longest(metric, report, thread).filter(|wait| Some(wait.length()) == values.max());
    match (wait, values.max_at()) {
        (Some(wait), _) => name + &circumstances(wait, begin),
        (None, Some(end)) => name + &until(end, begin),
        (None, None) => name,
    }
}

/// The longest wait of a thread for this metric.
fn longest<'r>(metric: Metric, report: &'r Report, thread: &'r ThreadReport) -> Option<&'r Wait> {
    let fits = |wait: &&Wait| {
        let own = thread.koid == Some(wait.thread.koid);
        own && (metric == Metric::RunQueue || wait.metric == metric)
    };
    report
        .worst()
        .iter()
        .chain(thread.worst.as_deref())
        .filter(fits)
        .max_by_key(|wait| wait.length())
}

fn circumstances(wait: &Wait, begin: Nanos) -> String {
    let mut text = format!(" for CPU {}{}", wait.queued_on.0, until(wait.span.end, begin));
    if wait.ran_on != wait.queued_on {
        text += &format!(", then ran on CPU {}", wait.ran_on.0);
    }
    let (named, rest) = wait.antagonists.split_at(NAMED.min(wait.antagonists.len()));
    let mut parts: Vec<String> = named
        .iter()
        .map(|antagonist| format!("{} {}", name_and_id(&antagonist.thread), time(antagonist.ran)))
        .collect();
    let more = rest.len() as u64 + wait.more_antagonists;
    let others = wait.others + rest.iter().map(|antagonist| antagonist.ran).sum::<Duration>();
    for (what, length) in [
        (format!("{more} more"), others),
        ("idle".to_owned(), wait.idle),
        ("unknown".to_owned(), wait.unknown),
    ] {
        if !length.is_zero() {
            parts.push(format!("{what} {}", time(length)));
        }
    }
    for moved in &wait.moves {
        text += &format!(", moved to CPU {}", moved.to.0);
    }
    if !wait.throttled.is_zero() {
        let by = wait.throttled_by.as_ref().map(|by| format!(" by {by}")).unwrap_or_default();
        text += &format!("; also throttled{by} for {}", time(wait.throttled));
    }
    if !parts.is_empty() {
        text += &format!("; ran instead: {}", parts.join(", "));
    }
    if let Some(waker) = &wait.waker {
        text += &format!("; woken by {}", name_and_id(waker));
    } else if wait.by_interrupt {
        text += "; woken by an interrupt";
    }
    text
}

fn name_and_id(thread: &ThreadInfo) -> String {
    format!("{} ({})", thread.comm, thread.tid)
}

#[cfg(test)]
mod tests;
