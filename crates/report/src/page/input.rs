//! Input of a report.

use crate::pairs::AskedPairs;
use crate::plots::samples::SampleSeries;
use crate::results::NamedResults;
use tripmeter_analysis::check::ResultsCheck;
use tripmeter_model::figure::Figure;
use tripmeter_model::metric::Stream;

#[derive(Clone, Copy, Debug, Default)]
pub struct PageInput<'a> {
    /// Results; all others are compared with the first.
    pub results: &'a [NamedResults<'a>],
    /// Samples of trials, in order of measurement.
    pub samples: &'a [SampledTrial],
    /// Checks of the results, with the same order.
    pub check: Option<&'a PageChecks>,
}

/// Checks of each of the results, in their order; missing entries at the end mean no check.
#[derive(Clone, Debug, Default)]
pub struct PageChecks {
    /// Limits and the measured values.
    pub limits: Vec<ResultsCheck>,
    /// Questions about pairs; `None` means the question of `tripmeter ab` without flags.
    pub pairs: Vec<Option<AskedPairs>>,
}

/// The samples of one trial, reduced to what a chart can show.
#[derive(Clone, Debug, PartialEq)]
pub struct SampledTrial {
    /// Index of its results.
    pub folder: usize,
    pub sub_experiment: String,
    /// Round, from 1.
    pub round: u32,
    pub payload_bytes: u64,
    /// Stream of the samples: all messages, or one topic or follower.
    pub stream: Stream,
    /// Figure of the samples.
    pub figure: Figure,
    /// Samples in microseconds.
    pub points: SampleSeries,
}
