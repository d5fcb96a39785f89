//! `…_summary.csv`: the figures of a sub-experiment, one row per payload.

use crate::bytes::Bytes;
use crate::table::{CsvColumn, CsvRow, CsvTable, as_in_file, push_row, three_decimals};
use std::collections::BTreeSet;
use std::path::Path;
use tripmeter_model::file::FileError;

/// Column names, in order.
///
/// # Source
/// The latency test specification of eProsima's Fast RTPS.
pub const COLUMNS: [&str; 12] =
    ["Bytes", "Samples", "Max", "Min", "Mean", "Median", "Stdev", "Mean jitter", "Max jitter", "90%", "99%", "99.99%"];

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Summary {
    /// One per payload, in measurement order.
    pub rows: Vec<SummaryRow>,
}

/// Figures of one payload, in microseconds.
#[derive(Clone, Debug, PartialEq)]
pub struct SummaryRow {
    pub bytes: Bytes,
    pub samples: u64,
    pub max: f64,
    pub min: f64,
    pub mean: f64,
    pub median: f64,
    /// Population standard deviation, divided by n.
    pub stdev: f64,
    /// Mean absolute difference of consecutive samples; NaN for a single sample.
    pub mean_jitter: f64,
    /// Largest difference of consecutive samples; NaN for a single sample.
    pub max_jitter: f64,
    pub p90: f64,
    pub p99: f64,
    pub p9999: f64,
}

/// Figure of a summary that is compared and plotted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Magnitude {
    Min,
    Median,
    Max,
    P99,
}

impl Magnitude {
    /// All, in the order of eProsima's scripts.
    pub const ALL: [Magnitude; 4] = [Magnitude::Min, Magnitude::Median, Magnitude::Max, Magnitude::P99];
    /// Figures with requirements, in the order of the check report.
    pub const CHECKED: [Magnitude; 3] = [Magnitude::Median, Magnitude::P99, Magnitude::Max];

    /// Column name: `Min`, `Median`, `Max`, `99%`.
    pub fn column(self) -> &'static str {
        match self {
            Magnitude::Min => "Min",
            Magnitude::Median => "Median",
            Magnitude::Max => "Max",
            Magnitude::P99 => "99%",
        }
    }

    /// Value in a row of a summary, in microseconds.
    pub fn value_in(self, row: &SummaryRow) -> f64 {
        match self {
            Magnitude::Min => row.min,
            Magnitude::Median => row.median,
            Magnitude::Max => row.max,
            Magnitude::P99 => row.p99,
        }
    }
}

impl Summary {
    /// Reads a file; other columns are ignored. Fails if it cannot be read or a column is missing. Figures must be
    /// finite numbers of 0 or more (jitter may be NaN), and payloads unique.
    pub fn read(file: &Path) -> Result<Self, FileError> {
        Self::of_table(&CsvTable::read(file)?)
    }

    pub fn of_table(table: &CsvTable) -> Result<Self, FileError> {
        let columns: Vec<CsvColumn> = COLUMNS.iter().map(|name| table.column(name)).collect::<Result<_, _>>()?;
        let (mut rows, mut known) = (Vec::new(), BTreeSet::new());
        for row in table.rows() {
            let read = SummaryRow::read(&row, &columns)?;
            if !known.insert(read.bytes.clone()) {
                return Err(row.wrong(columns[0], "appears twice"));
            }
            rows.push(read);
        }
        Ok(Self { rows })
    }

    pub fn to_csv(&self) -> Vec<u8> {
        let mut text = Vec::new();
        push_row(&mut text, COLUMNS);
        for row in &self.rows {
            let figures = row.figures().map(three_decimals);
            let samples = row.samples.to_string();
            let first = [row.bytes.text(), samples.as_str()];
            push_row(&mut text, first.into_iter().chain(figures.iter().map(String::as_str)));
        }
        text
    }

    /// Rounds figures to three decimals, as if read back from the file.
    pub fn as_in_file(mut self) -> Self {
        for row in &mut self.rows {
            let [max, min, mean, median, stdev, mean_jitter, max_jitter, p90, p99, p9999] =
                row.figures().map(as_in_file);
            let (bytes, samples) = (row.bytes.clone(), row.samples);
            *row =
                SummaryRow { bytes, samples, max, min, mean, median, stdev, mean_jitter, max_jitter, p90, p99, p9999 };
        }
        self
    }

    pub fn row(&self, bytes: &Bytes) -> Option<&SummaryRow> {
        self.rows.iter().find(|row| row.bytes == *bytes)
    }
}

