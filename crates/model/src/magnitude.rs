//! The figures of a summary that are compared and drawn.

use crate::summary::SummaryRow;

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
}

impl Magnitude {
    /// All of them, in the order of the original scripts.
    pub const ALL: [Magnitude; 4] = [Magnitude::Min, Magnitude::Median, Magnitude::Max, Magnitude::P99];

    /// Its name as a column of a summary: `Min`, `Median`, `Max`, `99%`.
    pub fn column(self) -> &'static str {
        match self {
            Magnitude::Min => "Min",
            Magnitude::Median => "Median",
            Magnitude::Max => "Max",
            Magnitude::P99 => "99%",
        }
    }

    /// Its value in a row of a summary, in microseconds.
    pub fn of(self, row: &SummaryRow) -> f64 {
        match self {
            Magnitude::Min => row.min,
            Magnitude::Median => row.median,
            Magnitude::Max => row.max,
            Magnitude::P99 => row.p99,
        }
    }
}
