//! Results of one payload before they are written.

use super::Error;
use crate::measure::stamps::TripRow;
use crate::record::RecordedSamples;
use hdrhistogram::Histogram;
use tripmeter_model::cut_short::CutShort;
use tripmeter_model::trial::Trial;

/// Number of samples that take seconds to sort and write.
pub(super) const MANY_SAMPLES: u64 = 1_000_000;

#[derive(Default)]
pub(super) struct MeasuredPayload {
    /// Trials in the order of the plan.
    pub trials: Vec<Trial>,
    pub samples: u64,
    pub samples_planned: u64,
    /// Messages before the first sample.
    pub warmup: u64,
    /// Warm-up messages that came damaged and calls that failed, if no trial counts them.
    pub warmup_damaged: u64,
    /// Reason for fewer samples than planned.
    pub cut_short: Option<CutShort>,
    pub duration_ns: u64,
    pub unwritten: Option<Samples>,
    pub broken: Option<Error>,
}

/// Round trips or logger calls, and histograms of other times with their tags.
pub(super) struct Samples {
    pub recorded: RecordedSamples,
    pub others: Vec<(String, Histogram<u64>)>,
    /// Rows of consecutive round trips; none for calls, which are timed one by one.
    pub rows: Vec<TripRow>,
    /// One-way latencies in ticks, to the last of several followers; `None` if clocks may be too far apart.
    pub one_way: Option<Vec<i64>>,
    /// Tick at which the trial began.
    pub begin: u64,
    /// Number of its first message.
    pub first: u64,
}
