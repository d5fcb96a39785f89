//! Number of runs needed to detect a change, and smallest change that a number of runs detects.
//!
//! A change is detected if the interval of the ratio lies beyond the margin. Let s be the standard deviation of log
//! ratios, and d the distance in logarithms from the change to the margin. Then n values (pairs) have the wanted power
//! if
//!
//! ```text
//! n >= (t(1 - alpha' / 2, n - 1) + t(power, n - 1))^2  s^2 / (E d^2),     alpha' = alpha / comparisons
//! ```
//!
//! where t(p, f) is Student's quantile with f degrees of freedom. E = 3 / pi = 0.955 is the efficiency of the rank
//! tests against Student's test on normal data (larger on heavy tails). For independent sets of n runs each, s^2 is
//! twice the variance of the log statistic of a run, and f = 2n - 2. Dividing alpha by the number of comparisons
//! suits a single change among them; several need fewer runs.
//!
//! The formula is too optimistic if n is near the smallest number that has an interval at the level: then nearly all
//! pairs must agree. Below twice that number, d / s is simulated instead, over 2,000 sets of normal values with a fixed
//! seed. It is the wanted quantile of the distance from the true value to the lower end of the interval.
//!
//! # Source
//! The iterated approximation of the power of Student's test, e.g. Julious (2010), "Sample Sizes for Clinical Trials",
//! section 3; efficiency: Hodges and Lehmann (1956), doi:10.1214/aoms/1177728261.

use crate::distribution::student_quantile;
use crate::rank_counts::CountDistribution;
use crate::shift::{averages, differences, fewest_pairs, fewest_runs};
use fastrand::Rng;
use std::f64::consts::{PI, TAU};

/// Efficiency of the rank tests relative to Student's test on normal data.
const EFFICIENCY: f64 = 3.0 / PI;

const MOST_RUNS: u64 = 1_000_000;

/// Number of simulated sets of values, for a small number of runs.
const SIMULATIONS: usize = 2_000;

/// Relation between the runs of both sides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// Pairs of runs. n is the number of pairs; the deviation is that of their log ratios.
    Paired,
    /// Two independent sets of runs. n is the number of runs per side; the deviation is that of the logarithm of a
    /// run's statistic.
    Independent,
}

/// Design of a comparison.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Design {
    /// Relation between the runs.
    pub layout: Layout,
    /// Standard deviation of logarithms, as in [`Layout`], above 0; if small, about the coefficient of variation.
    pub log_sd: f64,
    /// Margin of the verdict, from 0 to below 1.
    pub margin: f64,
    /// Level of one interval (0.05 for 95 %), between 0 and 1.
    pub alpha: f64,
    /// Number of comparisons that are judged together, at least 1.
    pub comparisons: u64,
    /// Probability of detecting the change, from 0.5 to below 1.
    pub power: f64,
}

impl Design {
    /// Fewest runs (pairs, or runs per side) that detect a true ratio of `ratio`; `None` if it is within the margin, or
    /// if a million runs are too few.
    ///
    /// # Panics
    /// If a field is out of range, or `ratio` not above 0.
    pub fn runs_needed(&self, ratio: f64) -> Option<u64> {
        self.check();
        assert!(ratio > 0.0, "a ratio is above 0");
        let (above, below) = (ratio.ln() - self.margin.ln_1p(), (-self.margin).ln_1p() - ratio.ln());
        let distance = above.max(below);
        if distance <= 0.0 {
            return None;
        }
        let suffices = |n: u64| self.distance(n) <= distance;
        let (fewest, end) = (self.fewest(), MOST_RUNS + 1);
        let needed = (fewest..2 * fewest).find(|&n| suffices(n)).unwrap_or_else(|| {
            2 * fewest + crate::binomial::smallest(end - 2 * fewest, |more| suffices(2 * fewest + more))
        });
        (needed < end).then_some(needed)
    }

    /// Smallest ratio above 1 that `runs` (pairs, or runs per side) detect; `None` if these are too few for an interval
    /// at the level.
    ///
    /// # Panics
    /// If a field is out of range.
    pub fn min_detectable_effect(&self, runs: u64) -> Option<f64> {
        self.check();
        (runs >= self.fewest()).then(|| (1.0 + self.margin) * self.distance(runs).exp())
    }

    /// Fewest runs for an interval at the level.
    fn fewest(&self) -> u64 {
        let fewest = match self.layout {
            Layout::Paired => fewest_pairs(self.level()),
            Layout::Independent => fewest_runs(self.level()),
        };
        // Student's quantile needs a degree of freedom.
        fewest.max(2)
    }

    fn level(&self) -> f64 {
        self.alpha / self.comparisons as f64
    }

