//! The served data, for all formats: families of samples with labels.

use super::Others;
use super::ledger::{Group, Labels, Ledger};
use crate::kernel::bpf::counts::{Figures, Histogram, Measure, Missing};
use crate::units::cgroup::Owner;

/// The facts that this kernel reports.
#[derive(Clone, Copy, Debug)]
pub(super) struct CountedFacts {
    pub(super) steal: bool,
    pub(super) throttles: bool,
}

pub(super) const NANOS: f64 = 1e9;

/// A label's name and its value.
pub(super) type Label = (&'static str, String);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Counter,
    Gauge,
    Histogram,
}

/// Samples with one name.
#[derive(Debug)]
pub(super) struct Family {
    /// For a counter, without `_total`.
    pub(super) name: &'static str,
    pub(super) kind: Kind,
    pub(super) help: &'static str,
    pub(super) samples: Vec<Sample>,
}

#[derive(Debug)]
pub(super) struct Sample {
    pub(super) labels: Vec<Label>,
    pub(super) value: Value,
}

#[derive(Debug)]
pub(super) enum Value {
    /// For a counter or a gauge.
    Number(f64),
    /// Whether it has samples: a family without samples is not exported.
    Histogram(Box<Histogram>),
}

impl Sample {
    fn number(labels: Vec<Label>, value: f64) -> Sample {
        Sample { labels, value: Value::Number(value) }
    }
}

/// The figures of each label set.
struct Series<'l>(Vec<(Vec<Label>, &'l Figures)>);

