//! Handmade traces, and the figures that `docs/reference/figures.md` defines for them.

mod causes;
mod cpus;
mod definitions;
mod gaps;
mod name_budget;
mod ranges;
mod recorder;
mod threads;
mod waits;

use crate::scene::thread;
use crate::{Metric, Report, Stats};

/// Number of samples, their sum in microseconds, and how many were censored.
type Figures = (u64, u64, u64);

fn micros(duration: std::time::Duration) -> u64 {
    duration.as_micros() as u64
}

fn figures_of(stats: &Stats, metric: Metric) -> Figures {
    let distribution = stats.metric(metric);
    (distribution.count(), micros(distribution.sum()), distribution.censored())
}

fn figures(report: &Report, tid: u64, metric: Metric) -> Figures {
    figures_of(&thread(report, tid).stats, metric)
}

/// Asserts the figures of each metric of a thread, and that its run-queue wait is the sum of the other two.
fn assert_figures(report: &Report, tid: u64, expected: &[(Metric, Figures)]) {
    for metric in Metric::ALL {
        let known = expected.iter().find(|(known, _)| *known == metric);
        if metric == Metric::RunQueue && known.is_none() {
            let [wakeup, preemption] =
                [Metric::Wakeup, Metric::Preemption].map(|metric| figures(report, tid, metric));
            let sum = (wakeup.0 + preemption.0, wakeup.1 + preemption.1, wakeup.2 + preemption.2);
            assert_eq!(figures(report, tid, metric), sum, "{metric} of {tid}");
            continue;
        }
        let known = known.map_or((0, 0, 0), |(_, figures)| *figures);
        assert_eq!(figures(report, tid, metric), known, "{metric} of {tid}");
    }
}