impl SummaryRow {
    fn read(row: &CsvRow<'_>, columns: &[CsvColumn]) -> Result<Self, FileError> {
        let figure = |index: usize| row.microseconds(columns[index]);
        let jitter = |index: usize| match row.text(columns[index]) {
            text if text.eq_ignore_ascii_case("nan") => Ok(f64::NAN),
            _ => figure(index),
        };
        Ok(Self {
            bytes: row.bytes(columns[0])?,
            samples: row.count(columns[1])?,
            max: figure(2)?,
            min: figure(3)?,
            mean: figure(4)?,
            median: figure(5)?,
            stdev: figure(6)?,
            mean_jitter: jitter(7)?,
            max_jitter: jitter(8)?,
            p90: figure(9)?,
            p99: figure(10)?,
            p9999: figure(11)?,
        })
    }

    /// All figures except the number of samples, in the order of [`COLUMNS`].
    pub fn figures(&self) -> [f64; 10] {
        [
            self.max,
            self.min,
            self.mean,
            self.median,
            self.stdev,
            self.mean_jitter,
            self.max_jitter,
            self.p90,
            self.p99,
            self.p9999,
        ]
    }
}

/// Sub-experiment in a file name such as `measurements_<name>_summary.csv`: the stem without its first and last token;
/// `None` if nothing is left.
pub fn sub_experiment(file: &Path) -> Option<&str> {
    let stem = file.file_name()?.to_str()?.strip_suffix(".csv")?;
    let (_, rest) = stem.split_once('_')?;
    let (name, _) = rest.rsplit_once('_')?;
    (!name.is_empty()).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "Bytes,Samples,Max,Min,Mean,Median,Stdev,Mean jitter,Max jitter,90%,99%,99.99%\n\
        16,2,3.000,1.000,2.000,2.000,1.000,2.000,2.000,2.800,2.980,3.000\n\
        32.0,1,1.000,1.000,1.000,1.000,0.000,nan,nan,1.000,1.000,1.000\n";

    fn parsed(text: &str) -> Result<Summary, FileError> {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("x.csv");
        std::fs::write(&file, text).unwrap();
        Summary::read(&file)
    }

    #[test]
    fn a_summary_is_written_as_it_was_read() {
        let summary = parsed(TEXT).unwrap();
        assert_eq!(String::from_utf8(summary.to_csv()).unwrap(), TEXT);
        assert_eq!(summary.row(&Bytes::from(32)).unwrap().bytes.text(), "32.0");
        assert!(parsed(COLUMNS.join(",").as_str()).unwrap().rows.is_empty());
        let mut fine = summary.clone();
        (fine.rows[0].median, fine.rows[0].p99) = (2.000_4, 2.979_6);
        assert_eq!(fine.as_in_file().rows[0], summary.rows[0]);
    }

    #[test]
    fn errors_name_line_column_and_value() {
        let told = |text: &str| parsed(text).unwrap_err().to_string();
        assert!(told("").contains("the file is empty"));
        assert!(told(&TEXT.replace("99.99%", "p9999")).contains("no column '99.99%'"));
        assert!(told(&TEXT.replace("2.800", "fast")).contains("line 2, column '90%': 'fast'"));
        assert!(told(&TEXT.replace("32.0", "16.0")).contains("line 3, column 'Bytes': '16.0' appears twice"));
        assert!(told(&TEXT[..TEXT.len() - 8]).contains("line 3: '32.0,1,1.000"));
        // A truncated figure could not be distinguished from a short one.
        assert!(told(&TEXT[..TEXT.len() - 1]).contains("line 3: '32.0,1,1.000") && TEXT.ends_with('\n'));
        for (wrong, why) in [("-2.800", "negative"), ("inf", "infinite"), ("nan", "not a number"), ("", "empty")] {
            let told = told(&TEXT.replace("2.800", wrong));
            assert!(told.contains(&format!("line 2, column '90%': '{wrong}' is {why}")), "{told}");
        }
        assert!(told(&TEXT.replace("nan,nan", "nan,")).contains("line 3, column 'Max jitter': '' is empty"));
    }

    #[test]
    fn the_name_stands_between_the_first_and_the_last_token() {
        let name = |file: &'static str| sub_experiment(Path::new(file));
        assert_eq!(name("a/measurements_interprocess_reliable_summary.csv"), Some("interprocess_reliable"));
        assert_eq!(name("measurements_summary.csv"), None);
        assert_eq!(name("measurements_x_summary.txt"), None);
    }
}
