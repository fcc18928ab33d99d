//! The end of a pass: open intervals are censored, and figures are computed.

use std::cmp::Reverse;
use std::time::Duration;

use fxt_reader::{Koid, Nanos};
use fxtrec_sched::{CpuInterval, Threads};

use super::cpu::Occupant;
use super::records::SeenEvents;
use super::switches::shown;
use super::thread::metric;
use super::thread_figures::{freeze, freeze_facts};
use super::{Analysis, Observer, Ran};
use crate::model::{CpuReport, Load, Report, Span, Stats, ThreadReport};
use fxtrec_gates::Metric;

impl<O: Observer> Analysis<O> {
    /// The figures of everything seen.
    pub fn finish(mut self) -> (Report, O) {
        self.settle_dropping();
        let end = self.now;
        let most = self.worst.most();
        let (idle_wakeups, folded) = (self.ignored_wakeups, self.thread_figures.folded);
        let span = match self.span {
            Some(span) if self.active => Span { begin: span.begin, end: Nanos(end) },
            _ => Span::default(),
        };
        // For a narrow scope, the threads that had or waited for a CPU are known only within the scope.
        let narrow = self.narrow;
        let mut cpus = Vec::new();
        if self.active {
            self.cut_slices(end);
            self.cut_waits(end);
            self.cpus.settle_queues(end);
            let length = end.saturating_sub(span.begin.0);
            cpus.extend(self.cpus.iter().filter(|(_, on)| on.counted).map(|(cpu, on)| CpuReport {
                cpu,
                metrics: freeze(std::mem::take(&mut on.tallies)),
                switches: on.switches,
                inferred: on.inferred,
                busy: Duration::from_nanos(on.busy),
                idle: Duration::from_nanos(on.idle),
                facts: freeze_facts(on.facts.take()),
                load: (!narrow).then(|| Load {
                    busy: share(on.busy, on.busy + on.idle),
                    queue_mean: on.queue.mean(length),
                    queue_max: on.queue.most,
                }),
            }));
        }
        let unconserved = Duration::from_nanos(self.cpus.unconserved(end));
        let unconserved = (!narrow).then_some(unconserved);
        let recorded = end.saturating_sub(span.begin.0);
        self.thread_figures.add_delays();
        let delay = self.worst_delay(recorded);
        let names_left_out = self.thread_figures.name_budget.left_out;
        let mut threads = self.thread_figures.finish(&self.family);
        let longest = |thread: &ThreadReport| thread.metric(Metric::RunQueue).max();
        threads.sort_by_key(|thread| (Reverse(longest(thread)), thread.koid));
        let total = Stats::merge(threads.iter().map(|thread| &thread.stats));
        let mut report = Report {
            origin: self.origin,
            merged: if self.origins.len() > 1 { self.origins } else { Vec::new() },
            fleet_machine: String::new(),
            cpu_names: self.cpu_names,
            causes: self.causes,
            host: self.host,
            quotas: self.quotas,
            span,
            cpus,
            unconserved,
            losses: self.losses,
            idle_wakeups,
            has_counters: self.seen.has(SeenEvents::COUNTERS),
            counters: None,
            locks: None,
            may_have_spans: self.seen.has(SeenEvents::SPANS) || self.wanted.to != u64::MAX,
            has_spans: self.seen.has(SeenEvents::SPANS),
            has_app_spans: self.seen.has(SeenEvents::APP_SPANS),
            worst_span: None,
            too_many_spans: false,
            names_left_out,
            strings_left_out: self.strings_left_out,
            spans: None,
            folded,
            threads,
            total,
            worst: self.worst.finish(),
            worst_of_command: Vec::new(),
            recorder: None,
            delay,
            incidents: None,
            has_command: self.family.process.is_some(),
            command: self.family.process.map(|_| Span {
                begin: Nanos(self.command.0.unwrap_or(span.begin.0).max(span.begin.0)),
                end: Nanos(self.command.1.unwrap_or(end)),
            }),
            most,
            traces: Vec::new(),
            grouped_by: None,
            is_chosen: !self.selection.threads.is_everything(),
        };
        report.retain(&self.selection.threads);
        if self.selection.leaves_out_recorder() {
            report.leave_out_recorder();
        }
        report.complete_worst(most);
        (report, self.observer)
    }

    /// Threads that still run at the end.
    fn cut_slices(&mut self, end: u64) {
        let open: Vec<CpuInterval<_>> = self.cpus.machine.end(Nanos(end)).collect();
        for tenure in open {
            let ran = end.saturating_sub(tenure.since.0);
            let on = self.cpus.get(tenure.cpu.0);
            if !on.counted {
                continue;
            }
            self.observer.ran(&Ran {
                span: Span { begin: tenure.since, end: Nanos(end) },
                cpu: tenure.cpu,
                who: shown(tenure.who),
                is_whole: false,
                next: None,
                said: None,
            });
            match tenure.who {
                Occupant::Idle => on.idle = on.idle.saturating_add(ran),
                Occupant::NotRecorded => {}
                Occupant::Thread(key) => {
                    on.busy = on.busy.saturating_add(ran);
                    if self.thread_figures.is_kept(key) {
                        let live = self.thread_figures.live(key.slot);
                        live.cpu_time = live.cpu_time.saturating_add(ran);
                        live.tallies[Metric::Slice.index()].censor();
                        on.tallies[Metric::Slice.index()].censor();
                    }
                }
            }
        }
    }

    /// Threads that still wait at the end.
    fn cut_waits(&mut self, end: u64) {
        for live in self.thread_figures.living() {
            self.observer.still(Koid(live.koid), &live.doing, Nanos(end));
            let Some(metric) = metric(live.doing.state) else { continue };
            let on = self.cpus.get(live.doing.cpu.0);
            if on.counted {
                live.tallies[metric.index()].censor();
                on.tallies[metric.index()].censor();
            }
        }
    }
}

fn share(part: u64, whole: u64) -> f64 {
    if whole > 0 { part as f64 / whole as f64 } else { 0.0 }
}
