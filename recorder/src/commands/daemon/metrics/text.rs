//! The figures in Prometheus's text format or as OpenMetrics, with classic histograms only.

use std::fmt::Write as _;

use super::families::{Family, Kind, Label, NANOS, Value};
use super::format::Format;
use crate::kernel::bpf::counts::{FIRST_BOUND, Histogram};

/// The buckets of classic histograms; the last has no upper bound. There are fewer than native buckets, since each costs a line and a
/// series in the scraper.
pub(super) const CLASSIC: usize = 34;

/// The number of samples up to the bound of each classic bucket. The last bound is infinite.
pub(super) fn classic(histogram: &Histogram) -> impl Iterator<Item = (f64, u64)> {
    let mut below = 0;
    let buckets = histogram.buckets;
    let count = histogram.count();
    (0..CLASSIC).map(move |bucket| {
        below += buckets[bucket];
        match bucket + 1 < CLASSIC {
            true => (2_f64.powi(FIRST_BOUND + bucket as i32), below),
            false => (f64::INFINITY, count),
        }
    })
}

/// Writes all families in one of the two text formats.
pub(super) fn write(families: &[Family], format: Format) -> String {
    let mut page = Page { text: String::new(), is_open: format == Format::OpenMetrics };
    for family in families {
        page.family(family);
    }
    if page.is_open {
        page.text.push_str("# EOF\n");
    }
    page.text
}

struct Page {
    text: String,
    is_open: bool,
}

impl Page {
    fn family(&mut self, family: &Family) {
        let Family { name, kind, help, samples } = family;
        // A counter's name ends with `_total` in its samples and, in the older format, here as well.
        let total = if *kind == Kind::Counter { "_total" } else { "" };
        let head = if self.is_open { "" } else { total };
        let kind = match kind {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Histogram => "histogram",
        };
        let _ = write!(self.text, "# HELP {name}{head} {help}\n# TYPE {name}{head} {kind}\n");
        if self.is_open && name.ends_with("_seconds") {
            let _ = writeln!(self.text, "# UNIT {name} seconds");
        }
        for sample in samples {
            let labels = text_of(&sample.labels);
            match &sample.value {
                Value::Number(value) => {
                    let (open, close) = if labels.is_empty() { ("", "") } else { ("{", "}") };
                    let _ = writeln!(self.text, "{name}{total}{open}{labels}{close} {value:?}");
                }
                Value::Histogram(histogram) => self.histogram(name, &labels, histogram),
            }
        }
    }

    fn histogram(&mut self, name: &str, labels: &str, histogram: &Histogram) {
        for (bound, below) in classic(histogram) {
            let bound = if bound.is_finite() { format!("{bound:?}") } else { "+Inf".to_owned() };
            let _ = writeln!(self.text, "{name}_bucket{{{labels},le=\"{bound}\"}} {below}");
        }
        let _ = writeln!(self.text, "{name}_sum{{{labels}}} {:?}", histogram.sum as f64 / NANOS);
        let _ = writeln!(self.text, "{name}_count{{{labels}}} {}", histogram.count());
    }
}

fn text_of(labels: &[Label]) -> String {
    let mut text = String::new();
    for (name, value) in labels {
        let comma = if text.is_empty() { "" } else { "," };
        let _ = write!(text, "{comma}{name}=\"{}\"", escaped(value));
    }
    text
}

/// Escapes a label's value.
fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::super::families::Sample;
    use super::*;
    use crate::kernel::bpf::counts::BUCKETS;

    #[test]
    fn labels_cannot_break_out_of_their_quotes() {
        let labels = [("cgroup", "/a\"b\\\n".to_owned()), ("comm", "sh".to_owned())];
        assert_eq!(text_of(&labels), "cgroup=\"/a\\\"b\\\\\\n\",comm=\"sh\"");
    }

    #[test]
    fn a_histogram_adds_up_to_its_count_and_ends_without_a_bound() {
        let mut histogram = Histogram { sum: 1_500_000_000, ..Histogram::default() };
        for (bucket, count) in [(0, 1), (24, 2), (CLASSIC - 1, 3), (BUCKETS - 1, 4)] {
            histogram.buckets[bucket] = count;
        }
        let value = Value::Histogram(Box::new(histogram));
        let samples = vec![Sample { labels: vec![("a", "b".to_owned())], value }];
        let family = Family { name: "x_seconds", kind: Kind::Histogram, help: "Y.", samples };
        let text = write(&[family], Format::Plain);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[..2], ["# HELP x_seconds Y.", "# TYPE x_seconds histogram"]);
        let lines = &lines[2..];
        assert_eq!(lines.len(), CLASSIC + 2);
        assert_eq!(lines[0], "x_seconds_bucket{a=\"b\",le=\"5.960464477539063e-8\"} 1");
        assert_eq!(lines[23], "x_seconds_bucket{a=\"b\",le=\"0.5\"} 1");
        assert_eq!(lines[24], "x_seconds_bucket{a=\"b\",le=\"1.0\"} 3");
        assert_eq!(lines[CLASSIC - 2], "x_seconds_bucket{a=\"b\",le=\"256.0\"} 3");
        assert_eq!(lines[CLASSIC - 1], "x_seconds_bucket{a=\"b\",le=\"+Inf\"} 10");
        assert_eq!(lines[CLASSIC..], ["x_seconds_sum{a=\"b\"} 1.5", "x_seconds_count{a=\"b\"} 10"]);
    }

    #[test]
    fn the_name_of_a_counter_ends_where_the_form_has_it() {
        let samples = vec![Sample { labels: Vec::new(), value: Value::Number(2.0) }];
        let family = [Family { name: "x_seconds", kind: Kind::Counter, help: "Y.", samples }];
        assert_eq!(
            write(&family, Format::Plain),
            "# HELP x_seconds_total Y.\n# TYPE x_seconds_total counter\nx_seconds_total 2.0\n"
        );
        assert_eq!(
            write(&family, Format::OpenMetrics),
            "# HELP x_seconds Y.\n# TYPE x_seconds counter\n# UNIT x_seconds seconds\n\
             x_seconds_total 2.0\n# EOF\n"
        );
    }
}
