//! Samples of one cell: all of them, or a histogram in bounded memory.

use crate::clock::Timebase;
use crate::memory::{OutOfMemory, filled, reserved};
use hdrhistogram::Histogram;
use tripmeter_model::figure::{Figure, Statistic};
use tripmeter_model::metric::{Interval, Stream};
use tripmeter_model::plan::Raw;
use tripmeter_model::series::Series;
use tripmeter_model::trial::Trial;
use tripmeter_stats::Figures;
use tripmeter_stats::order::quantile_bounds;
use tripmeter_stats::rounds::ALPHA;
use tripmeter_stats::series::Thinned;

/// Samples buffered before they are drained into the histogram, if raw samples are not kept.
const CHUNK: usize = 1 << 16;
/// Precision of histograms, in significant digits. Values reach up to an hour.
const DIGITS: u8 = 3;
const LONGEST_NS: u64 = 3_600_000_000_000;

/// Buffer for the samples of a cell, allocated and written before the first sample.
pub struct Recorder {
    timebase: Timebase,
    raw: Raw,
    ticks: Vec<u64>,
    filled: usize,
    planned: u64,
    drained: u64,
    times: Distribution,
    series: Thinned,
}

pub struct RecordedSamples {
    /// Round trips in ticks, in order; empty without raw samples.
    pub ticks: Vec<u64>,
    pub count: u64,
    pub times: Distribution,
    pub series: Option<Series>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ClockError {
    /// Error in nanoseconds; infinite if unknown.
    pub ns: f64,
    /// True if it exceeds the plan's limit: neither figures nor samples of one-way latencies are then reported.
    pub is_too_large: bool,
}

impl ClockError {
    pub fn add(&mut self, other: Self) {
        *self = Self { ns: self.ns.max(other.ns), is_too_large: self.is_too_large || other.is_too_large };
    }
}

/// Latencies in nanoseconds, as a list or as a histogram in bounded memory.
pub struct Distribution {
    /// Samples plus `shift`, in order until the figures are computed; `None` without raw samples.
    ns: Option<Vec<u64>>,
    /// Offset that makes negative samples of two clocks sortable as unsigned numbers.
    shift: u64,
    clock_error: ClockError,
    sum_ns: u128,
    min_ns: u64,
    max_ns: u64,
    /// Histogram of all samples that are not negative.
    histogram: Histogram<u64>,
}

impl Distribution {
    pub fn new(raw: Raw) -> Self {
        let histogram = Histogram::new_with_bounds(1, LONGEST_NS, DIGITS).expect("the bounds are constants in range");
        let ns = (!raw.is_none()).then(Vec::new);
        Self { ns, shift: 0, clock_error: ClockError::default(), sum_ns: 0, min_ns: u64::MAX, max_ns: 0, histogram }
    }

    /// Creates an empty distribution, and reserves memory now, not during the measurement.
    fn with_room(raw: Raw, samples: u64) -> Result<Self, OutOfMemory> {
        let ns = (!raw.is_none()).then(|| reserved(samples, "samples to be sorted")).transpose()?;
        Ok(Self { ns, ..Self::new(raw) })
    }

    /// Creates an empty distribution for two clocks; raw samples must be kept.
    pub fn of_two_clocks(raw: Raw) -> Self {
        Self { shift: LONGEST_NS, ..Self::new(raw) }
    }

    /// Widens all intervals by the error between the two clocks.
    pub fn set_clock_error(&mut self, error: ClockError) {
        self.clock_error.add(error);
    }

    /// Histogram of all samples that are not negative; `None` if the clocks may be too far apart.
    pub fn histogram(&self) -> Option<&Histogram<u64>> {
        (!self.clock_error.is_too_large).then_some(&self.histogram)
    }

    /// Adds a sample timed by two clocks. A negative one is left out of the histogram.
    pub fn record_signed(&mut self, ns: i64) {
        match u64::try_from(ns) {
            Ok(ns) => self.record(ns),
            Err(_) => self.ns.iter_mut().for_each(|all| all.push(self.shift.saturating_add_signed(ns))),
        }
    }

    pub fn record(&mut self, ns: u64) {
        if let Some(all) = &mut self.ns {
            all.push(ns + self.shift);
        }
        self.sum_ns += u128::from(ns);
        self.min_ns = self.min_ns.min(ns);
        self.max_ns = self.max_ns.max(ns);
        self.histogram.saturating_record(ns);
    }

