//! How the samples of a cell went on in time: what an audit of them found. It tells, and drops nothing.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tripmeter_stats::series as stats;

/// The audit of a series of samples, in the order of their measurement.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Series {
    /// One sample of so many was looked at.
    pub every: u64,
    /// Samples that were looked at.
    pub samples: u64,
    /// Where a warm-up ends, by MSER-5.
    pub warm_up: Option<WarmUp>,
    /// How much a sample is like those before it, by the first 16,384 of them; absent if all are equal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub autocorrelation: Option<Correlation>,
    /// Whether samples get slower or faster.
    pub drift: Option<Trend>,
    /// Whether there are two groups of samples.
    pub modes: Option<Modes>,
}

/// What MSER-5 would drop from the beginning, and the figures of the rest.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct WarmUp {
    /// Samples before the point.
    pub samples: u64,
    /// Whether the point lies in the first half; if not, it means nothing.
    pub is_reliable: bool,
    /// Mean of those looked at, in nanoseconds: all, and without the samples before the point.
    pub mean_ns: [f64; 2],
    /// Their median likewise.
    pub median_ns: [f64; 2],
    /// Their 99th percentile likewise.
    pub p99_ns: [f64; 2],
}

/// Autocorrelation.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Correlation {
    /// The coefficient of a sample and the one before.
    pub lag_1: f64,
    /// How many independent samples all samples are worth for a mean.
    pub effective_samples: f64,
    /// Whether correlation dies out within 100 samples; if not, the number is too large.
    pub is_complete: bool,
}

/// A monotonic trend of the medians of 50 pieces of the series.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Trend {
    /// From the median of the first tenth of the pieces to that of the last, as a share of the former.
    pub change: f64,
    /// Two-sided p-value of "no trend", by Mann and Kendall.
    pub p: f64,
}

/// Two groups of samples, whether or not they are modes.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Modes {
    /// Hartigan's dip of 400 samples, spread evenly over the series.
    pub dip: f64,
    /// The dip from which on "one mode" is rejected at 1 %.
    pub dip_limit: f64,
    /// Share of the samples in the upper group.
    pub upper_share: f64,
    /// Median of the lower group, in nanoseconds.
    pub lower_ns: f64,
    /// Median of the upper group, in nanoseconds.
    pub upper_ns: f64,
}

impl Series {
    /// Every time times `factor`.
    pub fn scaled(mut self, factor: f64) -> Self {
        if let Some(warm_up) = &mut self.warm_up {
            let WarmUp { mean_ns, median_ns, p99_ns, .. } = warm_up;
            [mean_ns, median_ns, p99_ns].into_iter().flatten().for_each(|ns| *ns *= factor);
        }
        if let Some(modes) = &mut self.modes {
            modes.lower_ns *= factor;
            modes.upper_ns *= factor;
        }
        self
    }
}

impl From<stats::SeriesAudit> for Series {
    fn from(audit: stats::SeriesAudit) -> Self {
        let stats::SeriesAudit { every, samples, warm_up, autocorrelation, drift, modes } = audit;
        Self {
            every,
            samples,
            warm_up: warm_up.map(|stats::WarmUp { samples, is_reliable, mean, median, p99 }| WarmUp {
                samples,
                is_reliable,
                mean_ns: mean,
                median_ns: median,
                p99_ns: p99,
            }),
            autocorrelation: autocorrelation.map(|stats::Correlation { lag_1, effective_samples, is_complete }| {
                Correlation { lag_1, effective_samples, is_complete }
            }),
            drift: drift.map(|stats::Trend { change, p }| Trend { change, p }),
            modes: modes.map(|stats::Modes { dip, dip_limit, upper_share, lower, upper }| Modes {
                dip,
                dip_limit,
                upper_share,
                lower_ns: lower,
                upper_ns: upper,
            }),
        }
    }
}
