//! `checks_<sub-experiment>.csv`: measured figures against their requirements.

use crate::bytes::Bytes;
use crate::summary::Magnitude;
use crate::table::{push_row, three_decimals};

/// Column names, in order.
///
/// # Source
/// The latency test specification of eProsima's Fast RTPS.
pub const COLUMNS: [&str; 7] =
    ["Check", "Bytes", "Requirement", "Experiment", "Difference", "Percentage over requirement", "Status"];

/// One figure of one payload against its limit; values are in microseconds.
#[derive(Clone, Debug, PartialEq)]
pub struct CheckRow {
    pub check: Magnitude,
    pub bytes: Bytes,
    pub requirement: f64,
    /// Measured value; `None` if the payload was not measured.
    pub experiment: Option<f64>,
}

impl CheckRow {
    /// True if it was measured and is at most the limit.
    pub fn passed(&self) -> bool {
        self.experiment.is_some_and(|experiment| self.requirement - experiment >= 0.0)
    }

    /// Absolute distance from the limit, in microseconds.
    pub fn difference(&self) -> Option<f64> {
        Some((self.requirement - self.experiment?).abs())
    }

    /// Excess over the limit, in percent of the limit; negative below it. NaN if both are 0.
    pub fn percentage_over_requirement(&self) -> Option<f64> {
        // As eProsima's script computes it, so that equality gives -0.000.
        Some(-(self.requirement - self.experiment?) * 100.0 / self.requirement)
    }
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct CheckReport {
    /// All medians, then all 99th percentiles, then all maxima.
    pub rows: Vec<CheckRow>,
}

impl CheckReport {
    pub fn passed(&self) -> bool {
        self.rows.iter().all(CheckRow::passed)
    }

    /// Text of the file; missing values are empty.
    pub fn to_csv(&self) -> Vec<u8> {
        let figure = |value: Option<f64>| value.filter(|value| !value.is_nan()).map(three_decimals).unwrap_or_default();
        let mut text = Vec::new();
        push_row(&mut text, COLUMNS);
        for row in &self.rows {
            let figures = [Some(row.requirement), row.experiment, row.difference(), row.percentage_over_requirement()]
                .map(figure);
            let status = if row.passed() { "passed" } else { "failed" };
            let first = [row.check.column(), row.bytes.text()];
            push_row(&mut text, first.into_iter().chain(figures.iter().map(String::as_str)).chain([status]));
        }
        text
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
            row(Magnitude::Median, 16, 1.609, Some(0.646)),
            row(Magnitude::Median, 32, 1.0, None),
            row(Magnitude::P99, 16, 2.0, Some(2.0)),
            row(Magnitude::P99, 32, 0.0, Some(0.0)),
            row(Magnitude::Max, 16, 0.0, Some(1.0)),
            row(Magnitude::Max, 32, 4.0, Some(5.0)),
        ];
        let report = CheckReport { rows };
        let text = "Check,Bytes,Requirement,Experiment,Difference,Percentage over requirement,Status\n\
            Median,16,1.609,0.646,0.963,-59.851,passed\nMedian,32,1.000,,,,failed\n99%,16,2.000,2.000,0.000,-0.000,passed\n\
            99%,32,0.000,0.000,0.000,,passed\nMax,16,0.000,1.000,1.000,inf,failed\nMax,32,4.000,5.000,1.000,25.000,failed\n";
        assert_eq!(String::from_utf8(report.to_csv()).unwrap(), text);
        assert!(!report.passed());
    }
}
