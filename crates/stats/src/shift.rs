//! Difference between two sets of runs: the Hodges-Lehmann estimate, its interval, and the p-values of the matching
//! rank tests.
//!
//! All come from one sorted list: the differences of all pairs, or the averages of all pairs of one set. The estimate
//! is its median; the ends of the interval are two of its values; a p-value comes from the number of values on one side
//! of a bound. So interval and p-value always agree: the lower end is above a bound exactly if the test against this
//! bound has p <= alpha / 2.
//!
//! Equal values, and pairs without a difference, count against a change: p-values and intervals become larger than with
//! any other treatment. No values are dropped.
//!
//! # Source
//! Hodges and Lehmann (1963), doi:10.1214/aoms/1177704172; intervals by Hollander, Wolfe and Chicken, "Nonparametric
//! Statistical Methods" (3rd edition), sections 3.3 and 4.3.

use crate::error::{Error, check_finite, logarithms};
use crate::interval::Interval;
use crate::rank_counts::CountDistribution;

/// Shift between two sets of runs, or of one set from 0. Each value is a statistic of a whole run, because values must
/// be independent. Time and memory grow with the product of both numbers of runs.
#[derive(Clone, Debug)]
pub struct Shift {
    estimate: f64,
    /// Differences, averages or ratios of all pairs, sorted, each as small as errors allow.
    lows: Vec<f64>,
    /// Values as in `lows`, each as large as errors allow; `None` without errors.
    highs: Option<Vec<f64>>,
    counts: CountDistribution,
}

impl Shift {
    /// Shift `result` minus `reference` of two independent sets, in their unit. The test is Mann and Whitney's.
    ///
    /// # Errors
    /// If a side is empty or has a value that is not finite.
    pub fn difference(reference: &[f64], result: &[f64]) -> Result<Self, Error> {
        check_finite("reference", reference)?;
        check_finite("result", result)?;
        Ok(Self::two_sets(reference, result))
    }

    /// Centre of one set, e.g. of differences within pairs, in its unit: the median of the averages of all pairs of
    /// values (pseudo-median). The test is Wilcoxon's signed-rank test. It assumes a symmetric distribution, such as
    /// that of the difference between two runs of one program.
    ///
    /// # Errors
    /// If there is no value or one is not finite.
    pub fn centre(values: &[f64]) -> Result<Self, Error> {
        check_finite("only", values)?;
        Ok(Self::one_set(values))
    }

