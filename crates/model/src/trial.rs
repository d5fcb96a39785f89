//! The result of any workload at one payload and one offered load, in one round.

use crate::figure::{Figure, Statistic};
use crate::metric::{Interval, Stream};
use crate::pace::OfferedLoad;
use crate::series::Series;
use crate::throughput::Step;
use std::collections::HashSet;

/// One figure of a trial; with the address of the trial it is a [`crate::metric::Metric`].
#[derive(Clone, Debug, PartialEq)]
pub struct Measured {
    /// Its messages or process.
    pub stream: Stream,
    /// What it is.
    pub figure: Figure,
    /// Statistic of its samples.
    pub statistic: Statistic,
    /// In the unit of the figure.
    pub value: f64,
    /// Interval within this trial.
    pub within: Option<Interval>,
}

/// Figures of one offered load.
#[derive(Clone, Debug, PartialEq)]
pub struct Trial {
    /// How messages were offered.
    pub load: OfferedLoad,
    /// A stream took more than 1 % and one period longer than its rate allows: figures are not of the rate offered.
    pub rate_missed: bool,
    /// Streams that missed their rate, where each is judged.
    pub missed: HashSet<Stream>,
    /// Why it ended early, if it did.
    pub cut_short: Option<String>,
    /// Its figures, stream by stream.
    pub figures: Vec<Measured>,
    /// Audits of the samples in their order.
    pub series: Vec<(Stream, Figure, Series)>,
    /// Every rate that a search tried.
    pub steps: Vec<Step>,
}

impl Trial {
    /// Creates a trial without figures.
    pub fn new(load: OfferedLoad) -> Self {
        Self {
            load,
            rate_missed: false,
            missed: HashSet::new(),
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

    /// Returns one of its figures.
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