    pub fn figures(&mut self) -> Option<Figures> {
        if let Some(all) = &mut self.ns {
            return tripmeter_stats::figures(all).map(|figures| shifted(&figures, self.shift as f64));
        }
        let samples = self.histogram.len();
        let at = |quantile| self.histogram.value_at_quantile(quantile) as f64;
        (samples > 0).then(|| Figures {
            min: self.min_ns as f64,
            mean: self.sum_ns as f64 / samples as f64,
            stdev: self.histogram.stdev(),
            median: at(0.5),
            p90: at(0.9),
            p99: at(0.99),
            p999: at(0.999),
            p9999: at(0.9999),
            max: self.max_ns as f64,
        })
    }

    /// Puts the figures, multiplied by `factor`, into a trial, if there are samples. Quantiles have intervals if raw
    /// samples are kept.
    pub fn put_scaled(&mut self, trial: &mut Trial, stream: &Stream, figure: Figure, factor: f64) {
        self.put_with(trial, stream, figure, factor, true);
    }

    pub fn put(&mut self, trial: &mut Trial, stream: &Stream, figure: Figure) {
        self.put_with(trial, stream, figure, 1.0, true);
    }

    /// Puts the figures without intervals, for samples that depend on each other.
    pub fn put_without_intervals(&mut self, trial: &mut Trial, stream: &Stream, figure: Figure) {
        self.put_with(trial, stream, figure, 1.0, false);
    }

    fn put_with(&mut self, trial: &mut Trial, stream: &Stream, figure: Figure, factor: f64, has_intervals: bool) {
        if self.clock_error.is_too_large {
            return;
        }
        let Some(Figures { min, mean, stdev, median, p90, p99, p999, p9999, max }) = self.figures() else { return };
        let sorted = self.ns.as_deref().filter(|_| has_intervals);
        let within = |p: f64, value: f64| {
            let (low, high) = quantile_bounds(sorted?, p, ALPHA);
            // With few samples, a bound is the largest sample, and the interpolated value lies below it.
            let (shift, error) = (self.shift as f64, self.clock_error.ns);
            let low = low.map_or(f64::NEG_INFINITY, |ns| value.min(ns as f64 - shift) - error);
            let high = high.map_or(f64::INFINITY, |ns| value.max(ns as f64 - shift) + error);
            Some(Interval { low: low * factor, high: high * factor })
        };
        let samples = self.ns.as_ref().map_or(self.histogram.len(), |all| all.len() as u64);
        trial.put_statistic(stream, figure, Statistic::N, samples as f64, None);
        for (statistic, value) in
            [(Statistic::Min, min), (Statistic::Mean, mean), (Statistic::Stdev, stdev), (Statistic::Max, max)]
        {
            trial.put_statistic(stream, figure, statistic, value * factor, None);
        }
        for (statistic, value, p) in [
            (Statistic::P50, median, 0.5),
            (Statistic::P90, p90, 0.9),
            (Statistic::P99, p99, 0.99),
            (Statistic::P999, p999, 0.999),
            (Statistic::P9999, p9999, 0.9999),
        ] {
            trial.put_statistic(stream, figure, statistic, value * factor, within(p, value));
        }
    }
}

/// Subtracts `shift` from the figures; the standard deviation stays.
fn shifted(figures: &Figures, shift: f64) -> Figures {
    let Figures { min, mean, stdev, median, p90, p99, p999, p9999, max } = *figures;
    let [min, mean, median, p90, p99, p999, p9999, max] =
        [min, mean, median, p90, p99, p999, p9999, max].map(|ns| ns - shift);
    Figures { min, mean, stdev, median, p90, p99, p999, p9999, max }
}

/// One-way latencies of successful calls; empty if arrivals were not recorded.
pub struct OneWay {
    raw: Raw,
    two_clocks: bool,
    clock_error: ClockError,
    times: Option<Distribution>,
    /// Number of messages whose arrival time is not known, or is before they were sent.
    pub missing: u64,
    /// Number of messages that arrived before they were sent, according to two clocks.
    pub before_sent: u64,
}

impl OneWay {
    pub fn new(raw: Raw, two_clocks: bool) -> Self {
        Self { raw, two_clocks, clock_error: ClockError::default(), times: None, missing: 0, before_sent: 0 }
    }

    /// Adds the one-way latency of a call, or counts it as missing.
    pub fn record(&mut self, ns: Option<i64>) {
        let new = || if self.two_clocks { Distribution::of_two_clocks(self.raw) } else { Distribution::new(self.raw) };
        match ns {
            Some(ns) => {
                self.before_sent += u64::from(ns < 0);
                self.times.get_or_insert_with(new).record_signed(ns);
            }
            None => self.missing += 1,
        }
    }

