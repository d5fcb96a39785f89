//! Audit of a series of samples: warm-up, autocorrelation, drift and modes. It only reports; no samples are dropped.

use crate::autocorrelation::{Autocorrelation, effective_size};
use crate::drift::{MOST_POINTS, drift};
use crate::modes::{dip_of, two_groups};
use crate::mser::mser5;
use crate::{median, quantile};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Most samples that are kept for the audit. If there are more, every second is kept, every fourth, and so on.
const MOST_KEPT: usize = 16_384;
const FEWEST: usize = 100;
const LAGS: usize = 100;
/// Number of samples for the dip test: few, so that they are far apart and independent.
const DIP_SAMPLES: usize = 400;
/// 99 % quantile of the dip of n uniform values, times the square root of n.
const DIP_LIMIT: f64 = 0.575;
/// Share of samples at either end that the split into two groups ignores: outliers are not a mode.
const TAIL: f64 = 0.025;

/// Audit of a series of samples, in the order of measurement.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Series {
    /// Thinning: every n-th sample was examined.
    pub every: u64,
    /// Number of examined samples.
    pub samples: u64,
    /// End of a warm-up, by MSER-5.
    pub warm_up: Option<WarmUp>,
    /// Autocorrelation of the first 16,384 samples; absent if all are equal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub autocorrelation: Option<Correlation>,
    /// Trend of the samples over time.
    pub drift: Option<Trend>,
    /// Two groups of samples; absent if all samples are equal.
    pub modes: Option<Modes>,
}

/// Samples that MSER-5 would drop at the beginning, and figures with and without them.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct WarmUp {
    /// Number of samples before the truncation point.
    pub samples: u64,
    /// True if the point lies in the first half; if not, it is meaningless.
    pub is_reliable: bool,
    /// Mean of the examined samples, in nanoseconds: of all, and without those before the point.
    pub mean_ns: [f64; 2],
    /// Median of the examined samples, in nanoseconds: of all, and without those before the point.
    pub median_ns: [f64; 2],
    /// 99th percentile of the examined samples, in nanoseconds: of all, and without those before the point.
    pub p99_ns: [f64; 2],
}

/// Autocorrelation of the samples.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Correlation {
    /// Coefficient of samples with the previous sample.
    pub lag_1: f64,
    /// Number of independent samples that would give the mean the same precision.
    pub effective_samples: f64,
    /// True if the correlation vanishes within 100 samples; if not, `effective_samples` is too large.
    pub is_complete: bool,
}

/// Monotonic trend of the medians of up to 50 pieces of the series.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Trend {
    /// Change from the median of the first tenth of the pieces to that of the last tenth, as a share of the former.
    pub change: f64,
    /// Two-sided p-value of "no trend", by Mann and Kendall.
    pub p: f64,
}

/// Two groups of samples, which may or may not be modes.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Modes {
    /// Hartigan's dip of 400 samples, spread evenly over the series.
    pub dip: f64,
    /// Smallest dip at which "one mode" is rejected at 1 %.
    pub dip_limit: f64,
    /// Share of the samples in the upper group.
    pub upper_share: f64,
    /// Median of the lower group, in nanoseconds.
    pub lower_ns: f64,
    /// Median of the upper group, in nanoseconds.
    pub upper_ns: f64,
}

impl Series {
    /// Series with every time multiplied by `factor`.
    pub fn scaled(mut self, factor: f64) -> Self {
        if let Some(warm_up) = &mut self.warm_up {
            let WarmUp { mean_ns, median_ns, p99_ns, .. } = warm_up;
            [mean_ns, median_ns, p99_ns].into_iter().flatten().for_each(|ns| *ns *= factor);
        }
        if let Some(modes) = &mut self.modes {
            modes.lower_ns *= factor;
            modes.upper_ns *= factor;
        }
        self
    }
}

/// Samples in time order, evenly thinned if there are many, so that memory is bounded.
#[derive(Clone, Debug)]
pub struct Thinned {
    kept: Vec<u64>,
    /// First samples, without gaps; filled once `kept` is thinned.
    head: Vec<u64>,
    every: u64,
    count: u64,
}

impl Default for Thinned {
    fn default() -> Self {
        Self { kept: Vec::new(), head: Vec::new(), every: 1, count: 0 }
    }
}

impl Thinned {
    /// Adds the next sample, in nanoseconds.
    pub fn push(&mut self, ns: u64) {
        if self.count.is_multiple_of(self.every) {
            if self.kept.len() == MOST_KEPT {
                if self.every == 1 {
                    self.head = self.kept.clone();
                }
                let mut index = 0;
                self.kept.retain(|_| (index += 1, index % 2 == 1).1);
                self.every *= 2;
            }
            if self.count.is_multiple_of(self.every) {
                self.kept.push(ns);
            }
        }
        self.count += 1;
    }

