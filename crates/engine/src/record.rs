//! Samples of one cell: kept whole, or as a histogram in bounded memory.

use crate::clock::Timebase;
use crate::memory::{OutOfMemory, filled, reserved};
use hdrhistogram::Histogram;
use tripmeter_model::channel::{Latency, LatencyBounds};
use tripmeter_model::manifest::{Figures, WithinRun};
use tripmeter_model::plan::Raw;
use tripmeter_model::series::Series;
use tripmeter_stats::series::Thinned;

/// Samples taken between two drains where raw samples are not kept.
const CHUNK: usize = 1 << 16;
/// Three digits, up to an hour.
const DIGITS: u8 = 3;
const LONGEST_NS: u64 = 3_600_000_000_000;

/// The buffer of a cell's samples, allocated and faulted in before the first.
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

/// A finished cell's samples.
pub struct Recorded {
    /// Round trips in nanoseconds, in order; empty without raw samples.
    pub rtt_ns: Vec<u64>,
    /// Number of samples.
    pub count: u64,
    /// The figures; `None` without a sample.
    pub figures: Option<Figures>,
    /// Intervals of its quantiles; `None` without raw samples.
    pub within_run: Option<WithinRun>,
    /// Round trips in nanoseconds.
    pub histogram: Histogram<u64>,
    /// The audit of the round trips; `None` if they are few.
    pub series: Option<Series>,
}

/// Latencies in nanoseconds: each of them, or a histogram in bounded memory.
pub struct Distribution {
    /// Each, in order until its figures are made; `None` without raw samples.
    ns: Option<Vec<u64>>,
    sum_ns: u128,
    min_ns: u64,
    max_ns: u64,
    /// All of them.
    pub histogram: Histogram<u64>,
}

impl Distribution {
    /// Nothing yet, and no room.
    pub fn new(raw: Raw) -> Self {
        let histogram = Histogram::new_with_bounds(1, LONGEST_NS, DIGITS).expect("the bounds are constants in range");
        let ns = (raw == Raw::Csv).then(Vec::new);
        Self { ns, sum_ns: 0, min_ns: u64::MAX, max_ns: 0, histogram }
    }

    /// The same with room for so many, found now and not when it would be late.
    ///
    /// # Errors
    /// If there is too little memory.
    fn with_room(raw: Raw, samples: u64) -> Result<Self, OutOfMemory> {
        let ns = (raw == Raw::Csv).then(|| reserved(samples, "samples to be sorted")).transpose()?;
        Ok(Self { ns, ..Self::new(raw) })
    }

    /// Adds one.
    pub fn record(&mut self, ns: u64) {
        if let Some(all) = &mut self.ns {
            all.push(ns);
        }
        self.sum_ns += u128::from(ns);
        self.min_ns = self.min_ns.min(ns);
        self.max_ns = self.max_ns.max(ns);
        self.histogram.saturating_record(ns);
    }

    /// The mean, and the quantile of any probability, once there is a sample.
    fn mean_and_quantiles(&mut self) -> Option<(f64, impl Fn(f64) -> f64)> {
        let samples = self.histogram.len();
        if let Some(all) = &mut self.ns {
            all.sort_unstable();
        }
        let at = |quantile| match &self.ns {
            Some(sorted) => tripmeter_stats::quantile(sorted, quantile),
            None => self.histogram.value_at_quantile(quantile) as f64,
        };
        (samples > 0).then_some((self.sum_ns as f64 / samples as f64, at))
    }

    /// The figures of round trips and of latencies one way; `None` without a sample.
    pub fn figures(&mut self) -> Option<Figures> {
        if let Some(all) = &mut self.ns {
            return tripmeter_stats::figures(all);
        }
        let (min, max, stdev) = (self.min_ns as f64, self.max_ns as f64, self.histogram.stdev());
        let (mean, at) = self.mean_and_quantiles()?;
        Some(Figures { min, mean, stdev, median: at(0.5), p90: at(0.9), p99: at(0.99), p9999: at(0.9999), max })
    }

    /// The figures of messages at a rate, and of calls; `None` without a sample.
    pub fn latency(&mut self) -> Option<Latency> {
        let (samples, min, max) = (self.histogram.len(), self.min_ns as f64, self.max_ns as f64);
        let (mean, at) = self.mean_and_quantiles()?;
        Some(Latency { samples, min, mean, median: at(0.5), p90: at(0.9), p99: at(0.99), p999: at(0.999), max })
    }

    /// Intervals of the quantiles of [`Distribution::figures`], after these; `None` without raw samples.
    pub fn within_run(&self) -> Option<WithinRun> {
        self.ns.as_deref().map(tripmeter_stats::rounds::within_run)
    }

    /// Intervals of the quantiles of [`Distribution::latency`], after that; `None` without raw samples.
    pub fn bounds(&self) -> Option<LatencyBounds> {
        let sorted = self.ns.as_deref().filter(|sorted| !sorted.is_empty())?;
        let of = |p| tripmeter_stats::rounds::bounds(sorted, p);
        Some(LatencyBounds { median: of(0.5), p90: of(0.9), p99: of(0.99), p999: of(0.999) })
    }
}

/// Latencies one way of calls that succeeded; nothing where arrivals were not noted.
pub struct OneWay {
    raw: Raw,
    /// Made with the first of them.
    times: Option<Distribution>,
    /// Calls whose request has no time of arrival, or one before it was sent.
    pub missing: u64,
}

impl OneWay {
    /// Nothing yet, and no room.
    pub fn new(raw: Raw) -> Self {
        Self { raw, times: None, missing: 0 }
    }

