//! Access to the figures of a trial.

use tripmeter_model::figure::{Figure, Statistic};
use tripmeter_model::manifest::Counts;
use tripmeter_model::metric::{At, Stream};
use tripmeter_model::trial::Trial;

/// Statistics of a latency, in nanoseconds.
#[derive(Clone, Copy, Debug)]
pub struct LatencyFigures {
    pub samples: u64,
    pub min: f64,
    pub mean: f64,
    pub stdev: f64,
    pub median: f64,
    pub p90: f64,
    pub p99: f64,
    pub p999: f64,
    pub p9999: f64,
    pub max: f64,
}

impl LatencyFigures {
    /// True if the quantiles are in order and the mean is between minimum and maximum.
    pub fn is_rising(&self) -> bool {
        let Self { min, mean, stdev, median, p90, p99, p999, p9999, max, .. } = *self;
        let quantiles = [min, median, p90, p99, p999, p9999, max];
        0.0 < min && quantiles.is_sorted() && min <= mean && mean <= max && stdev >= 0.0
    }
}

/// Latency of a stream; `None` without samples.
pub fn times_at(trial: &Trial, stream: &Stream, figure: Figure) -> Option<LatencyFigures> {
    let get = |statistic| trial.get(stream, figure, statistic).map(|one| one.value);
    Some(LatencyFigures {
        samples: get(Statistic::N)? as u64,
        min: get(Statistic::Min)?,
        mean: get(Statistic::Mean)?,
        stdev: get(Statistic::Stdev)?,
        median: get(Statistic::P50)?,
        p90: get(Statistic::P90)?,
        p99: get(Statistic::P99)?,
        p999: get(Statistic::P999)?,
        p9999: get(Statistic::P9999)?,
        max: get(Statistic::Max)?,
    })
}

/// Latency of all messages; `None` without samples.
pub fn times(trial: &Trial, figure: Figure) -> Option<LatencyFigures> {
    times_at(trial, &Stream::all(), figure)
}

pub fn value(trial: &Trial, figure: Figure) -> Option<f64> {
    trial.value(&Stream::all(), figure)
}

pub fn count(trial: &Trial, figure: Figure) -> u64 {
    trial.count(&Stream::all(), figure)
}

pub fn counts(trial: &Trial) -> Counts {
    trial.counts(&Stream::all())
}

/// Streams of the individual followers, without the stream `last`.
pub fn followers(trial: &Trial) -> Vec<Stream> {
    trial.streams().filter(|stream| matches!(stream.at, Some(At::Follower(_)))).cloned().collect()
}

pub fn publishers(trial: &Trial) -> Vec<Stream> {
    trial.streams().filter(|stream| stream.publisher.is_some()).cloned().collect()
}