    /// Audit of the samples; `None` below 100 samples. `granularity_ns` is that of the clock: equal samples are spread
    /// randomly over it, because they would look like modes.
    pub fn audit(&self, granularity_ns: f64) -> Option<Series> {
        if self.kept.len() < FEWEST {
            return None;
        }
        let samples: Vec<f64> = self.kept.iter().map(|&ns| ns as f64).collect();
        Some(Series {
            every: self.every,
            samples: self.kept.len() as u64,
            warm_up: self.warm_up(&samples),
            autocorrelation: correlation(if self.head.is_empty() { &self.kept } else { &self.head }, self.count),
            drift: trend(&samples),
            modes: modes(&samples, granularity_ns),
        })
    }

    fn warm_up(&self, samples: &[f64]) -> Option<WarmUp> {
        let found = mser5(samples.iter().copied())?;
        let figures = |kept: &[u64]| {
            let mut sorted = kept.to_vec();
            sorted.sort_unstable();
            let mean = sorted.iter().map(|&ns| ns as f64).sum::<f64>() / sorted.len() as f64;
            [mean, quantile(&sorted, 0.5), quantile(&sorted, 0.99)]
        };
        let (all, rest) = (figures(&self.kept), figures(&self.kept[found.samples..]));
        Some(WarmUp {
            samples: found.samples as u64 * self.every,
            is_reliable: found.is_reliable,
            mean_ns: [all[0], rest[0]],
            median_ns: [all[1], rest[1]],
            p99_ns: [all[2], rest[2]],
        })
    }
}

/// Correlation of `count` samples, from the first ones.
fn correlation(first: &[u64], count: u64) -> Option<Correlation> {
    let mut found = Autocorrelation::new(LAGS.min(first.len() / 4));
    first.iter().for_each(|&ns| found.push(ns as f64));
    let coefficients = found.coefficients()?;
    let size = effective_size(found.count(), &coefficients);
    let effective_samples = size.samples * count as f64 / first.len() as f64;
    Some(Correlation { lag_1: coefficients[0], effective_samples, is_complete: size.is_complete })
}

/// Trend of the medians of pieces; means would be dominated by outliers.
fn trend(samples: &[f64]) -> Option<Trend> {
    let piece = samples.len().div_ceil(MOST_POINTS);
    let medians: Vec<f64> = samples.chunks_exact(piece).filter_map(median).collect();
    let found = drift(&medians)?;
    // The change is not from a straight line, which may fit badly and end below 0.
    let tenth = medians.len().div_ceil(10);
    let level = |pieces: &[f64]| median(pieces).filter(|level| *level > 0.0);
    let (begin, end) = (level(&medians[..tenth])?, level(&medians[medians.len() - tenth..])?);
    Some(Trend { change: end / begin - 1.0, p: found.p })
}

fn modes(samples: &[f64], granularity_ns: f64) -> Option<Modes> {
    let mut random = fastrand::Rng::with_seed(0);
    let count = samples.len().min(DIP_SAMPLES);
    let spread = granularity_ns.max(1.0);
    // A random sample of each piece, so that periodic patterns are not sampled in phase.
    let pick = |index: usize| {
        let place = (index as f64 + random.f64()) * samples.len() as f64 / count as f64;
        samples[(place as usize).min(samples.len() - 1)] + spread * (random.f64() - 0.5)
    };
    let mut picked: Vec<f64> = (0..count).map(pick).collect();
    let dip = dip_of(&picked)?;
    picked.sort_unstable_by(f64::total_cmp);
    let tail = (count as f64 * TAIL) as usize;
    let middle: Vec<f64> = picked[tail..count - tail].iter().map(|ns| ns.max(1.0).ln()).collect();
    let groups = two_groups(&middle)?;
    let upper = picked[tail + groups.lower_count];
    Some(Modes {
        dip,
        dip_limit: DIP_LIMIT / (count as f64).sqrt(),
        upper_share: picked.iter().filter(|&&ns| ns >= upper).count() as f64 / count as f64,
        lower_ns: groups.lower_median.exp(),
        upper_ns: groups.upper_median.exp(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_of_the_dip_is_that_of_uniform_values() {
        let mut random = fastrand::Rng::with_seed(7);
        let above = (0..300).filter(|_| {
            let uniform: Vec<f64> = (0..DIP_SAMPLES).map(|_| random.f64()).collect();
            dip_of(&uniform).unwrap() * (DIP_SAMPLES as f64).sqrt() >= DIP_LIMIT
        });
        let above = above.count();
        assert!(above <= 10, "{above} of 300");
    }
}
