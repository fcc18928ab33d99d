//! The text of the figures, as Prometheus has read it since ever, or as OpenMetrics.

use std::fmt::Write as _;

use super::ledger::{Group, Labels, Ledger};
use crate::kernel::bpf::counts::{BUCKETS, FIRST_BOUND, Figures, Histogram, Measure, Missing};
use crate::units::cgroup::Owner;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Format {
    /// Prometheus's text, version 0.0.4.
    Plain,
    /// OpenMetrics 1.0.0.
    OpenMetrics,
}

impl Format {
    /// What the peer prefers, by its header `Accept`.
    pub(super) fn wanted(accept: Option<&str>) -> Format {
        let media = accept.unwrap_or_default().split(',').map(|it| it.split(';'));
        let is_open = |mut parts: std::str::Split<'_, char>| {
            let is_it = parts.next().is_some_and(|it| it.trim() == "application/openmetrics-text");
            let refused = |part: &str| part.trim().strip_prefix("q=").is_some_and(|q| q == "0");
            is_it && !parts.any(refused)
        };
        match media.into_iter().any(is_open) {
            true => Format::OpenMetrics,
            false => Format::Plain,
        }
    }

    pub(super) fn media_type(self) -> &'static str {
        match self {
            Format::Plain => "text/plain; version=0.0.4; charset=utf-8",
            Format::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }
}

/// What this kernel tells.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tells {
    pub(super) steal: bool,
    pub(super) throttles: bool,
}

const NANOS: f64 = 1e9;

struct Page {
    text: String,
    format: Format,
}

/// All of it.
pub(super) fn write(ledger: &Ledger, missing: Missing, tells: Tells, format: Format) -> String {
    let mut page = Page { text: String::new(), format };
    let series: Vec<(String, &Figures)> =
        ledger.series().map(|(labels, figures)| (text_of(labels), figures)).collect();
    page.histograms(
        "fxtrec_wakeup_latency_seconds",
        "From a wake-up to the next switch in.",
        &series,
        |figures| [("", *figures.of(Measure::Wakeup))],
    );
    page.histograms(
        "fxtrec_runqueue_wait_seconds",
        "Waits for a CPU, after a wake-up or a preemption.",
        &series,
        |figures| [("", figures.run_queue())],
    );
    page.histograms(
        "fxtrec_slice_seconds",
        "From a switch in to the next switch out.",
        &series,
        |figures| [("", *figures.of(Measure::Slice))],
    );
    page.histograms(
        "fxtrec_blocked_seconds",
        "From a switch out in a waiting state to the wake-up.",
        &series,
        |figures| {
            let of = |measure| *figures.of(measure);
            [("state=\"S\"", of(Measure::Blocked)), ("state=\"D\"", of(Measure::BlockedD))]
        },
    );
    let nanos = |nanos: u64| nanos as f64 / NANOS;
    if tells.steal {
        page.sums(
            "fxtrec_steal_seconds",
            "Time that the host took within slices.",
            &series,
            |figures| nanos(figures.steal_ns),
        );
        page.sums("fxtrec_stolen_slices", "Slices with stolen time.", &series, |figures| {
            figures.steals as f64
        });
    }
    if tells.throttles {
        page.sums(
            "fxtrec_throttled_seconds",
            "Time within waits in which a quota was used up. It is no part of the wait.",
            &series,
            |figures| nanos(figures.throttled_ns),
        );
        page.sums("fxtrec_throttled_waits", "Waits with throttled time.", &series, |figures| {
            figures.throttles as f64
        });
    }
    page.sums(
        "fxtrec_censored",
        "Lengths of time of which the beginning or the end is not known. No histogram has them.",
        &series,
        |figures| {
            let censored = |measure: &Measure| figures.of(*measure).censored;
            (Measure::ALL.iter().map(censored).sum::<u64>() + figures.unknown) as f64
        },
    );
    page.head("fxtrec_lost", "counter", "What is missing from the figures.");
    for (reason, count) in
        [("unseen", missing.unseen), ("forgotten", missing.evicted), ("other", missing.overflowed)]
    {
        page.sample("fxtrec_lost_total", &format!("reason=\"{reason}\""), count as f64);
    }
    page.head("fxtrec_series", "gauge", "Sets of labels, of fxtrec_series_limit at most.");
    page.sample("fxtrec_series", "", ledger.len() as f64);
    page.head("fxtrec_series_limit", "gauge", "The limit of --metrics-series.");
    page.sample("fxtrec_series_limit", "", ledger.most() as f64);
    page.head("fxtrec_build_info", "gauge", "The version of fxtrec.");
    let version = format!("version=\"{}\"", env!("CARGO_PKG_VERSION"));
    page.sample("fxtrec_build_info", &version, 1.0);
    if format == Format::OpenMetrics {
        page.text.push_str("# EOF\n");
    }
    page.text
}

impl Page {
    /// A counter's name ends with `_total` in its samples, and in the older text also here.
    fn head(&mut self, name: &str, kind: &str, help: &str) {
        let is_plain_counter = kind == "counter" && self.format == Format::Plain;
        let total = if is_plain_counter { "_total" } else { "" };
        let _ = write!(self.text, "# HELP {name}{total} {help}\n# TYPE {name}{total} {kind}\n");
        if self.format == Format::OpenMetrics && name.ends_with("_seconds") {
            let _ = writeln!(self.text, "# UNIT {name} seconds");
        }
    }

