//! Thresholds for findings of the audit of samples.

use tripmeter_model::series::{Correlation, Modes, Series, Trend};
use tripmeter_stats::rounds::{DRIFT_CHANGE, MODES_RATIO};

/// Smallest share by which a warm-up must change a figure to count.
pub const WARM_UP_CHANGE: f64 = 0.05;
/// Largest p-value at which a drift counts; its smallest change is [`DRIFT_CHANGE`].
pub const DRIFT_P: f64 = 0.001;
/// Smallest share of samples in each of two modes that count; the smallest ratio of their medians is [`MODES_RATIO`].
pub const MODES_SHARE: f64 = 0.05;
/// Share of effective samples at or below which correlation counts.
pub const EFFECTIVE_SHARE: f64 = 0.1;

/// Flags for mean, median and 99th percentile, in this order: true if the figure changes without the warm-up.
pub fn warm_up_changes(series: &Series) -> [bool; 3] {
    let Some(warm_up) = series.warm_up.filter(|warm_up| warm_up.is_reliable) else { return [false; 3] };
    let changes = |[all, rest]: [f64; 2]| (rest / all - 1.0).abs() >= WARM_UP_CHANGE;
    [warm_up.mean_ns, warm_up.median_ns, warm_up.p99_ns].map(changes)
}

/// Drift, if it counts.
pub fn drifts(series: &Series) -> Option<Trend> {
    series.drift.filter(|drift| drift.p <= DRIFT_P && drift.change.abs() >= DRIFT_CHANGE)
}

/// Modes, if they count.
pub fn has_modes(series: &Series) -> Option<Modes> {
    series.modes.filter(|modes| {
        modes.dip >= modes.dip_limit
            && modes.upper_ns >= MODES_RATIO * modes.lower_ns
            && (MODES_SHARE..=1.0 - MODES_SHARE).contains(&modes.upper_share)
    })
}

/// Autocorrelation, if it counts.
pub fn is_correlated(series: &Series) -> Option<Correlation> {
    let samples = series.samples.saturating_mul(series.every);
    series.autocorrelation.filter(|found| found.effective_samples <= EFFECTIVE_SHARE * samples as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tripmeter_stats::series::Thinned;

    /// Samples of about 1 µs with bell-shaped noise, each changed by `change` of its index.
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
}
