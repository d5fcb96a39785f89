//! Output in which no escape sequence from a store or from data reaches a terminal.

use crate::error::{ArchiveError, Result};
use datafusion::arrow::array::{ArrayRef, RecordBatch, StringArray};
use datafusion::arrow::datatypes::{DataType, Field, Schema};
use datafusion::arrow::error::ArrowError;
use datafusion::arrow::util::display::{ArrayFormatter, FormatOptions};
use datafusion::arrow::util::pretty::pretty_format_batches_with_schema;
use std::io::{IsTerminal, Result as IoResult, Stdout, Write, stdout};
use std::sync::Arc;
use tripmeter_model::printable::{line, lines};

/// Prints text to standard output; control characters other than line breaks and tabs are escaped.
///
/// # Errors
/// If it cannot be written, e.g. because the reader of a pipe has ended.
pub fn print(text: &str) -> Result<()> {
    let mut out = stdout().lock();
    out.write_all(lines(text).as_bytes()).and_then(|()| out.flush()).map_err(ArchiveError::output)
}

/// Prints one line.
///
/// # Errors
/// As [`print`].
pub fn print_line(text: &str) -> Result<()> {
    print(&format!("{}\n", line(text)))
}

/// Prints a line to standard error.
pub fn note(text: &str) {
    eprintln!("note: {}", line(text));
}

/// Formats rows as a text table.
///
/// # Errors
/// If a value cannot be formatted.
pub fn table(schema: &Schema, batches: &[RecordBatch]) -> std::result::Result<String, ArrowError> {
    let fields = schema.fields().iter().map(|field| Field::new(line(field.name()), DataType::Utf8, true));
    let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
    let as_text = |batch: &RecordBatch| {
        let columns: std::result::Result<Vec<ArrayRef>, ArrowError> = batch.columns().iter().map(texts).collect();
        RecordBatch::try_new(schema.clone(), columns?)
    };
    let batches: std::result::Result<Vec<RecordBatch>, ArrowError> = batches.iter().map(as_text).collect();
    Ok(pretty_format_batches_with_schema(schema.clone(), &batches?)?.to_string())
}

fn texts(column: &ArrayRef) -> std::result::Result<ArrayRef, ArrowError> {
    let options = FormatOptions::default();
    let format = ArrayFormatter::try_new(column, &options)?;
    let text = |row| Ok(lines(&format.value(row).try_to_string()?).into_owned());
    let texts: std::result::Result<Vec<String>, ArrowError> = (0..column.len()).map(text).collect();
    Ok(Arc::new(StringArray::from(texts?)))
}

/// Writer of CSV or JSON: unchanged to a file or pipe, escaped to a terminal.
pub struct Data<W> {
    out: W,
    is_terminal: bool,
    /// Incomplete line, held back from the terminal until its end arrives.
    begun: Vec<u8>,
}

impl Data<Stdout> {
    /// Writes to standard output.
    pub fn stdout() -> Self {
        Self { out: stdout(), is_terminal: stdout().is_terminal(), begun: Vec::new() }
    }
}

impl<W: Write> Write for Data<W> {
    fn write(&mut self, bytes: &[u8]) -> IoResult<usize> {
        if !self.is_terminal {
            return self.out.write(bytes);
        }
        self.begun.extend(bytes);
        let end = self.begun.iter().rposition(|byte| *byte == b'\n').map_or(0, |place| place + 1);
        let whole: Vec<u8> = self.begun.drain(..end).collect();
        self.out.write_all(lines(&String::from_utf8_lossy(&whole)).as_bytes())?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> IoResult<()> {
        self.out.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_has_no_control_characters() {
        let name = "a\u{1b}[2J";
        let column: ArrayRef = Arc::new(StringArray::from(vec![Some("x\u{1b}[31m\r\ny\u{202e}"), None, Some("µ")]));
        let batch = RecordBatch::try_from_iter([(name, column)]).unwrap();
        let table = table(&batch.schema(), &[batch]).unwrap();
        assert!(!table.chars().any(|c| c != '\n' && c.is_control()) && !table.contains('\u{202e}'), "{table}");
        assert!(
            table.contains("| x\\u001b[31m\\r ") && table.contains("| y\\u202e ") && table.contains("| a\\u001b[2J "),
            "{table}"
        );
        assert_eq!(table.lines().count(), 8, "{table}");
    }

    #[test]
    fn data_is_escaped_on_a_terminal_alone() {
        for (is_terminal, expected) in [(true, "a\\u001bb\n"), (false, "a\u{1b}b\nµ")] {
            let mut data = Data { out: Vec::new(), is_terminal, begun: Vec::new() };
            let text = "a\u{1b}b\nµ".as_bytes();
            data.write_all(&text[..5]).and_then(|()| data.write_all(&text[5..])).unwrap();
            assert_eq!(String::from_utf8(data.out).unwrap(), expected);
        }
    }
}
