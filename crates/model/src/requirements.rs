//! The requirements CSV: upper limits per sub-experiment and payload.

use crate::bytes::Bytes;
use crate::check::Check;
use crate::file::{self, FileError};
use crate::table::{CsvColumn, CsvRow, CsvTable, push_row, three_decimals};
use std::path::Path;

/// Names of the columns, in their order.
///
/// # Source
/// The latency test specification of eProsima's Fast RTPS.
pub const COLUMNS: [&str; 5] = ["Experiment type", "Bytes", "Median", "99%", "Max"];

/// Columns that a file may have besides, in their order: limits of patterns `channel`, `rpc` and `log`. Where a value is
/// empty there is no limit.
pub const MORE: [Check; 5] = Check::MORE;

/// Requirements, in the order of the file.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Requirements {
    /// One for each sub-experiment and payload.
    pub rows: Vec<Requirement>,
}

/// Limits: upper ones in microseconds, unless said otherwise.
#[derive(Clone, Debug, PartialEq)]
pub struct Requirement {
    /// Name of the sub-experiment, e.g. `interprocess_reliable_tcp`.
    pub sub_experiment: String,
    /// The payload.
    pub bytes: Bytes,
    /// Limit of the median.
    pub median: f64,
    /// Limit of the 99th percentile.
    pub p99: f64,
    /// Limit of the largest sample.
    pub max: f64,
    /// Limits of [`MORE`] in their order and units, as far as there are some; those of rates are lower ones.
    pub more: [Option<f64>; MORE.len()],
}

impl Requirements {
    /// Reads a file; other columns are ignored.
    ///
    /// # Errors
    /// If it cannot be read, a column is missing, a limit is no finite number of 0 or more, or a payload of a sub-experiment is
    /// there twice.
    pub fn read(file: &Path) -> Result<Self, FileError> {
        let table = CsvTable::read(file)?;
        let columns: Vec<CsvColumn> = COLUMNS.iter().map(|name| table.column(name)).collect::<Result<_, _>>()?;
        let more = MORE.map(|check| table.column(check.name()).ok());
        let mut rows: Vec<Requirement> = Vec::new();
        for row in table.rows() {
            let read = Requirement::read(&row, &columns, more)?;
            let twin = |other: &Requirement| other.sub_experiment == read.sub_experiment && other.bytes == read.bytes;
            if rows.iter().any(twin) {
                return Err(row.wrong(columns[1], format!("is there twice for '{}'", read.sub_experiment)));
            }
            rows.push(read);
        }
        Ok(Self { rows })
    }

    /// The file's text.
    pub fn to_csv(&self) -> Vec<u8> {
        let mut text = Vec::new();
        let more = self.more();
        push_row(&mut text, COLUMNS.into_iter().chain(more.iter().map(|check| check.name())));
        for row in &self.rows {
            let limits = [row.median, row.p99, row.max].map(three_decimals);
            let others = more.iter().map(|check| row.limit(*check).map(three_decimals).unwrap_or_default());
            let limits: Vec<String> = limits.into_iter().chain(others).collect();
            let first = [row.sub_experiment.as_str(), row.bytes.text()];
            push_row(&mut text, first.into_iter().chain(limits.iter().map(String::as_str)));
        }
        text
    }

    /// Those of [`MORE`] that any row has a limit of.
    pub fn more(&self) -> Vec<Check> {
        MORE.into_iter().filter(|check| self.rows.iter().any(|row| row.limit(*check).is_some())).collect()
    }

    /// Writes the file that the user has named, whole or not at all.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn write(&self, file: &Path) -> Result<(), FileError> {
        file::write_named(file, &self.to_csv())
    }

    /// The requirements of a sub-experiment, in the order of the file.
    pub fn of<'a>(&'a self, sub_experiment: &'a str) -> impl Iterator<Item = &'a Requirement> {
        self.rows.iter().filter(move |row| row.sub_experiment == sub_experiment)
    }
}

impl Requirement {
    /// The limit of a figure, if there is one.
    pub fn limit(&self, check: Check) -> Option<f64> {
        match check {
            Check::Median => Some(self.median),
            Check::P99 => Some(self.p99),
            Check::Max => Some(self.max),
            more => self.more[MORE.iter().position(|one| *one == more)?],
        }
    }

    fn read(row: &CsvRow<'_>, columns: &[CsvColumn], more: [Option<CsvColumn>; MORE.len()]) -> Result<Self, FileError> {
        let limit = |index: usize| row.microseconds(columns[index]);
        let sub_experiment = row.text(columns[0]).to_owned();
        if sub_experiment.is_empty() {
            return Err(row.wrong(columns[0], "is empty; name the sub-experiment"));
        }
        let bytes = row.bytes(columns[1])?;
        let mut limits = [None; MORE.len()];
        for (limit, column) in limits.iter_mut().zip(more) {
            let given = column.filter(|column| !row.text(*column).is_empty());
            *limit = given.map(|column| row.microseconds(column)).transpose()?;
        }
        Ok(Self { sub_experiment, bytes, median: limit(2)?, p99: limit(3)?, max: limit(4)?, more: limits })
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
        assert_eq!(requirements.of("interprocess_reliable").count(), 2);
        assert_eq!(requirements.of("other").count(), 0);
    }

    #[test]
    fn a_wrong_value_is_escaped_once() {
        let error = parsed("Experiment type,Bytes,Median,99%,Max\nx,10\x1b[31m24,1,1,1\n").unwrap_err().to_string();
        assert!(error.contains("'10\\u001b[31m24' is no number of bytes"), "{error}");
    }

    #[test]
    fn more_limits_are_read_where_there_are_some() {
        let text = "Experiment type,Bytes,Median,99%,Max,99.9%,Loss [%],Rate [/s]\n\
            x@service_1000hz,512,1.000,2.000,4.000,3.000,0.000,990.000\nuds,512,1.000,2.000,3.000,,,\n";
        let requirements = parsed(text).unwrap();
        assert_eq!(requirements.more(), [Check::P999, Check::Loss, Check::Rate]);
        let limits = |row: usize| Check::MORE.map(|check| requirements.rows[row].limit(check));
        assert_eq!(limits(0), [None, Some(3.0), Some(0.0), Some(990.0), None]);
        assert_eq!((limits(1), requirements.rows[1].limit(Check::Max)), ([None; 5], Some(3.0)));
        assert_eq!(String::from_utf8(requirements.to_csv()).unwrap(), text);
        let told = parsed(&text.replace("990.000", "fast")).unwrap_err().to_string();
        assert!(told.contains("line 2, column 'Rate [/s]': 'fast' is no number"), "{told}");
    }

    #[test]
    fn what_is_no_limit_is_refused() {
        let told = |from: &str, to: &str| parsed(&TEXT.replace(from, to)).unwrap_err().to_string();
        assert!(told("85.156", "-1").contains("line 2, column '99%': '-1' is negative"));
        assert!(told("85.156", "nan").contains("line 2, column '99%': 'nan' is not a number"));
        assert!(told("85.156", "inf").contains("line 2, column '99%': 'inf' is infinite"));
        assert!(told("85.156", "").contains("line 2, column '99%': '' is empty"));
        assert!(told("e,32", "e,16.0").contains("line 3, column 'Bytes': '16.0' is there twice"));
        assert!(told("Max", "Most").contains("no column 'Max'"));
        assert!(told("3.000\n", "3.0").contains("line 4: 'intraprocess_reliable,16,1.000,2.000,3.0' is the last line"));
    }
}
