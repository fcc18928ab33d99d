//! Samples while they are gathered.
//!
//! A trace may hold hundreds of thousands of threads, most of which have a handful of samples: up
//! to [`FEW`] are kept as they are. Only a thread with more gets an HdrHistogram, which grows with
//! its greatest value and is given up again when the thread ends.
//!
//! Samples go into a histogram [`FEW`] at a time: the histograms of all threads and CPUs are more
//! than a processor's cache holds, so that it pays to touch each one seldom and then often.

use fxt_reader::Nanos;
use hdrhistogram::Histogram;

use super::distribution::{Bucket, Distribution};

/// So many samples are kept one by one.
const FEW: usize = 32;

/// Significant decimal digits of a histogram: values that share a bucket differ by less than 1 %.
const DIGITS: u8 = 2;

/// The samples of one metric, so far.
#[derive(Clone, Debug)]
pub(super) struct Tally {
    count: u64,
    sum: u64,
    min: u64,
    max: u64,
    max_at: Nanos,
    censored: u64,
    /// The last samples, which are not in the histogram yet.
    few: Vec<u64>,
    many: Option<Box<Histogram<u32>>>,
}

impl Default for Tally {
    fn default() -> Tally {
        Tally {
            count: 0,
            sum: 0,
            min: u64::MAX,
            max: 0,
            max_at: Nanos(0),
            censored: 0,
            few: Vec::new(),
            many: None,
        }
    }
}

fn put(histogram: &mut Histogram<u32>, nanos: u64, count: u64) {
    let count = u32::try_from(count).unwrap_or(u32::MAX);
    // It fails only when there is no memory to grow into; the last bucket then takes it.
    if histogram.record_n(nanos, count).is_err() {
        histogram.saturating_record_n(nanos, count);
    }
}

impl Tally {
    /// Takes a sample that ended at `at`.
    #[inline]
    pub(super) fn record(&mut self, nanos: u64, at: Nanos) {
        if nanos > self.max || self.count == 0 {
            (self.max, self.max_at) = (nanos, at);
        }
        self.count += 1;
        self.sum = self.sum.saturating_add(nanos);
        self.min = self.min.min(nanos);
        if self.few.len() == FEW {
            self.put_away();
        }
        self.few.push(nanos);
    }

    /// Counts one whose length is not known.
    pub(super) fn censor(&mut self) {
        self.censored += 1;
    }

    /// Takes all samples of a distribution.
    pub(super) fn add(&mut self, other: &Distribution) {
        self.censored += other.censored;
        if other.count == 0 {
            return;
        }
        if other.max > self.max || self.count == 0 {
            (self.max, self.max_at) = (other.max, other.max_at);
        }
        self.count += other.count;
        self.sum = self.sum.saturating_add(other.sum);
        self.min = self.min.min(other.min);
        for bucket in &other.buckets {
            match bucket.count {
                1 if self.few.len() < FEW => self.few.push(bucket.nanos),
                count => {
                    self.put_away();
                    if let Some(histogram) = &mut self.many {
                        put(histogram, bucket.nanos, count);
                    }
                }
            }
        }
    }

    /// Puts the last samples into the histogram, which is made if there is none.
    fn put_away(&mut self) {
        if self.many.is_none() {
            // `DIGITS` is one of the precisions there are, from 0 to 5.
            self.many = Histogram::new(DIGITS).ok().map(Box::new);
        }
        let Some(histogram) = &mut self.many else { return };
        for nanos in self.few.drain(..) {
            put(histogram, nanos, 1);
        }
    }

    /// The distribution of what was gathered.
    pub(super) fn freeze(mut self) -> Distribution {
        if self.many.is_some() {
            self.put_away();
        }
        let bucket = |nanos, count| Bucket { nanos, count };
        let mut buckets: Vec<Bucket> = match &self.many {
            None => self.few.iter().map(|&nanos| bucket(nanos, 1)).collect(),
            Some(histogram) => histogram
                .iter_recorded()
                .map(|step| bucket(step.value_iterated_to(), u64::from(step.count_at_value())))
                .collect(),
        };
        buckets.sort_unstable_by_key(|bucket| bucket.nanos);
        buckets.dedup_by(|later, kept| {
            let same = later.nanos == kept.nanos;
            kept.count += if same { later.count } else { 0 };
            same
        });
        Distribution {
            count: self.count,
            censored: self.censored,
            sum: self.sum,
            min: if self.count == 0 { 0 } else { self.min },
            max: self.max,
            max_at: self.max_at,
            buckets: buckets.into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_samples_take_no_histogram_and_many_do() {
        let mut tally = Tally::default();
        for at in 0..FEW as u64 {
            tally.record(at * 1_000_000, Nanos(at));
        }
        assert!(tally.many.is_none() && tally.few.len() == FEW);
        tally.record(7, Nanos(0));
        assert!(tally.many.is_some());
        assert_eq!(tally.freeze().count(), 33);
    }

    #[test]
    fn any_length_is_taken_up_to_centuries() {
        let mut tally = Tally::default();
        for _ in 0..40 {
            tally.record(u64::MAX / 2, Nanos(1));
            tally.record(0, Nanos(2));
        }
        let frozen = tally.freeze();
        assert_eq!(frozen.buckets().iter().map(|bucket| bucket.count).sum::<u64>(), 80);
        assert_eq!(frozen.percentile(50.0).map(|d| d.as_nanos()), Some(0));
        assert_eq!(frozen.percentile(99.0).map(|d| d.as_nanos()), Some(u128::from(u64::MAX / 2)));
    }

    #[test]
    fn a_distribution_that_is_added_counts_as_its_samples_do() {
        let (mut a, mut b, mut both) = (Tally::default(), Tally::default(), Tally::default());
        for at in 0..1000_u64 {
            let nanos = at * at * 37;
            if at % 3 == 0 { &mut a } else { &mut b }.record(nanos, Nanos(at));
            both.record(nanos, Nanos(at));
        }
        b.censor();
        both.censor();
        a.add(&b.freeze());
        assert_eq!(a.freeze(), both.freeze());
    }
}
