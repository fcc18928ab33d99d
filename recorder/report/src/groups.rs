//! Threads merged by name: ended threads of a trace with very many of them, and the threads of several traces.

use std::cmp::Reverse;
use std::sync::Arc;

use fxtrec_gates::Metric;
use rustc_hash::FxHashMap;

use crate::facts::FactTallies;
use crate::model::{Report, Sleep, Stats, ThreadReport, Wait};
use crate::tally::Tally;

/// Maximum number of names that are distinguished; threads with further names are merged.
const MOST: usize = 4096;

/// The name under which threads are merged when there are too many names.
const OTHERS: &str = "(others)";

/// Number of longest blocked times kept for a thread, or for a name. Only one wait of a thread can be longer than half of the recording.
pub(crate) const KEPT: usize = 2;

/// How threads are grouped, other than by their names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GroupBy {
    Process,
    Cgroup,
    Host,
}

impl GroupBy {
    pub fn name(self) -> &'static str {
        match self {
            GroupBy::Process => "process",
            GroupBy::Cgroup => "cgroup",
            GroupBy::Host => "host",
        }
    }

    /// The group of a thread, in a trace of this host.
    fn of(self, thread: &ThreadReport, host: &Arc<str>) -> Arc<str> {
        let unknown = || Arc::from(format!("({} unknown)", self.name()));
        match self {
            GroupBy::Process => thread.process_name.clone(),
            GroupBy::Cgroup => thread.cgroup.clone().unwrap_or_else(unknown),
            GroupBy::Host => match &thread.host {
                Some(host) => host.clone(),
                None if host.is_empty() => unknown(),
                None => host.clone(),
            },
        }
    }
}

impl Report {
    /// Renames threads by their group.
    pub(crate) fn rename_for(&mut self, by: GroupBy) {
        let host = self.origin.as_ref().map_or("", |origin| &*origin.host).into();
        for thread in &mut self.threads {
            thread.comm = by.of(thread, &host);
            // A host runs both COMMAND and other threads.
            thread.in_command &= by != GroupBy::Host;
        }
        self.grouped_by = Some(by);
    }

    /// Merges threads by group; the group with the longest wait for a CPU is first.
    pub fn group_by(&mut self, by: GroupBy) {
        self.rename_for(by);
        let mut groups = Groups::default();
        std::mem::take(&mut self.threads).into_iter().for_each(|thread| groups.add(thread));
        self.threads = groups.finish().collect();
        sort(&mut self.threads);
    }
}

/// By the longest wait for a CPU, then by name.
pub(crate) fn sort(threads: &mut [ThreadReport]) {
    threads.sort_by(|a, b| {
        let longest = |stats: &Stats| Reverse(stats.metric(Metric::RunQueue).max());
        let rank = longest(&a.stats).cmp(&longest(&b.stats));
        rank.then_with(|| (&a.comm, a.in_command).cmp(&(&b.comm, b.in_command)))
    });
}

/// Keyed by name, and by whether COMMAND started them.
#[derive(Debug, Default)]
pub(crate) struct Groups(FxHashMap<(Arc<str>, bool), Group>);

#[derive(Debug, Default)]
struct Group {
    threads: u64,
    is_recorded: bool,
    tallies: [Tally; 6],
    sums: Stats,
    facts: Option<Box<FactTallies>>,
    worst: Option<Box<Wait>>,
    sleeps: Vec<Sleep>,
}

impl Groups {
    pub(crate) fn add(&mut self, report: ThreadReport) {
        let mut key = (report.comm.clone(), report.in_command);
        if self.0.len() >= MOST && !self.0.contains_key(&key) {
            key.0 = OTHERS.into();
        }
        self.0.entry(key).or_default().add(report);
    }

    /// One row per name, in no particular order.
    pub(crate) fn finish(self) -> impl Iterator<Item = ThreadReport> {
        self.0.into_iter().map(|((comm, in_command), group)| ThreadReport {
            koid: None,
            pid: None,
            tid: None,
            process: None,
            process_name: comm.clone(),
            cgroup: None,
            host: None,
            comm,
            threads: group.threads,
            in_command,
            is_recorded: group.is_recorded,
            is_recorder: false,
            // The run-queue wait is already the sum of its parts.
            stats: Stats {
                metrics: group.tallies.map(Tally::freeze),
                facts: group.facts.map(|facts| Box::new(facts.freeze())),
                ..group.sums
            },
            worst: group.worst,
            sleeps: group.sleeps,
        })
    }
}

impl Group {
    fn add(&mut self, report: ThreadReport) {
        self.threads += report.threads;
        self.is_recorded |= report.is_recorded;
        for (tally, distribution) in self.tallies.iter_mut().zip(&report.stats.metrics) {
            tally.add(distribution);
        }
        let (sums, stats) = (&mut self.sums, &report.stats);
        sums.cpu_time += stats.cpu_time;
        sums.voluntary += stats.voluntary;
        sums.involuntary += stats.involuntary;
        sums.migrations += stats.migrations;
        sums.inferred += stats.inferred;
        if let Some(facts) = &stats.facts {
            self.facts.get_or_insert_default().add(facts);
        }
        let length = |wait: &Option<Box<Wait>>| wait.as_ref().map(|wait| wait.length());
        if length(&report.worst) > length(&self.worst) {
            self.worst = report.worst;
        }
        self.sleeps.extend(report.sleeps);
        self.sleeps.sort_by_key(|sleep| Reverse(sleep.span.length()));
        self.sleeps.truncate(KEPT);
    }
}
