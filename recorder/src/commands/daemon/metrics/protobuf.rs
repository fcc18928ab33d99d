//! The figures as messages `io.prometheus.client.MetricFamily`, the only format in which Prometheus accepts native
//! histograms.
//!
//! A message contains each histogram twice: with the buckets of the text format, and as a native histogram of schema 0, whose bucket `i`
//! ends at 2^i s. The kernel's buckets have the same bounds, so every sample is in the right one:
//!
//! ```text
//!   the kernel's bucket    0        1            2       ...   BUCKETS - 2   BUCKETS - 1
//!   ends at               2^-24 s  2^-23 s      2^-22 s        2^16 s        has no bound
//!   native                zero     index -23    -22            16            17, which would end at 2^17 s
//! ```

use super::families::{Family, Kind, Label, NANOS, Value};
use super::text::classic;
use crate::kernel::bpf::counts::{FIRST_BOUND, Histogram};
use crate::units::protobuf::{Message, zigzag};

/// Numbers of fields, by message, as in Prometheus's `metrics.proto`.
mod field {
    pub(super) mod family {
        pub(in super::super) const NAME: u64 = 1;
        pub(in super::super) const HELP: u64 = 2;
        pub(in super::super) const KIND: u64 = 3;
        pub(in super::super) const METRIC: u64 = 4;
    }
    pub(super) mod metric {
        pub(in super::super) const LABEL: u64 = 1;
        pub(in super::super) const GAUGE: u64 = 2;
        pub(in super::super) const COUNTER: u64 = 3;
        pub(in super::super) const HISTOGRAM: u64 = 7;
    }
    pub(super) mod label {
        pub(in super::super) const NAME: u64 = 1;
        pub(in super::super) const VALUE: u64 = 2;
    }
    /// Also used for gauges and counters.
    pub(super) const VALUE: u64 = 1;
    pub(super) mod bucket {
        pub(in super::super) const CUMULATIVE_COUNT: u64 = 1;
        pub(in super::super) const UPPER_BOUND: u64 = 2;
    }
    pub(super) mod span {
        pub(in super::super) const OFFSET: u64 = 1;
        pub(in super::super) const LENGTH: u64 = 2;
    }
    pub(super) mod histogram {
        pub(in super::super) const SAMPLE_COUNT: u64 = 1;
        pub(in super::super) const SAMPLE_SUM: u64 = 2;
        pub(in super::super) const BUCKET: u64 = 3;
        pub(in super::super) const SCHEMA: u64 = 5;
        pub(in super::super) const ZERO_THRESHOLD: u64 = 6;
        pub(in super::super) const ZERO_COUNT: u64 = 7;
        pub(in super::super) const POSITIVE_SPAN: u64 = 12;
        pub(in super::super) const POSITIVE_DELTA: u64 = 13;
    }
}

/// Writes all families that have samples, each with its length first.
pub(super) fn write(families: &[Family]) -> Vec<u8> {
    let mut all = Message::default();
    for family in families.iter().filter(|family| !family.samples.is_empty()) {
        all.delimited(&of_family(family));
    }
    all.0
}

fn of_family(family: &Family) -> Message {
    let (kind, total, value_field) = match family.kind {
        Kind::Counter => (0, "_total", field::metric::COUNTER),
        Kind::Gauge => (1, "", field::metric::GAUGE),
        Kind::Histogram => (4, "", field::metric::HISTOGRAM),
    };
    let mut message = Message::default();
    message.bytes(field::family::NAME, format!("{}{total}", family.name).as_bytes());
    message.bytes(field::family::HELP, family.help.as_bytes());
    message.explicit_number(field::family::KIND, kind);
    for sample in &family.samples {
        let mut metric = Message::default();
        for label in &sample.labels {
            metric.bytes(field::metric::LABEL, &of_label(label).0);
        }
        let value = match &sample.value {
            Value::Number(value) => {
                let mut message = Message::default();
                message.double(field::VALUE, *value);
                message
            }
            Value::Histogram(histogram) => of_histogram(histogram),
        };
        metric.bytes(value_field, &value.0);
        message.bytes(field::family::METRIC, &metric.0);
    }
    message
}

