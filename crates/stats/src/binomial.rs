//! Binomial distribution: intervals for rates of rare events, and numbers of events that are compatible with a rate.
//!
//! Not from `statrs`, whose continued fraction of 140 terms is wrong by 2e-5 at a million samples.

use crate::interval::Interval;
use std::f64::consts::PI;

/// Cumulative distribution function P(B <= k) for n trials of probability p; the relative error is below 1e-11.
///
/// # Panics
/// If `p` is outside 0 to 1.
pub fn cdf(k: u64, n: u64, p: f64) -> f64 {
    assert!((0.0..=1.0).contains(&p), "a probability is 0 to 1");
    if k >= n {
        return 1.0;
    }
    if (k as f64) < n as f64 * p { lower_tail(k, n, p) } else { 1.0 - upper_tail(k + 1, n, p) }
}

/// Survival function P(B > k) for n trials of probability p; the relative error is below 1e-11.
///
/// # Panics
/// If `p` is outside 0 to 1.
pub fn sf(k: u64, n: u64, p: f64) -> f64 {
    assert!((0.0..=1.0).contains(&p), "a probability is 0 to 1");
    if k >= n {
        return 0.0;
    }
    if (k + 1) as f64 > n as f64 * p { upper_tail(k + 1, n, p) } else { 1.0 - lower_tail(k, n, p) }
}

/// Largest number of events in `n` trials that is compatible with the probability `rate` per trial. More events have a
/// probability of at most `alpha`. For n = 100, rate = 0.05 and alpha = 0.05 it is 9.
///
/// Events must be independent; verdicts on payloads of one run are nearly so.
///
/// # Panics
/// If `rate` is outside 0 to 1 or `alpha` outside 0 to 1.
pub fn most_compatible(n: u64, rate: f64, alpha: f64) -> u64 {
    assert!((0.0..1.0).contains(&alpha), "alpha is 0 to 1");
    smallest(n, |k| sf(k, n, rate) <= alpha)
}

/// Confidence interval of a rate with `events` in `n` trials, e.g. of missed deadlines.
///
/// Covers the true rate with a probability of at least 1 - `alpha`, if trials are independent. Without events the lower
/// end is 0, and the upper end is 1 - (alpha / 2)^(1 / n).
///
/// # Panics
/// If there is no trial, more events than trials, or `alpha` is not between 0 and 1.
///
/// # Source
/// Clopper and Pearson (1934), doi:10.1093/biomet/26.4.404.
pub fn clopper_pearson(events: u64, n: u64, alpha: f64) -> Interval {
    Interval { low: clopper_pearson_lower(events, n, alpha / 2.0), high: clopper_pearson_upper(events, n, alpha / 2.0) }
}

/// One-sided upper bound of a rate: the true rate is above it with a probability of at most `alpha`. Without events it
/// is close to 3 / n for alpha = 0.05. Panics as [`clopper_pearson`].
pub fn clopper_pearson_upper(events: u64, n: u64, alpha: f64) -> f64 {
    check(events, n, alpha);
    if events == n {
        return 1.0;
    }
    bisect(events as f64 / n as f64, 1.0, |rate| cdf(events, n, rate) > alpha)
}

/// One-sided lower bound of a rate: the true rate is below it with a probability of at most `alpha`. Panics as
/// [`clopper_pearson`].
pub fn clopper_pearson_lower(events: u64, n: u64, alpha: f64) -> f64 {
    check(events, n, alpha);
    if events == 0 {
        return 0.0;
    }
    bisect(0.0, events as f64 / n as f64, |rate| sf(events - 1, n, rate) <= alpha)
}

fn check(events: u64, n: u64, alpha: f64) {
    assert!(n > 0 && events <= n, "a rate needs a trial, and no more events than trials");
    assert!(alpha > 0.0 && alpha < 1.0, "alpha is between 0 and 1");
}

/// Point between `low` and `high` at which a condition that holds at `low` stops holding, exact to the last bit.
fn bisect(mut low: f64, mut high: f64, holds: impl Fn(f64) -> bool) -> f64 {
    loop {
        let middle = (low + high) / 2.0;
        if middle <= low || middle >= high {
            return middle;
        }
        if holds(middle) { low = middle } else { high = middle }
    }
}

/// Smallest k from 0 to `end` at which a monotonic condition holds; `end` if it holds for none below.
pub(crate) fn smallest(end: u64, holds: impl Fn(u64) -> bool) -> u64 {
    let (mut low, mut high) = (0, end);
    while low < high {
        let middle = low + (high - low) / 2;
        if holds(middle) { high = middle } else { low = middle + 1 }
    }
    low
}

