//! Counts of durations, in buckets that grow with the duration.
//!
//! These are the buckets of an HdrHistogram with two significant digits; a test compares them with the crate of that name. Up to 255, each
//! value has its own bucket; beyond that, 128 buckets share each power of two. The crate itself is not used for counting: it checks each
//! value separately, which took a quarter of a report's time. Here, finding the position of a value takes three instructions, so the
//! processor finds the positions of many samples in parallel.
//!
//! ```text
//!   value     0 1 2 ... 255 | 256-257 258-259 ... 510-511 | 512-515 ... | 1024-1031 ...
//!   place     0 1 2 ... 255 |   256     257   ...   383   |   384   ... |    512    ...
//! ```

use super::distribution::Bucket;

/// Values below 2 to the power of this have a bucket each; above, half as many buckets share each power of two.
const BITS: u32 = 8;

/// The number of buckets that share a power of two.
const HALF: usize = 1 << (BITS - 1);

/// Counts by bucket, up to that of the greatest value.
#[derive(Clone, Debug, Default)]
pub(super) struct Counts {
    by_place: Vec<u32>,
    /// No count in `by_place` exceeds this.
    held: u32,
    /// Counts carried over from `by_place` before it could overflow.
    carried: Vec<u64>,
}

/// The number of low bits that are dropped from values in the bucket of `nanos`.
#[inline]
fn rounding(nanos: u64) -> u32 {
    let least = (1 << BITS) - 1;
    u64::BITS - BITS - (nanos | least).leading_zeros()
}

/// The index of a value's bucket.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct BucketIndex(u16);

impl BucketIndex {
    /// The index of the bucket of `nanos`.
    #[inline(always)]
    pub(super) fn of(nanos: u64) -> BucketIndex {
        let rounding = rounding(nanos);
        // At most 255 remains of the value: dropping fewer bits is not possible, and no index exceeds 7423.
        BucketIndex((u64::from(rounding) * HALF as u64 + (nanos >> rounding)) as u16)
    }

    #[inline(always)]
    fn index(self) -> usize {
        usize::from(self.0)
    }
}

/// The greatest value in the bucket at `place`.
fn greatest(place: usize) -> u64 {
    let rounding = (place / HALF).saturating_sub(1);
    let first = (place - rounding * HALF) as u64;
    (first << rounding) | !(u64::MAX << rounding)
}

impl Counts {
    /// Counts samples at all `places`; none of them is greater than `max`.
    pub(super) fn add(&mut self, places: &[BucketIndex], max: u64) {
        self.make_room(max, places.len() as u64);
        for place in places {
            if let Some(count) = self.by_place.get_mut(place.index()) {
                *count += 1;
            }
        }
    }

    /// Counts `nanos` this many times.
    pub(super) fn add_times(&mut self, nanos: u64, times: u64) {
        self.make_room(nanos, times);
        let at = BucketIndex::of(nanos).index();
        match u32::try_from(times) {
            Ok(few) => self.by_place[at] += few,
            Err(_) => self.carried[at] += times,
        }
    }

    /// Reserves space for this number of samples up to `max`, so that no count overflows.
    #[inline]
    fn make_room(&mut self, max: u64, samples: u64) {
        let places = BucketIndex::of(max).index() + 1;
        if self.by_place.len() < places {
            self.by_place.resize(places, 0);
        }
        let held = u64::from(self.held) + samples;
        match u32::try_from(held) {
            Ok(held) => self.held = held,
            Err(_) => self.carry(u32::try_from(samples).unwrap_or(0)),
        }
    }

    /// Moves all counts to `carried`, and reserves space for `held` more.
    #[cold]
    fn carry(&mut self, held: u32) {
        self.carried.resize(self.by_place.len(), 0);
        for (sum, count) in self.carried.iter_mut().zip(&mut self.by_place) {
            *sum += u64::from(std::mem::take(count));
        }
        self.held = held;
    }

