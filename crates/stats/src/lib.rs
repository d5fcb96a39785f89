//! Pure functions from samples to figures: no I/O, no unsafe code, no output.
#![deny(missing_docs)]
#![forbid(unsafe_code)]

pub mod autocorrelation;
pub mod binomial;
pub mod change;
pub mod change_points;
pub mod conformal;
mod distribution;
pub mod drift;
mod error;
mod interval;
pub mod modes;
pub mod mser;
pub mod multiplicity;
pub mod order;
pub mod power;
pub mod proportion;
mod rank_counts;
pub mod rounds;
pub mod runs;
pub mod series;
pub mod shift;
pub mod slow_drift;

pub use error::Error;
pub use interval::{ErrorBounds, Interval};

/// Statistics of samples, in their unit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Figures {
    /// Smallest sample.
    pub min: f64,
    /// Arithmetic mean.
    pub mean: f64,
    /// Standard deviation, dividing by n.
    pub stdev: f64,
    /// Median.
    pub median: f64,
    /// 90th percentile.
    pub p90: f64,
    /// 99th percentile.
    pub p99: f64,
    /// 99.9th percentile.
    pub p999: f64,
    /// 99.99th percentile.
    pub p9999: f64,
    /// Largest sample.
    pub max: f64,
}

/// Quantile `p` of sorted samples, linearly interpolated between the two nearest.
///
/// # Panics
/// If there is no sample, or `p` is outside 0 to 1.
///
/// # Source
/// Hyndman and Fan (1996), type 7; the default of numpy and R.
pub fn quantile(sorted: &[u64], p: f64) -> f64 {
    assert!(!sorted.is_empty(), "a quantile needs samples");
    interpolated(sorted.len(), p, |place| sorted[place] as f64)
}

/// Quantile of `count` sorted values, read through `at`.
fn interpolated(count: usize, p: f64, at: impl Fn(usize) -> f64) -> f64 {
    assert!((0.0..=1.0).contains(&p), "a quantile needs 0 <= p <= 1");
    let position = p * (count - 1) as f64;
    let below = position.floor() as usize;
    let (low, high) = (at(below), at((below + 1).min(count - 1)));
    low + (high - low) * (position - below as f64)
}

/// Quantile `p` of values in any order, interpolated as [`quantile`]; `None` without a value.
///
/// # Panics
/// If `p` is outside 0 to 1.
pub fn quantile_of(values: &[f64], p: f64) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    (!sorted.is_empty()).then(|| interpolated(sorted.len(), p, |place| sorted[place]))
}

/// Statistics of the samples, which are sorted in place; `None` without a sample. The mean is exact (summed as
/// integers); the standard deviation divides by n.
pub fn figures(samples: &mut [u64]) -> Option<Figures> {
    samples.sort_unstable();
    let (first, last) = (*samples.first()?, *samples.last()?);
    let count = samples.len() as f64;
    let sum: u128 = samples.iter().map(|&sample| u128::from(sample)).sum();
    let mean = sum as f64 / count;
    let squares: f64 = samples.iter().map(|&sample| (sample as f64 - mean).powi(2)).sum();
    Some(Figures {
        min: first as f64,
        mean,
        stdev: (squares / count).sqrt(),
        median: quantile(samples, 0.5),
        p90: quantile(samples, 0.9),
        p99: quantile(samples, 0.99),
        p999: quantile(samples, 0.999),
        p9999: quantile(samples, 0.9999),
        max: last as f64,
    })
}

/// Median of values in any order; `None` without a value.
pub fn median(values: &[f64]) -> Option<f64> {
    quantile_of(values, 0.5)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Golden numbers: numpy 2.4, `numpy.percentile`, `numpy.std`, on `[(i * 7919) % 1009 + 100 for i in range(1000)]`.
    #[test]
    fn figures_agree_with_numpy() {
        let mut samples: Vec<u64> = (0..1000).map(|index| (index * 7919) % 1009 + 100).collect();
        let found = figures(&mut samples).unwrap();
        let golden: [f64; 8] = [100.0, 604.678, 291.359071106427, 605.5, 1007.1, 1098.01, 1107.9000999999998, 1108.0];
        let pairs = [
            (found.min, golden[0]),
            (found.mean, golden[1]),
            (found.stdev, golden[2]),
            (found.median, golden[3]),
            (found.p90, golden[4]),
            (found.p99, golden[5]),
            (found.p9999, golden[6]),
            (found.max, golden[7]),
        ];
        for (figure, golden) in pairs {
            assert!((figure - golden).abs() <= 1e-9 * golden.abs(), "{figure} {golden}");
        }
    }

    #[test]
    fn one_sample_is_all_its_quantiles() {
        let found = figures(&mut [42]).unwrap();
        assert_eq!((found.min, found.median, found.p9999, found.max, found.stdev), (42.0, 42.0, 42.0, 42.0, 0.0));
        assert_eq!(figures(&mut []), None);
    }

    #[test]
    fn a_quantile_lies_between_its_neighbours() {
        assert_eq!(quantile(&[1, 2, 3, 4, 5], 0.99), 4.96);
        assert_eq!(quantile(&[1, 3], 0.5), 2.0);
        assert_eq!((quantile_of(&[5.0, 1.0, 4.0, 2.0, 3.0], 0.99), quantile_of(&[], 0.5)), (Some(4.96), None));
        assert_eq!(median(&[3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[4.0, 1.0]), Some(2.5));
        assert_eq!(median(&[]), None);
    }
}