/// P(B <= k) for k below the mean: the terms decrease from k downwards.
fn lower_tail(k: u64, n: u64, p: f64) -> f64 {
    let odds = (1.0 - p) / p;
    tail(mass(k, n, p), k, |i| i as f64 * odds / (n - i + 1) as f64, |i| i.checked_sub(1))
}

/// P(B >= k) for k above the mean: the terms decrease from k upwards.
fn upper_tail(k: u64, n: u64, p: f64) -> f64 {
    let odds = p / (1.0 - p);
    tail(mass(k, n, p), k, |i| (n - i) as f64 * odds / (i + 1) as f64, |i| (i < n).then_some(i + 1))
}

/// Sum of terms, each `ratio` times the one before, until they are negligible.
fn tail(first: f64, k: u64, ratio: impl Fn(u64) -> f64, next: impl Fn(u64) -> Option<u64>) -> f64 {
    let (mut sum, mut term, mut at) = (first, first, k);
    while let Some(further) = next(at) {
        term *= ratio(at);
        at = further;
        if term <= sum * 1e-17 {
            break;
        }
        sum += term;
    }
    sum.min(1.0)
}

/// Probability P(B = k).
///
/// # Source
/// Loader (2000), "Fast and accurate computation of binomial probabilities".
fn mass(k: u64, n: u64, p: f64) -> f64 {
    let (trials, events, rest) = (n as f64, k as f64, (n - k) as f64);
    if p == 0.5 && (k == 0 || k == n) {
        // Exact, because a corrected level may equal it: 0.05 · 5 / 8 = 2 · 2^-6.
        return (-trials).exp2();
    }
    if k == 0 {
        return (trials * (-p).ln_1p()).exp();
    }
    if k == n {
        return (trials * p.ln()).exp();
    }
    let exponent = stirling_error(n)
        - stirling_error(k)
        - stirling_error(n - k)
        - deviance(events, trials * p)
        - deviance(rest, trials * (1.0 - p));
    exponent.exp() * (trials / (2.0 * PI * events * rest)).sqrt()
}

/// ln(n!) minus Stirling's approximation.
fn stirling_error(n: u64) -> f64 {
    let x = n as f64;
    if n <= 15 {
        let factorial: f64 = (1..=n).map(|factor| factor as f64).product();
        return factorial.ln() - (0.5 * (2.0 * PI * x).ln() + x * x.ln() - x);
    }
    let square = x * x;
    (1.0 / 12.0 - (1.0 / 360.0 - (1.0 / 1260.0 - (1.0 / 1680.0 - 1.0 / (1188.0 * square)) / square) / square) / square)
        / x
}

/// x ln(x / mean) + mean - x, without cancellation.
fn deviance(x: f64, mean: f64) -> f64 {
    let difference = x - mean;
    if difference.abs() >= 0.1 * (x + mean) {
        return x * (x / mean).ln() - difference;
    }
    let v = difference / (x + mean);
    let (mut sum, mut term) = (difference * v, 2.0 * x * v);
    for odd in (3..).step_by(2) {
        term *= v * v;
        let longer = sum + term / f64::from(odd);
        if longer == sum {
            break;
        }
        sum = longer;
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tails_at_the_ends_are_sure() {
        assert_eq!((cdf(10, 10, 0.3), sf(10, 10, 0.3)), (1.0, 0.0));
        assert_eq!((cdf(0, 10, 0.0), sf(9, 10, 1.0), cdf(9, 10, 1.0)), (1.0, 1.0, 0.0));
        assert_eq!((clopper_pearson_lower(0, 9, 0.05), clopper_pearson_upper(9, 9, 0.05)), (0.0, 1.0));
    }

    #[test]
    fn nine_of_a_hundred_are_compatible_with_five_percent() {
        assert_eq!(most_compatible(100, 0.05, 0.05), 9);
        assert_eq!(most_compatible(100, 0.0, 0.05), 0);
        assert_eq!(most_compatible(3, 1.0, 0.05), 3);
    }

    #[test]
    fn no_event_in_n_bounds_the_rate_by_three_over_n() {
        let bound = clopper_pearson_upper(0, 10_000, 0.05);
        assert!((bound * 10_000.0 - 3.0).abs() < 0.005, "{bound}");
    }
}