impl Series<'_> {
    fn counter(
        &self,
        name: &'static str,
        help: &'static str,
        value: impl Fn(&Figures) -> f64,
    ) -> Family {
        let of = |(labels, figures): &(Vec<Label>, &Figures)| {
            Sample::number(labels.clone(), value(figures))
        };
        Family { name, kind: Kind::Counter, help, samples: self.0.iter().map(of).collect() }
    }

    fn histogram<const N: usize>(
        &self,
        name: &'static str,
        help: &'static str,
        of: impl Fn(&Figures) -> [(Option<&'static str>, Histogram); N],
    ) -> Family {
        let mut samples = Vec::new();
        for (labels, figures) in &self.0 {
            for (state, histogram) in of(figures).into_iter().filter(|it| it.1.count() > 0) {
                let mut labels = labels.clone();
                labels.extend(state.map(|state| ("state", state.to_owned())));
                samples.push(Sample { labels, value: Value::Histogram(Box::new(histogram)) });
            }
        }
        Family { name, kind: Kind::Histogram, help, samples }
    }
}

/// All of it.
pub(super) fn families(
    ledger: &Ledger,
    missing: Missing,
    tells: CountedFacts,
    others: &Others,
) -> Vec<Family> {
    let series = ledger.series().map(|(labels, figures)| (labels_of(labels), figures)).collect();
    let series = Series(series);
    let nanos = |nanos: u64| nanos as f64 / NANOS;
    let mut families = vec![
        series.histogram(
            "fxtrec_wakeup_latency_seconds",
            "Time from a wakeup to the next switch in.",
            |figures| [(None, *figures.of(Measure::Wakeup))],
        ),
        series.histogram(
            "fxtrec_runqueue_wait_seconds",
            "Waits for a CPU, after a wakeup or a preemption.",
            |figures| [(None, figures.run_queue())],
        ),
        series.histogram(
            "fxtrec_slice_seconds",
            "From a switch in to the next switch out.",
            |figures| [(None, *figures.of(Measure::Slice))],
        ),
        series.histogram(
            "fxtrec_blocked_seconds",
            "Time from a switch out in a waiting state to the wakeup.",
            |figures| {
                [("S", Measure::Blocked), ("D", Measure::BlockedD)]
                    .map(|(state, measure)| (Some(state), *figures.of(measure)))
            },
        ),
    ];
    if tells.steal {
        families.push(series.counter(
            "fxtrec_steal_seconds",
            "Time within slices that the host took.",
            |figures| nanos(figures.steal_ns),
        ));
        families.push(series.counter(
            "fxtrec_stolen_slices",
            "Slices with stolen time.",
            |figures| figures.steals as f64,
        ));
    }
    if tells.throttles {
        families.push(series.counter(
            "fxtrec_throttled_seconds",
            "Time during waits for a CPU in which a CPU quota was used up; the metrics of waits exclude it.",
            |figures| nanos(figures.throttled_ns),
        ));
        families.push(series.counter(
            "fxtrec_throttled_waits",
            "Waits with throttled time.",
            |figures| figures.throttles as f64,
        ));
    }
    families.push(series.counter(
        "fxtrec_censored",
        "Durations whose start or end is unknown; no histogram includes them.",
        |figures| {
            let censored = |measure: &Measure| figures.of(*measure).censored;
            (Measure::ALL.iter().map(censored).sum::<u64>() + figures.unknown) as f64
        },
    ));
    let reasons =
        [("unseen", missing.unseen), ("forgotten", missing.evicted), ("other", missing.overflowed)];
    let lost = reasons
        .map(|(reason, count)| Sample::number(vec![("reason", reason.to_owned())], count as f64));
    families.push(Family {
        name: "fxtrec_lost",
        kind: Kind::Counter,
        help: "What is missing from the figures.",
        samples: lost.into(),
    });
    let by = |label: &'static str| {
        move |(name, count): (&str, u64)| {
            Sample::number(vec![(label, name.to_owned())], count as f64)
        }
    };
    families.extend(others.files.as_deref().map(|files| Family {
        name: "fxtrec_alert_files",
        kind: Kind::Counter,
        help: "Files written for an alert.",
        samples: files.counts().map(by("alert")).collect(),
    }));
    let incidents = others.incidents.as_ref().and_then(|counts| counts.now());
    families.extend(incidents.map(|counts| Family {
        name: "fxtrec_incidents",
        kind: Kind::Counter,
        help: "Units of work that took much longer than usual.",
        samples: counts.into_iter().map(by("cause")).collect(),
    }));
    let gauge = |name, help, labels, value| Family {
        name,
        kind: Kind::Gauge,
        help,
        samples: vec![Sample::number(labels, value)],
    };
    families.extend(others.files.as_deref().map(|files| {
        gauge(
            "fxtrec_alert_recording",
            "Whether the recorder of alerts runs.",
            Vec::new(),
            f64::from(u8::from(files.is_recording())),
        )
    }));
    families.push(gauge(
        "fxtrec_series",
        "Number of label sets, at most fxtrec_series_limit.",
        Vec::new(),
        ledger.len() as f64,
    ));
    families.push(gauge(
        "fxtrec_series_limit",
        "The limit of --metrics-series.",
        Vec::new(),
        ledger.most() as f64,
    ));
    let version = vec![("version", env!("CARGO_PKG_VERSION").to_owned())];
    families.push(gauge("fxtrec_build_info", "The version of fxtrec.", version, 1.0));
    families
}

/// The labels of a set, which always include the cgroup.
pub(super) fn labels_of(labels: &Labels) -> Vec<Label> {
    let path = match &labels.group {
        Group::Path(path) => path,
        // Cgroup paths begin with a slash.
        Group::Removed => "removed",
        Group::Other => "other",
    };
    let owner = Owner::of(path);
    let reported = [
        ("cgroup", Some(path.to_owned())),
        ("pod", owner.pod_uid()),
        ("container", owner.container.map(str::to_owned)),
        ("comm", labels.comm.clone()),
    ];
    reported.into_iter().filter_map(|(name, value)| Some((name, value?))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_say_whose_it_is() {
        let of = |group, comm: Option<&str>| {
            let labels = labels_of(&Labels { group, comm: comm.map(str::to_owned) });
            labels.into_iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>()
        };
        let path = |path: &str| Group::Path(path.to_owned());
        assert_eq!(of(path("/a"), None), ["cgroup=/a"]);
        let id = "ab".repeat(32);
        assert_eq!(
            of(path(&format!("/docker/{id}")), Some("sh")),
            [format!("cgroup=/docker/{id}"), format!("container={id}"), "comm=sh".to_owned()]
        );
        assert_eq!(of(Group::Other, None), ["cgroup=other"]);
    }
}
