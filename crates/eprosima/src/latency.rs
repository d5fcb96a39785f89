//! Figures of the published latency summaries, rounded at every step as by numpy, so that three decimals agree.

use crate::bytes::Bytes;
use crate::legacy;
use crate::pairwise::{self, SumAndRange};
use crate::select;
use crate::summary::SummaryRow;

/// Percentiles of a summary as fractions, divided by 100 as in numpy: 99.99 / 100 is not the number nearest to 0.9999.
const QUANTILES: [f64; 4] = [50.0 / 100.0, 90.0 / 100.0, 99.0 / 100.0, 99.99 / 100.0];

/// Summary of one payload's samples, which are overwritten; `None` without a sample.
///
/// Samples are microseconds in measurement order, finite and not negative. The jitter of a single sample is NaN.
///
/// # Source
/// eProsima's `latency_process_results.py`. Jitter is the absolute difference of consecutive samples, and its mean
/// divides by n - 1. The standard deviation divides by n; percentiles are interpolated.
pub fn summary_row(bytes: &Bytes, samples: &mut [f64]) -> Option<SummaryRow> {
    let count = samples.len() as f64;
    let (later, earlier) = (samples.get(1..)?, &samples[..samples.len() - 1]);
    let jitter = pairwise::figures(later, earlier, |later, earlier| (later - earlier).abs());
    let or_none = |figure: f64| if later.is_empty() { f64::NAN } else { figure };
    let mean_jitter = or_none(jitter.sum / (count - 1.0));
    let max_jitter = legacy::max_jitter(or_none(jitter.largest), samples);
    let SumAndRange { sum, smallest: min, largest: max } = pairwise::figures(samples, samples, |sample, _| sample);
    let mean = sum / count;
    let squares = pairwise::sum(samples, samples, |sample, _| (sample - mean) * (sample - mean));
    let stdev = (squares / count).sqrt();
    let [median, p90, p99, p9999] = select::quantiles_within(samples, [min, max], QUANTILES);
    let samples = samples.len() as u64;
    let bytes = bytes.clone();
    Some(SummaryRow { bytes, samples, max, min, mean, median, stdev, mean_jitter, max_jitter, p90, p99, p9999 })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Copy of the function in `make.py`, which is next to the golden file.
    fn sample(kind: &str, index: u64) -> f64 {
        let scrambled = (index * 7919) % 10007;
        match kind {
            "saw" => (scrambled + 500) as f64 / 1000.0,
            "tail" => (scrambled * scrambled % 1_000_003 * scrambled + 1) as f64 / 1_000_000.0,
            _ => (scrambled % 5 + 1) as f64 / 2.0,
        }
    }

    /// The golden file is made with numpy by the `make.py` next to it.
    #[test]
    fn figures_are_those_of_numpy_to_the_last_bit() {
        let golden = include_str!("../../tripmeter/tests/golden/process/figures.csv");
        for line in golden.lines().skip(1) {
            let fields: Vec<&str> = line.split(',').collect();
            let mut samples: Vec<f64> = (0..fields[1].parse().unwrap()).map(|index| sample(fields[0], index)).collect();
            let row = summary_row(&Bytes::from(16), &mut samples).unwrap();
            let expected: Vec<f64> = fields[2..].iter().map(|field| field.parse().unwrap()).collect();
            let bits = |values: &[f64]| values.iter().map(|value| value.to_bits() & !(1 << 63)).collect::<Vec<_>>();
            assert_eq!(bits(&row.figures()), bits(&expected), "{line}\n{row:?}");
        }
    }

    #[test]
    fn a_single_difference_is_the_mean_and_the_largest() {
        let row = summary_row(&Bytes::from(16), &mut [8.6555, 21.7580]).unwrap();
        assert_eq!(row.mean_jitter.to_bits(), row.max_jitter.to_bits());
        assert_eq!(format!("{:.3}", row.max_jitter), "13.102");
    }

    #[test]
    fn without_a_sample_there_is_no_row() {
        assert_eq!(summary_row(&Bytes::from(16), &mut []), None);
    }
}
