//! Merges the reports of many traces; with each further trace, memory grows by only one row.
//!
//! ```text
//!  report of a.fxt --+                threads by name: tallies that take each distribution in
//!  report of b.fxt --+--> Fleet --> Report of all: total, threads by name, longest waits, a row for each trace
//! ```
//!
//! Counts, sums, minima and maxima are exact. Percentiles of up to 64 values are exact as well; percentiles of more values are those of a
//! single trace with all these values: at most 0.8 % too high, never too low. The order in which traces are added makes no difference.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::time::Duration;

use fxt_reader::Nanos;
use fxtrec_gates::Metric;

use crate::distribution::Distribution;
use crate::facts::{Cause, Causes};
use crate::groups::{self, GroupBy, Groups};
use crate::model::{ProviderLosses, Report, Span, Stats, Wait};

/// Maximum number of reasons for losses that are kept.
const MOST_REASONS: usize = 16;

/// One of many traces.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TraceRow {
    /// Its name on the command line.
    pub name: String,
    /// The host, if the trace names it.
    pub host: Option<String>,
    /// The length of the trace.
    pub length: Duration,
    pub switches: u64,
    figures: [Figures; METRICS],
    /// The time that the host took from its threads, if recorded.
    pub steal: Option<Duration>,
    /// How long quotas kept its threads from running, if recorded.
    pub throttled: Option<Duration>,
    /// Counted missing events, and gaps.
    pub lost: u64,
    pub gaps: u64,
    /// Whether the file ends before the recording did.
    pub truncated: bool,
}

impl TraceRow {
    /// Whether the scheduler was recorded at all: it was not in a file that was killed early.
    pub fn has_events(&self) -> bool {
        self.switches > 0 || self.figures(Metric::Wakeup).count > 0
    }

    /// The combined figures of all its threads.
    pub fn figures(&self, metric: Metric) -> &Figures {
        &self.figures[metric as usize]
    }
}

/// The number of metrics.
const METRICS: usize = Metric::ALL.len() + Metric::FACTS.len();

/// The figures of a metric.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    pub count: u64,
    pub sum: Duration,
    pub mean: Option<Duration>,
    pub p50: Option<Duration>,
    pub p90: Option<Duration>,
    pub p99: Option<Duration>,
    pub p999: Option<Duration>,
    pub max: Option<Duration>,
}

impl Figures {
    fn of(values: &Distribution) -> Figures {
        Figures {
            count: values.count(),
            sum: values.sum(),
            mean: values.mean(),
            p50: values.percentile(50.0),
            p90: values.percentile(90.0),
            p99: values.percentile(99.0),
            p999: values.percentile(99.9),
            max: values.max(),
        }
    }
}

/// The traces that have been merged so far.
#[derive(Debug, Default)]
pub struct Fleet {
    /// How threads are grouped, if not by name.
    by: Option<GroupBy>,
    sum: Report,
    threads: Groups,
    reasons: BTreeSet<String>,
    length: Duration,
    causes: Option<Causes>,
    /// The architecture of the traces so far; empty if they differ.
    machine: Option<String>,
}

impl Fleet {
    /// None yet. Threads are merged by this key, or by name.
    pub fn by(by: Option<GroupBy>) -> Fleet {
        Fleet { by, ..Fleet::default() }
    }