    /// Adds the counts of `buckets`, which are in order.
    pub(super) fn add_buckets(&mut self, buckets: &[Bucket]) {
        let Some(greatest) = buckets.last() else { return };
        let samples = buckets.iter().fold(0_u64, |sum, bucket| sum.saturating_add(bucket.count));
        if samples > u64::from(u32::MAX) {
            buckets.iter().for_each(|bucket| self.add_times(bucket.nanos, bucket.count));
            return;
        }
        self.make_room(greatest.nanos, samples);
        for bucket in buckets {
            if let Some(count) = self.by_place.get_mut(BucketIndex::of(bucket.nanos).index()) {
                // Each count is at most the sum of all counts, which fits.
                *count += bucket.count as u32;
            }
        }
    }

    /// The buckets that are not empty, in order, each with its greatest value.
    pub(super) fn buckets(&self) -> Box<[Bucket]> {
        let used = || {
            let carried = |place| self.carried.get(place).copied().unwrap_or(0);
            let places = self.by_place.iter().enumerate();
            let counts =
                places.map(move |(place, &count)| (place, u64::from(count) + carried(place)));
            counts.filter(|&(_, count)| count > 0)
        };
        // Allocated with the final size, to avoid copying everything once more.
        let mut buckets = Vec::with_capacity(used().count());
        buckets.extend(used().map(|(place, count)| Bucket { nanos: greatest(place), count }));
        buckets.into()
    }
}

#[cfg(test)]
mod tests {
    use hdrhistogram::Histogram;

    use super::*;

    #[test]
    fn buckets_are_those_of_an_hdr_histogram_of_two_digits() {
        let mut reference = Histogram::<u64>::new(2).expect("two digits are a precision");
        let mut counts = Counts::default();
        let powers = (0..u64::BITS).map(|bit| 1 << bit);
        let around =
            powers.flat_map(|power: u64| [power - 1, power, power + 1, power | (power / 3)]);
        let dense = (0..5_000).chain((0..20_000).map(|n| n * n * 977));
        // The crate does not accept greater values.
        for nanos in around.chain(dense).filter(|nanos| *nanos < 1 << 62) {
            reference.record(nanos).expect("it grows");
            counts.add(&[BucketIndex::of(nanos)], nanos);
        }
        let expected: Vec<Bucket> = reference
            .iter_recorded()
            .map(|step| Bucket { nanos: step.value_iterated_to(), count: step.count_at_value() })
            .collect();
        assert_eq!(*counts.buckets(), expected);
    }

    #[test]
    fn counts_are_as_great_as_they_like() {
        let most = u64::from(u32::MAX);
        let mut counts = Counts::default();
        for (nanos, times) in [(7, most), (9, most - 1), (7, 2), (300, most + 5), (7, most), (9, 3)]
        {
            counts.add_times(nanos, times);
            counts.add(&[BucketIndex::of(nanos), BucketIndex::of(7)], nanos);
        }
        let expected = [(7, 2 * most + 2 + 3 + 6), (9, most - 1 + 3 + 2), (301, most + 5 + 1)];
        let expected = expected.map(|(nanos, count)| Bucket { nanos, count });
        assert_eq!(*counts.buckets(), expected);
    }

    #[test]
    fn buckets_that_are_added_count_as_their_samples_do_however_many_they_are() {
        let most = u64::from(u32::MAX);
        for times in [1, 1000, most - 1, most] {
            let buckets = [(3, 1), (300, times), (70_000, 2)];
            let buckets = buckets.map(|(nanos, count)| Bucket { nanos, count });
            let (mut together, mut alone) = (Counts::default(), Counts::default());
            for _ in 0..3 {
                together.add_buckets(&buckets);
                buckets.iter().for_each(|bucket| alone.add_times(bucket.nanos, bucket.count));
            }
            assert_eq!(together.buckets(), alone.buckets());
            assert_eq!(together.buckets()[1], Bucket { nanos: 301, count: 3 * times });
        }
    }

    #[test]
    fn every_value_there_is_has_a_place_in_its_own_bucket() {
        for nanos in [0, 255, 256, 511, 512, u64::MAX / 2, u64::MAX - 1, u64::MAX] {
            let mut counts = Counts::default();
            counts.add_times(nanos, 3);
            let buckets = counts.buckets();
            assert_eq!((buckets.len(), buckets[0].count), (1, 3));
            assert!(buckets[0].nanos >= nanos && buckets[0].nanos - nanos <= nanos / 128);
        }
    }
}
