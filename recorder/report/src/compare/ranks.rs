//! The rank test: are two groups of runs from the same distribution?
//!
//! Each run contributes one number, so the runs are the samples, and no assumption is needed about how the values within a run depend on
//! each other. The numbers of both sides are ranked together; equal ones share the mean of their ranks:
//!
//! ```text
//! base   1.1  1.2  1.3        ranks  1 2 3
//! new    1.4  1.5  1.6        ranks  4 5 6      sum 15
//! ```
//!
//! If the sides were equal, every choice of the new runs' ranks would be equally likely. The p value is the share of choices whose rank sum
//! is at least as far from the mean, `n (m + n + 1) / 2`, as the observed one: here 2 of 20, 1 2 3 and 4 5 6. That is the two-sided
//! Wilcoxon rank sum test (Mann and Whitney's U test) with its exact distribution, including ties. Nothing is random, so the same runs
//! always give the same result.

/// The maximum number of runs on both sides together: the time for the exact distribution grows with the fourth power.
pub const MAX_RUNS: usize = 100;

/// For each sum of doubled ranks, the number of ways to choose `chosen` of `ranks` with that sum. Counts up to 100 choose 50 are not exact
/// as floats, but correct to 15 digits.
fn ways(ranks: &[usize], chosen: usize) -> Vec<f64> {
    let total: usize = ranks.iter().sum();
    let mut table = vec![vec![0.0_f64; total + 1]; chosen + 1];
    table[0][0] = 1.0;
    for &rank in ranks {
        // From the largest number of ranks down, so that no rank is chosen twice.
        for size in (1..=chosen).rev() {
            let (smaller, larger) = table.split_at_mut(size);
            let with_it = larger[0][rank..].iter_mut();
            for (sum, before) in with_it.zip(&smaller[size - 1]) {
                *sum += before;
            }
        }
    }
    table.pop().unwrap_or_default()
}

/// Twice the rank of each value, in the order of the values; equal values share the mean of their ranks.
fn doubled_ranks(values: &[f64]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|&a, &b| values[a].total_cmp(&values[b]));
    let mut ranks = vec![0; values.len()];
    let mut first = 0;
    while first < order.len() {
        let same = order[first..].iter().take_while(|&&at| values[at] == values[order[first]]);
        let count = same.count();
        // The mean of first + 1 ..= first + count.
        for &at in &order[first..first + count] {
            ranks[at] = 2 * first + count + 1;
        }
        first += count;
    }
    ranks
}

/// The two-sided p value of the rank test; 1 if one side has no runs.
///
/// # Panics
/// Never for up to [`MAX_RUNS`] values; for more values it would take a long time.
pub fn p_value(base: &[f64], new: &[f64]) -> f64 {
    if base.is_empty() || new.is_empty() {
        return 1.0;
    }
    let pooled: Vec<f64> = base.iter().chain(new).copied().collect();
    let ranks = doubled_ranks(&pooled);
    // The smaller side has the smaller table and leads to the same result.
    let side = if base.len() < new.len() { &ranks[..base.len()] } else { &ranks[base.len()..] };
    let seen: usize = side.iter().sum();
    let mean = side.len() * (pooled.len() + 1);
    let ways = ways(&ranks, side.len());
    let far: f64 = ways
        .iter()
        .enumerate()
        .filter(|(sum, _)| sum.abs_diff(mean) >= seen.abs_diff(mean))
        .map(|(_, ways)| ways)
        .sum();
    (far / ways.iter().sum::<f64>()).min(1.0)
}

/// The smallest possible p value of `base` runs against `new` runs: all runs of one side are above all runs of the other.
pub fn least_p(base: usize, new: usize) -> f64 {
    let smaller = base.min(new);
    // 2 / (base + new choose smaller)
    let least = (1..=smaller).fold(2.0, |p, at| p * at as f64 / (base + new - smaller + at) as f64);
    least.min(1.0)
}