    /// Adds the report of the trace with this number and name.
    pub fn add(&mut self, number: usize, name: String, mut report: Report) {
        if let Some(by) = self.by {
            report.rename_for(by);
        }
        let machine = report.origin.as_ref().map_or("", |origin| &origin.machine);
        // The same number is another system call on another architecture.
        self.machine = match self.machine.take() {
            Some(known) if known != *machine => Some(String::new()),
            _ => Some(machine.to_owned()),
        };
        let total = report.total();
        let of_fact = |fact| report.knows(fact).then(|| total.metric(fact).sum());
        let mut figures = [Figures::default(); METRICS];
        for metric in Metric::ALL.into_iter().chain(Metric::FACTS) {
            figures[metric as usize] = Figures::of(total.metric(metric));
        }
        let row = TraceRow {
            name,
            host: report
                .origin
                .as_ref()
                .map(|origin| origin.host.clone())
                .filter(|host| !host.is_empty()),
            length: report.span.length(),
            switches: report.switches(),
            figures,
            steal: of_fact(Metric::Steal),
            throttled: of_fact(Metric::Throttled),
            lost: report.losses.events,
            gaps: report.losses.gaps,
            truncated: report.losses.truncated,
        };
        let sum = &mut self.sum;
        self.length += row.length;
        if sum.traces.len() <= number {
            sum.traces.resize_with(number + 1, TraceRow::default);
        }
        sum.traces[number] = row;
        // A fact that is missing in some of the traces is missing in the result.
        let known = self.causes.map_or(report.causes, |before| before.and(report.causes));
        self.causes = Some(known);
        sum.idle_wakeups += report.idle_wakeups;
        sum.folded += report.folded;
        sum.has_command |= report.has_command;
        if let Some(own) = &report.recorder {
            let all = sum.recorder.get_or_insert_default();
            all.threads += own.threads;
            all.stats = Stats::merge([&all.stats, &own.stats]);
        }
        sum.is_chosen |= report.is_chosen;
        sum.most = sum.most.max(report.most);
        let (all, own) = (&mut sum.losses, report.losses);
        all.events += own.events;
        all.at_most |= own.at_most;
        all.unknown += own.unknown;
        all.unreported += own.unreported;
        all.others += own.others;
        all.others_at_most |= own.others_at_most;
        for one in own.providers {
            match all.providers.iter_mut().find(|known| known.name == one.name) {
                Some(known) => {
                    known.records = known.records.saturating_add(one.records);
                    known.gaps += one.gaps;
                    known.unknown += one.unknown;
                }
                // Times of one trace mean nothing in another.
                None => all.providers.push(ProviderLosses { list: Vec::new(), ..one }),
            }
        }
        all.gaps += own.gaps;
        all.damaged += own.damaged;
        all.truncated |= own.truncated;
        self.reasons.extend(own.causes);
        while self.reasons.len() > MOST_REASONS {
            self.reasons.pop_last();
        }
        let most = sum.most;
        let keep = |known: &mut Vec<Wait>, more: Vec<Wait>| {
            known.extend(more.into_iter().map(|wait| Wait { trace: Some(number), ..wait }));
            let rank = |wait: &Wait| {
                (Reverse(wait.length()), wait.trace, wait.span.begin, wait.thread.koid)
            };
            known.sort_by_key(rank);
            known.truncate(most);
        };
        keep(&mut sum.worst, report.worst);
        keep(&mut sum.worst_of_command, report.worst_of_command);
        for mut thread in report.threads {
            // They are from different times and hosts.
            (thread.worst, thread.sleeps) = (None, Vec::new());
            self.threads.add(thread);
        }
    }

    /// The report of all traces. Its length is the sum of the lengths of all traces, and it begins at 0.
    pub fn finish(self) -> Report {
        let mut report = Report { grouped_by: self.by, ..self.sum };
        let nanos = u64::try_from(self.length.as_nanos()).unwrap_or(u64::MAX);
        report.span = Span { begin: Nanos(0), end: Nanos(nanos) };
        report.fleet_machine = self.machine.unwrap_or_default();
        // Many hosts have cgroups with the same names.
        let reported = Cause::ALL.into_iter().filter(|cause| *cause != Cause::Quotas);
        let reported: Vec<&str> = reported.map(Cause::name).collect();
        report.causes = self.causes.unwrap_or_default().and(Causes::parse(&reported.join(",")));
        report.losses.causes = self.reasons.into_iter().collect();
        let mut threads: Vec<_> = self.threads.finish().collect();
        // Clocks of different machines show different times.
        let forget = |stats: &mut Stats| {
            let facts = stats.facts.iter_mut().flat_map(|facts| &mut facts.metrics);
            stats.metrics.iter_mut().chain(facts).for_each(|values| values.max_at = None);
        };
        threads.iter_mut().for_each(|thread| forget(&mut thread.stats));
        groups::sort(&mut threads);
        report.total = Stats::merge(threads.iter().map(|thread| &thread.stats));
        forget(&mut report.total);
        if let Some(own) = &mut report.recorder {
            forget(&mut own.stats);
        }
        report.threads = threads;
        report
    }
}

impl Report {
    /// Whether it covers several traces, each with its own row.
    pub fn is_fleet(&self) -> bool {
        !self.traces.is_empty()
    }