    fn sample(&mut self, name: &str, labels: &str, value: f64) {
        let (open, close) = if labels.is_empty() { ("", "") } else { ("{", "}") };
        let _ = writeln!(self.text, "{name}{open}{labels}{close} {value:?}");
    }

    fn sums(
        &mut self,
        name: &str,
        help: &str,
        series: &[(String, &Figures)],
        value: impl Fn(&Figures) -> f64,
    ) {
        self.head(name, "counter", help);
        let total = format!("{name}_total");
        for (labels, figures) in series {
            self.sample(&total, labels, value(figures));
        }
    }

    fn histograms<const N: usize>(
        &mut self,
        name: &str,
        help: &str,
        series: &[(String, &Figures)],
        of: impl Fn(&Figures) -> [(&'static str, Histogram); N],
    ) {
        self.head(name, "histogram", help);
        for (labels, figures) in series {
            for (more, histogram) in of(figures) {
                let comma = if more.is_empty() { "" } else { "," };
                self.histogram(name, &format!("{labels}{comma}{more}"), &histogram);
            }
        }
    }

    /// Without samples there is nothing to tell; the first one makes the histogram appear.
    fn histogram(&mut self, name: &str, labels: &str, histogram: &Histogram) {
        if histogram.count() == 0 {
            return;
        }
        let mut below = 0;
        for (bucket, count) in histogram.buckets.iter().enumerate() {
            below += count;
            let bound = match bucket + 1 < BUCKETS {
                true => format!("{:?}", 2_f64.powi(FIRST_BOUND + bucket as i32)),
                false => "+Inf".to_owned(),
            };
            let _ = writeln!(self.text, "{name}_bucket{{{labels},le=\"{bound}\"}} {below}");
        }
        let _ = writeln!(self.text, "{name}_sum{{{labels}}} {:?}", histogram.sum as f64 / NANOS);
        let _ = writeln!(self.text, "{name}_count{{{labels}}} {below}");
    }
}

/// The labels of a set, of which there is always at least the cgroup.
fn text_of(labels: &Labels) -> String {
    let path = match &labels.group {
        Group::Path(path) => path,
        // Paths begin with a slash.
        Group::Removed => "removed",
        Group::Other => "other",
    };
    let mut text = format!("cgroup=\"{}\"", escaped(path));
    let owner = Owner::of(path);
    if let Some(pod) = owner.pod_uid() {
        let _ = write!(text, ",pod=\"{pod}\"");
    }
    if let Some(container) = owner.container {
        let _ = write!(text, ",container=\"{container}\"");
    }
    if let Some(comm) = &labels.comm {
        let _ = write!(text, ",comm=\"{}\"", escaped(comm));
    }
    text
}

/// As within the quotes of a label.
fn escaped(value: &str) -> String {
    let mut text = String::with_capacity(value.len());
    for character in value.chars() {
        match character {
            '\\' => text.push_str("\\\\"),
            '"' => text.push_str("\\\""),
            '\n' => text.push_str("\\n"),
            // Nothing that a terminal would obey.
            other if other.is_control() => text.push('\u{fffd}'),
            other => text.push(other),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn open_metrics_are_written_for_those_that_ask() {
        let prometheus = "application/openmetrics-text;version=1.0.0;q=0.5,text/plain;q=0.2";
        assert_eq!(Format::wanted(Some(prometheus)), Format::OpenMetrics);
        for plain in [None, Some("*/*"), Some("application/openmetrics-text;q=0"), Some("")] {
            assert_eq!(Format::wanted(plain), Format::Plain, "{plain:?}");
        }
    }

    #[test]
    fn labels_say_whose_it_is_and_cannot_break_out() {
        let path = |path: &str, comm: Option<&str>| {
            text_of(&Labels { group: Group::Path(path.to_owned()), comm: comm.map(str::to_owned) })
        };
        assert_eq!(path("/a\"b\\\n\u{1b}", None), "cgroup=\"/a\\\"b\\\\\\n\u{fffd}\"");
        let id = "ab".repeat(32);
        assert_eq!(
            path(&format!("/docker/{id}"), Some("sh")),
            format!("cgroup=\"/docker/{id}\",container=\"{id}\",comm=\"sh\"")
        );
        assert_eq!(text_of(&Labels { group: Group::Other, comm: None }), "cgroup=\"other\"");
    }

    #[test]
    fn a_histogram_adds_up_to_its_count_and_ends_without_a_bound() {
        let mut page = Page { text: String::new(), format: Format::Plain };
        let mut histogram = Histogram { sum: 1_500_000_000, ..Histogram::default() };
        page.histogram("x", "a=\"b\"", &histogram);
        assert_eq!(page.text, "", "it has no samples");
        (histogram.buckets[0], histogram.buckets[24], histogram.buckets[BUCKETS - 1]) = (1, 2, 3);
        page.histogram("x", "a=\"b\"", &histogram);
        let lines: Vec<&str> = page.text.lines().collect();
        assert_eq!(lines.len(), BUCKETS + 2);
        assert_eq!(lines[0], "x_bucket{a=\"b\",le=\"5.960464477539063e-8\"} 1");
        assert_eq!(lines[23], "x_bucket{a=\"b\",le=\"0.5\"} 1");
        assert_eq!(lines[24], "x_bucket{a=\"b\",le=\"1.0\"} 3");
        assert_eq!(lines[BUCKETS - 1], "x_bucket{a=\"b\",le=\"+Inf\"} 6");
        assert_eq!(lines[BUCKETS..], ["x_sum{a=\"b\"} 1.5", "x_count{a=\"b\"} 6"]);
    }
}
