//! The requirements CSV: upper limits per sub-experiment and payload.

use crate::bytes::Bytes;
use crate::summary::Magnitude;
use crate::table::{CsvColumn, CsvRow, CsvTable, push_row, three_decimals};
use std::path::Path;
use tripmeter_model::file::{self, FileError};

/// Column names, in order.
///
/// # Source
/// The latency test specification of eProsima's Fast RTPS.
pub const COLUMNS: [&str; 5] = ["Experiment type", "Bytes", "Median", "99%", "Max"];

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Requirements {
    /// One per sub-experiment and payload.
    pub rows: Vec<Requirement>,
}

/// Upper limits of one payload, in microseconds.
#[derive(Clone, Debug, PartialEq)]
pub struct Requirement {
    /// Name, e.g. `interprocess_reliable_tcp`.
    pub sub_experiment: String,
    pub bytes: Bytes,
    pub median: f64,
    pub p99: f64,
    pub max: f64,
}

impl Requirements {
    /// Reads a file; other columns are ignored. Fails if it cannot be read or a column is missing. Limits must be
    /// finite numbers of 0 or more, and payloads unique within a sub-experiment.
    pub fn read(file: &Path) -> Result<Self, FileError> {
        Self::of_table(&CsvTable::read(file)?)
    }

    pub fn of_table(table: &CsvTable) -> Result<Self, FileError> {
        let columns: Vec<CsvColumn> = COLUMNS.iter().map(|name| table.column(name)).collect::<Result<_, _>>()?;
        let mut rows: Vec<Requirement> = Vec::new();
        for row in table.rows() {
            let read = Requirement::read(&row, &columns)?;
            let twin = |other: &Requirement| other.sub_experiment == read.sub_experiment && other.bytes == read.bytes;
            if rows.iter().any(twin) {
                return Err(row.wrong(columns[1], format!("appears twice for '{}'", read.sub_experiment)));
            }
            rows.push(read);
        }
        Ok(Self { rows })
    }

    pub fn to_csv(&self) -> Vec<u8> {
        let mut text = Vec::new();
        push_row(&mut text, COLUMNS);
        for row in &self.rows {
            let limits = [row.median, row.p99, row.max].map(three_decimals);
            let first = [row.sub_experiment.as_str(), row.bytes.text()];
            push_row(&mut text, first.into_iter().chain(limits.iter().map(String::as_str)));
        }
        text
    }

    /// Writes to a file that the user named, whole or not at all.
    pub fn write(&self, file: &Path) -> Result<(), FileError> {
        file::write_named(file, &self.to_csv())
    }

    /// Requirements of a sub-experiment, in the order of the file.
    pub fn for_sub_experiment<'a>(&'a self, sub_experiment: &'a str) -> impl Iterator<Item = &'a Requirement> {
        self.rows.iter().filter(move |row| row.sub_experiment == sub_experiment)
    }
}

impl Requirement {
    /// Limit of a figure; infinite for the minimum, which has none.
    pub fn limit(&self, magnitude: Magnitude) -> f64 {
        match magnitude {
            Magnitude::Median => self.median,
            Magnitude::P99 => self.p99,
            Magnitude::Max => self.max,
            Magnitude::Min => f64::INFINITY,
        }
    }

    fn read(row: &CsvRow<'_>, columns: &[CsvColumn]) -> Result<Self, FileError> {
        let limit = |index: usize| row.microseconds(columns[index]);
        let sub_experiment = row.text(columns[0]).to_owned();
        if sub_experiment.is_empty() {
            return Err(row.wrong(columns[0], "is empty; name the sub-experiment"));
        }
        let bytes = row.bytes(columns[1])?;
        Ok(Self { sub_experiment, bytes, median: limit(2)?, p99: limit(3)?, max: limit(4)? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "Experiment type,Bytes,Median,99%,Max\n\
        interprocess_reliable,16,29.706,85.156,504.453\ninterprocess_reliable,32,51.346,135.733,504.408\n\
        intraprocess_reliable,16,1.000,2.000,3.000\n";

    fn parsed(text: &str) -> Result<Requirements, FileError> {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("r.csv");
        std::fs::write(&file, text).unwrap();
        Requirements::read(&file)
    }

    #[test]
    fn requirements_are_written_as_they_were_read() {
        let requirements = parsed(TEXT).unwrap();
        assert_eq!(String::from_utf8(requirements.to_csv()).unwrap(), TEXT);
        assert_eq!(requirements.for_sub_experiment("interprocess_reliable").count(), 2);
        assert_eq!(requirements.for_sub_experiment("other").count(), 0);
    }

    #[test]
    fn a_wrong_value_is_escaped_once() {
        let error = parsed("Experiment type,Bytes,Median,99%,Max\nx,10\x1b[31m24,1,1,1\n").unwrap_err().to_string();
        assert!(error.contains("'10\\u001b[31m24' is not a number of bytes"), "{error}");
    }

    #[test]
    fn what_is_no_limit_is_refused() {
        let told = |from: &str, to: &str| parsed(&TEXT.replace(from, to)).unwrap_err().to_string();
        assert!(told("85.156", "-1").contains("line 2, column '99%': '-1' is negative"));
        assert!(told("85.156", "nan").contains("line 2, column '99%': 'nan' is not a number"));
        assert!(told("85.156", "inf").contains("line 2, column '99%': 'inf' is infinite"));
        assert!(told("85.156", "").contains("line 2, column '99%': '' is empty"));
        assert!(told("e,32", "e,16.0").contains("line 3, column 'Bytes': '16.0' appears twice"));
        assert!(told("Max", "Most").contains("no column 'Max'"));
        assert!(told("3.000\n", "3.0").contains("line 4: 'intraprocess_reliable,16,1.000,2.000,3.0' is the last line"));
    }
}
