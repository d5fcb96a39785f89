//! Samples reduced to what a picture can show, so that they need not be kept until it is drawn.

/// Number of bins of a histogram.
pub const BINS: usize = 100;

/// Number of groups of a series: about one for each column of pixels.
const GROUPS: usize = 800;

/// Counts in 100 bins over the full range of the samples.
#[derive(Clone, Debug, PartialEq)]
pub struct Histogram {
    /// Number of all samples.
    pub samples: usize,
    /// Number of samples in no bin: not finite or, on a logarithmic axis, 0 or less.
    pub left_out: usize,
    /// Edges of the bins, ascending, one more than there are counts; empty if no sample can be shown.
    pub edges: Vec<f64>,
    /// Samples in each bin; a right edge belongs to the next bin, except in the last bin.
    pub counts: Vec<u64>,
    /// True if bins have equal ratios instead of equal widths.
    pub log: bool,
}

impl Histogram {
    /// Counts the samples, in two passes; with `log`, into bins of equal ratio.
    ///
    /// # Source
    /// `numpy.histogram(samples, bins=100)`, but around a single value the range is 5 % of it to either side.
    pub fn from_samples(samples: &[f64], log: bool) -> Self {
        let shown = || samples.iter().copied().filter(|&value| super::scale::drawable(value, log));
        let (count, low, high) =
            shown().fold((0, f64::INFINITY, f64::NEG_INFINITY), |(n, low, high), v| (n + 1, low.min(v), high.max(v)));
        let mut histogram =
            Self { samples: samples.len(), left_out: samples.len() - count, edges: vec![], counts: vec![], log };
        if count == 0 {
            return histogram;
        }
        let (low, high) = match (low < high, low == 0.0) {
            (true, _) => (low, high),
            (false, true) => (-0.5, 0.5),
            (false, false) => (low - low.abs() * 0.05, low + low.abs() * 0.05),
        };
        let edge = |index: usize| {
            let part = index as f64 / BINS as f64;
            if log { low * (high / low).powf(part) } else { low + (high - low) * part }
        };
        histogram.edges = (0..=BINS).map(edge).collect();
        histogram.counts = vec![0; BINS];
        let scale = BINS as f64 / if log { (high / low).ln() } else { high - low };
        for value in shown() {
            let place = if log { (value / low).ln() } else { value - low };
            let mut bin = ((place * scale) as usize).min(BINS - 1);
            // Rounding may have crossed an edge.
            if value < histogram.edges[bin] {
                bin -= 1;
            } else if bin < BINS - 1 && value >= histogram.edges[bin + 1] {
                bin += 1;
            }
            histogram.counts[bin] += 1;
        }
        histogram
    }
}

/// Samples in order of measurement: all of them if there are few, else minimum, median and maximum of equal groups.
#[derive(Clone, Debug, PartialEq)]
pub struct SampleSeries {
    /// Number of all samples.
    pub samples: usize,
    /// Number of samples not shown: not finite or, on a logarithmic axis, 0 or less.
    pub left_out: usize,
    /// Samples per group; 1 if each sample is shown.
    pub group: usize,
    /// Number (from 1) of the middle sample, minimum, median and maximum of each group; the latter are NaN if no sample
    /// of it can be shown.
    pub points: Vec<(f64, f64, f64, f64)>,
    /// True for a logarithmic axis.
    pub log: bool,
}

impl SampleSeries {
    /// Reduces the samples in one pass, for a linear or logarithmic axis, without losing extremes.
    pub fn from_samples(samples: &[f64], log: bool) -> Self {
        let group = if samples.len() <= 2 * GROUPS { 1 } else { samples.len().div_ceil(GROUPS) };
        let mut buffer = Vec::with_capacity(group);
        let mut left_out = 0;
        let mut points = Vec::with_capacity(samples.len().div_ceil(group));
        for (index, chunk) in samples.chunks(group).enumerate() {
            buffer.clear();
            buffer.extend(chunk.iter().copied().filter(|&value| super::scale::drawable(value, log)));
            left_out += chunk.len() - buffer.len();
            let middle = (index * group) as f64 + (chunk.len() as f64 + 1.0) / 2.0;
            let low = buffer.iter().copied().reduce(f64::min).unwrap_or(f64::NAN);
            let high = buffer.iter().copied().reduce(f64::max).unwrap_or(f64::NAN);
            points.push((middle, low, lower_median(&mut buffer), high));
        }
        Self { samples: samples.len(), left_out, group, points, log }
    }
}

/// Median, or the lower of the two middle values; NaN without values.
fn lower_median(values: &mut [f64]) -> f64 {
    let Some(middle) = values.len().checked_sub(1).map(|last| last / 2) else { return f64::NAN };
    *values.select_nth_unstable_by(middle, f64::total_cmp).1
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Golden numbers: numpy 2.4, `numpy.histogram([(((i * 7919) % 1009) / 100) ** 3 for i in range(1000)], bins=100)`.
    #[test]
    fn bins_are_those_of_numpy() {
        let samples: Vec<f64> = (0..1000).map(|i| (f64::from((i * 7919) % 1009) / 100.0).powi(3)).collect();
        let histogram = Histogram::from_samples(&samples, false);
        assert_eq!((histogram.edges.len(), histogram.counts.len()), (101, 100));
        assert_eq!(histogram.counts.iter().sum::<u64>(), 1000);
        assert_eq!(histogram.counts[..8], [215, 56, 39, 31, 26, 23, 21, 19]);
        assert_eq!(histogram.counts[92..], [3, 4, 3, 4, 3, 4, 3, 4]);
    }

    #[test]
    fn odd_samples_are_counted_and_left_out() {
        let histogram = Histogram::from_samples(&[f64::NAN, 1.0, f64::INFINITY, -1.0, 0.0], true);
        assert_eq!((histogram.samples, histogram.left_out, histogram.counts.iter().sum::<u64>()), (5, 4, 1));
        assert!(Histogram::from_samples(&[], false).edges.is_empty());
        assert!(Histogram::from_samples(&[0.0; 3], false).edges[0] < 0.0);
        let series = SampleSeries::from_samples(&[f64::NAN, 1.0], false);
        assert_eq!((series.left_out, series.points[1]), (1, (2.0, 1.0, 1.0, 1.0)));
        assert!(series.points[0].1.is_nan());
    }

    #[test]
    fn a_series_keeps_every_extreme() {
        let mut samples = vec![10.0; 1_000_003];
        (samples[123_456], samples[1_000_002]) = (1.0, 5000.0);
        let series = SampleSeries::from_samples(&samples, true);
        assert!(series.points.len() <= GROUPS);
        let low = series.points.iter().map(|point| point.1).fold(f64::INFINITY, f64::min);
        let high = series.points.iter().map(|point| point.3).fold(0.0, f64::max);
        assert_eq!((low, high), (1.0, 5000.0));
        assert!(series.points.iter().all(|point| point.2 == 10.0 || point.1 == 5000.0));
        assert_eq!(SampleSeries::from_samples(&samples[..1600], false).points.len(), 1600);
    }
}
