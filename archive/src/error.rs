//! What ends a command.

use datafusion::error::DataFusionError;
use std::fmt;
use tripmeter_model::exit;
use tripmeter_model::file::FileError;
use tripmeter_model::folder::FolderError;
use tripmeter_model::printable::line;

/// One line for people, and the exit code of its class.
#[derive(Debug)]
pub struct ArchiveError {
    /// See [`tripmeter_model::exit`].
    pub code: u8,
    text: String,
}

/// The result of what may end a command.
pub type Result<T> = std::result::Result<T, ArchiveError>;

impl ArchiveError {
    /// An error of that text, whose line breaks become spaces and whose other control characters are escaped.
    pub fn new(code: u8, text: impl Into<String>) -> Self {
        let text: String = text.into();
        let words: Vec<&str> = text.split_whitespace().collect();
        Self { code, text: line(&words.join(" ")).into_owned() }
    }

    /// A store or a library failed at `what`, which begins the line.
    pub fn failed(what: impl fmt::Display, why: impl fmt::Display) -> Self {
        Self::new(exit::UNAVAILABLE, format!("{what}: {why}"))
    }

    /// Standard output cannot be written.
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
                Self::new(exit::UNAVAILABLE, format!("{told}; allow more by --memory, or ask for less at a time"))
            }
            DataFusionError::SQL(..) | DataFusionError::Plan(_) | DataFusionError::SchemaError(..) => {
                Self::new(exit::USAGE, format!("the query is wrong: {told}"))
            }
            _ => Self::new(exit::UNAVAILABLE, format!("the query failed: {told}")),
        }
    }
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
