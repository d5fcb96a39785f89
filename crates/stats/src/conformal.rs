//! Bound that a further run exceeds with at most a given probability.
//!
//! If a new run has the same distribution as `n` others, all its ranks among them are equally likely. So it is above
//! the k-th smallest with a probability of at most 1 - k / (n + 1), even if its figures depend on each other.
//!
//! # Source
//! Split conformal prediction, e.g. Vovk, Gammerman and Shafer (2005), "Algorithmic Learning in a Random World".

/// Fewest runs for a bound if `bounds` bounds share this rate equally: 59 for a rate of 0.05 and 3 bounds.
pub fn fewest_runs(rate: f64, bounds: usize) -> usize {
    (bounds as f64 / rate - 1.0 - 1e-9).ceil() as usize
}

/// Bound that a new value exceeds with a probability of at most `rate` / `bounds`; `None` with fewer values than
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

/// Fewest runs with which one run is at most the share above `percentile`: 100 for 99. With fewer runs, the share that
/// exceeds the percentile is larger than its name says. `None` for 100, which no run exceeds.
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