    /// Puts the times only. `has_intervals` is false for messages that depend on each other.
    pub fn put_times(&mut self, trial: &mut Trial, stream: &Stream, has_intervals: bool) {
        if let Some(times) = &mut self.times {
            times.set_clock_error(self.clock_error);
            times.put_with(trial, stream, Figure::OneWay, 1.0, has_intervals);
        }
    }

    pub fn put(&mut self, trial: &mut Trial, stream: &Stream) {
        self.put_times(trial, stream, true);
        if self.times.is_some() || self.missing > 0 {
            trial.put(stream, Figure::OneWayMissing, self.missing as f64);
        }
    }

    pub fn set_clock_error(&mut self, error: ClockError) {
        self.clock_error.add(error);
    }

    pub fn histogram(&self) -> Option<&Histogram<u64>> {
        self.times.as_ref().filter(|_| !self.clock_error.is_too_large)?.histogram()
    }
}

impl Recorder {
    /// Reserves room for `planned` samples, or for a chunk of them if raw samples are not kept.
    pub fn new(timebase: Timebase, raw: Raw, planned: u64) -> Result<Self, OutOfMemory> {
        let room = if raw.is_none() { planned.min(CHUNK as u64) } else { planned };
        let ticks = filled(u64::MAX, room, "samples")?;
        let times = Distribution::with_room(raw, planned)?;
        Ok(Self { timebase, raw, ticks, filled: 0, planned, drained: 0, times, series: Thinned::default() })
    }

    /// Free part of the buffer, never longer than the samples still planned.
    pub fn free(&mut self) -> &mut [u64] {
        let left = (self.planned - self.drained) as usize;
        let end = self.ticks.len().min(left);
        &mut self.ticks[self.filled..end]
    }

    /// Counts `count` more samples, stored in [`Recorder::free`].
    pub fn advance(&mut self, count: usize) {
        self.filled += count;
        if self.raw.is_none() && self.filled == self.ticks.len() {
            self.drain();
        }
    }

    /// Samples in the buffer: all of them if raw samples are kept.
    pub fn ticks(&self) -> &[u64] {
        &self.ticks[..self.filled]
    }

    pub fn count(&self) -> u64 {
        self.drained + self.filled as u64
    }

    fn drain(&mut self) {
        for index in 0..self.filled {
            let ns = self.timebase.to_ns(self.ticks[index]);
            self.count_one(ns);
        }
        self.drained += self.filled as u64;
        self.filled = 0;
    }

    fn count_one(&mut self, ns: u64) {
        self.times.record(ns);
        self.series.push(ns);
    }

