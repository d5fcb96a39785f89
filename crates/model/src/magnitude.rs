//! The figures of a summary that are compared and drawn.

use crate::summary::{Summary, SummaryRow};

/// A figure of a summary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Magnitude {
    /// The smallest sample.
    Min,
    /// The median.
    Median,
    /// The largest sample.
    Max,
    /// The 99th percentile.
    P99,
    /// The arithmetic mean.
    Mean,
    /// The 99.9th percentile.
    P999,
    /// Messages, calls or lines of those sent that did not come, or not in time or intact.
    Loss,
    /// Messages or calls per second that were sent on each topic, or made by each client.
    Rate,
    /// Calls per second that succeeded.
    Qps,
}

impl Magnitude {
    /// Those of every summary, in the order of the original scripts.
    pub const ALL: [Magnitude; 4] = [Magnitude::Min, Magnitude::Median, Magnitude::Max, Magnitude::P99];
    /// Those that patterns `channel`, `rpc` and `log` have besides, as far as each has them.
    pub const MORE: [Magnitude; 5] =
        [Magnitude::Mean, Magnitude::P999, Magnitude::Loss, Magnitude::Rate, Magnitude::Qps];

    /// Those that are compared of these summaries: [`Self::ALL`], and of [`Self::MORE`] what any row has.
    pub fn of_summaries(summaries: &[&Summary]) -> Vec<Magnitude> {
        let rows = || summaries.iter().flat_map(|summary| &summary.rows).filter(|row| row.more.is_some());
        let more = Self::MORE.into_iter().filter(|figure| rows().any(|row| figure.get(row).is_some()));
        Self::ALL.into_iter().chain(more).collect()
    }

    /// Its name as a column: `Min`, `Median`, `Max`, `99%`, with the unit where that is not microseconds.
    pub fn column(self) -> &'static str {
        match self {
            Magnitude::Min => "Min",
            Magnitude::Median => "Median",
            Magnitude::Max => "Max",
            Magnitude::P99 => "99%",
            Magnitude::Mean => "Mean",
            Magnitude::P999 => "99.9%",
            Magnitude::Loss => "Loss [%]",
            Magnitude::Rate => "Rate [/s]",
            Magnitude::Qps => "QPS [/s]",
        }
    }

    /// Its unit: `us`, `%` or `/s`.
    pub fn unit(self) -> &'static str {
        match self {
            Magnitude::Loss => "%",
            Magnitude::Rate | Magnitude::Qps => "/s",
            _ => "us",
        }
    }

    /// True if it is a time, in microseconds.
    pub fn is_latency(self) -> bool {
        self.unit() == "us"
    }

    /// True if less of it is worse.
    pub fn is_better_if_more(self) -> bool {
        matches!(self, Magnitude::Rate | Magnitude::Qps)
    }

    /// Its value in a row of a summary, in its unit; `None` if the row has none.
    pub fn get(self, row: &SummaryRow) -> Option<f64> {
        let more = row.more.as_ref();
        match self {
            Magnitude::Min => Some(row.min),
            Magnitude::Median => Some(row.median),
            Magnitude::Max => Some(row.max),
            Magnitude::P99 => Some(row.p99),
            Magnitude::Mean => Some(row.mean),
            Magnitude::P999 => more?.p999,
            Magnitude::Loss => more?.loss_percent,
            Magnitude::Rate => more?.rate_hz,
            Magnitude::Qps => more?.qps,
        }
    }

    /// The same; NaN if the row has none.
    pub fn of(self, row: &SummaryRow) -> f64 {
        self.get(row).unwrap_or(f64::NAN)
    }
}
