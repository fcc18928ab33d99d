//! A finished distribution of durations.
//!
//! When an analysis ends, its samples (a [`Tally`](super::tally::Tally)) become a distribution: exact figures, and the distinct values with
//! their counts, in order. A few samples are small; a percentile needs one pass over them, and merging needs a sort.

use std::time::Duration;

use fxtrec_gates::Stat;

use fxt_reader::Nanos;

use super::counts::Counts;

/// Above this number of buckets, merging them by counting is faster than sorting.
const MANY: usize = 256;

/// A value and its number of occurrences.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bucket {
    /// The duration in nanoseconds; if values were grouped, the greatest of them.
    pub nanos: u64,
    pub count: u64,
}

/// The samples of one metric.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Distribution {
    pub(super) count: u64,
    pub(super) censored: u64,
    pub(super) sum: u64,
    pub(super) min: u64,
    pub(super) max: u64,
    /// `None` if there are no samples, or if their times have no meaning.
    pub(super) max_at: Option<Nanos>,
    /// Sorted by value, each value once.
    pub(super) buckets: Box<[Bucket]>,
}

impl Distribution {
    /// The value of a statistic, in nanoseconds or as a count; `None` if it needs a value and there is none.
    pub fn statistic(&self, stat: Stat) -> Option<f64> {
        let nanos = |length: Option<Duration>| length.map(|length| length.as_nanos() as f64);
        match stat {
            Stat::Count => Some(self.count() as f64),
            Stat::Sum => nanos(Some(self.sum())),
            Stat::Min => nanos(self.min()),
            Stat::Mean => nanos(self.mean()),
            Stat::P50 => nanos(self.percentile(50.0)),
            Stat::P90 => nanos(self.percentile(90.0)),
            Stat::P99 => nanos(self.percentile(99.0)),
            Stat::P999 => nanos(self.percentile(99.9)),
            Stat::Max => nanos(self.max()),
        }
    }

    /// The number of samples.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The number of further samples whose beginning or end is unknown. No other figure includes them.
    pub fn censored(&self) -> u64 {
        self.censored
    }

    pub fn sum(&self) -> Duration {
        Duration::from_nanos(self.sum)
    }

    /// The smallest value; `None` without samples.
    pub fn min(&self) -> Option<Duration> {
        self.some(self.min)
    }

    /// The greatest value; `None` without samples.
    pub fn max(&self) -> Option<Duration> {
        self.some(self.max)
    }

    /// When the greatest ended; the first one if several are equal.
    pub fn max_at(&self) -> Option<Nanos> {
        self.max_at
    }

    /// The mean; `None` without samples.
    pub fn mean(&self) -> Option<Duration> {
        self.sum.checked_div(self.count).map(Duration::from_nanos)
    }

    /// The smallest value that at least `percent` per cent of the samples do not exceed; at most 0.8 % too high, never too low. `None`
    /// without samples.
    pub fn percentile(&self, percent: f64) -> Option<Duration> {
        if self.count == 0 {
            return None;
        }
        let share = percent.clamp(0.0, 100.0) / 100.0;
        // Removes the rounding error of a product that should be a whole number.
        let rank = ((self.count as f64 * share) * (1.0 - f64::EPSILON)).ceil().max(1.0) as u64;
        let mut seen = 0;
        let at_rank = self.buckets.iter().find(|bucket| {
            seen += bucket.count;
            seen >= rank
        });
        let nanos = at_rank.map_or(self.max, |bucket| bucket.nanos);
        Some(Duration::from_nanos(nanos.clamp(self.min, self.max)))
    }

    /// The distinct values, in order.
    pub fn buckets(&self) -> &[Bucket] {
        &self.buckets
    }

    /// Whether no values were grouped: the buckets are the exact samples.
    pub(super) fn is_exact(&self) -> bool {
        let all = self.buckets.iter();
        let sum = all.map(|bucket| bucket.nanos.saturating_mul(bucket.count));
        sum.fold(0_u64, u64::saturating_add) == self.sum
    }