/// Which of the `base * new` sorted pairwise ratios bound the noise: the k-th from each end, counted from 1. The ratio is between them with
/// a confidence of at least `1 - alpha`. `None` if there are too few runs for a bound.
///
/// The ratio of the sides is below the k-th smallest pairwise ratio with the probability that U, the number of pairs in which the new run
/// is smaller, is at most k - 1. The result is the largest k whose probability is at most `alpha / 2`.
pub fn bounding_rank(base: usize, new: usize, alpha: f64) -> Option<usize> {
    let chosen = base.min(new);
    if chosen == 0 {
        return None;
    }
    let ranks: Vec<usize> = (1..=base + new).collect();
    let ways = ways(&ranks, chosen);
    let least_sum = chosen * (chosen + 1) / 2;
    let all: f64 = ways.iter().sum();
    let mut below = 0.0;
    let fits = ways[least_sum..].iter().take_while(|ways| {
        below += *ways / all;
        // Accepts a probability of exactly alpha / 2 in spite of rounding errors.
        below <= alpha / 2.0 * (1.0 + 1e-9)
    });
    Some(fits.count()).filter(|&place| place > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(a: f64, b: f64) -> bool {
        (a - b).abs() < 1e-9
    }

    /// p, by enumerating every assignment of runs to the two sides.
    fn p_by_counting(base: &[f64], new: &[f64]) -> f64 {
        let pooled: Vec<f64> = base.iter().chain(new).copied().collect();
        let rank = |value: f64| {
            let smaller = pooled.iter().filter(|&&other| other < value).count();
            let same = pooled.iter().filter(|&&other| other == value).count();
            smaller as f64 + (same as f64 + 1.0) / 2.0
        };
        let mean = new.len() as f64 * (pooled.len() as f64 + 1.0) / 2.0;
        let seen: f64 = new.iter().map(|&value| rank(value)).sum::<f64>() - mean;
        let (mut far, mut all) = (0, 0);
        for mask in 0_u32..1 << pooled.len() {
            if mask.count_ones() as usize != new.len() {
                continue;
            }
            let chosen = (0..pooled.len()).filter(|&at| mask & (1 << at) != 0);
            let sum: f64 = chosen.map(|at| rank(pooled[at])).sum();
            all += 1;
            far += u32::from((sum - mean).abs() >= seen.abs() - 1e-9);
        }
        f64::from(far) / f64::from(all)
    }

    #[test]
    fn three_runs_beyond_three_are_two_of_twenty_ways() {
        assert!(close(p_value(&[1.1, 1.2, 1.3], &[1.4, 1.5, 1.6]), 0.1));
        assert!(close(p_value(&[1.4, 1.5, 1.6], &[1.1, 1.2, 1.3]), 0.1));
        assert!(close(
            p_value(&[1.0, 2.0, 3.0, 4.0, 5.0], &[6.0, 7.0, 8.0, 9.0, 10.0]),
            2.0 / 252.0
        ));
    }

    #[test]
    fn a_textbook_example_gets_the_textbooks_p() {
        // Permeability of placental membranes (Hollander and Wolfe, table 4.1), whose two-sided
        // exact p is 0.2544: W = 35 among 10 and 5 values.
        let term = [0.80, 0.83, 1.89, 1.04, 1.45, 1.38, 1.91, 1.64, 0.73, 1.46];
        let early = [1.15, 0.88, 0.90, 0.74, 1.21];
        let p = p_value(&term, &early);
        assert!((p - 0.2544).abs() < 5e-5, "{p}");
    }

    #[test]
    fn the_table_agrees_with_counting_all_ways_with_and_without_ties() {
        let sides: [(&[f64], &[f64]); 6] = [
            (&[1.0], &[2.0]),
            (&[1.0, 5.0, 3.0], &[2.0, 4.0]),
            (&[1.0, 1.0, 2.0, 2.0], &[2.0, 2.0, 3.0]),
            (&[7.0, 7.0, 7.0], &[7.0, 7.0, 7.0, 7.0]),
            (&[0.0, 0.0, 0.0, 9.0], &[0.0, 5.0, 5.0, 5.0, 8.0]),
            (&[3.0, 1.0, 4.0, 1.0, 5.0, 9.0, 2.0], &[6.0, 5.0, 3.0, 5.0, 8.0, 9.0]),
        ];
        for (base, new) in sides {
            let expected = p_by_counting(base, new);
            assert!(close(p_value(base, new), expected), "{base:?} {new:?}");
            assert!(close(p_value(new, base), expected), "{new:?} {base:?}");
        }
    }

    #[test]
    fn equal_runs_differ_in_nothing() {
        assert!(close(p_value(&[4.0; 10], &[4.0; 10]), 1.0));
        assert!(close(p_value(&[], &[1.0]), 1.0));
    }

    #[test]
    fn fifty_runs_a_side_are_still_exact() {
        let base: Vec<f64> = (0..50).map(f64::from).collect();
        let new: Vec<f64> = (50..100).map(f64::from).collect();
        let p = p_value(&base, &new);
        assert!((p / least_p(50, 50) - 1.0).abs() < 1e-9, "{p}");
        let mixed: Vec<f64> = base.iter().map(|value| value + 0.5).collect();
        assert!(p_value(&base, &mixed) > 0.5);
    }

    #[test]
    fn the_least_p_is_two_of_all_ways() {
        for (base, new, ways) in [(3, 3, 20.0), (4, 4, 70.0), (5, 5, 252.0), (39, 1, 40.0)] {
            assert!(close(least_p(base, new), 2.0 / ways), "{base} {new}");
            assert!(close(least_p(new, base), 2.0 / ways));
        }
        assert!(close(least_p(1, 1), 1.0));
        assert!(close(least_p(0, 5), 1.0));
    }

    #[test]
    fn the_bound_is_at_the_place_that_tables_of_u_give() {
        // Critical values of U, two-sided at 5 %, plus one.
        for (base, new, place) in
            [(4, 4, 1), (5, 5, 3), (6, 6, 6), (8, 8, 14), (10, 10, 24), (5, 8, 7), (20, 20, 128)]
        {
            assert_eq!(bounding_rank(base, new, 0.05), Some(place), "{base} {new}");
        }
        for (base, new) in [(3, 3), (1, 1), (0, 4), (2, 5)] {
            assert_eq!(bounding_rank(base, new, 0.05), None, "{base} {new}");
        }
        assert_eq!(bounding_rank(39, 1, 0.05), Some(1));
    }
}
