//! The audit of a series of samples: warm-up, autocorrelation, drift and modes. It tells, and drops nothing.

use crate::autocorrelation::{Autocorrelation, effective_size};
use crate::drift::{MOST_POINTS, drift};
use crate::modes::{dip_of, two_groups};
use crate::mser::mser5;
use crate::{median, quantile};
use tripmeter_model::series::{Correlation, Modes, Series, Trend, WarmUp};

/// Samples that are kept for the audit; of more, one of two, of four, ...
const MOST_KEPT: usize = 16_384;
/// Below this number nothing is said.
const FEWEST: usize = 100;
/// Autocorrelations that are looked at.
const LAGS: usize = 100;
/// Samples that the dip is made of, so that neighbours are far apart.
const DIP_SAMPLES: usize = 400;
/// The 99 % quantile of the dip of n uniform values, times the square root of n.
const DIP_LIMIT: f64 = 0.575;
/// Share at either end that is not looked at when samples are parted in two: outliers are no mode.
const TAIL: f64 = 0.025;

/// A figure that a warm-up changes by this share or more is said.
pub const WARM_UP_CHANGE: f64 = 0.05;
/// A drift by this share of the median or more is said, if its p-value is at most [`DRIFT_P`].
pub const DRIFT_CHANGE: f64 = 0.05;
/// See [`DRIFT_CHANGE`].
pub const DRIFT_P: f64 = 0.001;
/// Modes are said if their medians are apart by this ratio or more,
pub const MODES_RATIO: f64 = 1.1;
/// and each has this share of the samples or more.
pub const MODES_SHARE: f64 = 0.05;
/// Correlation is said if samples are worth this share of their number, or less.
pub const EFFECTIVE_SHARE: f64 = 0.1;

/// Samples in the order of their measurement, evenly thinned where they are many; memory is bounded.
#[derive(Clone, Debug)]
pub struct Thinned {
    kept: Vec<u64>,
    /// The first samples, none left out, once others are.
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

