//! Medians over rounds with their intervals, drifts and modes.

use crate::drift::drift;
use crate::median;
use crate::modes::{Groups, dip_test, two_groups};
use crate::order::median_interval;
use crate::{ErrorBounds, Interval};

/// Smallest drift that counts, as a share of the median.
pub const DRIFT_CHANGE: f64 = 0.05;
/// Smallest ratio of the medians of two modes that counts.
pub const MODES_RATIO: f64 = 1.1;

/// Figure over rounds, in its unit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    /// Median of the rounds.
    pub median: f64,
    /// Interval that covers the median over all possible rounds with 95 %, for any distribution and any error within
    /// its bounds; `None` with fewer than 6 rounds.
    pub interval: Option<Interval>,
}

/// Level of all intervals here: 95 %.
pub const ALPHA: f64 = 0.05;

/// Fewest rounds to search for modes or a drift.
const FEWEST: usize = 6;
const SHAPE_P: f64 = 0.01;

/// Two groups of rounds, if the rounds have two modes: the dip test rejects one mode at 1 %, the medians of the groups
/// differ by [`MODES_RATIO`], and each group has two rounds or more. The median over all rounds may then fall in
/// either.
pub fn modes_of_rounds(medians: &[f64]) -> Option<Groups> {
    if medians.len() < FEWEST || dip_test(medians)?.p > SHAPE_P {
        return None;
    }
    let apart = |groups: &Groups| groups.upper_median >= MODES_RATIO * groups.lower_median;
    two_groups(medians).filter(|groups| groups.lower_count.min(groups.upper_count) >= 2 && apart(groups))
}

/// Change from the first round to the last, as a share of the median, if the rounds drift. A drift has a p-value by
/// Mann and Kendall of at most 1 %, and a change by Theil and Sen's slope of at least [`DRIFT_CHANGE`].
pub fn drift_of_rounds(medians: &[f64]) -> Option<f64> {
    if medians.len() < FEWEST {
        return None;
    }
    let found = drift(medians).filter(|found| found.p <= SHAPE_P)?;
    let level = median(medians).filter(|level| *level > 0.0)?;
    let change = found.slope * (medians.len() / found.batch - 1) as f64 / level;
    (change.abs() >= DRIFT_CHANGE).then_some(change)
}

/// Median of a figure over rounds, with its interval; `None` without a round. `errors` are the largest of all rounds.
pub fn figure_over_rounds(values: &[f64], errors: ErrorBounds) -> Option<Estimate> {
    Some(Estimate { median: median(values)?, interval: interval_over_rounds(values, errors, ALPHA) })
}

/// Interval of the median over rounds at 1 - `alpha`, as in [`figure_over_rounds`]; `None` with too few rounds.
pub fn interval_over_rounds(values: &[f64], errors: ErrorBounds, alpha: f64) -> Option<Interval> {
    median_interval(values, alpha).map(|interval| interval.widened(errors))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_of_two_modes_or_that_drift_are_reported() {
        let alternating: Vec<f64> = (0..10).map(|round| [2.55, 5.1][round % 2] + 0.01 * round as f64).collect();
        let found = modes_of_rounds(&alternating).unwrap();
        assert_eq!((found.lower_count, found.upper_count), (5, 5));
        assert_eq!(drift_of_rounds(&alternating), None);
        let rising: Vec<f64> = (0..12).map(|round| 1.05_f64.powi(round)).collect();
        assert!(drift_of_rounds(&rising).is_some_and(|change| (0.4..0.8).contains(&change)));
        assert_eq!(modes_of_rounds(&rising).map(|_| ()), None);
        // A small difference, and too few rounds.
        let close: Vec<f64> = alternating.iter().map(|value| 100.0 + value).collect();
        assert_eq!((modes_of_rounds(&close).map(|_| ()), modes_of_rounds(&alternating[..5]).map(|_| ())), (None, None));
        assert_eq!(drift_of_rounds(&rising[..5]), None);
        let slow: Vec<f64> = (0..12).map(|round| 100.0 + 0.1 * f64::from(round)).collect();
        assert_eq!(drift_of_rounds(&slow), None);
    }

    #[test]
    fn steady_rounds_are_hardly_ever_reported() {
        let mut random = fastrand::Rng::with_seed(7);
        let (mut modes, mut drifts) = (0, 0);
        for _ in 0..400 {
            let rounds: Vec<f64> = (0..10).map(|_| 100.0 * (1.0 + random.f64())).collect();
            modes += u32::from(modes_of_rounds(&rounds).is_some());
            drifts += u32::from(drift_of_rounds(&rounds).is_some());
        }
        // 4 of either are expected; more than 12 have a probability of 0.001.
        assert!(modes <= 12 && drifts <= 12, "{modes} {drifts}");
    }

    #[test]
    fn figures_have_an_interval_from_six_rounds_on() {
        assert_eq!(figure_over_rounds(&[], ErrorBounds::NONE), None);
        let rounds = [5.0, 3.0, 9.0, 4.0, 8.0, 7.0];
        let with = |interval, median| Some(Estimate { median, interval });
        assert_eq!(figure_over_rounds(&rounds[..5], ErrorBounds::both(2.0)), with(None, 5.0));
        assert_eq!(figure_over_rounds(&rounds, ErrorBounds::NONE), with(Some(Interval { low: 3.0, high: 9.0 }), 6.0));
        let wider = figure_over_rounds(&rounds, ErrorBounds { below: 4.0, above: f64::INFINITY });
        assert_eq!(wider, with(Some(Interval { low: -1.0, high: f64::INFINITY }), 6.0));
    }
}
