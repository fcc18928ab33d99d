//! Samples while they are gathered.
//!
//! A trace may hold hundreds of thousands of threads, most of which have a handful of samples: up
//! to [`FEW`] are kept as they are. Only a thread with more gets counts by bucket, which grow with
//! the greatest value and are given up again when the thread ends.
//!
//! Samples are counted [`FEW`] at a time: the counts of all threads and CPUs are more than a
//! processor's cache holds, so that it pays to touch each one seldom and then often.

use fxt_reader::Nanos;

use super::counts::Counts;
use super::distribution::{Bucket, Distribution};

/// So many samples are kept one by one.
const FEW: usize = 64;

/// The samples of one metric, so far.
#[derive(Clone, Debug, Default)]
pub(super) struct Tally {
    /// One more than the greatest; 0 without samples.
    beyond: u64,
    max_at: Nanos,
    /// The last samples, which are in none of the figures below.
    few: Vec<u64>,
    count: u64,
    sum: u64,
    /// Nothing without samples.
    min: Option<u64>,
    many: Option<Box<Counts>>,
    censored: u64,
}

impl Tally {
    /// Takes a sample that ended at `at`.
    #[inline]
    pub(super) fn record(&mut self, nanos: u64, at: Nanos) {
        if nanos >= self.beyond {
            self.is_greatest(nanos, at);
        }
        self.keep(nanos);
    }

    /// Takes note of a sample that is at least as great as any before it.
    #[cold]
    fn is_greatest(&mut self, nanos: u64, at: Nanos) {
        self.beyond = nanos.saturating_add(1);
        self.max_at = at;
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
        if other.max >= self.beyond {
            self.is_greatest(other.max, other.max_at);
        }
        if other.is_exact() && other.count <= FEW as u64 {
            for bucket in &other.buckets {
                (0..bucket.count).for_each(|_| self.keep(bucket.nanos));
            }
            return;
        }
        self.count += other.count;
        self.sum = self.sum.saturating_add(other.sum);
        self.min = Some(self.min.map_or(other.min, |min| min.min(other.min)));
        let counts = self.many.get_or_insert_default();
        for bucket in &other.buckets {
            counts.add_times(bucket.nanos, bucket.count);
        }
    }

    /// Keeps a sample until it is counted.
    #[inline]
    fn keep(&mut self, nanos: u64) {
        if self.few.len() == FEW {
            self.put_away();
        }
        self.few.push(nanos);
    }

    /// Counts the last samples.
    fn put_away(&mut self) {
        self.sum_up();
        // None of them is greater than the greatest.
        let max = self.beyond.saturating_sub(1);
        self.many.get_or_insert_default().add(&self.few, max);
        self.few.clear();
    }

    /// Adds the last samples to the figures.
    #[inline]
    fn sum_up(&mut self) {
        self.count += self.few.len() as u64;
        for &nanos in &self.few {
            self.sum = self.sum.saturating_add(nanos);
        }
        self.min = self.few.iter().copied().chain(self.min).min();
    }

    /// The distribution of what was gathered.
    pub(super) fn freeze(mut self) -> Distribution {
        let buckets: Box<[Bucket]> = if self.many.is_some() {
            self.put_away();
            self.many.iter().flat_map(|counts| counts.buckets()).collect()
        } else {
            self.sum_up();
            self.few.sort_unstable();
            let alike = self.few.chunk_by(|a, b| a == b);
            alike.map(|alike| Bucket { nanos: alike[0], count: alike.len() as u64 }).collect()
        };
        Distribution {
            count: self.count,
            censored: self.censored,
            sum: self.sum,
            min: self.min.unwrap_or(0),
            max: self.beyond.saturating_sub(1),
            max_at: self.max_at,
            buckets,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_samples_take_no_counts_and_many_do() {
        let mut tally = Tally::default();
        for at in 0..FEW as u64 {
            tally.record(at * 1_000_000, Nanos(at));
        }
        assert!(tally.many.is_none() && tally.few.len() == FEW);
        tally.record(7, Nanos(0));
        assert!(tally.many.is_some());
        assert_eq!(tally.freeze().count(), FEW as u64 + 1);
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