    /// Distance from the margin, in logarithms, at which `n` runs detect a change.
    fn distance(&self, n: u64) -> f64 {
        if n < 2 * self.fewest() {
            return self.log_sd * self.simulated(n as usize);
        }
        let (freedom, sides) = match self.layout {
            Layout::Paired => (n - 1, 1.0),
            Layout::Independent => (2 * n - 2, 2.0),
        };
        let quantile = |p: f64| student_quantile(p, freedom as f64);
        let standard_errors = quantile(1.0 - self.level() / 2.0) + quantile(self.power);
        standard_errors * self.log_sd * (sides / (EFFICIENCY * n as f64)).sqrt()
    }

    /// Wanted quantile of the distance from the true value down to the lower end of an interval, for deviation 1.
    fn simulated(&self, n: usize) -> f64 {
        let counts = match self.layout {
            Layout::Paired => CountDistribution::signed_rank(n),
            Layout::Independent => CountDistribution::rank_sum(n, n),
        };
        let mut random = Rng::with_seed(0);
        let mut lower_end = |_| {
            let mut values = || (0..n).map(|_| normal(&mut random)).collect::<Vec<_>>();
            let mut pairs: Vec<f64> = match self.layout {
                Layout::Paired => averages(&values()).collect(),
                Layout::Independent => differences(&values(), &values()).collect(),
            };
            let place = counts.place_of_low(pairs.len(), self.level()).expect("n is not below the fewest");
            *pairs.select_nth_unstable_by(place, f64::total_cmp).1
        };
        let mut ends: Vec<f64> = (0..SIMULATIONS).map(&mut lower_end).collect();
        ends.sort_unstable_by(f64::total_cmp);
        -ends[((1.0 - self.power) * SIMULATIONS as f64) as usize]
    }

    fn check(&self) {
        assert!(self.log_sd > 0.0 && self.comparisons > 0, "a design needs a deviation above 0 and a comparison");
        assert!((0.0..1.0).contains(&self.margin), "a margin is from 0 to below 1");
        assert!(self.alpha > 0.0 && self.alpha < 1.0, "alpha is between 0 and 1");
        assert!((0.5..1.0).contains(&self.power), "power is from 0.5 to below 1");
    }
}

/// Standard normal random value, by the method of Box and Muller.
fn normal(random: &mut Rng) -> f64 {
    (-2.0 * (1.0 - random.f64()).ln()).sqrt() * (TAU * random.f64()).cos()
}

/// Standard deviation of values, dividing by n - 1; `None` below two values. For [`Design::log_sd`], use the logarithms
/// of run statistics, or the log ratios of pairs.
pub fn sample_sd(values: &[f64]) -> Option<f64> {
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    (values.len() >= 2).then(|| (squares / (count - 1.0)).sqrt())
}

#[cfg(test)]
mod tests {
    use super::*;

    const DESIGN: Design =
        Design { layout: Layout::Paired, log_sd: 0.05, margin: 0.0, alpha: 0.05, comparisons: 1, power: 0.8 };

    #[test]
    fn what_is_needed_suffices_and_one_less_does_not() {
        for layout in [Layout::Paired, Layout::Independent] {
            for (ratio, margin, comparisons) in [(1.05, 0.0, 1), (1.1, 0.05, 20), (1.02, 0.0, 300)] {
                let design = Design { layout, margin, comparisons, ..DESIGN };
                let n = design.runs_needed(ratio).unwrap();
                assert!(design.min_detectable_effect(n).unwrap() <= ratio * (1.0 + 1e-12), "{design:?} {n}");
                assert!(
                    design.min_detectable_effect(n - 1).is_none_or(|detectable| detectable > ratio),
                    "{design:?} {n}"
                );
            }
        }
    }

    /// Rule of thumb: 15.7 (CV / delta)^2 runs per side.
    #[test]
    fn many_runs_agree_with_the_rule_of_thumb() {
        let design = Design { layout: Layout::Independent, log_sd: 0.1, ..DESIGN };
        let needed = design.runs_needed(0.01_f64.exp()).unwrap() as f64;
        assert!((needed * EFFICIENCY / 1570.0 - 1.0).abs() < 0.005, "{needed}");
    }

    #[test]
    fn what_cannot_be_seen_has_no_number() {
        assert_eq!(Design { margin: 0.05, ..DESIGN }.runs_needed(1.05), None);
        assert_eq!(DESIGN.runs_needed(1.0), None);
        assert_eq!(DESIGN.runs_needed(1.0 + 1e-9), None);
        assert_eq!(DESIGN.min_detectable_effect(5), None);
        // Even a large change needs enough runs for an interval.
        assert_eq!(DESIGN.runs_needed(3.0), Some(6));
        let margin = Design { margin: 0.05, ..DESIGN };
        assert!(margin.runs_needed(0.8).unwrap() < margin.runs_needed(0.9).unwrap());
    }
}
