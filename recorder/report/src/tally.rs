//! Gathers samples.
//!
//! A trace may have hundreds of thousands of threads, most of them with a handful of samples: up to [`FEW`] samples are kept individually.
//! Only a thread with more samples gets counts by bucket, which grow with the greatest value and are freed when the thread ends.
//!
//! The counts of all threads and CPUs exceed the processor's cache, so they are accessed rarely and in bulk. A sample is first stored as
//! the index of its bucket, in a batch that is counted when it is full:
//!
//! ```text
//!  first 64 samples    values: 1040 977 5211 ...
//!  from then on        batch: | 386 | 375 | 481 | ... |  --full-->  counts: | 0 | 3 | 17 | ... |
//! ```

use fxt_reader::Nanos;

use super::counts::{BucketIndex, Counts};
use super::distribution::{Bucket, Distribution};

/// The maximum number of samples that are kept individually.
const FEW: usize = 64;

/// The length of batches: the first one, and the maximum. The first batch takes as much memory as the few samples that it replaces; then
/// the length doubles each time.
const SHORT_BATCH: usize = 4 * FEW;
const LONG_BATCH: usize = 1024;

/// The samples of a metric, so far.
///
/// The fields that every sample needs are in one cache line.
#[derive(Clone, Debug)]
#[repr(align(64))]
pub(super) struct Tally {
    /// The smallest sample; without samples, the maximum of the type.
    least: u64,
    /// The difference between the greatest and the smallest.
    spread: u64,
    sum: u64,
    /// The places of the last samples, which are not counted yet. Allocates nothing while there are few samples.
    batch: Box<[BucketIndex]>,
    /// The number of places in the batch.
    filled: u32,
    rest: Option<Box<Rest>>,
}

#[derive(Clone, Debug, Default)]
struct Rest {
    max_at: Nanos,
    censored: u64,
    /// All samples, unsorted, while there are few.
    few: Vec<u64>,
    /// The number of counted samples.
    counted: u64,
    counts: Counts,
}

impl Default for Tally {
    fn default() -> Tally {
        Tally { least: u64::MAX, spread: 0, sum: 0, batch: Box::default(), filled: 0, rest: None }
    }
}

impl Tally {
    /// Adds a sample that ended at `at`.
    #[inline(always)]
    pub(super) fn record(&mut self, nanos: u64, at: Nanos) {
        // One comparison covers both ends: values below the smallest wrap around.
        if nanos.wrapping_sub(self.least) > self.spread {
            self.stretch(nanos, at);
        }
        self.sum = self.sum.saturating_add(nanos);
        self.keep(nanos);
    }

    /// Records a sample that is less or greater than all previous ones, or the first one. (A first sample of the maximum length, some
    /// centuries, does not reach this code; the time of such a sample stays unknown.)
    #[cold]
    fn stretch(&mut self, nanos: u64, at: Nanos) {
        let is_first = self.least == u64::MAX && self.spread == 0;
        let greatest = if is_first { nanos } else { self.greatest().max(nanos) };
        if is_first || nanos > self.greatest() {
            self.rest.get_or_insert_default().max_at = at;
        }
        self.least = self.least.min(nanos);
        self.spread = greatest - self.least;
    }

    /// The greatest sample, if there are any.
    fn greatest(&self) -> u64 {
        self.least.saturating_add(self.spread)
    }

    /// Counts a sample of unknown length.
    #[cold]
    pub(super) fn censor(&mut self) {
        self.rest.get_or_insert_default().censored += 1;
    }

    /// Adds all samples of a distribution.
    pub(super) fn add(&mut self, other: &Distribution) {
        if other.censored > 0 {
            self.rest.get_or_insert_default().censored += other.censored;
        }
        if other.count == 0 {
            return;
        }
        for (nanos, at) in
            [(other.max, other.max_at.unwrap_or_default()), (other.min, Nanos::default())]
        {
            if nanos.wrapping_sub(self.least) > self.spread {
                self.stretch(nanos, at);
            }
        }
        self.sum = self.sum.saturating_add(other.sum);
        if other.is_exact() && other.count <= FEW as u64 {
            for bucket in &other.buckets {
                (0..bucket.count).for_each(|_| self.keep(bucket.nanos));
            }
            return;
        }
        self.count_all();
        let rest = self.rest.get_or_insert_default();
        rest.counted += other.count;
        rest.counts.add_buckets(&other.buckets);
    }

    /// Keeps a sample until it is counted.
    #[inline(always)]
    fn keep(&mut self, nanos: u64) {
        match self.batch.get_mut(self.filled as usize) {
            Some(place) => {
                *place = BucketIndex::of(nanos);
                self.filled += 1;
            }
            None => self.find_room(nanos),
        }
    }

    /// Keeps a sample that does not fit into the batch.
    #[cold]
    fn find_room(&mut self, nanos: u64) {
        let rest = self.rest.get_or_insert_default();
        if rest.counted == 0 && rest.few.len() < FEW && self.batch.is_empty() {
            rest.few.push(nanos);
            return;
        }
        self.count_all();
        if self.batch.len() < LONG_BATCH {
            let length = (2 * self.batch.len()).max(SHORT_BATCH);
            self.batch = vec![BucketIndex::default(); length].into();
        }
        self.keep(nanos);
    }

    /// Adds the samples that are only stored so far to the counts.
    fn count_all(&mut self) {
        let max = self.greatest();
        let rest = self.rest.get_or_insert_default();
        for nanos in std::mem::take(&mut rest.few) {
            rest.counts.add(&[BucketIndex::of(nanos)], max);
            rest.counted += 1;
        }
        let batch = self.batch.get(..self.filled as usize).unwrap_or_default();
        rest.counts.add(batch, max);
        rest.counted += batch.len() as u64;
        self.filled = 0;
    }

    /// The distribution of the samples.
    pub(super) fn freeze(mut self) -> Distribution {
        if self.filled > 0 {
            self.count_all();
        }
        let greatest = self.greatest();
        let Some(mut rest) = self.rest else { return Distribution::default() };
        let few = rest.few.len() as u64;
        let buckets: Box<[Bucket]> = if rest.counted > 0 {
            rest.counts.buckets()
        } else {
            rest.few.sort_unstable();
            let alike = rest.few.chunk_by(|a, b| a == b);
            alike.map(|alike| Bucket { nanos: alike[0], count: alike.len() as u64 }).collect()
        };
        let count = rest.counted + few;
        let figure = |nanos| if count > 0 { nanos } else { 0 };
        Distribution {
            count,
            censored: rest.censored,
            sum: self.sum,
            min: figure(self.least),
            max: figure(greatest),
            max_at: (count > 0).then_some(rest.max_at),
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
        assert!(tally.batch.is_empty());
        let exact = tally.clone().freeze();
        assert!(exact.buckets().iter().map(|b| b.nanos).eq((0..64).map(|n| n * 1_000_000)));
        tally.record(7, Nanos(0));
        assert!(!tally.batch.is_empty());
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
