//! How much larger one side is, and within which bound that is known.
//!
//! Every new run is divided by every base run. The median of these `m n` ratios is the estimate (Hodges and Lehmann's,
//! of the logarithms), and those that the rank test leaves inside are the noise bound: all changes that the test would
//! not refuse. Both need no assumption about how values are distributed, and one wild run moves them little.

use super::ranks;

/// The confidence of the noise bound is this much below 1, and so large is the chance of a false alarm.
pub const ALPHA: f64 = 0.05;

/// A ratio of new to base: 1.1 is 10 % more. Infinite where the base is 0 and the new side is not.
pub type Ratio = f64;

/// How two groups of runs differ in one number.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Effect {
    /// The median of the base runs.
    pub base: f64,
    /// The median of the new runs.
    pub new: f64,
    /// The estimate of new by base.
    pub ratio: Ratio,
    /// The noise bound of the ratio; `None` when so few runs bound nothing.
    pub bound: Option<(Ratio, Ratio)>,
    /// The p value of the rank test, for this number alone.
    pub p: f64,
}

impl Effect {
    /// Compares two sides; `None` when one has no runs.
    pub fn of(base: &[f64], new: &[f64]) -> Option<Effect> {
        let mut ratios: Vec<Ratio> = Vec::with_capacity(base.len() * new.len());
        for new in new {
            ratios.extend(base.iter().map(|base| ratio(*new, *base)));
        }
        ratios.sort_by(Ratio::total_cmp);
        let bound = ranks::bounding_place(base.len(), new.len(), ALPHA)
            .and_then(|place| Some((place.checked_sub(1)?, ratios.len().checked_sub(place)?)))
            .and_then(|(low, high)| Some((*ratios.get(low)?, *ratios.get(high)?)));
        Some(Effect {
            base: median(base)?,
            new: median(new)?,
            ratio: median(&ratios)?,
            bound,
            p: ranks::p_value(base, new),
        })
    }
}

/// Nothing by nothing is no change.
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
        let effect = Effect::of(&base, &new).expect("both sides have runs");
        assert_eq!((effect.base, effect.new), (10.0, 20.0));
        assert!((effect.ratio - 2.0).abs() < 1e-12, "{effect:?}");
        let (low, high) = effect.bound.expect("five runs a side bound it");
        assert!(1.0 < low && low < 2.0 && 2.0 < high && high < 3.0, "{effect:?}");
        assert!(effect.p < 0.01);
    }

    #[test]
    fn the_bound_has_the_ratios_that_the_test_leaves_inside() {
        // Against bases of 1 the ratios are the new runs, each four times; the first of 16 from each end bounds them.
        let effect = Effect::of(&[1.0; 4], &[2.0, 3.0, 5.0, 9.0]).expect("both sides have runs");
        assert_eq!(effect.bound, Some((2.0, 9.0)));
        assert_eq!(effect.ratio, 4.0);
        // Powers of two: the 25 ratios are 2^-4 .. 2^4, the one of exponent e 5 - |e| times; the third bounds them.
        let powers = [1.0, 2.0, 4.0, 8.0, 16.0];
        let effect = Effect::of(&powers, &powers).expect("both sides have runs");
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
                let effect = Effect::of(&base, &new).expect("both sides have runs");
                let (low, high) = effect.bound.expect("five runs a side bound it");
                assert_eq!(low <= 1.0 && 1.0 <= high, effect.p > ALPHA, "{effect:?}");
            }
        }
    }

    #[test]
    fn one_run_a_side_has_a_ratio_and_no_bound() {
        let effect = Effect::of(&[10.0], &[15.0]).expect("both sides have runs");
        assert_eq!((effect.ratio, effect.bound, effect.p), (1.5, None, 1.0));
        assert_eq!(Effect::of(&[], &[1.0]), None);
        assert_eq!(Effect::of(&[1.0], &[]), None);
    }

    #[test]
    fn nothing_stays_nothing_and_something_is_infinitely_more() {
        let effect = |base, new| Effect::of(&[base], &[new]).expect("both sides have runs").ratio;
        assert_eq!(effect(0.0, 0.0), 1.0);
        assert_eq!(effect(0.0, 5.0), f64::INFINITY);
        assert_eq!(effect(5.0, 0.0), 0.0);
    }
}