    pub fn finish(mut self) -> RecordedSamples {
        let mut ticks = Vec::new();
        if self.raw.is_none() {
            self.drain();
        } else {
            ticks = std::mem::take(&mut self.ticks);
            ticks.truncate(self.filled);
            for ticks in &ticks {
                self.count_one(self.timebase.to_ns(*ticks));
            }
        }
        RecordedSamples {
            count: self.times.histogram.len(),
            ticks,
            times: self.times,
            series: self.series.audit(self.timebase.granularity_ns()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(raw: Raw, samples: &[u64]) -> RecordedSamples {
        let mut recorder = Recorder::new(Timebase::NANOSECONDS, raw, samples.len() as u64).unwrap();
        let mut next = 0;
        while recorder.count() < samples.len() as u64 {
            let free = recorder.free();
            let taken = free.len().min(1000);
            free[..taken].copy_from_slice(&samples[next..next + taken]);
            next += taken;
            recorder.advance(taken);
        }
        assert!(recorder.free().is_empty());
        recorder.finish()
    }

    #[test]
    fn the_buffer_shows_what_was_stored() {
        let mut recorder = Recorder::new(Timebase::NANOSECONDS, Raw::SAMPLES, 5).unwrap();
        recorder.free()[..3].copy_from_slice(&[7, 8, 9]);
        recorder.advance(3);
        assert_eq!((recorder.free().len(), recorder.count(), recorder.ticks()), (2, 3, &[7, 8, 9][..]));
        let recorded = recorder.finish();
        assert_eq!((recorded.ticks, recorded.count), (vec![7, 8, 9], 3));
    }

    #[test]
    fn a_full_buffer_makes_room_where_samples_are_not_kept() {
        let mut recorder = Recorder::new(Timebase::NANOSECONDS, Raw::NONE, CHUNK as u64 + 10).unwrap();
        recorder.free().fill(5);
        recorder.advance(CHUNK);
        assert_eq!((recorder.free().len(), recorder.count()), (10, CHUNK as u64));
    }

    #[test]
    fn without_a_sample_there_are_no_figures() {
        for raw in [Raw::SAMPLES, Raw::NONE] {
            let mut recorded = record(raw, &[]);
            assert!(recorded.times.figures().is_none() && recorded.count == 0);
        }
    }

    #[test]
    fn a_sample_of_no_time_is_the_smallest_wherever_it_stands() {
        for samples in [[0, 5, 3], [5, 0, 3]] {
            for raw in [Raw::SAMPLES, Raw::NONE] {
                let figures = record(raw, &samples).times.figures().unwrap();
                assert_eq!((figures.min, figures.max), (0.0, 5.0), "{samples:?}");
            }
        }
    }

    #[test]
    fn latencies_have_figures_and_intervals_in_any_order() {
        let mut times = Distribution::new(Raw::SAMPLES);
        (1..=1001).rev().for_each(|ns| times.record(ns));
        let (mut trial, all) = (Trial::new(tripmeter_model::pace::OfferedLoad::Closed), Stream::all());
        times.put_scaled(&mut trial, &all, Figure::RttHalf, 0.5);
        let get = |statistic| trial.get(&all, Figure::RttHalf, statistic).unwrap();
        assert_eq!((get(Statistic::P50).value, get(Statistic::N).value), (250.5, 1001.0));
        // Hahn and Meeker's ranks by the normal approximation: n p ± 1.96 sqrt(n p (1 - p)).
        let within = get(Statistic::P50).within.unwrap();
        assert!((within.low - 235.0).abs() <= 1.0 && (within.high - 266.0).abs() <= 1.0, "{within:?}");
        let within = get(Statistic::P9999).within.unwrap();
        assert!(within.low.is_finite() && within.high == f64::INFINITY, "{within:?}");
        times.put_without_intervals(&mut trial, &all, Figure::OneWay);
        let one_way = trial.get(&all, Figure::OneWay, Statistic::P50).unwrap();
        assert_eq!((one_way.value, one_way.within), (501.0, None));
    }

    #[test]
    fn an_interval_brackets_its_value_and_has_an_upper_end_from_enough_samples_on() {
        let all = Stream::all();
        for (n, is_bounded) in
            [(1, false), (149, false), (1000, false), (20_000, false), (36_886, false), (36_887, true), (200_000, true)]
        {
            let mut times = Distribution::new(Raw::SAMPLES);
            (0..n).for_each(|index| times.record(1000 + index * 7919 % 100_003));
            let mut trial = Trial::new(tripmeter_model::pace::OfferedLoad::Closed);
            times.put_scaled(&mut trial, &all, Figure::RttHalf, 0.5);
            for statistic in [Statistic::P50, Statistic::P90, Statistic::P99, Statistic::P999, Statistic::P9999] {
                let found = trial.get(&all, Figure::RttHalf, statistic).unwrap();
                assert!(found.within.unwrap().contains(found.value), "{n}: {found:?}");
            }
            let p9999 = trial.get(&all, Figure::RttHalf, Statistic::P9999).unwrap();
            assert_eq!(p9999.within.unwrap().high.is_finite(), is_bounded, "{n}");
        }
    }

    #[test]
    fn raw_samples_and_histogram_tell_the_same_to_three_digits() {
        let samples: Vec<u64> = (0..200_001).map(|index| 1000 + (index * 7919) % 100_003).collect();
        let (mut raw, mut folded) = (record(Raw::SAMPLES, &samples), record(Raw::NONE, &samples));
        assert_eq!(raw.ticks, samples);
        assert!(folded.ticks.is_empty());
        assert_eq!((raw.count, folded.count), (200_001, 200_001));
        let (exact, near) = (raw.times.figures().unwrap(), folded.times.figures().unwrap());
        assert_eq!((exact.min, exact.max, exact.mean), (near.min, near.max, near.mean));
        for (exact, near) in [(exact.median, near.median), (exact.p99, near.p99), (exact.stdev, near.stdev)] {
            assert!((near / exact - 1.0).abs() < 2e-3, "{exact} {near}");
        }
        assert_eq!(raw.times.histogram().unwrap().len(), 200_001);
    }
}
