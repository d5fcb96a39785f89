//! Parser for any row, one at a time.

use super::chunks::{ChunkError, Chunks};
use crate::bytes::Bytes;
use crate::table;
use std::borrow::Cow;
use std::path::Path;
use tripmeter_model::file::FileError;

/// Column names, in their usual order.
///
/// # Source
/// The latency test specification of eProsima's Fast RTPS.
pub const COLUMNS: [&str; 3] = ["Sample", "Payload [Bytes]", "Latency [us]"];

#[derive(Clone, Debug)]
pub struct RowLayout {
    columns: usize,
    payload: usize,
    latency: usize,
    /// Lines up to and including the header.
    pub header_lines: u64,
}

/// The columns of a row that are used.
pub struct RawRow {
    pub payload: String,
    pub latency_us: f64,
}

#[derive(Debug, PartialEq)]
pub struct RowError {
    /// Name of the column; `None` if the error is about the whole row.
    pub column: Option<&'static str>,
    /// Value, or the whole row.
    pub value: String,
    pub what: String,
}

impl RowLayout {
    pub fn read(file: &Path, chunks: &mut Chunks) -> Result<Self, FileError> {
        let mut header_lines = 0;
        let mut line: &[u8];
        loop {
            header_lines += 1;
            line = chunks.line().map_err(|error| header_failed(file, error))?;
            if line.is_empty() {
                return Err(FileError::wrong(file, "the file is empty; it should begin with a header"));
            }
            if !line.trim_ascii().is_empty() {
                break;
            }
        }
        let fields = fields(line);
        let header = String::from_utf8_lossy(line.trim_ascii()).into_owned();
        let position = |name: &str| {
            let found = fields.iter().position(|field| field.as_ref() == name.as_bytes());
            found.ok_or_else(|| table::missing_column(file, header_lines, &header, name))
        };
        let (payload, latency) = (position(COLUMNS[1])?, position(COLUMNS[2])?);
        Ok(Self { columns: fields.len(), payload, latency, header_lines })
    }

    /// True if the columns are in their usual order, without others.
    pub fn usual(&self) -> bool {
        (self.columns, self.payload, self.latency) == (3, 1, 2)
    }

    pub fn row(&self, line: &[u8]) -> Result<Option<RawRow>, RowError> {
        if line.trim_ascii().is_empty() {
            return Ok(None);
        }
        let fields = fields(line);
        if fields.len() != self.columns {
            let hint =
                if fields.len() < self.columns { "it may be cut off" } else { "write numbers with a decimal point" };
            let what = format!("has {} values instead of {}; {hint}", fields.len(), self.columns);
            return Err(RowError { column: None, value: lossy(line.trim_ascii()), what });
        }
        let latency_us = latency(&lossy(&fields[self.latency]))?;
        Ok(Some(RawRow { payload: lossy(&fields[self.payload]), latency_us }))
    }

    /// Checks the last line of a file, which has no line break: an error unless it is blank.
    pub fn unended(&self, line: &[u8]) -> Result<(), RowError> {
        if self.row(line)?.is_none() {
            return Ok(());
        }
        let value = lossy(line.trim_ascii());
        let what = "is the last line and has no line break, so its number may be cut off; add one if it is complete";
        Err(RowError { column: None, value, what: what.to_owned() })
    }
}

/// Payload of a truncated line, if a comma follows it.
pub fn payload_of_cut(layout: &RowLayout, line: &[u8]) -> Option<Bytes> {
    let fields = fields(line);
    let is_whole = fields.len() > layout.payload + 1;
    fields.get(layout.payload).filter(|_| is_whole).and_then(|text| Bytes::parse(&lossy(text)))
}

fn header_failed(file: &Path, error: ChunkError) -> FileError {
    match error {
        ChunkError::Io(error) => FileError::reading(file, &error),
        ChunkError::LineTooLong => FileError::wrong(file, "no line break near the beginning, so it is not CSV"),
    }
}

pub fn payload(text: &str) -> Result<Bytes, RowError> {
    Bytes::parse(text).ok_or_else(|| {
        let what = "is not a payload; write a number of bytes".to_owned();
        RowError { column: Some(COLUMNS[1]), value: text.to_owned(), what }
    })
}

fn latency(text: &str) -> Result<f64, RowError> {
    let wrong = |what: &str| Err(RowError { column: Some(COLUMNS[2]), value: text.to_owned(), what: what.to_owned() });
    match text.parse::<f64>() {
        _ if text.is_empty() => wrong("is empty; the latency is missing"),
        Err(_) if text.contains(',') => wrong("is not a number; write it with a decimal point"),
        Err(_) => wrong("is not a number"),
        Ok(value) if value.is_nan() => wrong("is not a number; a latency must be finite"),
        Ok(value) if value.is_infinite() => wrong("is infinite or too large; a latency must be finite"),
        Ok(_) if text.starts_with('-') => wrong("is negative; a latency must be 0 or more"),
        Ok(value) => Ok(value),
    }
}

/// Values of a line, without surrounding spaces and quotes.
fn fields(line: &[u8]) -> Vec<Cow<'_, [u8]>> {
    if memchr::memchr(b'"', line).is_none() {
        return line.split(|byte| *byte == b',').map(|field| Cow::Borrowed(field.trim_ascii())).collect();
    }
    let mut reader = csv::ReaderBuilder::new().has_headers(false).flexible(true).from_reader(line);
    let record = reader.byte_records().next().and_then(Result::ok).unwrap_or_default();
    record.iter().map(|field| Cow::Owned(field.trim_ascii().to_vec())).collect()
}

fn lossy(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
