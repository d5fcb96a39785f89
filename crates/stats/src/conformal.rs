//! Bound that one more similar run exceeds with at most a given probability.
//!
//! If a new run is like `n` others, all its ranks among them are equally likely. So it is above the k-th smallest
//! with probability 1 - k / (n + 1) at most, whatever their dependence.
//!
//! # Source
//! Split conformal prediction, e.g. Vovk, Gammerman and Shafer (2005), "Algorithmic Learning in a Random World".

/// Fewest runs for a bound at this rate, shared by `bounds` equal bounds: 59 for 0.05 and 3.
pub fn fewest_runs(rate: f64, bounds: usize) -> usize {
    (bounds as f64 / rate - 1.0 - 1e-9).ceil() as usize
}

/// Bound that a new value exceeds with probability `rate` / `bounds` at most; `None` with fewer values than
/// [`fewest_runs`].
///
/// # Panics
/// If `rate` is not between 0 and 1.
pub fn upper_bound(values: &[f64], rate: f64, bounds: usize) -> Option<f64> {
    assert!(rate > 0.0 && rate < 1.0, "a rate is between 0 and 1");
    if values.len() < fewest_runs(rate, bounds) {
        return None;
    }
    let place = ((1.0 - rate / bounds as f64) * (values.len() + 1) as f64 - 1e-9).ceil() as usize;
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    sorted.get(place.checked_sub(1)?).copied()
}

/// Fewest runs of which one run is no larger share than `percentile` leaves above it; with fewer, more runs exceed
/// their own percentile than it says. `None` for 100, which none exceeds.
///
/// # Panics
/// If `percentile` is outside 0 to 100.
pub fn fewest_for_percentile(percentile: f64) -> Option<u64> {
    assert!((0.0..=100.0).contains(&percentile), "{percentile} is not a percentile");
    // 100 / (100 - 99.9) is slightly above 1000.
    const SLACK: f64 = 1e-6;
    (percentile < 100.0).then(|| (100.0 / (100.0 - percentile) - SLACK).ceil() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_runs_have_no_bound_and_more_have_the_one_that_is_left() {
        let values: Vec<f64> = (1..=200).map(f64::from).collect();
        assert_eq!((fewest_runs(0.05, 3), fewest_runs(0.05, 1)), (59, 19));
        assert_eq!(upper_bound(&values[..58], 0.05, 3), None);
        assert_eq!(upper_bound(&values[..59], 0.05, 3), Some(59.0));
        assert_eq!(upper_bound(&values[..99], 0.05, 1), Some(95.0));
    }

    #[test]
    fn the_fewest_runs_are_those_of_which_one_is_what_the_percentile_leaves() {
        let fewest = [0.0, 50.0, 90.0, 99.0, 99.9, 100.0].map(fewest_for_percentile);
        assert_eq!(fewest, [Some(1), Some(2), Some(10), Some(100), Some(1000), None]);
    }
}
