//! The result of any workload at one payload and one offered load, in one round.

use crate::figure::{Figure, Statistic};
use crate::metric::{Interval, Stream};
use crate::pace::OfferedLoad;
use crate::series::Series;
use crate::throughput::Step;

/// One figure of a trial; with the address of the trial it is a [`crate::metric::Metric`].
#[derive(Clone, Debug, PartialEq)]
pub struct Measured {
    /// Which messages, or which process.
    pub stream: Stream,
    /// What it is.
    pub figure: Figure,
    /// What is said of its samples.
    pub statistic: Statistic,
    /// In the unit of the figure.
    pub value: f64,
    /// Within this trial.
    pub within: Option<Interval>,
}

/// What happened to the messages of one offered load.
#[derive(Clone, Debug, PartialEq)]
pub struct Trial {
    /// How messages were offered.
    pub load: OfferedLoad,
    /// A stream took more than 1 % and one period longer than the rate allows: figures are not of the rate offered.
    pub rate_missed: bool,
    /// The streams of which that is so, where it is known of each.
    pub missed: Vec<Stream>,
    /// Why it ended before its time, if so.
    pub cut_short: Option<String>,
    /// Its figures, stream by stream.
    pub figures: Vec<Measured>,
    /// What the audit of samples in their order found.
    pub series: Vec<(Stream, Figure, Series)>,
    /// Of a search, everything that was tried.
    pub steps: Vec<Step>,
}

impl Trial {
    /// Without a figure yet.
    pub fn new(load: OfferedLoad) -> Self {
        Self {
            load,
            rate_missed: false,
            missed: Vec::new(),
            cut_short: None,
            figures: Vec::new(),
            series: Vec::new(),
            steps: Vec::new(),
        }
    }

    /// Adds a figure of one value.
    pub fn put(&mut self, stream: &Stream, figure: Figure, value: f64) {
        self.put_statistic(stream, figure, Statistic::Value, value, None);
    }

    /// Adds one statistic of a figure.
    pub fn put_statistic(
        &mut self,
        stream: &Stream,
        figure: Figure,
        statistic: Statistic,
        value: f64,
        within: Option<Interval>,
    ) {
        self.figures.push(Measured { stream: stream.clone(), figure, statistic, value, within });
    }

    /// A figure of it.
    pub fn get(&self, stream: &Stream, figure: Figure, statistic: Statistic) -> Option<&Measured> {
        let is = |one: &&Measured| one.stream == *stream && (one.figure, one.statistic) == (figure, statistic);
        self.figures.iter().find(is)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_told_apart_by_stream_and_statistic() {
        let mut trial = Trial::new(OfferedLoad::Closed);
        trial.put(&Stream::all(), Figure::Lost, 3.0);
        trial.put(&Stream::follower(1), Figure::Lost, 2.0);
        let within = Some(Interval { low: 1.0, high: f64::INFINITY });
        trial.put_statistic(&Stream::all(), Figure::RttHalf, Statistic::P99, 5.0, within);
        let value = |stream: &Stream, figure, statistic| trial.get(stream, figure, statistic).map(|one| one.value);
        assert_eq!(value(&Stream::all(), Figure::Lost, Statistic::Value), Some(3.0));
        assert_eq!(value(&Stream::follower(1), Figure::Lost, Statistic::Value), Some(2.0));
        assert_eq!(value(&Stream::last(), Figure::Lost, Statistic::Value), None);
        let p99 = trial.get(&Stream::all(), Figure::RttHalf, Statistic::P99).unwrap();
        assert_eq!((p99.value, p99.within), (5.0, within));
    }
}
