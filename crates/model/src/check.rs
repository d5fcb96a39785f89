//! `checks_<sub-experiment>.csv`: what was measured against its requirements.

use crate::bytes::Bytes;
use crate::file::{self, FileError};
use crate::magnitude::Magnitude;
use crate::table::{push_row, three_decimals};
use std::path::Path;

/// Names of the columns, in their order.
///
/// # Source
/// The latency test specification of eProsima's Fast RTPS.
pub const COLUMNS: [&str; 7] =
    ["Check", "Bytes", "Requirement", "Experiment", "Difference", "Percentage over requirement", "Status"];

/// A figure that is checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Check {
    /// The median.
    Median,
    /// The 99th percentile.
    P99,
    /// The largest sample.
    Max,
    /// The arithmetic mean.
    Mean,
    /// The 99.9th percentile.
    P999,
    /// What did not come, in per cent.
    Loss,
    /// The rate that was kept; at least as much is required.
    Rate,
    /// Calls per second that succeeded; at least as many are required.
    Qps,
}

impl Check {
    /// Those that every requirement has, in the order of the report.
    pub const ALL: [Check; 3] = [Check::Median, Check::P99, Check::Max];
    /// Those that a requirement may have besides, in the order of the report.
    pub const MORE: [Check; 5] = [Check::Mean, Check::P999, Check::Loss, Check::Rate, Check::Qps];

    /// The figure of a summary.
    pub fn magnitude(self) -> Magnitude {
        match self {
            Check::Median => Magnitude::Median,
            Check::P99 => Magnitude::P99,
            Check::Max => Magnitude::Max,
            Check::Mean => Magnitude::Mean,
            Check::P999 => Magnitude::P999,
            Check::Loss => Magnitude::Loss,
            Check::Rate => Magnitude::Rate,
            Check::Qps => Magnitude::Qps,
        }
    }

    /// Its name in files: `Median`, `99%`, `Max`, with the unit where that is not microseconds.
    pub fn name(self) -> &'static str {
        self.magnitude().column()
    }

    /// True if a requirement is the least that there must be, and not the most.
    pub fn is_lower_limit(self) -> bool {
        self.magnitude().is_better_if_more()
    }
}

/// One figure of one payload against its limit.
#[derive(Clone, Debug, PartialEq)]
pub struct CheckRow {
    /// The figure.
    pub check: Check,
    /// The payload.
    pub bytes: Bytes,
    /// The limit, in the figure's unit: microseconds, unless its name says otherwise.
    pub requirement: f64,
    /// What was measured, in the same unit; `None` if the payload was not.
    pub experiment: Option<f64>,
}

impl CheckRow {
    /// Whether it was measured and is not beyond the limit.
    pub fn passed(&self) -> bool {
        let room = |experiment: f64| match self.check.is_lower_limit() {
            true => experiment - self.requirement,
            false => self.requirement - experiment,
        };
        self.experiment.is_some_and(|experiment| room(experiment) >= 0.0)
    }

    /// The distance to the limit, without sign, in the same unit.
    pub fn difference(&self) -> Option<f64> {
        Some((self.requirement - self.experiment?).abs())
    }

    /// How far beyond the limit, in percent of it; negative within it. NaN if both are 0.
    pub fn percentage_over_requirement(&self) -> Option<f64> {
        let difference = self.requirement - self.experiment?;
        let beyond = if self.check.is_lower_limit() { difference } else { -difference };
        Some(beyond * 100.0 / self.requirement)
    }
}

/// The check report of one sub-experiment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CheckReport {
    /// All medians, then all 99th percentiles, then all maxima, then what there is of [`Check::MORE`] in that order.
    pub rows: Vec<CheckRow>,
}

impl CheckReport {
    /// Whether every row passed.
    pub fn passed(&self) -> bool {
        self.rows.iter().all(CheckRow::passed)
    }

    /// The file's text; what does not exist is left empty.
    pub fn to_csv(&self) -> Vec<u8> {
        let figure = |value: Option<f64>| value.filter(|value| !value.is_nan()).map(three_decimals).unwrap_or_default();
        let mut text = Vec::new();
        push_row(&mut text, COLUMNS);
        for row in &self.rows {
            let figures = [Some(row.requirement), row.experiment, row.difference(), row.percentage_over_requirement()]
                .map(figure);
            let status = if row.passed() { "passed" } else { "failed" };
            let first = [row.check.name(), row.bytes.text()];
            push_row(&mut text, first.into_iter().chain(figures.iter().map(String::as_str)).chain([status]));
        }
        text
    }

    /// Writes the file, whole or not at all.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn write(&self, file: &Path) -> Result<(), FileError> {
        file::write_whole(file, &self.to_csv())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_report_is_that_of_the_original() {
        let row = |check, bytes: u64, requirement, experiment| CheckRow {
            check,
            bytes: Bytes::from(bytes),
            requirement,
            experiment,
        };
        let rows = vec![
            row(Check::Median, 16, 1.609, Some(0.646)),
            row(Check::Median, 32, 1.0, None),
            row(Check::P99, 16, 2.0, Some(2.0)),
            row(Check::P99, 32, 0.0, Some(0.0)),
            row(Check::Max, 16, 0.0, Some(1.0)),
            row(Check::Max, 32, 4.0, Some(5.0)),
        ];
        let report = CheckReport { rows };
        let text = "Check,Bytes,Requirement,Experiment,Difference,Percentage over requirement,Status\n\
            Median,16,1.609,0.646,0.963,-59.851,passed\nMedian,32,1.000,,,,failed\n99%,16,2.000,2.000,0.000,-0.000,passed\n\
            99%,32,0.000,0.000,0.000,,passed\nMax,16,0.000,1.000,1.000,inf,failed\nMax,32,4.000,5.000,1.000,25.000,failed\n";
        assert_eq!(String::from_utf8(report.to_csv()).unwrap(), text);
        assert!(!report.passed());
    }
}
