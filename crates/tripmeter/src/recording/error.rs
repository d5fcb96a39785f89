//! Reasons why a recording cannot be used.

use std::io;
use thiserror::Error;

/// Reason why a recording cannot be used.
#[derive(Debug, Error)]
pub enum RecordingError {
    /// By the user.
    #[error("interrupted")]
    Interrupted,
    /// The file cannot be read.
    #[error("{0}")]
    Unreadable(io::Error),
    /// The schedule cannot be written.
    #[error("{0}")]
    Unwritable(io::Error),
    /// It ends before its end mark.
    #[error("cut off")]
    CutOff,
    /// A sentence that goes on from the name of the file.
    #[error("{0}")]
    Wrong(String),
    /// A sentence about the part that is asked for.
    #[error("{0}")]
    Part(String),
}

impl From<io::Error> for RecordingError {
    fn from(error: io::Error) -> Self {
        match error.downcast::<RecordingError>() {
            Ok(broken) => broken,
            Err(error) => RecordingError::Unreadable(error),
        }
    }
}
