//! Intervals from order statistics, for a quantile within a run and for the median over rounds. They assume only that
//! values are independent.
//!
//! Samples of one run are not independent: each is similar to the one before. So an interval of a quantile holds only
//! within this run, and is too narrow by about the square root of n / [`crate::autocorrelation::effective_size`].
//!
//! # Source
//! Hahn and Meeker (1991), "Statistical Intervals", sections 5.2 and 5.3.

use crate::binomial::{cdf, sf, smallest};
use crate::interval::Interval;

/// Index, in n sorted samples, of the one-sided lower bound of the `p` quantile. It is above the quantile with a
/// probability of at most `alpha`. `None` if n is too small.
///
/// # Panics
/// If `p` or `alpha` is not between 0 and 1.
pub fn lower_place(n: u64, p: f64, alpha: f64) -> Option<u64> {
    check(p, alpha);
    // The sample at a place is above the quantile if at most that many samples are below it.
    smallest(n, |place| cdf(place, n, p) > alpha).checked_sub(1)
}

/// Index of the one-sided upper bound of the `p` quantile. `None` if n is too small: below 29,956 for p99.99 at 95 %.
///
/// # Panics
/// If `p` or `alpha` is not between 0 and 1.
pub fn upper_place(n: u64, p: f64, alpha: f64) -> Option<u64> {
    check(p, alpha);
    let place = smallest(n, |place| sf(place, n, p) <= alpha);
    (place < n).then_some(place)
}

/// Two-sided interval of the `p` quantile at 1 - `alpha`, half of alpha on each side; a bound is `None` if there are
/// too few samples for it.
///
/// # Panics
/// If `p` or `alpha` is not between 0 and 1.
pub fn quantile_bounds<T: Copy>(sorted: &[T], p: f64, alpha: f64) -> (Option<T>, Option<T>) {
    let n = sorted.len() as u64;
    let sample = |place: u64| sorted[place as usize];
    (lower_place(n, p, alpha / 2.0).map(sample), upper_place(n, p, alpha / 2.0).map(sample))
}

/// Fewest samples for the one-sided upper bound of the `p` quantile: 29,956 for p99.99 at alpha = 0.05.
///
/// # Panics
/// If `p` or `alpha` is not between 0 and 1.
pub fn fewest_for_upper_bound(p: f64, alpha: f64) -> u64 {
    check(p, alpha);
    (alpha.ln() / p.ln()).ceil() as u64
}

/// Interval of the median over rounds at 1 - `alpha`. Its ends are two of the values; the coverage is exact for any
/// distribution. `None` with too few values: below 6 for alpha = 0.05.
///
/// For values with a symmetric distribution, [`crate::shift::Shift::centre`] gives a shorter interval.
///
/// # Panics
/// If a value is not a number or `alpha` is not between 0 and 1.
pub fn median_interval(values: &[f64], alpha: f64) -> Option<Interval> {
    assert!(values.iter().all(|value| !value.is_nan()), "a figure is a number");
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    match quantile_bounds(&sorted, 0.5, alpha) {
        (Some(low), Some(high)) => Some(Interval { low, high }),
        _ => None,
    }
}

/// Two-sided p-value of "the median is `bound`", by the sign test; values equal to the bound count against a
/// difference. It is at most alpha exactly if the bound is outside [`median_interval`] at alpha, and 1 without a value.
///
/// # Panics
/// If a value is not a number.
///
/// # Source
/// Hollander, Wolfe and Chicken, "Nonparametric Statistical Methods" (3rd edition), section 3.4.
pub fn median_p(values: &[f64], bound: f64) -> f64 {
    assert!(values.iter().all(|value| !value.is_nan()), "a figure is a number");
    let count = |is_there: fn(&f64, &f64) -> bool| values.iter().filter(|value| is_there(value, &bound)).count() as u64;
    let fewer = count(f64::le).min(count(f64::ge));
    (2.0 * cdf(fewer, values.len() as u64, 0.5)).min(1.0)
}

fn check(p: f64, alpha: f64) {
    assert!(p > 0.0 && p < 1.0, "the quantile is between 0 and 1");
    assert!(alpha > 0.0 && alpha < 1.0, "alpha is between 0 and 1");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bound_exists_from_the_smallest_number_on() {
        assert_eq!(fewest_for_upper_bound(0.9999, 0.05), 29_956);
        assert_eq!((upper_place(29_955, 0.9999, 0.05), upper_place(29_956, 0.9999, 0.05)), (None, Some(29_955)));
        for (p, alpha) in [(0.5, 0.025), (0.9, 0.05), (0.99, 0.025), (0.999, 0.05)] {
            let n = fewest_for_upper_bound(p, alpha);
            assert_eq!((upper_place(n - 1, p, alpha), upper_place(n, p, alpha)), (None, Some(n - 1)));
        }
        assert_eq!(quantile_bounds::<u64>(&[], 0.5, 0.05), (None, None));
        assert_eq!((lower_place(1, 0.5, 0.025), lower_place(1, 0.99, 0.025)), (None, Some(0)));
    }

    #[test]
    fn fewer_than_six_rounds_have_no_interval() {
        let rounds = [5.0, 3.0, 9.0, 4.0, 8.0, 7.0];
        assert_eq!(median_interval(&rounds[..5], 0.05), None);
        assert_eq!(median_interval(&rounds, 0.05), Some(Interval { low: 3.0, high: 9.0 }));
    }
    #[test]
    fn the_p_value_of_a_median_belongs_to_its_interval() {
        let mut random = fastrand::Rng::with_seed(3);
        for n in [0, 1, 5, 6, 7, 9, 12, 20, 33] {
            for _ in 0..100 {
                let values: Vec<f64> = (0..n).map(|_| f64::from(random.u8(1..9))).collect();
                for bound in [0.5, 2.0, 3.5, 5.0, 9.0] {
                    let p = median_p(&values, bound);
                    // The last level is the p-value of six values on one side, as among the ranks of nine transports.
                    for alpha in [0.05, 0.01, 0.05 / 8.0, 0.05 * 5.0 / 8.0] {
                        let interval = median_interval(&values, alpha);
                        let is_beside = interval.is_some_and(|one| one.low > bound || one.high < bound);
                        assert_eq!(p <= alpha, is_beside, "{values:?} {bound} {alpha} {p}");
                    }
                }
            }
        }
        assert_eq!((median_p(&[], 1.0), median_p(&[2.0; 6], 1.0), median_p(&[1.0; 6], 1.0)), (1.0, 0.03125, 1.0));
    }
}
