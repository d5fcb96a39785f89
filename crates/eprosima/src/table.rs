//! Small CSV files with a header, held in memory: columns by name, values with their line.

use crate::bytes::Bytes;
use std::path::{Path, PathBuf};
use tripmeter_model::file::{self, FileError};
use tripmeter_model::printable::line as line_of;

/// Contents of a CSV file; each row is as long as the header.
#[derive(Debug)]
pub struct CsvTable {
    file: PathBuf,
    line: u64,
    header: Vec<String>,
    rows: Vec<(u64, Vec<String>)>,
}

#[derive(Clone, Copy, Debug)]
pub struct CsvColumn(usize);

#[derive(Clone, Copy, Debug)]
pub struct CsvRow<'a> {
    table: &'a CsvTable,
    line: u64,
    values: &'a [String],
}

impl CsvTable {
    /// Reads a file. Gzip, a byte-order mark, CRLF, blank lines and quotes are accepted. Fails if the file cannot be
    /// read, is not regular, is empty or has more than [`file::MOST_TABLE_BYTES`], or as [`CsvTable::parse`].
    pub fn read(file: &Path) -> Result<Self, FileError> {
        Self::parse(file, &file::read(file, file::MOST_TABLE_BYTES)?)
    }

    /// Reads the contents of a file, whose name is used in errors. Fails if there is no header, a row is longer or
    /// shorter than the header, or the last row has no line break.
    pub fn parse(file: &Path, contents: &[u8]) -> Result<Self, FileError> {
        let mut reader = csv::ReaderBuilder::new().has_headers(false).flexible(true).from_reader(contents);
        let mut records = reader.byte_records().map(|record| {
            let record = record.map_err(|error| FileError::wrong(file, error.to_string()))?;
            let line = record.position().map_or(0, csv::Position::line);
            let values: Vec<String> =
                record.iter().map(|value| line_of(String::from_utf8_lossy(value).trim()).into_owned()).collect();
            Ok((line, values))
        });
        let Some(header) = records.next() else {
            return Err(FileError::wrong(file, "the file is empty; it should begin with a header"));
        };
        let (line, header) = header?;
        let rows: Vec<_> = records.collect::<Result<_, FileError>>()?;
        if let Some((line, values)) = rows.iter().find(|(_, values)| values.len() != header.len()) {
            let what = format!("has {} values instead of {}; it may be cut off", values.len(), header.len());
            return Err(FileError::wrong_line(file, *line, &values.join(","), what));
        }
        if let Some((line, values)) = rows.last().filter(|_| !contents.ends_with(b"\n")) {
            let what = "is the last line and has no line break, so it may be cut off; add one if it is complete";
            return Err(FileError::wrong_line(file, *line, &values.join(","), what));
        }
        Ok(Self { file: file.to_owned(), line, header, rows })
    }

    /// First column of that name. Fails if there is none.
    pub fn column(&self, name: &str) -> Result<CsvColumn, FileError> {
        let found = self.header.iter().position(|column| column == name).map(CsvColumn);
        found.ok_or_else(|| missing_column(&self.file, self.line, &self.header.join(","), name))
    }

    pub fn rows(&self) -> impl Iterator<Item = CsvRow<'_>> {
        self.rows.iter().map(|(line, values)| CsvRow { table: self, line: *line, values })
    }
}

pub(crate) fn missing_column(file: &Path, line: u64, header: &str, name: &str) -> FileError {
    FileError::wrong_line(file, line, header, format!("has no column '{name}'; columns are separated by commas"))
}

impl<'a> CsvRow<'a> {
    pub fn text(&self, column: CsvColumn) -> &'a str {
        &self.values[column.0]
    }

    /// Value of a column as a number of microseconds, finite and not negative. Fails if it is not such a number.
    pub fn microseconds(&self, column: CsvColumn) -> Result<f64, FileError> {
        match self.text(column).parse::<f64>() {
            Err(_) if self.text(column).is_empty() => Err(self.wrong(column, "is empty; the figure is missing")),
            Err(_) => Err(self.wrong(column, "is not a number; write it with a decimal point")),
            Ok(value) if value.is_nan() => Err(self.wrong(column, "is not a number; a figure must be finite")),
            Ok(value) if value.is_infinite() => Err(self.wrong(column, "is infinite; a figure must be finite")),
            Ok(value) if value < 0.0 => Err(self.wrong(column, "is negative; a figure must be 0 or more")),
            Ok(value) => Ok(value),
        }
    }

    /// Value of a column as a whole number. Fails if it is not such a number.
    pub fn count(&self, column: CsvColumn) -> Result<u64, FileError> {
        self.text(column).parse().map_err(|_| self.wrong(column, "is not a whole number"))
    }

    /// Value of a column as a payload size. Fails if it is not a size.
    pub fn bytes(&self, column: CsvColumn) -> Result<Bytes, FileError> {
        Bytes::parse(self.text(column)).ok_or_else(|| self.wrong(column, "is not a number of bytes"))
    }

    pub fn wrong(&self, column: CsvColumn, what: impl Into<String>) -> FileError {
        FileError::wrong_value(&self.table.file, self.line, &self.table.header[column.0], self.text(column), what)
    }
}

/// Number with three decimals, `nan` or `inf`, as in all these files.
pub fn three_decimals(value: f64) -> String {
    if value.is_nan() { "nan".to_owned() } else { format!("{value:.3}") }
}

/// Number rounded to three decimals, as read back from such a file.
pub fn as_in_file(value: f64) -> f64 {
    three_decimals(value).parse().expect("a formatted number is one")
}

/// Appends a line of values, quoted where needed.
pub fn push_row<'a>(text: &mut Vec<u8>, values: impl IntoIterator<Item = &'a str>) {
    let mut writer = csv::Writer::from_writer(text);
    writer.write_record(values).and_then(|()| Ok(writer.flush()?)).expect("a Vec takes it");
}