    /// The combined samples of several distributions.
    pub fn merge<'a>(parts: impl IntoIterator<Item = &'a Distribution>) -> Distribution {
        let mut whole = Distribution { min: u64::MAX, ..Distribution::default() };
        let mut buckets: Vec<&[Bucket]> = Vec::new();
        for part in parts {
            whole.censored += part.censored;
            if part.count == 0 {
                continue;
            }
            let first = whole.count == 0;
            whole.count += part.count;
            whole.sum = whole.sum.saturating_add(part.sum);
            whole.min = whole.min.min(part.min);
            if first || (part.max, whole.max_at) > (whole.max, part.max_at) {
                (whole.max, whole.max_at) = (part.max, part.max_at);
            }
            buckets.push(&part.buckets);
        }
        if whole.count == 0 {
            whole.min = 0;
        }
        whole.buckets = put_together(&buckets);
        whole
    }

    fn some(&self, nanos: u64) -> Option<Duration> {
        (self.count > 0).then(|| Duration::from_nanos(nanos))
    }
}

/// The buckets of all parts sorted by value, each value once.
fn put_together(parts: &[&[Bucket]]) -> Box<[Bucket]> {
    if parts.iter().map(|buckets| buckets.len()).sum::<usize>() > MANY {
        let mut counts = Counts::default();
        parts.iter().for_each(|buckets| counts.add_buckets(buckets));
        return counts.buckets();
    }
    let mut buckets = parts.concat();
    buckets.sort_unstable_by_key(|bucket| bucket.nanos);
    buckets.dedup_by(|later, kept| {
        let same = later.nanos == kept.nanos;
        if same {
            kept.count += later.count;
        }
        same
    });
    buckets.into()
}

#[cfg(test)]
mod tests {
    use super::super::tally::Tally;
    use super::*;

    fn of(samples: impl IntoIterator<Item = u64>) -> Distribution {
        let mut tally = Tally::default();
        for (at, sample) in samples.into_iter().enumerate() {
            tally.record(sample, Nanos(at as u64));
        }
        tally.freeze()
    }

    #[test]
    fn percentiles_of_few_samples_are_exact() {
        let ten = of((1..=10).map(|n| n * 1_000_003));
        let percentile = |percent| ten.percentile(percent).map(|d| d.as_nanos() as u64);
        assert_eq!(percentile(50.0), Some(5 * 1_000_003));
        assert_eq!(percentile(90.0), Some(9 * 1_000_003));
        assert_eq!(percentile(90.1), Some(10 * 1_000_003));
        assert_eq!(percentile(100.0), Some(10 * 1_000_003));
        assert_eq!(percentile(0.0), Some(1_000_003));
    }

    #[test]
    fn percentiles_of_many_samples_are_never_too_low_and_at_most_a_hundredth_too_high() {
        let many = of((1..=100_000).map(|n| n * 977));
        for percent in [1.0, 50.0, 90.0, 99.0, 99.9] {
            let exact = (percent * 1000.0) as u64 * 977;
            let found = many.percentile(percent).expect("samples").as_nanos() as u64;
            assert!(exact <= found && found <= exact + exact / 125, "{percent}: {found}, {exact}");
        }
        assert_eq!(many.percentile(100.0), many.max());
        assert_eq!(many.sum().as_nanos(), 977 * 100_000 * 100_001 / 2);
    }

    #[test]
    fn nothing_has_no_figures() {
        let nothing = of([]);
        let figures = [nothing.min(), nothing.max(), nothing.mean(), nothing.percentile(50.0)];
        assert_eq!((figures, nothing.max_at()), ([None; 4], None));
        let merged = Distribution::merge([&nothing, &nothing]);
        assert_eq!(merged, nothing);
    }

    #[test]
    fn what_is_merged_has_the_figures_of_all_samples_together() {
        let parts = [of(1..=40), of([500]), of([]), of((1..=10_000).map(|n| n * 331))];
        let whole = of((1..=40).chain([500]).chain((1..=10_000).map(|n| n * 331)));
        let merged = Distribution::merge(&parts);
        let figures = |d: &Distribution| (d.count(), d.sum(), d.min(), d.max(), d.mean());
        assert_eq!(figures(&merged), figures(&whole));
        let counted: u64 = merged.buckets().iter().map(|bucket| bucket.count).sum();
        assert_eq!(counted, merged.count());
        assert!(merged.buckets().windows(2).all(|pair| pair[0].nanos < pair[1].nanos));
    }

    #[test]
    fn the_time_of_the_greatest_is_that_of_the_first_of_equals() {
        let mut parts = [of([7, 9, 9]), of([9])];
        assert_eq!(parts[0].max_at(), Some(Nanos(1)));
        let at = |parts: &[Distribution]| Distribution::merge(parts).max_at();
        assert_eq!(at(&parts), Some(Nanos(0)));
        parts.reverse();
        assert_eq!(at(&parts), Some(Nanos(0)));
    }
}
