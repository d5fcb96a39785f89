//! End of a warm-up by MSER-5. This is only reported: no samples are dropped.

const BATCH: usize = 5;

/// Number of batches at the end that are not candidates: the variance of fewer is meaningless.
const LAST: usize = 5;

/// Truncation point that MSER-5 suggests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Truncation {
    /// Number of samples before the point, a multiple of 5.
    pub samples: usize,
    /// True if the point lies in the first half. Otherwise the series is too short to distinguish a warm-up from a
    /// trend, and the point is meaningless.
    pub is_reliable: bool,
}

/// Truncation point of samples in time order, which minimises the standard error of the mean of the samples after it,
/// over batches of five. `None` below 50 samples. Ignores a remainder of less than five at the end.
///
/// # Source
/// White, Cobb and Spratt (2000), "A comparison of five steady-state truncation heuristics for simulation",
/// doi:10.1109/WSC.2000.899857; rejection in the second half and the batches at the end as in Hoad, Robinson and
/// Davies (2010), doi:10.1057/jors.2009.121.
pub fn mser5(samples: impl IntoIterator<Item = f64>) -> Option<Truncation> {
    let mut samples = samples.into_iter();
    let batches: Vec<f64> = std::iter::from_fn(|| {
        let sum = samples.next()? + samples.next()? + samples.next()? + samples.next()? + samples.next()?;
        Some(sum / BATCH as f64)
    })
    .collect();
    if batches.len() < 2 * LAST {
        return None;
    }
    let (mut best, mut smallest) = (0, f64::INFINITY);
    // Mean and squares of all batches from `index` on, computed from the end by Welford's recurrence.
    let (mut mean, mut squares) = (0.0, 0.0);
    for (index, batch) in batches.iter().enumerate().rev() {
        let count = (batches.len() - index) as f64;
        let difference = batch - mean;
        mean += difference / count;
        squares += difference * (batch - mean);
        let error = squares / (count * count);
        if index <= batches.len() - LAST && error <= smallest {
            (best, smallest) = (index, error);
        }
    }
    Some(Truncation { samples: best * BATCH, is_reliable: best <= batches.len() / 2 })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn noise(n: usize) -> impl Iterator<Item = f64> {
        let mut random = fastrand::Rng::with_seed(3);
        (0..n).map(move |_| random.f64())
    }

    #[test]
    fn a_slow_start_is_found() {
        let found = mser5(noise(1000).enumerate().map(|(index, x)| if index < 100 { x + 5.0 } else { x })).unwrap();
        assert!(found.is_reliable && (100..150).contains(&found.samples), "{found:?}");
    }

    #[test]
    fn a_trend_to_the_end_is_not_a_warm_up() {
        let found = mser5(noise(1000).enumerate().map(|(index, x)| x + index as f64)).unwrap();
        assert!(!found.is_reliable, "{found:?}");
    }

    #[test]
    fn few_samples_have_no_answer_and_equal_ones_need_no_warm_up() {
        assert_eq!(mser5([1.0; 49]), None);
        assert_eq!(mser5([1.0; 54]), Some(Truncation { samples: 0, is_reliable: true }));
    }
}