fn of_label((name, value): &Label) -> Message {
    let mut message = Message::default();
    message.bytes(field::label::NAME, name.as_bytes());
    message.bytes(field::label::VALUE, value.as_bytes());
    message
}

fn of_histogram(histogram: &Histogram) -> Message {
    let mut message = Message::default();
    message.explicit_number(field::histogram::SAMPLE_COUNT, histogram.count());
    message.double(field::histogram::SAMPLE_SUM, histogram.sum as f64 / NANOS);
    for (bound, below) in classic(histogram) {
        let mut bucket = Message::default();
        bucket.explicit_number(field::bucket::CUMULATIVE_COUNT, below);
        bucket.double(field::bucket::UPPER_BOUND, bound);
        message.bytes(field::histogram::BUCKET, &bucket.0);
    }
    message.explicit_number(field::histogram::SCHEMA, zigzag(0));
    message.double(field::histogram::ZERO_THRESHOLD, 2_f64.powi(FIRST_BOUND));
    message.explicit_number(field::histogram::ZERO_COUNT, histogram.buckets[0]);
    let mut deltas = Vec::new();
    let mut last = 0;
    for (offset, counts) in spans(&histogram.buckets[1..]) {
        let mut span = Message::default();
        span.explicit_number(field::span::OFFSET, zigzag(offset));
        span.explicit_number(field::span::LENGTH, counts.len() as u64);
        message.bytes(field::histogram::POSITIVE_SPAN, &span.0);
        for &count in counts {
            let count = i64::try_from(count).unwrap_or(i64::MAX);
            deltas.push(zigzag(count - last));
            last = count;
        }
    }
    message.numbers(field::histogram::POSITIVE_DELTA, deltas);
    message
}

/// Runs of buckets with samples. Each run has the offset of its first bucket: absolute for the first run, relative to the end of the
/// previous run for the others.
fn spans(counts: &[u64]) -> Vec<(i64, &[u64])> {
    let mut spans = Vec::new();
    let mut from = i64::from(FIRST_BOUND + 1);
    let mut at = 0;
    while let Some(gap) = counts[at..].iter().position(|&count| count > 0) {
        let run = &counts[at + gap..];
        let run = &run[..run.iter().position(|&count| count == 0).unwrap_or(run.len())];
        spans.push((from + gap as i64, run));
        from = 0;
        at += gap + run.len();
    }
    spans
}

#[cfg(test)]
mod tests {
    use super::super::families::Sample;
    use super::*;
    use crate::kernel::bpf::counts::BUCKETS;

    #[test]
    fn a_counter_is_a_message_with_its_length_before_it() {
        let labels = vec![("a", "b".to_owned())];
        let samples = vec![Sample { labels, value: Value::Number(1.0) }];
        let family = |samples| Family { name: "x", kind: Kind::Counter, help: "Y", samples };
        assert_eq!(write(&[family(Vec::new())]), b"");
        // The label has 8 bytes, the value 11, and the family 35.
        let head = b"\x23\x0a\x07x_total\x12\x01Y\x18\0".as_slice();
        let metric = b"\x22\x13\x0a\x06\x0a\x01a\x12\x01b\x1a\x09\x09\0\0\0\0\0\0\xf0\x3f";
        let expected = [head, metric].concat();
        assert_eq!(write(&[family(samples)]), expected);
    }

    #[test]
    fn runs_of_buckets_begin_where_their_bounds_are() {
        let mut buckets = [0; BUCKETS];
        for (bucket, count) in [(0, 9), (4, 3), (5, 1), (24, 2), (BUCKETS - 1, 7)] {
            buckets[bucket] = count;
        }
        // Bucket 4 ends at 2^-20 s, bucket 24 at 1 s, which has the index 0.
        let expected: [(i64, &[u64]); 3] = [(-20, &[3, 1]), (18, &[2]), (16, &[7])];
        assert_eq!(spans(&buckets[1..]), expected);
        assert_eq!(spans(&[0; BUCKETS - 1]), []);
    }
}
