//! Error that ends a command, with its exit code.

use datafusion::arrow::error::ArrowError;
use datafusion::error::DataFusionError;
use std::fmt;
use std::io::ErrorKind;
use tripmeter_model::exit;
use tripmeter_model::file::FileError;
use tripmeter_model::folder::FolderError;
use tripmeter_model::printable::line;

/// Error message of one line, and its exit code.
#[derive(Debug)]
pub struct ArchiveError {
    /// One of [`tripmeter_model::exit`].
    pub code: u8,
    text: String,
}

/// Result of a step that may end a command.
pub type Result<T> = std::result::Result<T, ArchiveError>;

impl ArchiveError {
    /// Makes an error; line breaks in `text` become spaces, other control characters are escaped.
    pub fn new(code: u8, text: impl Into<String>) -> Self {
        let text: String = text.into();
        let words: Vec<&str> = text.split_whitespace().collect();
        Self { code, text: line(&words.join(" ")).into_owned() }
    }

    /// Error of a store or a library: `what` failed, because of `why`.
    pub fn failed(what: impl fmt::Display, why: impl fmt::Display) -> Self {
        Self::new(exit::UNAVAILABLE, format!("{what}: {why}"))
    }

    /// Error while writing standard output.
    pub fn output(error: impl fmt::Display) -> Self {
        Self::new(exit::CANNOT_CREATE, format!("the result cannot be written: {error}"))
    }
}

impl fmt::Display for ArchiveError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.text)
    }
}

impl From<FileError> for ArchiveError {
    fn from(error: FileError) -> Self {
        Self::new(error.exit_code(), error.to_string())
    }
}

impl From<FolderError> for ArchiveError {
    fn from(error: FolderError) -> Self {
        let code = if matches!(error, FolderError::NotThere { .. }) { exit::NO_INPUT } else { exit::DATA };
        Self::new(code, error.to_string())
    }
}

impl From<DataFusionError> for ArchiveError {
    fn from(error: DataFusionError) -> Self {
        let told = error.strip_backtrace();
        match error.find_root() {
            DataFusionError::ResourcesExhausted(_) => {
                Self::new(exit::UNAVAILABLE, format!("{told}; allow more with --memory, or query less at once"))
            }
            DataFusionError::SQL(..)
            | DataFusionError::Plan(_)
            | DataFusionError::SchemaError(..)
            | DataFusionError::NotImplemented(_) => Self::new(exit::USAGE, format!("the query is wrong: {told}")),
            DataFusionError::ArrowError(error, _) if is_of_values(error) => {
                Self::new(exit::USAGE, format!("the query is wrong: {told}"))
            }
            DataFusionError::IoError(error) if is_full(error) => Self::new(exit::UNAVAILABLE, full(&told)),
            DataFusionError::ArrowError(error, _) if matches!(&**error, ArrowError::IoError(_, error) if is_full(error)) => {
                Self::new(exit::UNAVAILABLE, full(&told))
            }
            _ => Self::new(exit::UNAVAILABLE, format!("the query failed: {told}")),
        }
    }
}

fn is_full(error: &std::io::Error) -> bool {
    error.kind() == ErrorKind::StorageFull
}

fn full(told: &str) -> String {
    format!("the query failed: {told}; the disk for spilled data is full: name another folder with --spill")
}

/// True if the query does not suit the values, e.g. reads a text as a number.
fn is_of_values(error: &ArrowError) -> bool {
    use ArrowError::{ArithmeticOverflow, CastError, DivideByZero, ParseError};
    matches!(error, CastError(_) | ParseError(_) | DivideByZero | ArithmeticOverflow(_))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_is_one_line_without_escape_sequences() {
        let error =
            ArchiveError::failed("'s3://x' cannot be read", "<Error>\r\n  \u{1b}]0;title\u{7}\u{9b}31m</Error>");
        assert_eq!(error.to_string(), "'s3://x' cannot be read: <Error> \\u001b]0;title\\u0007\\u009b31m</Error>");
    }
}