    /// Ratio `result` / `reference` of two independent sets of values of 0 or more: [`Shift::difference`] of
    /// logarithms; 1 means no change. Two zeros have the ratio 1; a pair with one zero has the ratio 0 or infinity. The
    /// test only counts results above the bound times a reference, so it needs no logarithm.
    ///
    /// # Errors
    /// If a side is empty or has a value that is not finite or below 0.
    pub fn ratio(reference: &[f64], result: &[f64]) -> Result<Self, Error> {
        let logarithms = |side: &'static str, values: &[f64]| {
            check_finite(side, values)?;
            match values.iter().position(|&value| value < 0.0) {
                Some(index) => Err(Error::NotPositive { side, index, value: values[index] }),
                None => Ok(values.iter().map(|value| value.ln()).collect::<Vec<f64>>()),
            }
        };
        let (reference, result) = (logarithms("reference", reference)?, logarithms("result", result)?);
        let differences = differences(&reference, &result).map(|one| if one.is_nan() { 0.0 } else { one });
        let counts = CountDistribution::rank_sum(reference.len(), result.len());
        Ok(Self::new(differences.collect(), counts).exponentiated())
    }

    /// Ratio `result` / `reference` of paired runs, i-th with i-th: [`Shift::centre`] of the differences of logarithms;
    /// 1 means no change.
    ///
    /// # Errors
    /// If the numbers differ, there is no value, or one is not finite or not above 0.
    pub fn paired_ratio(reference: &[f64], result: &[f64]) -> Result<Self, Error> {
        if reference.len() != result.len() {
            return Err(Error::NotPairs { reference: reference.len(), result: result.len() });
        }
        let (reference, result) = (logarithms("reference", reference)?, logarithms("result", result)?);
        let differences: Vec<f64> =
            result.iter().zip(&reference).map(|(result, reference)| result - reference).collect();
        Ok(Self::one_set(&differences).exponentiated())
    }

    /// [`Shift::ratio`] of values with errors of at most `errors` on either side: interval and p-values hold for all
    /// errors within these bounds, equal within a side or not. True values are 0 or more, so values below 0 count as 0.
    /// If a reference may be 0, the ratio has no upper bound.
    ///
    /// # Errors
    /// If a side is empty or has a value that is not finite, or below 0 by more than its error.
    pub fn ratio_within(reference: &[f64], result: &[f64], errors: [f64; 2]) -> Result<Self, Error> {
        if errors == [0.0; 2] {
            return Self::ratio(reference, result);
        }
        for (side, values, error) in [("reference", reference, errors[0]), ("result", result, errors[1])] {
            check_finite(side, values)?;
            if let Some(index) = values.iter().position(|value| value + error < 0.0) {
                return Err(Error::NotPositive { side, index, value: values[index] });
            }
        }
        let of = |reference_off, result_off| Self::ratio(&off(reference, reference_off), &off(result, result_off));
        Ok(of(0.0, 0.0)?.between(of(errors[0], -errors[1])?, of(-errors[0], errors[1])?))
    }

    /// [`Shift::paired_ratio`] of values with errors, as in [`Shift::ratio_within`]. Fails as [`Shift::paired_ratio`].
    pub fn paired_ratio_within(reference: &[f64], result: &[f64], errors: [f64; 2]) -> Result<Self, Error> {
        let middle = Self::paired_ratio(reference, result)?;
        if errors == [0.0; 2] {
            return Ok(middle);
        }
        let of = |reference_off, result_off| {
            let pairs = off(result, result_off).into_iter().zip(off(reference, reference_off));
            Self::one_set(&pairs.map(|(result, reference)| result.ln() - reference.ln()).collect::<Vec<f64>>())
        };
        let (low, high) = (of(errors[0], -errors[1]), of(-errors[0], errors[1]));
        Ok(middle.between(low.exponentiated(), high.exponentiated()))
    }

    /// Shift with the bounds of two others, whose values have the largest errors in either direction.
    fn between(self, low: Self, high: Self) -> Self {
        Self { lows: low.lows, highs: Some(high.lows), ..self }
    }

    fn highs(&self) -> &[f64] {
        self.highs.as_ref().unwrap_or(&self.lows)
    }

    fn two_sets(reference: &[f64], result: &[f64]) -> Self {
        Self::new(differences(reference, result).collect(), CountDistribution::rank_sum(reference.len(), result.len()))
    }

    fn one_set(values: &[f64]) -> Self {
        Self::new(averages(values).collect(), CountDistribution::signed_rank(values.len()))
    }

    fn new(mut pairs: Vec<f64>, counts: CountDistribution) -> Self {
        pairs.sort_unstable_by(f64::total_cmp);
        let middle = pairs.len() / 2;
        let estimate = if pairs.len() % 2 == 1 { pairs[middle] } else { pairs[middle - 1] / 2.0 + pairs[middle] / 2.0 };
        Self { estimate, lows: pairs, highs: None, counts }
    }

    fn exponentiated(mut self) -> Self {
        self.estimate = self.estimate.exp();
        self.lows.iter_mut().for_each(|pair| *pair = pair.exp());
        self
    }

    /// Hodges-Lehmann estimate.
    pub fn hodges_lehmann(&self) -> f64 {
        self.estimate
    }

    /// Two-sided interval that covers the true shift with a probability of at least 1 - `alpha` (0.05 for 95 %). `None`
    /// with fewer values than [`fewest_pairs`] or [`fewest_runs`]. Exact up to 50 values per side; a normal
    /// approximation for more.
    ///
    /// # Panics
    /// If `alpha` is not between 0 and 1.
    pub fn interval(&self, alpha: f64) -> Option<Interval> {
        assert!(alpha > 0.0 && alpha < 1.0, "alpha is between 0 and 1");
        let low = self.counts.place_of_low(self.lows.len(), alpha)?;
        Some(Interval { low: self.lows[low], high: self.highs()[self.lows.len() - 1 - low] })
    }

    /// One-sided p-value of "the shift is at most `bound`": small if it is greater.
    pub fn p_greater(&self, bound: f64) -> f64 {
        self.counts.cdf(self.lows.partition_point(|&pair| pair <= bound))
    }

    /// One-sided p-value of "the shift is at least `bound`": small if it is less.
    pub fn p_less(&self, bound: f64) -> f64 {
        self.counts.cdf(self.lows.len() - self.highs().partition_point(|&pair| pair < bound))
    }
}

/// Adds `by` to values; sums below 0 become 0.
fn off(values: &[f64], by: f64) -> Vec<f64> {
    values.iter().map(|value| (value + by).max(0.0)).collect()
}