    /// Adds that of a call, if it is known.
    pub fn record(&mut self, ns: Option<u64>) {
        match ns {
            Some(ns) => self.times.get_or_insert_with(|| Distribution::new(self.raw)).record(ns),
            None => self.missing += 1,
        }
    }

    /// The figures; `None` without a sample.
    pub fn latency(&mut self) -> Option<Latency> {
        self.times.as_mut()?.latency()
    }

    /// Intervals of the quantiles of [`OneWay::latency`], after that; `None` without raw samples.
    pub fn bounds(&self) -> Option<LatencyBounds> {
        self.times.as_ref()?.bounds()
    }

    /// All of them; `None` without a sample.
    pub fn histogram(&self) -> Option<&Histogram<u64>> {
        Some(&self.times.as_ref()?.histogram)
    }
}

impl Recorder {
    /// Room for `planned` samples, or for a chunk of them where raw samples are not kept.
    ///
    /// # Errors
    /// If there is too little memory.
    pub fn new(timebase: Timebase, raw: Raw, planned: u64) -> Result<Self, OutOfMemory> {
        let room = if raw == Raw::None { planned.min(CHUNK as u64) } else { planned };
        let ticks = filled(u64::MAX, room, "samples")?;
        let times = Distribution::with_room(raw, planned)?;
        Ok(Self { timebase, raw, ticks, filled: 0, planned, drained: 0, times, series: Thinned::default() })
    }

    /// The free part of the buffer, never more than is still to be recorded.
    pub fn free(&mut self) -> &mut [u64] {
        let left = (self.planned - self.drained) as usize;
        let end = self.ticks.len().min(left);
        &mut self.ticks[self.filled..end]
    }

    /// `count` more samples were stored in [`Recorder::free`].
    pub fn advance(&mut self, count: usize) {
        self.filled += count;
        if self.raw == Raw::None && self.filled == self.ticks.len() {
            self.drain();
        }
    }

    /// The samples in the buffer: all of them where raw samples are kept.
    pub fn ticks(&self) -> &[u64] {
        &self.ticks[..self.filled]
    }

    /// Samples so far.
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

    /// The samples, and what is said of them.
    pub fn finish(mut self) -> Recorded {
        let mut rtt_ns = Vec::new();
        if self.raw == Raw::None {
            self.drain();
        } else {
            rtt_ns = std::mem::take(&mut self.ticks);
            rtt_ns.truncate(self.filled);
            for ticks in &mut rtt_ns {
                *ticks = self.timebase.to_ns(*ticks);
                self.count_one(*ticks);
            }
        }
        let figures = self.times.figures();
        Recorded {
            count: self.times.histogram.len(),
            figures,
            within_run: self.times.within_run(),
            rtt_ns,
            histogram: self.times.histogram,
            series: self.series.audit(self.timebase.granularity_ns()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(raw: Raw, samples: &[u64]) -> Recorded {
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
        let mut recorder = Recorder::new(Timebase::NANOSECONDS, Raw::Csv, 5).unwrap();
        recorder.free()[..3].copy_from_slice(&[7, 8, 9]);
        recorder.advance(3);
        assert_eq!((recorder.free().len(), recorder.count(), recorder.ticks()), (2, 3, &[7, 8, 9][..]));
        let recorded = recorder.finish();
        assert_eq!((recorded.rtt_ns, recorded.count), (vec![7, 8, 9], 3));
    }

    #[test]
    fn a_full_buffer_makes_room_where_samples_are_not_kept() {
        let mut recorder = Recorder::new(Timebase::NANOSECONDS, Raw::None, CHUNK as u64 + 10).unwrap();
        recorder.free().fill(5);
        recorder.advance(CHUNK);
        assert_eq!((recorder.free().len(), recorder.count()), (10, CHUNK as u64));
    }

    #[test]
    fn without_a_sample_there_are_no_figures() {
        for raw in [Raw::Csv, Raw::None] {
            let recorded = record(raw, &[]);
            assert!(recorded.figures.is_none() && recorded.count == 0);
        }
    }

    #[test]
    fn a_sample_of_no_time_is_the_smallest_wherever_it_stands() {
        for samples in [[0, 5, 3], [5, 0, 3]] {
            for raw in [Raw::Csv, Raw::None] {
                let figures = record(raw, &samples).figures.unwrap();
                assert_eq!((figures.min, figures.max), (0.0, 5.0), "{samples:?}");
            }
        }
    }

    #[test]
    fn latencies_have_figures_and_intervals_in_any_order() {
        let mut times = Distribution::new(Raw::Csv);
        (1..=1001).rev().for_each(|ns| times.record(ns));
        assert_eq!((times.figures().unwrap().median, times.histogram.len()), (501.0, 1001));
        let sorted: Vec<u64> = (1..=1001).collect();
        assert_eq!(times.within_run(), Some(tripmeter_stats::rounds::within_run(&sorted)));
    }

    #[test]
    fn raw_samples_and_histogram_tell_the_same_to_three_digits() {
        let samples: Vec<u64> = (0..200_001).map(|index| 1000 + (index * 7919) % 100_003).collect();
        let (raw, folded) = (record(Raw::Csv, &samples), record(Raw::None, &samples));
        assert_eq!(raw.rtt_ns, samples);
        assert!(folded.rtt_ns.is_empty());
        assert_eq!((raw.count, folded.count), (200_001, 200_001));
        let (exact, near) = (raw.figures.unwrap(), folded.figures.unwrap());
        assert_eq!((exact.min, exact.max, exact.mean), (near.min, near.max, near.mean));
        for (exact, near) in [(exact.median, near.median), (exact.p99, near.p99), (exact.stdev, near.stdev)] {
            assert!((near / exact - 1.0).abs() < 2e-3, "{exact} {near}");
        }
        assert_eq!(raw.histogram.len(), 200_001);
    }
}
