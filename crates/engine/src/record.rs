//! Samples of one cell: kept whole, or as a histogram in bounded memory.

use crate::clock::Timebase;
use crate::memory::{OutOfMemory, filled, reserved};
use hdrhistogram::Histogram;
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
    histogram: Histogram<u64>,
    exact: Exact,
    series: Thinned,
    sorted: Vec<u64>,
}

/// What is kept exactly even without raw samples.
struct Exact {
    sum_ns: u128,
    min_ns: u64,
    max_ns: u64,
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

/// Of nanoseconds.
pub(crate) fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, LONGEST_NS, DIGITS).expect("the bounds are constants in range")
}

/// Latencies one way.
pub struct OneWay {
    /// The figures, in nanoseconds; `None` without a sample.
    pub figures: Option<Figures>,
    /// Intervals of its quantiles.
    pub within_run: WithinRun,
    /// In nanoseconds.
    pub histogram: Histogram<u64>,
    /// Samples that have none.
    pub missing: u64,
}

impl OneWay {
    /// From nanoseconds, in any order, besides those that are missing.
    pub fn of(mut latencies_ns: Vec<u64>, missing: u64) -> Self {
        let mut histogram = histogram();
        latencies_ns.iter().for_each(|ns| histogram.saturating_record(*ns));
        let figures = tripmeter_stats::figures(&mut latencies_ns);
        Self { figures, within_run: tripmeter_stats::rounds::within_run(&latencies_ns), histogram, missing }
    }
}

impl Recorder {
    /// Room for `planned` samples, or for a chunk of them where raw samples are not kept.
    ///
    /// # Errors
    /// If there is too little memory.
    pub fn new(timebase: Timebase, raw: Raw, planned: u64) -> Result<Self, OutOfMemory> {
        let (room, sorted) = match raw {
            Raw::Csv => (planned, planned),
            Raw::None => (planned.min(CHUNK as u64), 0),
        };
        let ticks = filled(u64::MAX, room, "samples")?;
        // Used when all samples are there, when it would be late to find that there is no room.
        let sorted = reserved(sorted, "samples to be sorted")?;
        let histogram = histogram();
        Ok(Self {
            timebase,
            raw,
            ticks,
            filled: 0,
            planned,
            drained: 0,
            histogram,
            exact: Exact { sum_ns: 0, min_ns: u64::MAX, max_ns: 0 },
            series: Thinned::default(),
            sorted,
        })
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
        self.histogram.saturating_record(ns);
        self.series.push(ns);
        self.exact.min_ns = self.exact.min_ns.min(ns);
        self.exact.max_ns = self.exact.max_ns.max(ns);
        self.exact.sum_ns += u128::from(ns);
    }

    /// Turns ticks into nanoseconds and figures.
    pub fn finish(mut self) -> Recorded {
        if self.raw == Raw::None {
            self.drain();
            let count = self.drained;
            let figures = (count > 0).then(|| self.histogram_figures(count));
            let series = self.series.audit(self.timebase.granularity_ns());
            return Recorded {
                rtt_ns: Vec::new(),
                count,
                figures,
                within_run: None,
                histogram: self.histogram,
                series,
            };
        }
        let mut rtt_ns = std::mem::take(&mut self.ticks);
        rtt_ns.truncate(self.filled);
        rtt_ns.iter_mut().for_each(|ticks| *ticks = self.timebase.to_ns(*ticks));
        for ns in &rtt_ns {
            self.count_one(*ns);
        }
        let mut sorted = std::mem::take(&mut self.sorted);
        sorted.extend_from_slice(&rtt_ns);
        let figures = tripmeter_stats::figures(&mut sorted);
        let within_run = Some(tripmeter_stats::rounds::within_run(&sorted));
        let series = self.series.audit(self.timebase.granularity_ns());
        Recorded { count: rtt_ns.len() as u64, figures, within_run, rtt_ns, histogram: self.histogram, series }
    }

    fn histogram_figures(&self, count: u64) -> Figures {
        let at = |quantile| self.histogram.value_at_quantile(quantile) as f64;
        Figures {
            min: self.exact.min_ns as f64,
            mean: self.exact.sum_ns as f64 / count as f64,
            stdev: self.histogram.stdev(),
            median: at(0.5),
            p90: at(0.9),
            p99: at(0.99),
            p9999: at(0.9999),
            max: self.exact.max_ns as f64,
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
    fn one_way_latencies_have_figures_and_intervals_in_any_order() {
        let one_way = OneWay::of((1..=1001).rev().collect(), 0);
        assert_eq!((one_way.histogram.len(), one_way.figures.unwrap().median), (1001, 501.0));
        let sorted: Vec<u64> = (1..=1001).collect();
        assert_eq!(one_way.within_run, tripmeter_stats::rounds::within_run(&sorted));
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