/// Differences of all pairs of a result and a reference.
pub(crate) fn differences(reference: &[f64], result: &[f64]) -> impl Iterator<Item = f64> {
    result.iter().flat_map(|result| reference.iter().map(move |reference| result - reference))
}

/// Averages of all pairs of values, including each value with itself.
pub(crate) fn averages(values: &[f64]) -> impl Iterator<Item = f64> {
    let from = |(index, &value): (usize, &f64)| values[index..].iter().map(move |other| value / 2.0 + other / 2.0);
    values.iter().enumerate().flat_map(from)
}

/// Fewest pairs for an interval of [`Shift::centre`] or [`Shift::paired_ratio`]: 6 for alpha = 0.05.
///
/// # Panics
/// If `alpha` is not between 0 and 1.
pub fn fewest_pairs(alpha: f64) -> u64 {
    fewest(alpha, |_| 0.5)
}

/// Fewest runs on either side for an interval of [`Shift::difference`] or [`Shift::ratio`]: 4 for alpha = 0.05.
///
/// # Panics
/// If `alpha` is not between 0 and 1.
pub fn fewest_runs(alpha: f64) -> u64 {
    fewest(alpha, |n| n / (4.0 * n - 2.0))
}

/// Smallest n at which the product of all factors up to n is at most alpha / 2.
fn fewest(alpha: f64, factor: impl Fn(f64) -> f64) -> u64 {
    assert!(alpha > 0.0 && alpha < 1.0, "alpha is between 0 and 1");
    let (mut n, mut extreme) = (0, 1.0);
    while extreme > alpha / 2.0 {
        n += 1;
        extreme *= factor(n as f64);
    }
    n
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn too_few_values_have_no_interval() {
        let values = [1.0, 2.5, 3.0, 4.0, 7.0, 9.0];
        assert_eq!(Shift::centre(&values[..5]).unwrap().interval(0.05), None);
        assert_eq!(Shift::centre(&values).unwrap().interval(0.05), Some(Interval { low: 1.0, high: 9.0 }));
        assert_eq!(Shift::difference(&values[..3], &values[..3]).unwrap().interval(0.05), None);
        assert!(Shift::difference(&values[..4], &values[..4]).unwrap().interval(0.05).is_some());
        assert_eq!((fewest_pairs(0.05), fewest_runs(0.05)), (6, 4));
        for alpha in [0.3, 0.05, 0.05 / 40.0, 1e-5] {
            let has = |n: u64, shift: fn(&[f64]) -> Shift| {
                let values: Vec<f64> = (0..n).map(|value| value as f64).collect();
                n > 0 && shift(&values).interval(alpha).is_some()
            };
            for (n, shift) in [
                (fewest_pairs(alpha), (|values| Shift::centre(values).unwrap()) as fn(&[f64]) -> Shift),
                (fewest_runs(alpha), |values| Shift::difference(values, values).unwrap()),
            ] {
                assert!(has(n, shift) && !has(n - 1, shift), "{alpha} {n}");
            }
        }
    }

    /// Interval and p-values agree, which [`crate::change`] relies on.
    #[test]
    fn interval_and_p_values_agree_even_with_ties() {
        let mut random = fastrand::Rng::with_seed(1);
        for round in 0..300 {
            let mut values = |n: usize| (0..n).map(|_| f64::from(random.u8(1..9))).collect::<Vec<_>>();
            let n = 4 + round % 9;
            let (reference, result) = (values(n), values(n));
            let errors = [0.5, 1.5];
            for shift in [
                Shift::ratio(&reference, &result),
                Shift::paired_ratio(&reference, &result),
                Shift::ratio_within(&reference, &result, errors),
                Shift::paired_ratio_within(&reference, &result, errors),
            ] {
                let shift = shift.unwrap();
                for alpha in [0.01, 0.05, 0.3] {
                    let interval = shift.interval(alpha);
                    assert_eq!(interval.is_some(), 2.0 * shift.counts.cdf(0) <= alpha);
                    let Some(Interval { low, high }) = interval else { continue };
                    assert!(low <= shift.hodges_lehmann() && shift.hodges_lehmann() <= high);
                    for bound in [0.5, 0.95, 1.0, 1.05, 2.0, low, high] {
                        assert_eq!(low > bound, shift.p_greater(bound) <= alpha / 2.0);
                        assert_eq!(high < bound, shift.p_less(bound) <= alpha / 2.0);
                    }
                }
            }
        }
    }

    #[test]
    fn equal_values_are_no_change() {
        let shift = Shift::paired_ratio(&[3.0; 12], &[3.0; 12]).unwrap();
        assert_eq!((shift.hodges_lehmann(), shift.interval(0.05)), (1.0, Some(Interval { low: 1.0, high: 1.0 })));
        assert_eq!((shift.p_less(1.0), shift.p_greater(1.0)), (1.0, 1.0));
        assert!(shift.p_less(1.05) < 0.001);
    }

    #[test]
    fn a_ratio_to_or_from_0_is_as_large_as_any() {
        let shift = |reference: f64, result: f64| Shift::ratio(&[reference; 6], &[result; 6]).unwrap();
        let all = |ratio: f64| Some(Interval { low: ratio, high: ratio });
        for (reference, result, ratio) in [(0.0, 0.5, f64::INFINITY), (5.0, 0.0, 0.0), (0.0, 0.0, 1.0)] {
            let shift = shift(reference, result);
            assert_eq!((shift.hodges_lehmann(), shift.interval(0.05)), (ratio, all(ratio)), "{reference} {result}");
        }
        let p = [shift(0.0, 0.5).p_greater(1.02), shift(5.0, 0.0).p_less(0.98)];
        assert!(p.iter().all(|p| *p < 0.002) && shift(0.0, 0.0).p_greater(1.0) == 1.0, "{p:?}");
        // One of six is not a change.
        let seldom = Shift::ratio(&[0.0; 6], &[0.0, 0.0, 0.3, 0.0, 0.0, 0.0]).unwrap();
        assert!(seldom.hodges_lehmann() == 1.0 && seldom.p_greater(1.0) > 0.2);
    }

    #[test]
    fn values_that_may_be_off_have_the_widest_interval_of_all_that_they_may_be() {
        let (reference, result) = ([10.0, 11.0, 12.0, 10.5, 11.5, 12.5], [20.0, 22.0, 21.0, 23.0, 20.5, 22.5]);
        type Ratio = fn(&[f64], &[f64], [f64; 2]) -> Result<Shift, Error>;
        for of in [Shift::ratio_within as Ratio, Shift::paired_ratio_within as Ratio] {
            let interval = |errors| of(&reference, &result, errors).unwrap().interval(0.05).unwrap();
            let moved = |by: [f64; 2]| {
                of(&off(&reference, by[0]), &off(&result, by[1]), [0.0; 2]).unwrap().interval(0.05).unwrap()
            };
            let (low, high) = (moved([2.0, -3.0]).low, moved([-2.0, 3.0]).high);
            assert_eq!(interval([2.0, 3.0]), Interval { low, high });
            assert!(interval([0.0; 2]).low > 1.5 && low > 1.0 && high > interval([0.0; 2]).high);
            // The reference may be 0.
            let wide = of(&reference, &result, [11.0, 1.0]).unwrap();
            assert!(wide.interval(0.05).is_some_and(|one| one.low > 0.0 && one.high == f64::INFINITY), "{wide:?}");
            assert!(wide.p_greater(1.02) > 0.025 && wide.p_less(1e9) > 0.5);
        }
        // Measured by two clocks, a latency may appear to be below 0.
        let shift = Shift::ratio_within(&[5.0; 6], &[-1.0; 6], [2.0, 2.0]).unwrap();
        let expected = Some(Interval { low: 0.0, high: 1.0 / 3.0 });
        assert_eq!((shift.hodges_lehmann(), shift.interval(0.05)), (0.0, expected));
        let below = Error::NotPositive { side: "result", index: 0, value: -3.0 };
        assert_eq!(Shift::ratio_within(&[5.0; 6], &[-3.0; 6], [2.0, 2.0]).unwrap_err(), below);
    }

    #[test]
    fn values_that_have_no_ratio_are_errors() {
        let told = |found: Result<Shift, Error>| found.unwrap_err();
        assert_eq!(told(Shift::ratio(&[], &[1.0])), Error::Empty { side: "reference" });
        assert_eq!(
            told(Shift::ratio(&[1.0], &[1.0, -1.0])),
            Error::NotPositive { side: "result", index: 1, value: -1.0 }
        );
        assert_eq!(
            told(Shift::paired_ratio(&[1.0], &[0.0])),
            Error::NotPositive { side: "result", index: 0, value: 0.0 }
        );
        assert_eq!(told(Shift::paired_ratio(&[1.0], &[])), Error::NotPairs { reference: 1, result: 0 });
        let infinite = Error::NotFinite { side: "only", index: 0, value: f64::INFINITY };
        assert_eq!(told(Shift::centre(&[f64::INFINITY])), infinite);
    }
}
