//! Distributions of the rank-sum and signed-rank statistics if there is no shift. The statistics count pairs above 0.

use crate::binomial::smallest;
use crate::distribution::normal_cdf;

/// Most values per side for an exact distribution. For more, it is a normal distribution with continuity correction, as
/// in R's `wilcox.test`.
pub const EXACT_UP_TO: usize = 50;

/// Distribution of a count from 0 to `most`, symmetric about `most / 2`.
#[derive(Clone, Debug)]
pub enum CountDistribution {
    /// Probabilities P(count <= k), for every k.
    Exact(Vec<f64>),
    /// Mean and standard deviation.
    Normal { mean: f64, sd: f64 },
}

impl CountDistribution {
    /// Distribution of Mann and Whitney's U: the number of pairs of one of n values and a larger one of m values.
    pub fn rank_sum(n: usize, m: usize) -> Self {
        if n <= EXACT_UP_TO && m <= EXACT_UP_TO {
            return Self::exact(rank_sum_masses(n, m));
        }
        let (n, m) = (n as f64, m as f64);
        Self::Normal { mean: n * m / 2.0, sd: (n * m * (n + m + 1.0) / 12.0).sqrt() }
    }

    /// Distribution of Wilcoxon's W: the number of averages above 0, of two of n values or of one with itself.
    pub fn signed_rank(n: usize) -> Self {
        if n <= EXACT_UP_TO {
            return Self::exact(signed_rank_masses(n));
        }
        let n = n as f64;
        Self::Normal { mean: n * (n + 1.0) / 4.0, sd: (n * (n + 1.0) * (2.0 * n + 1.0) / 24.0).sqrt() }
    }

    fn exact(mut masses: Vec<f64>) -> Self {
        let mut sum = 0.0;
        for mass in &mut masses {
            sum += *mass;
            *mass = sum;
        }
        Self::Exact(masses)
    }

    /// Index, among `pairs` sorted pairs, of the lower end of an interval at 1 - `alpha`; the upper end has the same
    /// distance from the last pair. `None` if there is no such interval.
    pub fn place_of_low(&self, pairs: usize, alpha: f64) -> Option<usize> {
        let outside = smallest(pairs as u64, |k| self.cdf(k as usize) > alpha / 2.0) as usize;
        outside.checked_sub(1)
    }

    /// Probability P(count <= k).
    pub fn cdf(&self, k: usize) -> f64 {
        match self {
            Self::Exact(sums) => sums.get(k).map_or(1.0, |sum| sum.min(1.0)),
            Self::Normal { mean, sd } => normal_cdf((k as f64 + 0.5 - mean) / sd),
        }
    }
}

/// Probabilities P(U = u). The largest of all values is one of the m, above n others, with probability m / (n + m).
fn rank_sum_masses(n: usize, m: usize) -> Vec<f64> {
    // Entry i: probabilities with i of the m values, and all of the n values so far.
    let mut rows = vec![vec![1.0]; m + 1];
    for of_n in 1..=n {
        for of_m in 1..=m {
            let (before, after) = rows.split_at_mut(of_m);
            let (fewer_m, fewer_n) = (&before[of_m - 1], &after[0]);
            let share = of_m as f64 / (of_n + of_m) as f64;
            let mut masses: Vec<f64> = vec![0.0; of_n * of_m + 1];
            for (mass, from) in masses[of_n..].iter_mut().zip(fewer_m) {
                *mass += share * from;
            }
            for (mass, from) in masses.iter_mut().zip(fewer_n) {
                *mass += (1.0 - share) * from;
            }
            after[0] = masses;
        }
    }
    rows.swap_remove(m)
}

/// Probabilities P(W = w): each rank counts with probability 1/2.
fn signed_rank_masses(n: usize) -> Vec<f64> {
    let mut masses = vec![1.0];
    for rank in 1..=n {
        let mut longer = vec![0.0; masses.len() + rank];
        for (index, mass) in masses.iter().enumerate() {
            longer[index] += mass / 2.0;
            longer[index + rank] += mass / 2.0;
        }
        masses = longer;
    }
    masses
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masses_are_those_of_all_orders() {
        // For 3 and 2 values, the 10 orders give U = 0, 1, 2, 2, 3, 3, 4, 4, 5, 6.
        let tenths = |counts: &[f64]| counts.iter().map(|mass| (mass * 10.0).round()).collect::<Vec<_>>();
        assert_eq!(tenths(&rank_sum_masses(3, 2)), [1.0, 1.0, 2.0, 2.0, 2.0, 1.0, 1.0]);
        assert_eq!(tenths(&rank_sum_masses(2, 3)), tenths(&rank_sum_masses(3, 2)));
        assert_eq!(signed_rank_masses(3), [0.125, 0.125, 0.125, 0.25, 0.125, 0.125, 0.125]);
    }

    #[test]
    fn exact_and_normal_meet() {
        let near = |counts: CountDistribution, mean: f64, sd: f64| {
            let normal = CountDistribution::Normal { mean, sd };
            for k in (0..=(2.0 * mean) as usize).step_by(7) {
                assert!((counts.cdf(k) - normal.cdf(k)).abs() < 2e-3, "{k}");
            }
            assert!((counts.cdf((2.0 * mean) as usize) - 1.0).abs() < 1e-12);
        };
        near(CountDistribution::rank_sum(50, 50), 1250.0, (2500.0_f64 * 101.0 / 12.0).sqrt());
        near(CountDistribution::signed_rank(50), 637.5, (50.0_f64 * 51.0 * 101.0 / 24.0).sqrt());
    }
}
