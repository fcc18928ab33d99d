//! How much larger one side is, and how precisely that is known.
//!
//! The estimate is the median of the new runs divided by the median of the base runs. The noise bound is computed from the ratios of every
//! new run to every base run: it spans the changes that the rank test would not reject. It makes no assumption about the distribution of
//! values, and a single outlier hardly moves it. Estimate and bound can contradict each other if the sides differ more in shape than in
//! location. This widens the bound to the estimate, so that nothing is reported as known that either of them contradicts.

use super::ranks;

/// The maximum probability of a false alarm in a whole table: half of it for a false "larger", half for a false "smaller".
pub const ALPHA: f64 = 0.04;

/// A ratio of new to base: 1.1 is 10 % more. Infinite if the base is 0 and the new side is not.
pub type Ratio = f64;

/// How two groups of runs differ in one number.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Effect {
    /// The median of the base runs.
    pub base: f64,
    /// The median of the new runs.
    pub new: f64,
    /// The estimate: the median of the new runs divided by the median of the base runs.
    pub ratio: Ratio,
    /// The noise bound of the ratio, which contains the ratio; `None` if there are too few runs for a bound.
    pub bound: Option<(Ratio, Ratio)>,
    /// The p value of the rank test, for this number only.
    pub p: f64,
}

impl Effect {
    /// Compares two sides, with a bound that is wrong with a probability of at most `alpha`; `None` if one side has no runs.
    pub fn of(base: &[f64], new: &[f64], alpha: f64) -> Option<Effect> {
        let place = ranks::bounding_rank(base.len(), new.len(), alpha);
        let mut ratios: Vec<Ratio> = Vec::with_capacity(base.len() * new.len());
        for new in new {
            ratios.extend(base.iter().map(|base| ratio(*new, *base)));
        }
        ratios.sort_by(Ratio::total_cmp);
        let p = ranks::p_value(base, new);
        let (base, new) = (median(base)?, median(new)?);
        let estimate = ratio(new, base);
        let bound = place
            .and_then(|place| Some((place.checked_sub(1)?, ratios.len().checked_sub(place)?)))
            .and_then(|(low, high)| Some((*ratios.get(low)?, *ratios.get(high)?)))
            .map(|(low, high)| (low.min(estimate), high.max(estimate)));
        Some(Effect { base, new, ratio: estimate, bound, p })
    }
}

/// Zero divided by zero counts as no change.
fn ratio(new: f64, base: f64) -> Ratio {
    if new == base { 1.0 } else { new / base }
}

/// The middle value, or the mean of the two in the middle.
fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    let upper = *sorted.get(middle)?;
    Some(if sorted.len() % 2 == 1 { upper } else { sorted[middle - 1].midpoint(upper) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_that_doubled_have_a_ratio_of_two_and_a_bound_around_it() {
        let base = [10.0, 11.0, 9.0, 10.5, 9.5];
        let new = base.map(|value| value * 2.0);
        let effect = Effect::of(&base, &new, ALPHA).expect("both sides have runs");
        assert_eq!((effect.base, effect.new), (10.0, 20.0));
        assert!((effect.ratio - 2.0).abs() < 1e-12, "{effect:?}");
        let (low, high) = effect.bound.expect("five runs per side bound it");
        assert!(1.0 < low && low < 2.0 && 2.0 < high && high < 3.0, "{effect:?}");
        assert!(effect.p < 0.01);
    }

    #[test]
    fn the_bound_has_the_ratios_that_the_test_leaves_inside() {
        // With bases of 1, the ratios are the new runs, four times each; the first of 16 from each end is the bound.
        let effect =
            Effect::of(&[1.0; 4], &[2.0, 3.0, 5.0, 9.0], ALPHA).expect("both sides have runs");
        assert_eq!(effect.bound, Some((2.0, 9.0)));
        assert_eq!(effect.ratio, 4.0);
        // Powers of two: the 25 ratios are 2^-4 .. 2^4, the one with exponent e 5 - |e| times; the third from each end is the bound.
        let powers = [1.0, 2.0, 4.0, 8.0, 16.0];
        let effect = Effect::of(&powers, &powers, ALPHA).expect("both sides have runs");
        assert_eq!((effect.ratio, effect.bound), (1.0, Some((0.125, 8.0))));
    }

    #[test]
    fn the_bound_holds_no_change_exactly_when_the_test_sees_none() {
        // Every arrangement of ten different values into five and five.
        for mask in 0_u32..1 << 10 {
            let of_side = |side| {
                let mine = (0..10).filter(|at| (mask & (1 << at) != 0) == side);
                mine.map(|at| 1.1_f64.powi(at)).collect::<Vec<f64>>()
            };
            let (base, new) = (of_side(false), of_side(true));
            if base.len() == 5 {
                let effect = Effect::of(&base, &new, ALPHA).expect("both sides have runs");
                let (low, high) = effect.bound.expect("five runs per side bound it");
                assert_eq!(low <= 1.0 && 1.0 <= high, effect.p > ALPHA, "{effect:?}");
            }
        }
    }

    #[test]
    fn the_estimate_is_the_ratio_of_the_medians_and_lies_within_the_bound() {
        // Most of the new runs are slower, although their median is lower: pairs of runs indicate +10 %, the medians -20 %.
        let base = [30.0, 31.0, 50.6, 51.0, 52.0];
        let new = [33.0, 34.0, 40.4, 90.0, 95.0];
        let effect = Effect::of(&base, &new, ALPHA).expect("both sides have runs");
        assert_eq!((effect.base, effect.new, effect.ratio), (50.6, 40.4, 40.4 / 50.6));
        // Twenty similar runs on each side, and one in between: nearly every new run is slower, but the median is not.
        let side = |low: f64, middle: f64, high: f64| {
            let lows = (0..10).map(|at| low + f64::from(at) * 1e-3);
            let highs = (0..10).map(|at| high + f64::from(at) * 1e-3);
            lows.chain([middle]).chain(highs).collect::<Vec<f64>>()
        };
        let (base, new) = (side(1.0, 10.0, 11.0), side(9.0, 9.5, 90.0));
        let effect = Effect::of(&base, &new, ALPHA).expect("both sides have runs");
        let (low, high) = effect.bound.expect("so many runs bound it");
        assert!(low <= effect.ratio && effect.ratio <= high && effect.ratio < 1.0, "{effect:?}");
    }

    #[test]
    fn one_run_a_side_has_a_ratio_and_no_bound() {
        let effect = Effect::of(&[10.0], &[15.0], ALPHA).expect("both sides have runs");
        assert_eq!((effect.ratio, effect.bound, effect.p), (1.5, None, 1.0));
        assert_eq!(Effect::of(&[], &[1.0], ALPHA), None);
        assert_eq!(Effect::of(&[1.0], &[], ALPHA), None);
    }

    #[test]
    fn nothing_stays_nothing_and_something_is_infinitely_more() {
        let effect =
            |base, new| Effect::of(&[base], &[new], ALPHA).expect("both sides have runs").ratio;
        assert_eq!(effect(0.0, 0.0), 1.0);
        assert_eq!(effect(0.0, 5.0), f64::INFINITY);
        assert_eq!(effect(5.0, 0.0), 0.0);
    }
}
