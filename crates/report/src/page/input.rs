//! Input of a report.

use crate::pairs::AskedPairs;
use crate::plots::samples::SampleSeries;
use crate::results::NamedResults;
use tripmeter_analysis::check::ResultsCheck;
use tripmeter_model::figure::Figure;
use tripmeter_model::metric::Stream;

/// Input of a report.
#[derive(Clone, Copy, Debug, Default)]
pub struct PageInput<'a> {
    /// Results; the others are compared with the first.
    pub results: &'a [NamedResults<'a>],
    /// Samples of trials in their order.
    pub samples: &'a [SampledTrial],
    /// Checks of the results beside each other.
    pub check: Option<&'a PageChecks>,
}

/// Checks of each of the results, in their order; those missing at the end are none.
#[derive(Clone, Debug, Default)]
pub struct PageChecks {
    /// Limits, and what was measured.
    pub limits: Vec<ResultsCheck>,
    /// Questions about pairs; unknown ones are those of `tripmeter ab` without flags.
    pub pairs: Vec<Option<AskedPairs>>,
}

/// The samples of one trial, reduced to what a chart can show.
#[derive(Clone, Debug, PartialEq)]
pub struct SampledTrial {
    /// The index of its results.
    pub folder: usize,
    /// Its sub-experiment.
    pub sub_experiment: String,
    /// Its round, from 1.
    pub round: u32,
    /// Its payload.
    pub payload_bytes: u64,
    /// Messages that the samples are of: all, or those of one stream.
    pub stream: Stream,
    /// Figure of the samples.
    pub figure: Figure,
    /// In microseconds.
    pub points: SampleSeries,
}
