//! Monotonic trend of values over time: slope by Theil and Sen, p-value by Mann and Kendall.

use crate::distribution::normal_cdf;
use std::cmp::Ordering;

/// Most values that are used without averaging. More values are averaged in batches: the p-value assumes independent
/// values, and long batches remove most autocorrelation.
pub const MOST_POINTS: usize = 50;

/// Monotonic trend of values.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Drift {
    /// Change from one value to the next, in the unit of the values.
    pub slope: f64,
    /// Two-sided p-value of "no trend".
    pub p: f64,
    /// Number of values per batch.
    pub batch: usize,
}

/// Drift of values in time order; `None` below three values, or if one is not finite. More than [`MOST_POINTS`] values
/// are averaged in at most that many batches of equal size, without the remainder. The p-value is exact if no two batch
/// means are equal, otherwise a normal approximation.
///
/// # Source
/// Sen (1968), doi:10.1080/01621459.1968.10480934; Mann (1945), doi:10.2307/1907187; Kendall, "Rank Correlation
/// Methods", with his correction of the variance for ties and of 1 for continuity.
pub fn drift(values: &[f64]) -> Option<Drift> {
    if values.len() < 3 || values.iter().any(|value| !value.is_finite()) {
        return None;
    }
    let batch = values.len().div_ceil(MOST_POINTS);
    let means: Vec<f64> = values.chunks_exact(batch).map(|values| values.iter().sum::<f64>() / batch as f64).collect();
    let slope = crate::median(&slopes(&means))? / batch as f64;
    Some(Drift { slope, p: trend_p(&means), batch })
}

fn slopes(values: &[f64]) -> Vec<f64> {
    let after = |(index, &value): (usize, &f64)| {
        values[index + 1..].iter().enumerate().map(move |(more, later)| (later - value) / (more + 1) as f64)
    };
    values.iter().enumerate().flat_map(after).collect()
}

/// Mann and Kendall's two-sided p-value.
fn trend_p(values: &[f64]) -> f64 {
    let (mut rising, mut falling) = (0_usize, 0_usize);
    for (index, value) in values.iter().enumerate() {
        for later in &values[index + 1..] {
            match later.total_cmp(value) {
                Ordering::Greater => rising += 1,
                Ordering::Less => falling += 1,
                Ordering::Equal => {}
            }
        }
    }
    let n = values.len();
    if rising + falling == n * (n - 1) / 2 {
        return (2.0 * inversions_cdf(rising.min(falling), n)).min(1.0);
    }
    let of_ties = |t: f64| t * (t - 1.0) * (2.0 * t + 5.0);
    let variance = (of_ties(n as f64) - ties(values).into_iter().map(of_ties).sum::<f64>()) / 18.0;
    let score = rising.abs_diff(falling).saturating_sub(1) as f64;
    if variance <= 0.0 { 1.0 } else { (2.0 * normal_cdf(-score / variance.sqrt())).min(1.0) }
}

fn ties(values: &[f64]) -> Vec<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    sorted.chunk_by(|a, b| a.total_cmp(b).is_eq()).map(|group| group.len() as f64).collect()
}

/// Probability that a random order of n values has at most `most` inversions. The i-th value adds 0 to i - 1
/// inversions, all equally likely.
fn inversions_cdf(most: usize, n: usize) -> f64 {
    let mut masses = vec![1.0];
    for count in 2..=n {
        let mut longer = vec![0.0; masses.len() + count - 1];
        for (index, mass) in masses.iter().enumerate() {
            longer[index..index + count].iter_mut().for_each(|place| *place += mass / count as f64);
        }
        masses = longer;
    }
    masses[..=most].iter().sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_its_slope_also_in_batches() {
        let line: Vec<f64> = (0..1000).map(|index| 3.0 - 0.25 * f64::from(index)).collect();
        for n in [3, 50, 51, 500, 1000] {
            let found = drift(&line[..n]).unwrap();
            assert!((found.slope + 0.25).abs() < 1e-12, "{found:?}");
            assert_eq!(found.batch, n.div_ceil(50));
        }
        assert!(drift(&line).unwrap().p < 1e-60);
    }

    #[test]
    fn without_change_there_is_no_drift() {
        assert_eq!(drift(&[1.0, 2.0]), None);
        assert_eq!(drift(&[1.0, 2.0, f64::NAN]), None);
        assert_eq!(drift(&[7.0; 40]), Some(Drift { slope: 0.0, p: 1.0, batch: 1 }));
    }
}