    /// What there is to tell; `None` below 100 samples. `granularity_ns` is that of the clock: equal readings are spread
    /// over it, or they would look like modes.
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

/// Of the first samples of so many.
fn correlation(first: &[u64], count: u64) -> Option<Correlation> {
    let mut found = Autocorrelation::new(LAGS.min(first.len() / 4));
    first.iter().for_each(|&ns| found.push(ns as f64));
    let coefficients = found.coefficients()?;
    let size = effective_size(found.count(), &coefficients);
    let effective_samples = size.samples * count as f64 / first.len() as f64;
    Some(Correlation { lag_1: coefficients[0], effective_samples, is_complete: size.is_complete })
}

/// Of medians: the means of pieces show outliers, and not what becomes of the median.
fn trend(samples: &[f64]) -> Option<Trend> {
    let piece = samples.len().div_ceil(MOST_POINTS);
    let medians: Vec<f64> = samples.chunks_exact(piece).filter_map(median).collect();
    let found = drift(&medians)?;
    // A straight line may be no likeness of it, and end below 0.
    let tenth = medians.len().div_ceil(10);
    let level = |pieces: &[f64]| median(pieces).filter(|level| *level > 0.0);
    let (begin, end) = (level(&medians[..tenth])?, level(&medians[medians.len() - tenth..])?);
    Some(Trend { change: end / begin - 1.0, p: found.p })
}

fn modes(samples: &[f64], granularity_ns: f64) -> Option<Modes> {
    let mut random = fastrand::Rng::with_seed(0);
    let count = samples.len().min(DIP_SAMPLES);
    let spread = granularity_ns.max(1.0);
    // Anywhere in each piece, so that what repeats itself is not met at the same place again and again.
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

/// Whether dropping the warm-up would change the mean, the median or the 99th percentile, in that order.
pub fn warm_up_changes(series: &Series) -> [bool; 3] {
    let Some(warm_up) = series.warm_up.filter(|warm_up| warm_up.is_reliable) else { return [false; 3] };
    let changes = |[all, rest]: [f64; 2]| (rest / all - 1.0).abs() >= WARM_UP_CHANGE;
    [warm_up.mean_ns, warm_up.median_ns, warm_up.p99_ns].map(changes)
}

/// The drift, if it counts.
pub fn drifts(series: &Series) -> Option<Trend> {
    series.drift.filter(|drift| drift.p <= DRIFT_P && drift.change.abs() >= DRIFT_CHANGE)
}

/// The modes, if they are two.
pub fn has_modes(series: &Series) -> Option<Modes> {
    series.modes.filter(|modes| {
        modes.dip >= modes.dip_limit
            && modes.upper_ns >= MODES_RATIO * modes.lower_ns
            && (MODES_SHARE..=1.0 - MODES_SHARE).contains(&modes.upper_share)
    })
}

/// The autocorrelation, if samples are worth far less than their number.
pub fn is_correlated(series: &Series) -> Option<Correlation> {
    let samples = series.samples.saturating_mul(series.every);
    series.autocorrelation.filter(|found| found.effective_samples <= EFFECTIVE_SHARE * samples as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// About 1 µs with noise of a bell's shape, changed by `change` of the place.
    fn audited(n: usize, change: impl Fn(usize, f64) -> f64) -> Series {
        let mut random = fastrand::Rng::with_seed(5);
        let mut found = Thinned::default();
        for index in 0..n {
            let noise = (0..6).map(|_| random.f64()).sum::<f64>() - 3.0;
            found.push(change(index, 1000.0 + 20.0 * noise) as u64);
        }
        found.audit(1.0).unwrap()
    }

    fn said(series: &Series) -> [bool; 4] {
        let warm_up = warm_up_changes(series).contains(&true);
        [warm_up, is_correlated(series).is_some(), drifts(series).is_some(), has_modes(series).is_some()]
    }

    #[test]
    fn nothing_is_said_of_a_steady_series() {
        for n in [100, 399, 1000, 20_000, 100_000] {
            assert_eq!(said(&audited(n, |_, ns| ns)), [false; 4], "{n}");
        }
        assert_eq!(Thinned::default().audit(1.0), None);
    }

    #[test]
    fn each_disturbance_is_said_and_no_other() {
        let slow_start = audited(5000, |index, ns| if index < 300 { 3.0 * ns } else { ns });
        assert!(said(&slow_start)[0] && !said(&slow_start)[2], "{slow_start:?}");
        let warm_up = slow_start.warm_up.unwrap();
        assert!((300..320).contains(&warm_up.samples) && warm_up.mean_ns[0] > 1.1 * warm_up.mean_ns[1]);
        let rising = audited(5000, |index, ns| ns * (1.0 + 0.2 * index as f64 / 5000.0));
        let drift = drifts(&rising).unwrap();
        assert!((drift.change - 0.18).abs() < 0.03, "{drift:?}");
        let two = audited(5000, |index, ns| if index % 10 < 3 { 1.5 * ns } else { ns });
        assert_eq!(said(&two), [false, false, false, true], "{two:?}");
        let modes = two.modes.unwrap();
        assert!((modes.upper_share - 0.3).abs() < 0.08 && (modes.upper_ns / modes.lower_ns - 1.5).abs() < 0.05);
        let slow_waves = audited(5000, |index, ns| ns + 40.0 * (index as f64 / 60.0).sin());
        assert!(said(&slow_waves)[1], "{slow_waves:?}");
    }

    #[test]
    fn a_coarse_clock_is_no_mode_and_many_samples_are_thinned() {
        let mut coarse = Thinned::default();
        let mut random = fastrand::Rng::with_seed(6);
        for _ in 0..100_000 {
            let noise = (0..6).map(|_| random.f64()).sum::<f64>();
            coarse.push((noise * 2.0) as u64 * 10 + 60);
        }
        let found = coarse.audit(10.0).unwrap();
        assert!(has_modes(&found).is_none(), "{found:?}");
        assert_eq!((found.every, found.samples), (8, 12_500));
        let size = found.autocorrelation.unwrap().effective_samples;
        assert!(size > 80_000.0 && is_correlated(&found).is_none(), "{size}");
    }

    #[test]
    fn of_many_samples_the_first_tell_their_correlation() {
        let waves = audited(100_000, |index, ns| ns + 40.0 * (index as f64 / 60.0).sin());
        assert_eq!(waves.every, 8);
        assert!(is_correlated(&waves).is_some(), "{waves:?}");
    }

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
