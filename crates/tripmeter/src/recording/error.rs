use std::io;
use thiserror::Error;

/// Reason why a recording cannot be used.
#[derive(Debug, Error)]
pub enum RecordingError {
    #[error("interrupted")]
    Interrupted,
    #[error("{0}")]
    Unreadable(io::Error),
    #[error("{0}")]
    Unwritable(io::Error),
    /// The file ends before its end mark.
    #[error("cut off")]
    CutOff,
    /// Rest of a sentence that begins with the name of the file.
    #[error("{0}")]
    Wrong(String),
    /// Sentence about the requested part.
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