    /// The number of hosts that the traces name.
    pub fn hosts(&self) -> usize {
        let hosts: BTreeSet<&str> =
            self.traces.iter().filter_map(|row| row.host.as_deref()).collect();
        hosts.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::ThreadReport;
    use crate::scene::{Leaves, Scene};

    /// Threads 101 and 102 wait for CPU 0, the second for `length` microseconds.
    fn scene(at: u64, length: u64) -> Scene {
        let mut scene = Scene::with_causes(if at > 0 { "waker,steal" } else { "waker,steal,irq" });
        scene.name(101, "worker").name(102, "worker");
        scene
            .switch(at + 10, 0, 0, Leaves::R, 101)
            .wake(at + 20, 0, 102)
            .switch(at + 20 + length, 0, 101, Leaves::S, 102)
            .switch(at + 400 + length, 0, 102, Leaves::S, 0);
        scene
    }

    fn fleet(order: &[usize]) -> Report {
        let mut fleet = Fleet::default();
        for &number in order {
            let report = scene(1000 * number as u64, 5 + number as u64).report();
            fleet.add(number, format!("{number}.fxt"), report);
        }
        fleet.finish()
    }

    #[test]
    fn threads_can_be_put_together_by_what_they_belong_to() {
        let mut one = scene(0, 5).report();
        one.threads.iter_mut().for_each(|thread| thread.cgroup = Some("/svc".into()));
        one.threads[0].host = Some("db-1".into());
        let names = |by| {
            let mut fleet = Fleet::by(Some(by));
            fleet.add(0, "0.fxt".to_owned(), one.clone());
            let all = fleet.finish();
            let mut alone = one.clone();
            alone.group_by(by);
            let rows = |report: &Report| {
                let row = |thread: &ThreadReport| (thread.comm.to_string(), thread.threads);
                report.threads().iter().map(row).collect::<Vec<_>>()
            };
            assert_eq!(rows(&all), rows(&alone));
            assert_eq!(alone.grouped_by, Some(by));
            let mut rows = rows(&all);
            rows.sort();
            rows
        };
        let row = |name: &str, threads| (name.to_owned(), threads);
        assert_eq!(names(GroupBy::Cgroup), [row("/svc", 2)]);
        assert_eq!(names(GroupBy::Process), [row("p100", 2)]);
        assert_eq!(names(GroupBy::Host), [row("(host unknown)", 1), row("db-1", 1)]);
    }

    #[test]
    fn system_calls_have_names_if_all_machines_are_of_one_architecture() {
        let of = |machines: &[&str]| {
            let mut fleet = Fleet::default();
            for (number, machine) in machines.iter().enumerate() {
                let mut report = scene(0, 5).report();
                report.origin.as_mut().expect("a recording").machine = (*machine).into();
                fleet.add(number, format!("{number}.fxt"), report);
            }
            fleet.finish().call_name(0)
        };
        assert_eq!(of(&["x86_64", "x86_64"]), Some("read"));
        assert_eq!(of(&["aarch64"]), Some("io_setup"));
        assert_eq!(of(&["x86_64", "aarch64", "x86_64"]), None);
        assert_eq!(of(&[]), None);
    }

    #[test]
    fn figures_of_a_fleet_are_those_of_all_values_whatever_the_order() {
        let report = fleet(&[0, 1, 2]);
        let wakeups = report.total().metric(Metric::Wakeup);
        let nanos = |length: Option<Duration>| length.map(|it| it.as_nanos());
        assert_eq!((wakeups.count(), nanos(wakeups.max())), (3, Some(7000)));
        assert_eq!(nanos(wakeups.percentile(50.0)), Some(6000));
        assert_eq!(wakeups.max_at(), None);
        assert_eq!(report.switches(), 9);
        let [workers] = report.threads() else { panic!("{:?}", report.threads()) };
        assert_eq!((&*workers.comm, workers.threads, workers.tid), ("worker", 6, None));
        let traces: Vec<Option<usize>> = report.worst().iter().map(|wait| wait.trace).collect();
        assert_eq!(traces, [Some(2), Some(1), Some(0)]);
        assert!(report.knows(Metric::Steal) && !report.knows(Metric::Irq));
        let [last, ..] = &report.traces[..] else { panic!("no rows") };
        let wakeups = last.figures(Metric::Wakeup);
        assert_eq!((wakeups.count, nanos(wakeups.max)), (1, Some(5000)));
        let shown = |report: &Report| format!("{report:?}");
        assert_eq!(shown(&fleet(&[2, 0, 1])), shown(&report));
    }
}
